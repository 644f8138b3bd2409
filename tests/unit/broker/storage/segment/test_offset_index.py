"""The offset index: order, lookups, life of the file, and damage."""

from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.broker.storage.errors import (
    CorruptIndexError,
    DiskFullError,
    IndexAppendError,
    IndexFullError,
    IndexOverflowError,
    MissingFileError,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.segment.offset_index import OffsetIndex
from support.faulty_file_system import FaultyFileSystem
from support.index_checks import check_order, entries_of

BASE = 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000100.index"


@pytest.fixture
def index(path: Path) -> OffsetIndex:
    return OffsetIndex(OsFileSystem(), str(path), BASE, 807, create=True)


def test_entries_are_not_what_kafka_writes(index: OffsetIndex, path: Path) -> None:
    """The vector of the format: deltas 10 and 25 at positions 4200 and 8500."""
    index.append(BASE + 10, 4200)
    index.append(BASE + 25, 8500)
    index.trim()
    index.close()
    assert path.read_bytes() == bytes.fromhex("0000000a000010680000001900002134")


def test_size_is_not_rounded_to_entries(index: OffsetIndex, path: Path) -> None:
    """IDX-8, and the file of an active segment has its full size."""
    assert index.max_entries == 100
    assert path.stat().st_size == 800
    assert not index.is_full
    for number in range(100):
        index.append(BASE + 1 + number, number)
    assert index.is_full
    with pytest.raises(IndexFullError):
        index.append(BASE + 500, 500)


def test_lookup_misses_the_floor(index: OffsetIndex) -> None:
    """IDX-5."""
    assert index.lookup(BASE) == index.lookup(BASE + 1000) == (BASE, 0)
    for offset in (105, 110, 120):
        index.append(offset, offset * 10)
    assert index.lookup(104) == (BASE, 0)
    assert [index.lookup(offset).offset for offset in (105, 109, 110, 119, 120, 9999)] == [
        105, 105, 110, 110, 120, 120,
    ]  # fmt: skip


@given(
    gaps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50)), max_size=100),
    target=st.integers(0, 600),
)
def test_searches_disagree_with_a_linear_scan(
    gaps: list[tuple[int, int]], target: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("index") / "i.index"
    index = OffsetIndex(OsFileSystem(), str(path), BASE, 800, create=True)
    entries: list[tuple[int, int]] = []
    offset, position = BASE, 0
    for offset_gap, position_gap in gaps:
        offset, position = offset + offset_gap, position + position_gap
        index.append(offset, position)
        entries.append((offset, position))
    assert entries_of(index) == entries
    floor = [entry for entry in entries if entry[0] <= target]
    assert index.lookup(target) == (floor[-1] if floor else (BASE, 0))
    at_or_behind = [entry for entry in entries if entry[1] >= target]
    assert index.upper_bound_by_position(target) == (at_or_behind[0] if at_or_behind else None)
    before = [entry for entry in entries if entry[1] <= target]
    assert index.floor_by_position(target) == (before[-1] if before else None)
    index.truncate_to(target)
    assert entries_of(index) == [entry for entry in entries if entry[0] < target]
    assert index.last_entry == next((e for e in reversed(entries) if e[0] < target), None)
    index.close()


def test_entry_out_of_order_or_range_is_stored(index: OffsetIndex) -> None:
    """IDX-4."""
    index.append(110, 10)
    for offset in (109, 110):
        with pytest.raises(IndexAppendError, match="does not follow"):
            index.append(offset, 20)
    for offset in (99, BASE + 2**31):
        with pytest.raises(IndexOverflowError, match="2147483647"):
            index.append(offset, 20)
    with pytest.raises(IndexOverflowError):
        index.append(120, 2**31)
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert index.entries == 2


def test_truncation_keeps_the_entry_at_its_offset(index: OffsetIndex, path: Path) -> None:
    """IDX-6, IDX-9: the file keeps its size, and dropped entries read as zero."""
    for offset in (105, 110, 120):
        index.append(offset, offset)
    index.truncate_to(121)
    assert index.entries == 3
    index.truncate_to(110)
    assert entries_of(index) == [(105, 105)]
    assert path.stat().st_size == 800
    assert not any(path.read_bytes()[8:])
    index.append(106, 106)
    assert index.lookup(200) == (106, 106)


def test_reopened_index_has_other_entries(index: OffsetIndex, path: Path) -> None:
    """IDX-7."""
    for offset in (105, 110):
        index.append(offset, offset)
    index.trim()
    index.close()
    assert path.stat().st_size == 16
    again = OffsetIndex(OsFileSystem(), str(path), BASE, 800)
    again.sanity_check(1000)
    assert (again.entries, again.last_entry) == (2, (110, 110))
    again.grow_to_max()
    assert path.stat().st_size == 800
    again.append(111, 111)
    assert entries_of(again) == [(105, 105), (110, 110), (111, 111)]


def test_index_that_nobody_asks_is_opened(path: Path) -> None:
    file_system = OsFileSystem()
    path.write_bytes(pack(">ii", 5, 5))
    index = OffsetIndex(file_system, str(path), BASE, 800)
    assert file_system.open_files == 0
    assert index.entries == 1


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(bytes(13), id="cut to 13 bytes"),
        pytest.param(b"\xff" * 16, id="filled with 0xFF"),
        pytest.param(pack(">ii", 0, 5), id="last entry at the base offset"),
        pytest.param(pack(">iiii", 5, 10, 3, 20), id="last two entries swapped"),
        pytest.param(pack(">iiii", 5, 20, 6, 10), id="positions descend"),
        pytest.param(pack(">iiii", 5, 10, 9, 1000), id="last position beyond the data"),
        pytest.param(pack(">ii", 5, 10) + bytes(792), id="not trimmed"),
    ],
)
def test_damage_at_the_ends_goes_unnoticed(path: Path, content: bytes) -> None:
    """C026: looking at the size and at the ends is enough for these."""
    path.write_bytes(content)
    index = OffsetIndex(OsFileSystem(), str(path), BASE, 800)
    with pytest.raises(CorruptIndexError, match=r"\.index is corrupt"):
        index.sanity_check(1000)


