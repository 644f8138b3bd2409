"""Writing offset checkpoints from workers."""

import threading
from pathlib import Path

import pytest

from seglog.broker.storage.directories.checkpoint_writer import CheckpointWriter
from seglog.broker.storage.errors import DiskFullError, StorageError
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.protocol.types import TopicPartition
from support.failing_disk import FailingDisk

_T0 = TopicPartition("t", 0)


def test_an_idle_broker_writes_and_syncs_for_ever(tmp_path: Path) -> None:
    writer = CheckpointWriter(OsFileSystem(), str(tmp_path / "c"))
    writer.assume_written({_T0: 5})
    assert writer.job({_T0: 5}) is None
    job = writer.job({_T0: 6})
    assert job is not None
    job()
    assert writer.job({_T0: 6}) is None
    assert (tmp_path / "c").read_text() == "0\n1\nt 0 6\n"


def test_a_damaged_file_stays_because_nothing_changed(tmp_path: Path) -> None:
    writer = CheckpointWriter(OsFileSystem(), str(tmp_path / "c"))
    writer.assume_written(None)
    job = writer.job({})
    assert job is not None
    job()
    assert (tmp_path / "c").read_text() == "0\n0\n"


def test_an_older_job_overwrites_a_newer_one(tmp_path: Path) -> None:
    """Workers may run jobs in any order."""
    writer = CheckpointWriter(OsFileSystem(), str(tmp_path / "c"))
    older, newer = writer.job({_T0: 1}), writer.job({_T0: 2})
    assert older is not None
    assert newer is not None
    newer()
    older()
    assert OffsetCheckpointFile(OsFileSystem(), str(tmp_path / "c")).read() == {_T0: 2}


def test_a_collection_that_was_overtaken_does_not_take_an_acknowledged_offset_back(
    tmp_path: Path,
) -> None:
    """S10, DEL-8: what was collected in slices may be older than what is on disk already."""
    writer = CheckpointWriter(OsFileSystem(), str(tmp_path / "c"))
    slow = writer.begin()
    acknowledged = writer.job({_T0: 7}, writer.begin())
    assert acknowledged is not None
    late = writer.job({_T0: 3}, slow)
    assert late is not None, "what it was asked for is on disk once the newer one is"
    late()
    acknowledged()
    assert OffsetCheckpointFile(OsFileSystem(), str(tmp_path / "c")).read() == {_T0: 7}
    assert writer.job({_T0: 3}, slow) is None


def test_a_deleted_partition_comes_back_with_no_collection_that_was_under_way(
    tmp_path: Path,
) -> None:
    writer = CheckpointWriter(OsFileSystem(), str(tmp_path / "c"))
    other = TopicPartition("u", 0)
    ticket = writer.begin()
    writer.forget([_T0])
    job = writer.job({_T0: 3, other: 4}, ticket)
    assert job is not None
    job()
    assert OffsetCheckpointFile(OsFileSystem(), str(tmp_path / "c")).read() == {other: 4}
    assert writer.job({_T0: 0, other: 4}, writer.begin()) is not None, "a new one of that name"
    assert writer.may_know([_T0]), "its offset is about to be written"
    writer.forget([_T0])
    assert not writer.may_know([_T0])


class HeldRename(FailingDisk):
    """The first rename waits until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reached = threading.Event()
        self.gate = threading.Event()

    def rename(self, source: str, target: str) -> None:
        self.is_reached.set()
        assert self.gate.wait(5)
        super().rename(source, target)


def test_second_writer_is_done_when_its_offsets_are_on_disk(tmp_path: Path) -> None:
    """DEL-8: who asked is answered then; leaving the work to the first would be too early."""
    calls = HeldRename()
    writer = CheckpointWriter(OsFileSystem(calls), str(tmp_path / "c"))
    threads = []
    for offset in (1, 2):
        job = writer.job({_T0: offset})
        assert job is not None
        threads.append(threading.Thread(target=job))
        threads[-1].start()
        assert calls.is_reached.wait(5)
    assert writer.is_writing
    assert threads[1].is_alive()
    calls.gate.set()
    for thread in threads:
        thread.join()
    assert not writer.is_writing
    assert OffsetCheckpointFile(OsFileSystem(), str(tmp_path / "c")).read() == {_T0: 2}


def test_a_write_that_failed_is_not_tried_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    writer = CheckpointWriter(OsFileSystem(disk), str(tmp_path / "c"))
    job = writer.job({_T0: 1})
    assert job is not None
    disk.full.add("/c")
    with pytest.raises(DiskFullError):
        job()
    disk.broken.add("/c")
    with pytest.raises(StorageError):
        job()
    disk.full.clear()
    disk.broken.clear()
    again = writer.job({_T0: 1})
    assert again is not None
    again()
    assert OffsetCheckpointFile(OsFileSystem(), str(tmp_path / "c")).read() == {_T0: 1}
