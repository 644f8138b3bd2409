"""What file systems refuse without being broken: foreign files, long names, syncs of directories.

None of it may take a data directory offline, and with the last one the broker.
"""

import errno
import logging
import os
from pathlib import Path

import pytest

from seglog.broker.storage.errors import (
    AccessDeniedError,
    DiskFullError,
    FileError,
    InvalidTopicNameError,
    NameTooLongError,
    StorageError,
    error_from_os,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import DAY_MS, NOW_MS, append, append_many, names_in, open_log
from support.managed_logs import ManagedLogs
from support.own_paths import is_part_of


class ForeignFiles(SystemCalls):
    """The real disk, of which paths with some text belong to somebody else."""

    def __init__(self, part: str) -> None:
        self.part = part

    def _check(self, path: str) -> None:
        if self.part and is_part_of(self.part, path):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)

    def open(self, path: str) -> int:
        self._check(path)
        return super().open(path)

    def create(self, path: str, size: int) -> None:
        self._check(path)
        super().create(path, size)

    def list_directory(self, path: str) -> list[str]:
        self._check(path)
        return super().list_directory(path)


class LimitedNames(SystemCalls):
    """A file system that takes names of 143 bytes, as eCryptfs does."""

    def _check(self, path: str) -> None:
        if len(os.path.basename(path)) > 143:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)

    def make_directory(self, path: str) -> None:
        self._check(path)
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._check(target)
        super().rename(source, target)


@pytest.mark.parametrize("part", ["t-1/", f"t-1/{0:020}.log", "t-1/partition.metadata"])
def test_files_of_another_user_stop_the_start(tmp_path: Path, part: str) -> None:
    """REC-18: somebody has restored one partition as root."""
    broker = ManagedLogs(tmp_path)
    for log in broker.create_topic("t", 3):
        append_many(log, 3)
    broker.kill()
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(ForeignFiles(part)))
    assert list(broker.manager.offline_partitions) == [TopicPartition("t", 1)]
    assert "Permission denied" in broker.manager.offline_partitions[TopicPartition("t", 1)]
    assert broker.manager.log_dirs[0].is_online
    append_many(broker.log("t", 2), 1)
    broker.stop()


@pytest.mark.parametrize(
    "name",
    ["leader-epoch-checkpoint", "partition.metadata", f"{0:020}.log", f"{0:020}.index"],
)
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_something_under_the_name_of_a_file_stops_the_start(
    tmp_path: Path, name: str, kind: str
) -> None:
    """A folder, or a link to itself, put there by hand: it costs its partition."""
    broker = ManagedLogs(tmp_path)
    for log in broker.create_topic("t", 2):
        append_many(log, 3)
    broker.stop()
    path = tmp_path / "t-0" / name
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(name)
    broker = ManagedLogs(tmp_path)
    assert list(broker.manager.offline_partitions) == [TopicPartition("t", 0)]
    append_many(broker.log("t", 1), 1)
    broker.stop()


@pytest.mark.parametrize(
    ("number", "is_lost"), [(errno.EACCES, False), (errno.EPERM, False), (errno.EIO, True)]
)
def test_a_segment_that_may_not_be_renamed_ends_the_broker(
    tmp_path: Path, number: int, is_lost: bool
) -> None:
    """Somebody has made a file immutable, and retention wants to delete it."""
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk, log_retention_ms=1000)
    log = broker.create_topic("t", 1, {"segment.bytes": "1000"})[0]
    for _ in range(3):
        append(log, [b"v" * 900], timestamps_ms=NOW_MS - DAY_MS)
    disk.calls.fail("rename", path_part=f"{0:020}.log", error=number, times=None)
    broker.run_retention()
    assert broker.manager.log_dirs[0].is_online != is_lost
    disk.calls.heal()
    if not is_lost:
        gone = broker.run_retention()
        assert len(gone) == 3
    broker.kill()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPERM])
def test_an_index_that_keeps_its_name_stops_retention_for_ever(tmp_path: Path, number: int) -> None:
    """Its data file is renamed already; the next pass met a segment that was half taken away."""
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk, log_retention_ms=1000)
    log = broker.create_topic("t", 1, {"segment.bytes": "1000"})[0]
    for _ in range(3):
        append(log, [b"v" * 900], timestamps_ms=NOW_MS - DAY_MS)
    disk.calls.fail("rename", path_part=f"{1:020}.index", error=number)
    assert len(broker.run_retention()) == 3
    assert broker.run_retention() == []
    broker.remove_files(NOW_MS + DAY_MS)
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert [name for name in names_in(tmp_path / "t-0") if name.startswith(f"{1:020}")] == []
    broker.stop()


