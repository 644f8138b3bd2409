"""What removes records from a log: retention, truncation, and the swap after a compaction."""

import errno
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import FileError, OffsetOutOfRangeError, SliceCutError
from seglog.broker.storage.files.file_system import FileSystem, OsFileSystem
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.broker.storage.log.truncation import TruncationUnderWayError
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from support.exchanges import replace_segments
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import (
    DAY_MS,
    KEEP,
    NOW_MS,
    append,
    append_many,
    at_once,
    base_offsets,
    end_transaction,
    flush_log,
    names_in,
    offsets_of,
    open_log,
    read_all,
    reopen,
    restart,
    truncate,
)
from support.recording_file_system import RecordingFileSystem
from support.segment_builder import append as append_to_segment
from support.segment_builder import batch as stored_batch

SMALL = replace(KEEP, segment_bytes=2000, index_interval_bytes=200)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, 60, step_ms=10)
    return log


def run_retention(log: Log, now_ms: int = NOW_MS) -> int:
    """One pass; the number of segments that went."""
    found = [segment for segment, _ in log.deletable_segments(now_ms)]
    removed = at_once(lambda: log.delete_segments(found, now_ms))
    for segment in removed:
        segment.delete_files()
    return len(removed)


# ---- retention


def test_expired_log_keeps_one_empty_segment_at_its_end(log: Log) -> None:
    """RET-3, RET-13, RET-15."""
    log.update_config(LogConfig(retention_ms=1000))
    assert run_retention(log, NOW_MS + DAY_MS) > 2
    assert base_offsets(log) == [60]
    assert (log.offsets.log_start, log.offsets.log_end) == (60, 60)
    assert run_retention(log, NOW_MS + 2 * DAY_MS) == 0
    assert append(log).first_offset == 60
    assert reopen(log, clean=False).offsets.log_start == 60


def test_log_start_and_epochs_rise_with_the_first_segment(tmp_path: Path) -> None:
    """RET-9, RET-10, RET-11."""
    log = open_log(tmp_path / "log", SMALL)
    for epoch in (0, 1, 2, 3):
        append(log, leader_epoch=epoch)
        append(log, leader_epoch=epoch)
        log.roll(NOW_MS)
    log.delete_records_before(5)
    assert run_retention(log) == 2
    assert log.offsets.log_start == 5
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(2, 5), (3, 6)]
    assert names_in(log.directory, ".snapshot") == [f"{base:020d}.snapshot" for base in (4, 6, 8)]
    assert names_in(log.directory, ".deleted") == []


def test_delete_records_on_a_compacted_log_frees_whole_segments(tmp_path: Path) -> None:
    """C013."""
    log = open_log(tmp_path / "log", replace(SMALL, cleanup_policy=frozenset({"compact"})))
    append_many(log, 105)
    active = log.segments.active.base_offset
    log.delete_records_before(active + 2)
    run_retention(log)
    assert base_offsets(log) == [active]
    assert reopen(log, clean=True).offsets.log_start == active + 2


def test_deciding_changes_nothing(log: Log) -> None:
    """A dry run is the decision."""
    log.update_config(LogConfig(retention_ms=0))
    names = names_in(log.directory)
    assert len(log.deletable_segments(NOW_MS + DAY_MS)) == len(log.segments)
    assert names_in(log.directory) == names
    assert log.offsets.log_start == 0