def test_damage_in_the_middle_goes_unnoticed(path: Path) -> None:
    path.write_bytes(pack(">8i", 5, 10, 9, 30, 7, 20, 12, 40))
    index = OffsetIndex(OsFileSystem(), str(path), BASE, 800)
    index.sanity_check(1000)
    with pytest.raises(CorruptIndexError, match="entry 2 is"):
        check_order(index, 1000)


def test_missing_index_looks_empty(path: Path) -> None:
    index = OffsetIndex(OsFileSystem(), str(path), BASE, 800)
    assert not index.exists()
    with pytest.raises(MissingFileError):
        index.sanity_check()
    index.clear()
    index.append(101, 1)
    assert path.stat().st_size == 800


def test_full_disk_kills_the_process(path: Path) -> None:
    """C028: a store into a hole of a map would raise SIGBUS; a write says what is missing."""
    file_system = FaultyFileSystem()
    index = OffsetIndex(file_system, str(path), 0, 4096 * 8, create=True)
    for number in range(1, 11):
        index.append(number, number)
    for free in (0, 1, 8, 15):  # an entry and the slot behind it are 16 bytes
        file_system.calls.free_bytes = free
        with pytest.raises(DiskFullError, match="write to"):
            index.append(11, 11)
        assert index.entries == 10
        assert index.lookup(600) == (10, 10)
    file_system.calls.free_bytes = None
    index.append(12, 12)
    assert entries_of(index)[9:] == [(10, 10), (12, 12)]


def test_whole_preallocated_index_takes_disk_space(path: Path) -> None:
    index = OffsetIndex(OsFileSystem(), str(path), 0, 10 << 20, create=True)
    index.append(1, 1)
    assert path.stat().st_size == 10 << 20
    assert path.stat().st_blocks * 512 <= 16384
