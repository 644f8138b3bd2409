"""What waits for its removal."""

import pytest

from seglog.broker.storage.directories.deletion_queue import DeletionQueue
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import DiskFullError, FileError, NoDescriptorError
from seglog.broker.storage.files.file_system import OsFileSystem


def _nothing() -> None:
    return None


def _queue_of(*due_ms: int) -> tuple[DeletionQueue, LogDir]:
    queue, log_dir = DeletionQueue(), LogDir(OsFileSystem(), "/d")
    for due in due_ms:
        queue.add(due, log_dir, f"f{due}", 10, _nothing)
    return queue, log_dir


def test_files_go_before_their_time_or_out_of_order() -> None:
    """RET-12."""
    queue, log_dir = _queue_of(300, 100, 200)
    assert queue.take_due(99) == []
    due = queue.take_due(200)
    assert [deletion.what for deletion in due] == ["f100", "f200"]
    assert log_dir.bytes_pending_deletion == 30
    queue.done(due[0])
    queue.done(due[1], FileError("delete", "f200", "busy"))
    assert log_dir.bytes_pending_deletion == 10
    assert len(queue) == 1


@pytest.mark.parametrize("kind", [NoDescriptorError, DiskFullError])
def test_removal_that_lacked_a_descriptor_is_not_left_to_the_next_start(
    kind: type[DiskFullError],
) -> None:
    """RET-12: connections that take all descriptors for a moment must not keep the disk full."""
    queue, log_dir = _queue_of(100)
    (deletion,) = queue.take_due(100)
    queue.done(deletion, kind("sync", "/d/t-0", "Too many open files"))
    assert log_dir.bytes_pending_deletion == 10
    assert queue.take_due(100) == []
    assert queue.take_due(60_000) == [deletion]
    queue.done(deletion)
    assert (log_dir.bytes_pending_deletion, len(queue)) == (0, 0)


def test_ten_thousand_removals_are_handed_out_at_once() -> None:
    queue, _ = _queue_of(*range(1000))
    assert len(queue.take_due(5000)) < 1000


def test_a_clock_that_is_set_back_keeps_files_for_as_long_as_that() -> None:
    """RET-12: the delay is file.delete.delay.ms, whatever the clock does."""
    queue, _ = _queue_of(1000, 2000)
    assert queue.take_due(900) == []
    assert queue.take_due(500) == []
    assert [deletion.what for deletion in queue.take_due(600)] == ["f1000"]
    assert queue.take_due(1599) == []
    assert [deletion.what for deletion in queue.take_due(1600)] == ["f2000"]


def test_a_full_disk_waits_for_the_delay() -> None:
    queue, log_dir = _queue_of(1000, 2000)
    other = LogDir(OsFileSystem(), "/e")
    queue.add(1500, other, "other", 1, _nothing)
    queue.hurry(log_dir, 10)
    assert [deletion.what for deletion in queue.take_due(10)] == ["f1000", "f2000"]


def test_a_failed_directory_is_still_worked_on() -> None:
    queue, log_dir = _queue_of(1, 2)
    queue.forget(log_dir)
    assert len(queue) == 0
    assert log_dir.bytes_pending_deletion == 0
