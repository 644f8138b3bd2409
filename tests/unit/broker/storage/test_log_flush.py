"""What a flush syncs, and when the recovery point moves."""

import errno
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import FileError
from seglog.broker.storage.log import Log
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import KEEP, NOW_MS, append, append_many, open_log
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
    log.flush()
    assert log.offsets.recovery_point == 40


def test_group_commit_syncs_one_file(log: Log, disk: RecordingFileSystem) -> None:
    """The indexes of the active segment are rebuilt after a crash, so they need not be synced."""
    append_many(log, 2)
    log.flush()
    start = len(disk.changes)
    append_many(log, 2)
    log.flush()
    assert synced(disk, start) == [f"{0:020d}.log"]


def test_first_flush_makes_names_and_epochs_durable(log: Log, disk: RecordingFileSystem) -> None:
    """FLUSH-2, EPOCH-2: one sync of the folder serves the names of both files."""
    append_many(log, 2)
    log.flush()
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
    log.flush()
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
    log.flush()
    assert log.offsets.recovery_point == 0
    log.flush()
    assert log.offsets.recovery_point == 3


def test_truncation_makes_a_running_flush_worthless(log: Log) -> None:
    """Else offsets that were cut and written again would count as synced."""
    append_many(log, 10)
    ticket = log.begin_flush()
    ticket.run()
    log.truncate_to(4, NOW_MS)
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
    log.flush()
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
    log.flush()
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
