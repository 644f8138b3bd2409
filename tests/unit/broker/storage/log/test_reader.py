"""What a read returns, for every offset, limit and isolation."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import OffsetOutOfRangeError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.records.batch import BatchHeader
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    append_many,
    end_transaction,
    offsets_of,
    open_log,
    read_all,
    read_bytes,
    reopen,
)
from support.segment_builder import append as append_to_segment
from support.segment_builder import batch as stored_batch
from support.segment_builder import headers_in, new_segment

SMALL = replace(KEEP, segment_bytes=2000, index_interval_bytes=200)
END = FetchIsolation.LOG_END
COMMITTED = FetchIsolation.HIGH_WATERMARK
TRANSACTIONS = FetchIsolation.TXN_COMMITTED


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """60 single-record batches in several segments."""
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, 60)
    return log


def test_read_outside_of_the_log_says_what_there_is(log: Log) -> None:
    """READ-1, FETCH-6."""
    assert read_bytes(log, 60) == b""
    log.delete_records_before(10)
    for offset in (9, -1, 61, 2**62):
        with pytest.raises(OffsetOutOfRangeError) as error:
            read_bytes(log, offset)
        assert (error.value.log_start_offset, error.value.log_end_offset) == (10, 60)


def test_every_offset_is_found_from_every_position(log: Log) -> None:
    """READ-3, READ-10, C022: also with a limit of one byte."""
    for restarts in (0, 1):
        if restarts:
            log = reopen(log, clean=True)
        for offset in range(60):
            for max_bytes in (1, 300, 10_000):
                headers = headers_in(read_bytes(log, offset, max_bytes))
                assert headers[0].base_offset == offset


def test_limit_is_kept_except_for_the_first_batch(log: Log) -> None:
    """READ-6, READ-7, READ-8, READ-9, C036."""
    one = len(read_bytes(log, 0, 1))
    assert len(read_bytes(log, 0, 3 * one + 5)) == 3 * one
    assert read_bytes(log, 0, one - 1, min_one_message=False) == b""
    assert read_bytes(log, 0, 0, min_one_message=False) == b""
    assert len(read_bytes(log, 0, 0)) == one
    with pytest.raises(ValueError, match="max_bytes is -1"):
        read_bytes(log, 0, -1)


def test_one_read_stays_within_one_segment(log: Log) -> None:
    """READ-10."""
    second = log.segments.higher(0)
    assert second is not None
    assert headers_in(read_bytes(log, 0))[-1].last_offset == second.base_offset - 1


def test_reader_sees_up_to_the_high_watermark_wherever_it_lies(log: Log) -> None:
    """READ-2."""
    for high_watermark in range(61):
        log.set_high_watermark(high_watermark)
        assert offsets_of(read_all(log, isolation=COMMITTED)) == list(range(high_watermark))
        assert log.readable_bytes_from(high_watermark, COMMITTED) == 0


def test_readable_bytes_are_those_of_a_reader_that_goes_on(log: Log) -> None:
    """FETCH-5."""
    one = len(read_bytes(log, 0, 1))
    total = log.segment_bytes_total
    assert log.readable_bytes_from(0, END) == total
    for offset in (0, 1, 17, 18, 19, 59):
        bytes_below = sum(header.size_bytes for header in stored_headers(log)[:offset])
        assert log.readable_bytes_from(offset, END) == total - bytes_below
    assert log.readable_bytes_from(60, END) == 0
    assert log.readable_bytes_from(61, END) == 0
    append_many(log, 1)
    assert log.readable_bytes_from(60, END) == one


def stored_headers(log: Log) -> list[BatchHeader]:
    return [header for segment in log.segments for header, _ in segment.batches()]


def test_offsets_that_are_missing_lead_to_the_next_batch(tmp_path: Path) -> None:
    """READ-4, READ-5, C022: also where the hole is at the end of a segment."""
    for base_offset, offsets in ((0, [0, 5, 79]), (100, [100])):
        segment = new_segment(OsFileSystem(), tmp_path, base_offset)
        append_to_segment(segment, *(stored_batch(offset) for offset in offsets))
        segment.close()
    log = open_log(tmp_path, clean=True)
    for max_bytes in (1, 1 << 20):
        for offset in range(101):
            first = headers_in(read_bytes(log, offset, max_bytes))[0]
            assert first.base_offset == min(each for each in (0, 5, 79, 100) if each >= offset)


def test_slice_in_flight_survives_the_deletion_of_its_segment(log: Log) -> None:
    """READ-13, RET-12."""
    content = read_bytes(log, 0)
    slice_in_flight = log.read(0, 10_000, isolation=END).slice
    assert slice_in_flight is not None
    log.delete_records_before(60)
    removed = log.delete_segments([found[0] for found in log.deletable_segments(NOW_MS)], NOW_MS)
    assert len(removed) == len({segment.log.path for segment in removed}) > 1
    for segment in removed:
        assert segment.log.path.endswith(".log.deleted")
        segment.delete_files()
    assert not os.path.exists(removed[0].log.path)
    assert slice_in_flight.read() == content
    slice_in_flight.release()


def test_tail_readers_need_no_index_lookup(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer at the end reads what was appended a moment ago."""
    active = log.segments.active
    monkeypatch.setattr(type(active), "translate", lambda *_args: pytest.fail("looked up"))
    monkeypatch.setattr(type(active), "read", lambda *_args, **_options: pytest.fail("looked up"))
    append_many(log, 3)
    assert [header.base_offset for header in headers_in(read_bytes(log, 61))] == [61, 62]
    assert log.readable_bytes_from(61, END) == len(read_bytes(log, 61))


def test_read_committed_stops_at_the_first_open_transaction(tmp_path: Path) -> None:
    """READ-2, TXN-9, C055."""
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, 10)
    append(log, [b"x"] * 5, producer_id=7, sequence=0, transactional=True)
    append_many(log, 5)
    assert offsets_of(read_all(log, isolation=TRANSACTIONS)) == list(range(10))
    assert offsets_of(read_all(log, isolation=COMMITTED)) == list(range(20))
    end_transaction(log, 7, commit=True)
    assert offsets_of(read_all(log, isolation=TRANSACTIONS)) == list(range(20))


def test_aborted_transactions_come_with_the_data_they_touch(tmp_path: Path) -> None:
    """READ-12, TXN-7."""
    log = open_log(tmp_path / "log", SMALL)
    append(log, producer_id=1, sequence=0, transactional=True)
    append_many(log, 20)
    append(log, producer_id=2, sequence=0, transactional=True)
    end_transaction(log, 1, commit=False)
    end_transaction(log, 2, commit=True)
    append_many(log, 20)
    assert len(log.segments) > 2

    def aborted(offset: int) -> list[tuple[int, int]] | None:
        data = log.read(offset, 100, isolation=TRANSACTIONS)
        if data.slice is not None:
            data.slice.release()
        return data.aborted_transactions

    assert aborted(0) == [(1, 0)]
    assert aborted(15) == [(1, 0)]
    assert aborted(30) == []
    assert aborted(log.offsets.log_end) == []
    unfiltered = log.read(0, 100, isolation=COMMITTED)
    assert unfiltered.aborted_transactions is None
    assert unfiltered.slice is not None
    unfiltered.slice.release()


def test_empty_log_reads_as_empty(tmp_path: Path) -> None:
    """READ-1."""
    log = open_log(tmp_path / "log")
    data = log.read(0, 100, isolation=COMMITTED)
    assert data.slice is None
    assert (data.log_start_offset, data.log_end_offset) == (0, 0)