def test_timestamps_ahead_of_the_clock_are_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RET-5: they keep a segment longer than somebody may expect."""
    log = open_log(tmp_path / "log", LogConfig(retention_ms=1000))
    append(log, timestamps_ms=NOW_MS + 1000)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert run_retention(log) == 0
    assert caplog.text.count("event=future-timestamps") == 1
    assert run_retention(log, NOW_MS + 2001) == 1


def test_producers_survive_the_deletion_of_their_records(tmp_path: Path) -> None:
    """IDEM-14."""
    log = open_log(tmp_path / "log", SMALL)
    append(log, producer_id=7, sequence=0)
    log.delete_records_before(-1)
    log.roll(NOW_MS)
    run_retention(log)
    assert append(log, producer_id=7, sequence=0).is_duplicate


# ---- truncation


@pytest.mark.parametrize("target", [0, 1, 17, 18, 19, 30, 59])
def test_truncation_keeps_exactly_what_lies_below(log: Log, target: int) -> None:
    """TRUNC-1, TRUNC-3 to TRUNC-5."""
    flush_log(log)
    assert truncate(log, target)
    offsets = log.offsets
    assert offsets.log_end == offsets.high_watermark == offsets.recovery_point == target
    assert offsets_of(read_all(log)) == list(range(target))
    append_many(log, 3, step_ms=10)
    assert offsets_of(read_all(log)) == list(range(target + 3))
    found = log.offset_for_timestamp(NOW_MS + 10 * (target + 1))
    assert found is not None
    assert found.offset == target + 1
    log = reopen(log, clean=False)
    assert offsets_of(read_all(log)) == list(range(target + 3))


def test_truncation_inside_a_batch_drops_the_whole_batch(tmp_path: Path) -> None:
    """TRUNC-3, TRN-9: the log ends where its data does, also after the next start."""
    log = open_log(tmp_path / "log")
    append(log, [b"a"] * 5)
    append(log, [b"b"] * 5)
    truncate(log, 7)
    assert log.offsets.log_end == 5
    assert offsets_of(read_all(log)) == [0, 1, 2, 3, 4]
    assert append(log).first_offset == 5


def test_truncation_at_or_above_the_end_changes_no_record(log: Log) -> None:
    """TRUNC-1, TRUNC-10."""
    assert not truncate(log, 60)
    assert not truncate(log, 1000)
    with pytest.raises(ValueError, match="-1"):
        truncate(log, -1)
    assert offsets_of(read_all(log)) == list(range(60))


def test_truncation_below_the_first_segment_restarts_the_log(log: Log) -> None:
    """TRUNC-2, TRUNC-9."""
    log.delete_records_before(40)
    run_retention(log)
    truncate(log, 10)
    assert base_offsets(log) == [10]
    assert (log.offsets.log_start, log.offsets.log_end) == (10, 10)
    assert log.leader_epochs.entries == ()
    assert names_in(log.directory, ".snapshot") == []
    assert append(log).first_offset == 10


def test_log_that_is_being_cut_refuses_other_changes(log: Log) -> None:
    """T5: a worker reads segments and snapshots meanwhile; readers see what is below the cut."""
    truncation = log.begin_truncation(20, NOW_MS)
    assert log.offsets.log_end == log.offsets.high_watermark == 20
    assert offsets_of(read_all(log)) == list(range(20))
    for change in (
        lambda: append(log),
        lambda: log.roll(NOW_MS),
        lambda: log.begin_truncation(10, NOW_MS),
        lambda: replace_segments(log, [], []),
    ):
        with pytest.raises(TruncationUnderWayError):
            change()
    log.update_config(LogConfig(retention_ms=0))
    assert run_retention(log, NOW_MS + DAY_MS) == 0
    truncation.run()
    log.finish_truncation(truncation)
    assert append(log).first_offset == 20


def test_truncation_makes_a_cleaning_under_way_worthless(log: Log) -> None:
    """TRUNC-11, T10: what it has read may not be in the log any more."""
    assert not truncate(log, 60)
    assert log.truncations == 0
    assert truncate(log, 20)
    restart(log, 100)
    assert log.truncations == 2


def test_log_start_of_a_leader_above_the_end_asks_for_a_new_beginning(log: Log) -> None:
    """T7, TRN-6, FOL-7."""
    assert log.follow_log_start(30)
    assert not log.follow_log_start(20)
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 61 .* 30 up to .* 60"):
        log.follow_log_start(61)
    assert log.offsets.log_start == 30
    restart(log, 61)
    assert not log.follow_log_start(61)
    assert append(log).first_offset == 61


def test_truncation_takes_epochs_producers_and_transactions_back(tmp_path: Path) -> None:
    """TRUNC-6."""
    log = open_log(tmp_path / "log", SMALL)
    append(log, producer_id=7, sequence=0, leader_epoch=0)
    append(log, producer_id=8, sequence=0, transactional=True, leader_epoch=0)
    log.roll(NOW_MS)
    append(log, producer_id=7, sequence=1, leader_epoch=1)
    end_transaction(log, 8, commit=False, leader_epoch=1)
    truncate(log, 2)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0)]
    assert log.producer_state.transactions.in_order() == [(8, 1)]
    assert log.aborted_transactions(0, 10) == []
    assert append(log, producer_id=7, sequence=1).first_offset == 2


def test_truncation_below_the_high_watermark_is_reported(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """TRUNC-10."""
    with caplog.at_level(logging.WARNING):
        truncate(log, 10)
    assert "truncation-below-high-watermark" in caplog.text


# ---- swaps


def cleaned_segment(
    log: Log, base_offset: int, offsets: list[int], file_system: FileSystem | None = None
) -> LogSegment:
    """What a cleaner hands over."""
    segment = LogSegment.create(
        file_system or OsFileSystem(),
        log.directory,
        base_offset,
        log.config,
        NOW_MS,
        suffix=".cleaned",
    )
    append_to_segment(segment, *(stored_batch(offset) for offset in offsets))
    segment.on_become_inactive()
    segment.flush()
    return segment


def test_swap_puts_compacted_segments_in_place(log: Log) -> None:
    """SEG-6."""
    sources = log.segments.sealed()[:2]
    third = list(log.segments)[2].base_offset
    slice_in_flight = log.read(0, 100, isolation=FetchIsolation.LOG_END).slice
    compacted = cleaned_segment(log, 0, [3, 20])
    removed = replace_segments(log, [compacted], sources)
    assert removed == sources
    for segment in removed:
        segment.delete_files()
    assert offsets_of(read_all(log)) == [3, 20, *range(third, 60)]
    assert slice_in_flight is not None
    assert slice_in_flight.read()[:8] == bytes(8)
    slice_in_flight.release()
    assert f"{sources[1].base_offset:020d}.snapshot" not in names_in(log.directory)
    log = reopen(log, clean=False)
    assert offsets_of(read_all(log)) == [3, 20, *range(third, 60)]


def test_swap_renames_from_the_last_segment_down(tmp_path: Path) -> None:
    """Storage-format 12: so that the loader can tell a complete swap from an unfinished one."""
    disk = RecordingFileSystem(tmp_path)
    log = open_log(tmp_path / "log", SMALL, file_system=disk)
    append_many(log, 60)
    first, second = log.segments.sealed()[:2]
    compacted = [
        cleaned_segment(log, 0, [3], disk),
        cleaned_segment(log, second.base_offset, [second.base_offset], disk),
    ]
    start = len(disk.changes)
    replace_segments(log, compacted, [first, second])
    renamed = [
        f"{change.target.removeprefix('log/').lstrip('0') or '0'}"
        for change in disk.changes[start:]
        if change.operation == "rename" and ".log" in change.path
    ]
    last = second.base_offset
    assert renamed == [
        f"{last}.log.swap",
        ".log.swap",
        ".log.deleted",
        f"{last}.log.deleted",
        f"{last}.log",
        ".log",
    ]


@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES, errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("base_offset", [0, 11])
def test_swap_that_fails_half_way_is_a_failure_of_the_directory(
    tmp_path: Path, base_offset: int, error: int
) -> None:
    """S13: names are not what the log knows any more, whoever has made a file immutable."""
    disk = FaultyFileSystem()
    log_dir = LogDir(disk, str(tmp_path))
    (tmp_path / "meta.properties").touch()
    log = open_log(tmp_path / "log", SMALL, file_system=disk)
    append_many(log, 60)
    sources = log.segments.sealed()[:2]
    assert [each.base_offset for each in log.segments][1:3] == [11, 22]
    compacted = cleaned_segment(log, 0, [3], disk)
    disk.calls.fail("rename", error=error, path_part=f"{base_offset:020d}.log", skip=1)
    with pytest.raises(FileError) as caught:
        replace_segments(log, [compacted], sources)
    assert caught.value.takes_dir_offline
    assert not log_dir.loses_only_a_log(caught.value)
    log.abandon()
    assert offsets_of(read_all(open_log(tmp_path / "log", COMPACTED))) in (
        [*range(60)],
        [3, *range(22, 60)],
    )


def test_swap_of_a_source_that_retention_has_taken_keeps_the_rest(log: Log) -> None:
    """SEG-7."""
    sources = log.segments.sealed()[:2]
    compacted = cleaned_segment(log, 0, [3, 20])
    log.delete_records_before(sources[1].base_offset)
    run_retention(log)
    removed = replace_segments(log, [compacted], sources)
    assert removed == [sources[1]]
    removed[0].delete_files()
    assert offsets_of(read_all(log))[0] == 20
    assert run_retention(log) == 0


def test_swap_after_all_sources_have_gone_is_dropped(log: Log) -> None:
    """SEG-7."""
    sources = log.segments.sealed()[:2]
    compacted = cleaned_segment(log, 0, [3, 20])
    log.delete_records_before(-1)
    run_retention(log)
    assert replace_segments(log, [compacted], sources) == []
    assert names_in(log.directory, ".cleaned") == []
    assert read_all(log) == []


def test_slices_of_records_that_a_truncation_takes_are_void(log: Log) -> None:
    """T6: of the segment that is cut, and of those that go; retention leaves slices readable."""
    bases = log.segments.base_offsets
    assert len(bases) > 3
    isolation = FetchIsolation.LOG_END
    slices = [log.read(base, 1 << 20, isolation=isolation).slice for base in bases]
    assert truncate(log, bases[2] - 1)
    for number, each in enumerate(slices):
        assert each is not None
        if number == 0:
            assert len(each.read()) == each.length
        else:
            with pytest.raises(SliceCutError):
                each.fileno()
        each.release()
