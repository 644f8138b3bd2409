"""What a read costs in a log of many segments: the same as in one of few."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.types import MAX_TIMESTAMP
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    at_once,
    end_transaction,
    open_log,
    reopen,
    truncate,
)

FEW, MANY = 12, 240
EACH = replace(KEEP, segment_bytes=300, index_interval_bytes=0, segment_index_bytes=120)
COMMITTED = FetchIsolation.HIGH_WATERMARK
TRANSACTIONS = FetchIsolation.TXN_COMMITTED


def log_of(folder: Path, segments: int) -> Log:
    """A log with one record in each segment, a millisecond apart."""
    log = open_log(folder, EACH)
    for number in range(segments):
        append(log, [b"v" * 150], timestamps_ms=NOW_MS + number)
    log.set_high_watermark(log.offsets.log_end)
    assert len(log.segments) == segments
    return log


def calls_in(work: Callable[[], object]) -> int:
    """How many functions are called: a measure of work that no other process disturbs."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def read_committed(log: Log) -> None:
    found = log.read(0, 1000, isolation=TRANSACTIONS).slice
    assert found is not None
    found.release()


READS: dict[str, Callable[[Log], object]] = {
    "read-committed fetch": read_committed,
    "bytes for a parked fetch": lambda log: log.readable_bytes_from(0, COMMITTED),
    "bytes up to a limit inside": lambda log: log.readable_bytes_from(0, TRANSACTIONS),
    "offset for a time": lambda log: log.offset_for_timestamp(NOW_MS + 5),
    "offset of the greatest time": lambda log: log.offset_for_timestamp(MAX_TIMESTAMP),
    "size": lambda log: log.segment_bytes_total,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_cost_of_a_read_does_not_grow_with_the_segments(
    tmp_path: Path, read: Callable[[Log], object]
) -> None:
    """S10, T8."""
    costs = []
    for segments in (FEW, MANY):
        log = log_of(tmp_path / f"log-{segments}", segments)
        read(log)
        append(log, [b"v" * 150], timestamps_ms=NOW_MS + segments)  # a roll must not undo it
        log.set_high_watermark(log.offsets.log_end - 1)
        costs.append(calls_in(lambda log=log: read(log)))  # type: ignore[misc]  # bound as it is now
    assert costs[1] <= costs[0] + 40


def test_first_lookup_by_time_opens_its_files_elsewhere(tmp_path: Path) -> None:
    """S10: 3,000 segments were 6,000 files, opened in one turn of the loop."""
    log_of(tmp_path / "log", 40).close()
    file_system = OsFileSystem()
    log = open_log(tmp_path / "log", EACH, file_system=file_system, clean=True)
    log.set_high_watermark(log.offsets.log_end)
    before = file_system.open_files
    with pytest.raises(DeferredReadError, match="39 segments"):
        log.offset_for_timestamp(NOW_MS + 25)
    assert file_system.open_files == before
    found = at_once(lambda: log.offset_for_timestamp(NOW_MS + 25))
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS + 25, 25)


def test_readable_bytes_follow_rolls_retention_and_truncation(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", 20)
    size = log.segments.active.size_bytes

    def readable(offset: int) -> int:
        return log.readable_bytes_from(offset, COMMITTED)

    assert [readable(offset) for offset in (0, 5, 19, 20)] == [20 * size, 15 * size, size, 0]
    log.delete_records_before(7)
    log.delete_segments([segment for segment, _ in log.deletable_segments(NOW_MS)], NOW_MS)
    assert [readable(offset) for offset in (6, 7, 19)] == [0, 13 * size, size]
    assert log.segment_bytes_total == 13 * size
    truncate(log, 12)
    assert [readable(offset) for offset in (7, 11, 12)] == [5 * size, size, 0]
    append(log, [b"v" * 150], timestamps_ms=NOW_MS)
    log.set_high_watermark(log.offsets.log_end)
    assert readable(7) == 6 * size == log.segment_bytes_total


def test_aborted_transactions_are_found_behind_many_segments_without(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", EACH)
    for restarts in range(2):
        for number in range(30):
            append(log, [b"v" * 150], timestamps_ms=NOW_MS + number)
        start = log.offsets.log_end
        append(log, producer_id=7, sequence=restarts, transactional=True)
        for number in range(30):
            append(log, [b"v" * 150], timestamps_ms=NOW_MS + number)
        end_transaction(log, 7, commit=False)
        log.set_high_watermark(log.offsets.log_end)
        for _ in range(2):
            found = log.aborted_transactions(start, start + 1)
            assert [transaction.first_offset for transaction in found] == [start]
            assert len(log.aborted_transactions(0, log.offsets.log_end)) == restarts + 1
            log = reopen(log, clean=True)
            log.set_high_watermark(log.offsets.log_end)
