"""A log after power cuts, kills and torn writes at every point of its life."""

import errno
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DiskFullError, StorageError
from seglog.broker.storage.files.layout import segment_path
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from support.exchanges import replace_segments
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    append_many,
    base_offsets,
    end_transaction,
    flush_log,
    names_in,
    offsets_of,
    open_log,
    read_all,
)
from support.recording_file_system import Keep, RecordingFileSystem
from support.segment_builder import append as append_to_segment
from support.segment_builder import batch as stored_batch

SMALL = replace(KEEP, segment_bytes=350, index_interval_bytes=150, segment_index_bytes=1200)


class Workload:
    """Appends, rolls and flushes on a recorded disk, and what was promised after each change."""

    def __init__(self, root: Path) -> None:
        self.disk = RecordingFileSystem(root)
        self.log = open_log(root / "log", SMALL, file_system=self.disk)
        self._written = [(0, 0)]
        self._durable = [(0, 0)]

    def append(self, count: int) -> None:
        for _ in range(count):
            append_many(self.log, 1, value_bytes=0)
            self._written.append((len(self.disk.changes), self.log.offsets.log_end))

    def flush(self) -> None:
        flush_log(self.log)
        self._durable.append((len(self.disk.changes), self.log.offsets.recovery_point))

    def written_at(self, change: int) -> int:
        """The log end that was acknowledged before so many changes: safe against a kill."""
        return max(end for number, end in self._written if number <= change)

    def durable_at(self, change: int) -> int:
        """The recovery point at that moment: safe against a power cut."""
        return max(end for number, end in self._durable if number <= change)


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    (tmp_path / "disk" / "log").mkdir(parents=True)
    workload = Workload(tmp_path / "disk")
    for _ in range(4):
        workload.append(5)
        workload.flush()
    workload.append(4)
    return workload


def check_readable(log: Log, durable: int) -> None:
    """The log holds a beginning of what was written, and everything below ``durable``."""
    log_end = log.offsets.log_end
    assert log_end >= durable
    records = read_all(log)
    offsets = offsets_of(records)
    assert offsets == list(range(log_end))
    assert [record.value for record in records] == [b"%d" % offset for offset in offsets]
    assert append(log).first_offset == log_end
    assert offsets_of(read_all(log)) == [*offsets, log_end]


def check_complete(log: Log, log_end: int) -> None:
    """The log holds everything below ``log_end``, and goes on from there."""
    assert log.offsets.log_end >= log_end
    check_readable(log, log.offsets.log_end)


def test_kill_at_any_change_loses_nothing_that_was_acknowledged(
    workload: Workload, tmp_path: Path
) -> None:
    """INV-3: what the process has written stays in the page cache."""
    for change in range(len(workload.disk.changes) + 1):
        target = workload.disk.after_power_cut(
            tmp_path / "after", changes=change, keep=Keep.EVERYTHING
        )
        log = open_log(target / "log", SMALL, recovery_point=workload.durable_at(change))
        check_complete(log, workload.written_at(change))
        shutil.rmtree(target)


@pytest.mark.parametrize("keep", [Keep.NOTHING, 1, 2, 3])
def test_power_cut_at_any_change_loses_nothing_below_the_recovery_point(
    workload: Workload, tmp_path: Path, keep: Keep | int
) -> None:
    """INV-3: whatever part of the unsynced changes survives."""
    for change in range(len(workload.disk.changes) + 1):
        durable = workload.durable_at(change)
        target = workload.disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
        log = open_log(target / "log", SMALL, recovery_point=durable)
        check_readable(log, durable)
        shutil.rmtree(target)


