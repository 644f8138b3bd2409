"""What a flush syncs, and when the recovery point moves."""

import errno
import os
import resource
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DiskFullError, FileError, StorageError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import Buffer
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    append_many,
    flush_log,
    open_log,
    reopen,
    truncate,
)
from support.open_descriptors import open_descriptors
from support.recording_file_system import RecordingFileSystem

SMALL = replace(KEEP, segment_bytes=2000, index_interval_bytes=200)


@pytest.fixture
def disk(tmp_path: Path) -> RecordingFileSystem:
    return RecordingFileSystem(tmp_path)


@pytest.fixture
def log(tmp_path: Path, disk: RecordingFileSystem) -> Log:
    return open_log(tmp_path / "log", SMALL, file_system=disk)


def synced(disk: RecordingFileSystem, start: int) -> list[str]:
    """The files that were synced since, by name."""
    return [
        change.path.removeprefix("log/")
        for change in disk.changes[start:]
        if change.operation.startswith("sync")
    ]


def test_append_never_waits_for_the_disk(log: Log, disk: RecordingFileSystem) -> None:
    """ROLL-10: neither a roll nor a new leader epoch syncs anything."""
    append_many(log, 40)
    append(log, leader_epoch=3)
    assert len(log.segments) > 2
    assert synced(disk, 0) == []
    assert (log.offsets.recovery_point, log.offsets.log_end) == (0, 41)


def test_recovery_point_moves_only_when_the_flush_is_finished(log: Log) -> None:
    """FLUSH-3."""
    append_many(log, 3)
    ticket = log.begin_flush()
    append_many(log, 2)
    assert log.offsets.recovery_point == 0
    ticket.run()
    assert log.offsets.recovery_point == 0
    assert log.finish_flush(ticket)
    assert log.offsets.recovery_point == 3
    assert log.offsets.log_end == 5


def test_ticket_may_be_run_in_another_thread_while_appends_and_rolls_go_on(log: Log) -> None:
    append_many(log, 10)
    ticket = log.begin_flush()
    thread = threading.Thread(target=ticket.run)
    thread.start()
    append_many(log, 30)
    thread.join()
    log.finish_flush(ticket)
    assert log.offsets.recovery_point == 10
    flush_log(log)
    assert log.offsets.recovery_point == 40


def test_group_commit_syncs_one_file(log: Log, disk: RecordingFileSystem) -> None:
    """The indexes of the active segment are rebuilt after a crash, so they need not be synced."""
    append_many(log, 2)
    flush_log(log)
    start = len(disk.changes)
    append_many(log, 2)
    flush_log(log)
    assert synced(disk, start) == [f"{0:020d}.log"]


