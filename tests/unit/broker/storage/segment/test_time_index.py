"""The time index: what enters, lookups, the closing entry, and damage."""

from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.broker.storage.errors import CorruptIndexError, IndexAppendError, IndexFullError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.segment.time_index import TimeIndex
from support.index_checks import entries_of

BASE = 50
T = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000050.timeindex"


@pytest.fixture
def index(path: Path) -> TimeIndex:
    return TimeIndex(OsFileSystem(), str(path), BASE, 125, create=True)


def test_entries_are_not_what_kafka_writes(index: TimeIndex, path: Path) -> None:
    """The vector of the format."""
    index.maybe_append(T, BASE + 10)
    index.maybe_append(T + 1500, BASE + 25)
    index.trim()
    index.close()
    assert path.read_bytes() == bytes.fromhex("0000018bcfe568000000000a0000018bcfe56ddc00000019")


def test_empty_index_has_a_last_entry(index: TimeIndex) -> None:
    assert index.last_entry == (-1, BASE, -1)
    assert index.lookup(T) == (-1, BASE, -1)


def test_equal_timestamp_adds_an_entry(index: TimeIndex) -> None:
    """TIX-2."""
    assert index.maybe_append(T, 60)
    assert not index.maybe_append(T, 61)
    assert not index.maybe_append(T, 59)
    with pytest.raises(IndexAppendError, match="timestamp"):
        index.maybe_append(T - 1, 70)
    with pytest.raises(IndexAppendError, match="offset"):
        index.maybe_append(T + 1, 59)
    assert index.entries == 1


def test_no_timestamp_adds_an_entry(index: TimeIndex) -> None:
    assert not index.maybe_append(-1, 60, skip_full_check=True)
    assert index.entries == 0


def test_closing_entry_finds_no_slot(index: TimeIndex, path: Path) -> None:
    """One slot is reserved: full means max - 1 entries."""
    assert index.max_entries == 10
    for number in range(9):
        assert not index.is_full
        index.maybe_append(T + number, BASE + number)
    assert index.is_full
    with pytest.raises(IndexFullError):
        index.maybe_append(T + 9, BASE + 9)
    assert index.maybe_append(T + 9, BASE + 9, skip_full_check=True)
    index.trim()
    assert path.stat().st_size == 120


def test_closing_entry_of_a_trimmed_index_lies_outside_of_the_file(path: Path) -> None:
    path.write_bytes(pack(">qi", T, 3))
    index = TimeIndex(OsFileSystem(), str(path), BASE, 125)
    index.maybe_append(T + 1, BASE + 4, skip_full_check=True)
    index.trim()
    index.close()
    assert path.read_bytes() == pack(">qiqi", T, 3, T + 1, 4)


@given(
    gaps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=99),
    target=st.integers(0, 500),
)
def test_searches_disagree_with_a_linear_scan(
    gaps: list[tuple[int, int]], target: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """TIX-3, TIX-4."""
    path = tmp_path_factory.mktemp("index") / "i.timeindex"
    index = TimeIndex(OsFileSystem(), str(path), BASE, 1200, create=True)
    entries: list[tuple[int, int]] = []
    timestamp, offset = 0, BASE
    for time_gap, offset_gap in gaps:
        timestamp, offset = timestamp + time_gap, offset + offset_gap
        index.maybe_append(timestamp, offset)
        entries.append((timestamp, offset))
    floor = [entry for entry in entries if entry[0] <= target]
    assert index.lookup(target)[:2] == (floor[-1] if floor else (-1, BASE))
    index.truncate_to(target)
    assert entries_of(index) == [entry for entry in entries if entry[1] < target]
    index.close()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(bytes(13), id="cut to 13 bytes"),
        pytest.param(b"\xff" * 24, id="filled with 0xFF"),
        pytest.param(pack(">qi", T, -1), id="last entry below the base offset"),
        pytest.param(pack(">qiqi", T, 3, T - 1, 5), id="last two entries swapped"),
        pytest.param(pack(">qiqi", T, 5, T + 1, 3), id="offsets descend"),
        pytest.param(pack(">qi", T, 5) + bytes(1188), id="not trimmed"),
    ],
)
def test_damage_at_the_ends_goes_unnoticed(path: Path, content: bytes) -> None:
    """TIX-6, C026."""
    path.write_bytes(content)
    index = TimeIndex(OsFileSystem(), str(path), BASE, 1200)
    with pytest.raises(CorruptIndexError, match=r"\.timeindex is corrupt"):
        index.sanity_check(1000)


def test_index_of_an_empty_data_file_is_trusted(path: Path) -> None:
    path.write_bytes(pack(">qi", T, 5))
    with pytest.raises(CorruptIndexError):
        TimeIndex(OsFileSystem(), str(path), BASE, 1200).sanity_check(0)