def test_power_cut_during_recovery_is_survived_too(workload: Workload, tmp_path: Path) -> None:
    """REC-3."""
    middle = len(workload.disk.changes) * 3 // 4
    durable = workload.durable_at(middle)
    torn = workload.disk.after_power_cut(tmp_path / "torn", changes=middle, keep=7)
    disk = RecordingFileSystem(torn)
    open_log(torn / "log", SMALL, file_system=disk, recovery_point=durable)
    for change in range(len(disk.changes) + 1):
        target = disk.after_power_cut(tmp_path / "after", changes=change, keep=change)
        check_readable(open_log(target / "log", SMALL, recovery_point=durable), durable)
        shutil.rmtree(target)


@pytest.mark.slow
def test_every_cut_of_the_tail_leaves_whole_batches(tmp_path: Path) -> None:
    """C030: 1 to 600 bytes from the end."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_index_bytes=1200))
    for _ in range(10):
        append(log, [b"v" * 40] * 3)
    path = Path(segment_path(log.directory, 0, ".log"))
    content = path.read_bytes()
    size = len(content) // 10
    log.abandon()
    for cut in range(1, 601):
        target = tmp_path / "cut"
        shutil.copytree(tmp_path / "log", target)
        (target / path.name).write_bytes(content[:-cut])
        log = open_log(target)
        whole = (len(content) - cut) // size
        assert log.offsets.log_end == 3 * whole
        assert append(log).first_offset == 3 * whole
        log.abandon()
        shutil.rmtree(target)


def test_junk_in_the_tail_never_becomes_a_record(tmp_path: Path) -> None:
    """C030, REC-16: noise of any length behind the data and in the indexes."""
    generator = random.Random(3)
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, 30, value_bytes=0)
    log.abandon()
    for _ in range(40):
        target = tmp_path / "junk"
        shutil.copytree(tmp_path / "log", target)
        for suffix in (".log", ".index", ".timeindex"):
            path = Path(segment_path(str(target), log.segments.active.base_offset, suffix))
            path.write_bytes(path.read_bytes() + generator.randbytes(generator.randrange(400)))
        again = open_log(target, SMALL, recovery_point=25)
        check_complete(again, 30)
        again.abandon()
        shutil.rmtree(target)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [Keep.EVERYTHING, Keep.NOTHING, 4])
def test_crash_during_a_swap_leaves_all_old_or_all_new(tmp_path: Path, keep: Keep | int) -> None:
    """REC-20, SEG-6: also where the last sources have no record left in the new segments."""
    root = tmp_path / "disk"
    (root / "log").mkdir(parents=True)
    disk = RecordingFileSystem(root)
    log = open_log(root / "log", SMALL, file_system=disk)
    append_many(log, 24)
    flush_log(log)
    sources = log.segments.sealed()
    old = list(range(24))
    new = [1, 9, 13, *range(log.segments.active.base_offset, 24)]
    assert sources[-1].base_offset > 13
    start = len(disk.changes)
    compacted = []
    for base_offset, offsets in ((0, [1]), (sources[1].base_offset, [9, 13])):
        segment = LogSegment.create(
            disk, log.directory, base_offset, SMALL, NOW_MS, suffix=".cleaned"
        )
        append_to_segment(segment, *(stored_batch(offset) for offset in offsets))
        segment.on_become_inactive()
        segment.flush()
        compacted.append(segment)
    disk.sync_directory(log.directory)
    replaced = replace_segments(log, compacted, sources)
    disk.sync_directory(log.directory)
    for segment in replaced:
        segment.delete_files()
    disk.sync_directory(log.directory)
    seen = []
    for change in range(start, len(disk.changes) + 1):
        target = disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
        again = open_log(target / "log", SMALL, recovery_point=24)
        found = offsets_of(read_all(again))
        assert found in (old, new)
        seen.append(found)
        assert append(again).first_offset == 24
        assert not names_in(target / "log", ".swap") + names_in(target / "log", ".cleaned")
        again.abandon()
        shutil.rmtree(target)
    assert seen[0] == old
    assert seen[-1] == new


@pytest.mark.slow
def test_crash_during_retention_leaves_a_readable_log(tmp_path: Path) -> None:
    """RET-9, RET-12."""
    root = tmp_path / "disk"
    (root / "log").mkdir(parents=True)
    disk = RecordingFileSystem(root)
    log = open_log(root / "log", SMALL, file_system=disk)
    append_many(log, 24)
    flush_log(log)
    start = len(disk.changes)
    log.delete_records_before(15)
    doomed = [segment for segment, _ in log.deletable_segments(NOW_MS)]
    for segment in log.delete_segments(doomed, NOW_MS):
        segment.delete_files()
    for change in range(start, len(disk.changes) + 1):
        for keep in (Keep.EVERYTHING, Keep.NOTHING, change):
            target = disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
            again = open_log(target / "log", SMALL, recovery_point=24)
            assert offsets_of(read_all(again)) == list(range(again.offsets.log_start, 24))
            assert again.offsets.log_start in base_offsets(again)
            again.abandon()
            shutil.rmtree(target)


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failure_of_any_file_operation_loses_nothing_acknowledged(
    tmp_path: Path, error: int
) -> None:
    """APP-24, IDEM-15: the n-th change fails, for every n; the log reopens with what was told."""
    number = 0
    while True:
        directory = tmp_path / f"{number}"
        disk = FaultyFileSystem()
        disk.calls.fail(error=error, skip=number)
        acknowledged = run_until_failure(disk, directory)
        again = open_log(directory, SMALL)
        log_end = again.offsets.log_end
        assert acknowledged <= log_end <= acknowledged + 1
        stored = offsets_of(read_all(again))
        assert stored == [offset for offset in range(log_end) if offset not in MARKERS]
        assert append(again).first_offset == log_end
        again.abandon()
        if number >= disk.calls.total:
            return
        number += 1


MARKERS = {20}


def run_until_failure(disk: FaultyFileSystem, directory: Path) -> int:
    """A life of a log; returns the log end that was acknowledged."""
    acknowledged = 0
    log = None
    try:
        log = open_log(directory, SMALL, file_system=disk)
        for number in range(19):
            append(log, [b"v" * 60], producer_id=1, sequence=number)
            acknowledged = log.offsets.log_end
            if number % 8 == 7:
                flush_log(log)
        append(log, [b"t"], producer_id=2, sequence=0, transactional=True)
        acknowledged = log.offsets.log_end
        end_transaction(log, 2, commit=False)
        acknowledged = log.offsets.log_end
        log.close()
    except StorageError:
        if log is not None:
            log.abandon()
        return acknowledged
    return acknowledged


@pytest.mark.slow
def test_disk_that_is_full_at_any_operation_is_survived_without_restart(tmp_path: Path) -> None:
    """C028: the append is refused, the same one succeeds once there is room."""
    (tmp_path / "log").mkdir()
    probe = FaultyFileSystem()
    append_with_retries(open_log(tmp_path / "log", SMALL, file_system=probe))
    for number in range(probe.calls.total):
        directory = tmp_path / f"{number}"
        directory.mkdir()
        disk = FaultyFileSystem()
        log = open_log(directory, SMALL, file_system=disk)
        disk.calls.fail(
            "create", "write", "allocate", "write_mapped", error=errno.ENOSPC, skip=number
        )
        append_with_retries(log)
        assert offsets_of(read_all(log)) == list(range(12))
        disk.calls.heal()  # a close that finds no room says so, and marks nothing as clean
        log.close()
        assert offsets_of(read_all(open_log(directory, SMALL, clean=True))) == list(range(12))


def append_with_retries(log: Log) -> None:
    """Twelve batches of a producer; each is sent again, once, if there was no room for it."""
    for number in range(12):
        try:
            info = append(log, [b"v" * 60], producer_id=1, sequence=number)
        except DiskFullError:
            info = append(log, [b"v" * 60], producer_id=1, sequence=number)
        assert not info.is_duplicate
        assert info.first_offset == number