def test_first_flush_makes_names_and_epochs_durable(log: Log, disk: RecordingFileSystem) -> None:
    """FLUSH-2, EPOCH-2: one sync of the folder serves the names of both files."""
    append_many(log, 2)
    flush_log(log)
    assert synced(disk, 0) == [f"{0:020d}.log", "leader-epoch-checkpoint.tmp", "log"]
    assert (Path(log.directory) / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_sealed_segments_are_synced_with_indexes_and_snapshot(
    log: Log, disk: RecordingFileSystem
) -> None:
    """FLUSH-2, ROLL-10: up to the active segment, whose data is left alone."""
    append_many(log, 20)
    base_offset = log.segments.active.base_offset
    ticket = log.begin_flush(base_offset)
    ticket.run()
    log.finish_flush(ticket)
    assert log.offsets.recovery_point == base_offset
    names = synced(disk, 0)
    assert names[:3] == [f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex"]
    assert f"{base_offset:020d}.snapshot" in names
    assert f"{base_offset:020d}.log" not in names


def test_segment_that_was_flushed_while_active_is_synced_again_once_sealed(
    log: Log, disk: RecordingFileSystem
) -> None:
    """Below the recovery point its indexes will be trusted."""
    append_many(log, 5)
    flush_log(log)
    log.roll(NOW_MS)
    start = len(disk.changes)
    ticket = log.begin_flush(log.segments.active.base_offset)
    ticket.run()
    log.finish_flush(ticket)
    assert f"{0:020d}.index" in synced(disk, start)


def test_failed_sync_leaves_the_recovery_point(tmp_path: Path) -> None:
    """FLUSH-3."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", SMALL, file_system=disk)
    append_many(log, 3)
    disk.calls.fail("sync", path_part=".log")
    ticket = log.begin_flush()
    with pytest.raises(FileError):
        ticket.run()
    assert not log.finish_flush(ticket)
    assert log.offsets.recovery_point == 0


def test_full_disk_for_the_epochs_keeps_the_recovery_point_but_is_no_failure(
    tmp_path: Path,
) -> None:
    """The records are on disk; recovery finds their epochs as long as it scans them."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", SMALL, file_system=disk)
    append_many(log, 3)
    disk.calls.fail("write", path_part="leader-epoch", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        flush_log(log)
    assert log.offsets.recovery_point == 0
    flush_log(log)
    assert log.offsets.recovery_point == 3


def test_truncation_makes_a_running_flush_worthless(log: Log) -> None:
    """Else offsets that were cut and written again would count as synced."""
    append_many(log, 10)
    ticket = log.begin_flush()
    ticket.run()
    truncate(log, 4)
    append_many(log, 6)
    assert not log.finish_flush(ticket)
    assert log.offsets.recovery_point == 0


def test_deletion_does_not_fail_a_running_flush(log: Log) -> None:
    append_many(log, 40)
    ticket = log.begin_flush()
    log.delete_records_before(40)
    for segment in log.delete_segments(
        [each[0] for each in log.deletable_segments(NOW_MS)], NOW_MS
    ):
        segment.delete_files()
    ticket.run()
    log.finish_flush(ticket)
    flush_log(log)
    assert log.offsets.recovery_point == 40


def test_renaming_the_folder_does_not_fail_a_running_flush(log: Log, tmp_path: Path) -> None:
    """A topic may be deleted at any time."""
    append_many(log, 40)
    ticket = log.begin_flush()
    (tmp_path / "log").rename(tmp_path / "log-delete")
    log.moved(str(tmp_path / "log-delete"))
    log.delete()
    ticket.run()
    assert not log.finish_flush(ticket)


def test_flush_is_due_when_the_oldest_record_has_waited(tmp_path: Path) -> None:
    """FLUSH-1."""
    log = open_log(tmp_path / "log", replace(KEEP, flush_ms=1000))
    assert not log.is_flush_due(NOW_MS + 5000)
    append(log, now_ms=NOW_MS)
    append(log, now_ms=NOW_MS + 900)
    assert not log.is_flush_due(NOW_MS + 999)
    assert log.is_flush_due(NOW_MS + 1000)
    ticket = log.begin_flush()
    append(log, now_ms=NOW_MS + 1500)
    ticket.run()
    log.finish_flush(ticket)
    assert not log.is_flush_due(NOW_MS + 1899)
    assert log.is_flush_due(NOW_MS + 2500)


def test_a_clock_that_is_set_back_puts_the_flush_off(tmp_path: Path) -> None:
    """FLUSH-1: an hour back, and flush.ms would be an hour longer."""
    log = open_log(tmp_path / "log", replace(KEEP, flush_ms=1000))
    append(log, now_ms=NOW_MS)
    assert log.is_flush_due(NOW_MS - 3_600_000)
    flush_log(log)
    assert not log.is_flush_due(NOW_MS - 3_600_000)


def test_close_puts_the_active_segments_indexes_on_disk(
    log: Log, disk: RecordingFileSystem
) -> None:
    """FLUSH-6."""
    append_many(log, 10, step_ms=1)
    start = len(disk.changes)
    log.close()
    names = synced(disk, start)
    assert names[:3] == [f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex"]
    assert f"{10:020d}.snapshot" in names


class HeldCalls(SystemCalls):
    """Writes and syncs of data files that wait until a test lets them go on; counts the syncs."""

    def __init__(self) -> None:
        self.write_begun, self.write_gate = threading.Event(), threading.Event()
        self.sync_begun, self.sync_gate = threading.Event(), threading.Event()
        self.write_gate.set()
        self.sync_gate.set()
        self.sync_error: OSError | None = None
        self.synced: list[str] = []

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        if path.endswith(".log"):
            self.write_begun.set()
            assert self.write_gate.wait(5)
        return super().write(path, descriptor, data, position)

    def sync(self, path: str, descriptor: int) -> None:
        if path.endswith(".log"):
            self.synced.append(path)
            self.sync_begun.set()
            assert self.sync_gate.wait(5)
            if self.sync_error is not None:
                raise self.sync_error
        super().sync(path, descriptor)


def test_write_that_overlaps_the_beginning_of_a_sync_is_covered_by_the_next(
    tmp_path: Path,
) -> None:
    """S2: the ticket that acknowledges it has to sync the file once more."""
    calls = HeldCalls()
    log = open_log(tmp_path / "log", file_system=OsFileSystem(calls))
    append(log)
    first = log.begin_flush()
    calls.write_begun.clear()
    calls.write_gate.clear()

    def sync_during_the_write() -> None:
        assert calls.write_begun.wait(5)
        first.run()
        calls.write_gate.set()

    worker = threading.Thread(target=sync_during_the_write)
    worker.start()
    append(log)
    worker.join()
    log.finish_flush(first)
    assert (log.offsets.recovery_point, log.offsets.log_end) == (1, 2)
    assert len(calls.synced) == 1
    second = log.begin_flush()
    second.run()
    log.finish_flush(second)
    assert log.offsets.recovery_point == 2
    assert len(calls.synced) == 2


def test_log_is_not_closed_cleanly_while_a_sync_hangs(tmp_path: Path) -> None:
    """S3: what hangs may fail yet, and then the log is not what its clean stop says."""
    calls = HeldCalls()
    calls.sync_gate.clear()
    calls.sync_error = OSError(errno.EIO, "Input/output error")
    log = open_log(tmp_path / "log", file_system=OsFileSystem(calls))
    append(log)
    ticket = log.begin_flush()
    failures: list[StorageError] = []

    def run() -> None:
        try:
            ticket.run()
        except StorageError as error:
            failures.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    assert calls.sync_begun.wait(5)
    with pytest.raises(FileError, match="has not ended"):
        log.close()
    calls.sync_gate.set()
    worker.join()
    assert len(failures) == 1
    assert log.offsets.recovery_point == 0
    assert len(calls.synced) == 1


@pytest.mark.parametrize("path_part", [".log", ".snapshot", "leader-epoch", "folder"])
def test_log_is_not_closed_cleanly_after_a_failed_sync(tmp_path: Path, path_part: str) -> None:
    """S3: the sync of a close would succeed, since the kernel has dropped the pages."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", SMALL, file_system=disk)
    append_many(log, 20)
    if path_part == "folder":
        disk.calls.fail("sync_directory")
    else:
        disk.calls.fail("sync", path_part=path_part)
    ticket = log.begin_flush()
    with pytest.raises(FileError):
        ticket.run()
    log.finish_flush(ticket)
    with pytest.raises(FileError):
        log.close()
    assert log.offsets.recovery_point == 0


def test_close_takes_back_a_ticket_that_was_never_begun(tmp_path: Path) -> None:
    """S14: the pool has refused it, or was stopped before its turn."""
    log = open_log(tmp_path / "log")
    append(log)
    ticket = log.begin_flush()
    log.close()
    assert log.offsets.recovery_point == 1
    ticket.run()
    assert open_descriptors(tmp_path) == 0


def test_abandoned_log_lets_go_of_what_a_ticket_holds(tmp_path: Path) -> None:
    """S14"""
    log = open_log(tmp_path / "log")
    append(log)
    log.begin_flush()
    log.abandon()
    assert open_descriptors(tmp_path) == 0


def test_many_unsynced_segments_are_synced_in_parts(tmp_path: Path) -> None:
    """S6: the recovery point moves with each part."""
    log = open_log(tmp_path / "log", replace(SMALL, segment_bytes=500))
    append_many(log, 120)
    log.abandon()
    log = open_log(
        tmp_path / "log",
        replace(SMALL, segment_bytes=500),
        file_system=OsFileSystem(max_open_files=64),
    )
    append(log)
    assert len(log.segments) > 40
    up_to: int | None = None
    recovery_points = [0]
    while True:
        ticket = log.begin_flush(up_to)
        assert open_descriptors(tmp_path) <= 64
        assert len(ticket.sealed) <= 2
        ticket.run()
        assert log.finish_flush(ticket)
        recovery_points.append(log.offsets.recovery_point)
        up_to = ticket.continues_to
        if up_to is None:
            break
    assert recovery_points == sorted(set(recovery_points))
    assert len(recovery_points) > 20
    assert recovery_points[-1] == log.offsets.log_end


@pytest.mark.parametrize("limit", [64, 1024])
def test_few_descriptors_suffice_for_a_flush_of_many_segments(tmp_path: Path, limit: int) -> None:
    """S6: else the broker could neither flush nor stop, and began each time where it was."""
    config = replace(KEEP, segment_bytes=300, segment_index_bytes=120)
    log = open_log(tmp_path / "log", config)
    while len(log.segments) < 500:
        append(log, [b"v" * 150])
    log.abandon()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit + in_use, hard))
    try:
        file_system = OsFileSystem(max_open_files=limit // 4)
        log = open_log(tmp_path / "log", config, file_system=file_system)
        append(log)
        flush_log(log)
        assert log.offsets.recovery_point == log.offsets.log_end
        log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_log_needs_no_sync_of_its_data_when_it_is_closed(tmp_path: Path) -> None:
    """S10: of many partitions only those that changed cost anything at a stop."""
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, 20)
    log.close()
    disk = RecordingFileSystem(tmp_path)
    log = open_log(tmp_path / "log", SMALL, file_system=disk, clean=True)
    log.close()
    assert [name for name in synced(disk, 0) if name.endswith(".log")] == []


def test_first_flush_after_a_kill_syncs_the_folder(tmp_path: Path) -> None:
    """The name of a segment may be in memory only, although its content was synced."""
    log = open_log(tmp_path / "log")
    append_many(log, 2)
    reopened = reopen(log, clean=False)
    reopened.abandon()
    disk = RecordingFileSystem(tmp_path)
    log = open_log(tmp_path / "log", file_system=disk, recovery_point=2)
    append(log)
    start = len(disk.changes)
    flush_log(log)
    assert "log" in synced(disk, start)
