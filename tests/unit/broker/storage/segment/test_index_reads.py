"""Reading through indexes that somebody has cut, or that a disk does not give back."""

import os
import random
from pathlib import Path
from struct import pack

import pytest

from seglog.broker.storage.errors import CorruptIndexError, FileError
from seglog.broker.storage.segment.offset_index import OffsetIndex
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.time_index import TimeIndex
from support.faulty_file_system import FaultyFileSystem
from support.segment_builder import NOW_MS, SMALL, fill

BATCHES = 60


@pytest.fixture
def file_system() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def segment(file_system: FaultyFileSystem, tmp_path: Path) -> LogSegment:
    segment = LogSegment.create(file_system, str(tmp_path), 0, SMALL, NOW_MS)
    fill(segment, BATCHES)
    segment.on_become_inactive()
    assert segment.offset_index.entries > 10
    return segment


def positions(segment: LogSegment) -> list[int]:
    return [position for _, position in segment.batches()]


@pytest.mark.parametrize("size", [0, 8, 20])
def test_offset_index_that_was_cut_does_not_end_the_process(segment: LogSegment, size: int) -> None:
    """S9: through a map the access ends the process with SIGBUS."""
    expected = positions(segment)
    assert segment.translate(30) is not None
    os.truncate(segment.offset_index.path, size)
    for offset in (10, 30, 59):
        extent = segment.translate(offset)
        assert extent is not None
        assert extent.position == expected[offset]
        found = segment.read(offset, 400)
        assert found is not None
        assert (found.position, found.length) == (expected[offset], min(4, 60 - offset) * 95)
        found.release()


@pytest.mark.parametrize("size", [0, 12, 30])
def test_time_index_that_was_cut_does_not_end_the_process(segment: LogSegment, size: int) -> None:
    os.truncate(segment.time_index.path, size)
    found = segment.find_offset_by_timestamp(NOW_MS + 295, 0)
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS + 300, 30)


def test_index_page_that_cannot_be_read_leaves_the_records_readable(
    segment: LogSegment, file_system: FaultyFileSystem
) -> None:
    file_system.calls.fail("read", path_part="index")
    extent = segment.translate(30)
    assert extent is not None
    assert (extent.base_offset, extent.position) == (30, positions(segment)[30])
    file_system.calls.fail("read", path_part="timeindex")
    found = segment.find_offset_by_timestamp(NOW_MS + 295, 0)
    assert found is not None
    assert found.offset == 30


def test_data_that_cannot_be_read_is_no_fault_of_an_index(
    segment: LogSegment, file_system: FaultyFileSystem
) -> None:
    file_system.calls.fail("read", path_part=".log")
    with pytest.raises(FileError, match=r"\.log"):
        segment.translate(30)


def test_read_beyond_what_is_left_of_an_index_is_an_error_of_ours(
    file_system: FaultyFileSystem, tmp_path: Path
) -> None:
    index = OffsetIndex(file_system, str(tmp_path / "i.index"), 0, 8000, create=True)
    for number in range(1, 900):
        index.append(number, number)
    index.trim()
    os.truncate(index.path, 4000)
    with pytest.raises(CorruptIndexError, match="although its size was 7192"):
        index.lookup(700)


@pytest.mark.parametrize("skew", [1, 50, 100_000])
def test_search_finds_the_floor_however_entries_are_spread(tmp_path: Path, skew: int) -> None:
    """The search guesses by even spread; entries that are not must cost reads, not correctness."""
    seeded = random.Random(skew)
    offset, stamp, rows, stamps = 0, NOW_MS, [], []
    for number in range(3000):
        offset += 1 if number % 500 else seeded.randrange(1, skew + 1)
        stamp += 1 if number % 700 else seeded.randrange(1, skew + 1)
        rows.append((offset, number * 4096))
        stamps.append((stamp, offset))
    (tmp_path / "i.index").write_bytes(b"".join(pack(">ii", *row) for row in rows))
    (tmp_path / "i.timeindex").write_bytes(b"".join(pack(">qi", *row) for row in stamps))
    file_system = FaultyFileSystem()
    index = OffsetIndex(file_system, str(tmp_path / "i.index"), 0, 24_000)
    times = TimeIndex(file_system, str(tmp_path / "i.timeindex"), 0, 36_000)
    for _ in range(500):
        row, stamped = seeded.randrange(3000), seeded.randrange(3000)
        offset = rows[row][0]
        assert index.lookup(offset) == rows[row]
        floor = rows[row - 1] if row and rows[row - 1][0] < offset else (0, 0)
        assert index.lookup(offset - 1) == floor
        assert index.floor_by_position(row * 4096 + 1) == rows[row]
        assert times.lookup(stamps[stamped][0])[:2] == stamps[stamped]
