"""Segments after a power cut at any moment, and after the failure of any file call.

What was flushed is there; what was not is there wholly, in part as whole batches, or not at all;
nothing else is. The seed in a test's id rebuilds its disk.
"""

import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DiskFullError, FileError, MissingFileError, StorageError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.segment.segment import LogSegment
from support.faulty_file_system import FaultyFileSystem
from support.index_checks import check_indexes
from support.recording_file_system import Keep, RecordingFileSystem
from support.segment_builder import NOW_MS, append, batch, new_segment, reopened

LOG = "00000000000000000000.log"
BATCHES = [batch(3 * number, [NOW_MS + number] * 3, value=bytes(40)) for number in range(24)]


def written_in_steps(disk: Path) -> tuple[RecordingFileSystem, list[tuple[int, int]]]:
    """A segment that was flushed after every sixth batch, and cut once.

    Returns:
        The file system, and (number of changes, batches that were on disk then) of each flush.
    """
    disk.mkdir()
    file_system = RecordingFileSystem(disk)
    segment = new_segment(file_system, disk)
    file_system.sync_directory(str(disk))
    flushed = []
    for number, one in enumerate(BATCHES, 1):
        append(segment, one)
        if number % 6 == 0:
            segment.flush()
            flushed.append((len(file_system.changes), number))
    segment.on_become_inactive()
    segment.flush()
    segment.close()
    return file_system, flushed


@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.EVERYTHING, 1, 2, 3, 4])
def test_power_cut_loses_what_was_flushed(
    tmp_path: Path, keep: Keep | int, caplog: pytest.LogCaptureFixture
) -> None:
    """INV-3, FLUSH-2: at every change of a segment's life."""
    caplog.set_level(logging.ERROR)
    file_system, flushed = written_in_steps(tmp_path / "disk")
    assert len(file_system.changes) > 60
    for changes in range(len(file_system.changes) + 1):
        left = file_system.after_power_cut(tmp_path / str(changes), changes=changes, keep=keep)
        durable = max((count for at, count in flushed if at <= changes), default=0)
        try:
            segment = reopened(OsFileSystem(), left)
        except MissingFileError:
            assert durable == 0
            continue
        segment.recover()
        count = segment.size_bytes // len(BATCHES[0])
        assert count >= durable, changes
        assert (left / LOG).read_bytes() == b"".join(BATCHES[:count])
        assert segment.next_offset() == 3 * count
        assert segment.max_timestamp_ms == (NOW_MS + count - 1 if count else -1)
        segment.prepare_for_appends()
        append(segment, batch(3 * count, [NOW_MS + 100]))
        segment.close()
        check_indexes(reopened(OsFileSystem(), left), every_entry=True)


def test_sealed_and_flushed_segment_needs_recovery(tmp_path: Path) -> None:
    """Below the recovery point nothing is scanned, so the indexes must be on disk with the data."""
    file_system, _ = written_in_steps(tmp_path / "disk")
    for seed in range(10):
        left = file_system.after_power_cut(tmp_path / str(seed), keep=seed)
        segment = reopened(OsFileSystem(), left)
        check_indexes(segment, every_entry=True)
        assert segment.next_offset() == 72
        assert segment.max_timestamp_ms == NOW_MS + 23


def use(segment: LogSegment, acknowledged: list[bytes]) -> None:
    """Appends, flushes, cuts and seals; notes what must be there."""
    for number, one in enumerate(BATCHES):
        append(segment, one)
        acknowledged.append(one)
        if number % 8 == 7:
            segment.flush()
    segment.truncate_to(60, NOW_MS)
    del acknowledged[20:]
    append(segment, BATCHES[20])
    acknowledged.append(BATCHES[20])
    segment.on_become_inactive()
    segment.flush()


def failure_of(work: Callable[[], None]) -> StorageError | None:
    try:
        work()
    except StorageError as failure:
        return failure
    return None


def changes_of_use(tmp_path: Path) -> int:
    (tmp_path / "count").mkdir()
    file_system = FaultyFileSystem()
    segment = new_segment(file_system, tmp_path / "count")
    before = file_system.calls.total
    use(segment, [])
    return file_system.calls.total - before


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_failed_call_loses_or_adds_batches(
    tmp_path: Path, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Every call of a segment's life fails once: what was acknowledged is there, nothing else."""
    caplog.set_level(logging.ERROR)
    total = changes_of_use(tmp_path)
    assert total > 40
    failures = 0
    for number in range(total):
        directory = tmp_path / str(number)
        directory.mkdir()
        file_system = FaultyFileSystem()
        segment = new_segment(file_system, directory)
        file_system.calls.fail(error=error, skip=number)
        acknowledged: list[bytes] = []
        failure = failure_of(lambda s=segment, a=acknowledged: use(s, a))  # type: ignore[misc]
        content = (directory / LOG).read_bytes()
        allowed = [acknowledged, acknowledged[:20]]  # the cut itself may have been done
        if failure is not None:
            failures += 1
            # A failed sync is never a mere lack of space: what is on disk is unknown.
            is_retriable = error == errno.ENOSPC and not str(failure).startswith("sync")
            assert isinstance(failure, DiskFullError if is_retriable else FileError)
            assert failure.takes_dir_offline != is_retriable
        if isinstance(failure, FileError) and len(acknowledged) < len(BATCHES):
            # The batch may be there without its index entry; the directory is offline now.
            allowed.append([*acknowledged, BATCHES[len(acknowledged)]])
        assert content in {b"".join(batches) for batches in allowed}
        segment.files.close()
        again = reopened(OsFileSystem(), directory)
        assert again.recover() == 0
        assert again.next_offset() == 3 * (len(content) // len(BATCHES[0]))
        again.close()
    assert failures > total // 3  # index entries may be left out


def test_full_disk_loses_acknowledged_batches(tmp_path: Path) -> None:
    """C028: a disk that fills up at any byte, and has space again later."""
    size = len(BATCHES[0])
    for free in range(0, 6 * size, 37):
        directory = tmp_path / str(free)
        directory.mkdir()
        file_system = FaultyFileSystem()
        segment = new_segment(file_system, directory)
        file_system.calls.free_bytes = free
        acknowledged = []
        refused = 0
        for one in BATCHES[:10]:
            try:
                append(segment, one)
                acknowledged.append(one)
            except DiskFullError:
                refused += 1
                if refused == 3:
                    file_system.calls.free_bytes = None
        assert refused == 3
        segment.close()
        assert (directory / LOG).read_bytes() == b"".join(acknowledged)
        again = reopened(OsFileSystem(), directory)
        check_indexes(again, every_entry=True)
        assert again.recover() == 0
        again.close()