def test_a_long_name_takes_the_directory_offline(tmp_path: Path) -> None:
    """A file system with shorter names than others; the client is told that its name is illegal."""
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(LimitedNames()))
    with pytest.raises(NameTooLongError) as refused:
        broker.create_topic("x" * 200)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    broker.catalog.delete_topic("x" * 200)
    longest = "y" * 141
    append_many(broker.create_topic(longest)[0], 3)
    broker.delete_topic(longest)
    assert broker.manager.log_dirs[0].is_writable_now
    [name] = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert name.endswith("-delete")
    assert len(name) == 143
    assert broker.remove_files(NOW_MS + DAY_MS) == 1
    broker.stop()


class SmallLetters(SystemCalls):
    """A file system that does not tell upper case from lower case."""

    def stat(self, path: str) -> os.stat_result:
        folder, name = os.path.split(path)
        for each in os.listdir(folder):
            if each.lower() == name.lower():
                return super().stat(f"{folder}/{each}")
        return super().stat(path)


def test_a_topic_takes_the_folder_of_one_in_capitals(tmp_path: Path) -> None:
    """It was renamed, as what a creation leaves that failed, and its records were gone."""
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(SmallLetters()))
    log = broker.create_topic("Flights")[0]
    append_many(log, 3)
    with pytest.raises(InvalidTopicNameError, match="upper-case"):
        broker.create_topic("flights")
    broker.catalog.delete_topic("flights")
    append_many(log, 3)
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert broker.log("Flights").offsets.log_end == 6
    broker.stop()


def test_a_folder_in_the_way_of_a_new_partition_is_removed(tmp_path: Path) -> None:
    """Somebody's own, or what is left of a creation: it cannot be renamed, and stays."""
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "dump.tar").write_text("precious")
    disk.calls.fail("rename", path_part="t-0", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        broker.create_topic("t")
    broker.catalog.delete_topic("t")
    broker.create_topic("t")
    [kept] = tmp_path.rglob("dump.tar")
    assert kept.parent.name.endswith("-stray")
    broker.stop()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_without_syncs_of_directories_cannot_be_used(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """SMB before Linux 4.17, some of FUSE: a sync that fails says EIO, ENOSPC or EDQUOT."""
    disk = FaultyFileSystem()
    disk.calls.fail("sync_directory", error=number, times=None)
    with caplog.at_level(logging.WARNING):
        broker = ManagedLogs(tmp_path, file_system=disk)
        append_many(broker.create_topic("t")[0], 3)
        broker.checkpoint()
        broker.stop()
    assert caplog.text.count("event=directory-sync-unsupported") == 1
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    disk.calls.heal()
    disk.calls.fail("sync_directory")
    with pytest.raises(FileError, match="sync"):
        disk.sync_directory(str(tmp_path))


def test_a_lack_of_memory_is_taken_for_a_broken_disk(tmp_path: Path) -> None:
    """The index cannot be mapped at the moment, or a write finds no page."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "t-0", file_system=disk)
    disk.calls.fail("write", error=errno.ENOMEM)
    with pytest.raises(DiskFullError, match="memory"):
        append_many(log, 1)
    append_many(log, 1)
    assert log.offsets.log_end == 1
    log.abandon()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_refusal_in_a_directory_that_is_gone_costs_one_log(tmp_path: Path, number: int) -> None:
    """Under a disk that was unmounted lies a mount point that belongs to somebody else."""
    broker = ManagedLogs(tmp_path)
    [log_dir] = broker.manager.log_dirs
    error = error_from_os("open", f"{tmp_path}/t-0/x", OSError(number, os.strerror(number)))
    assert isinstance(error, AccessDeniedError)
    assert log_dir.loses_only_a_log(error)
    assert not log_dir.loses_only_a_log(StorageError("something else"))
    (tmp_path / "meta.properties").unlink()
    assert not log_dir.loses_only_a_log(error)
    broker.kill()
