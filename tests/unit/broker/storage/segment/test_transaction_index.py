"""The transaction index: format, collecting, cutting, damage."""

from pathlib import Path

import pytest

from seglog.broker.storage.errors import CorruptIndexError, DiskFullError, IndexAppendError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.segment.transaction_index import AbortedTransaction, TransactionIndex
from support.faulty_file_system import FaultyFileSystem

VECTOR = "000000000000000003e9000000000000000a000000000000002a0000000000000008"
ENTRIES = [
    AbortedTransaction(1, 0, 10, 11),
    AbortedTransaction(2, 5, 20, 13),
    AbortedTransaction(3, 30, 40, 41),
    AbortedTransaction(4, 35, 50, 51),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.txnindex"


@pytest.fixture
def index(path: Path) -> TransactionIndex:
    return TransactionIndex(OsFileSystem(), str(path), 0, create=True)


def test_entry_is_not_what_kafka_writes(index: TransactionIndex, path: Path) -> None:
    index.append(AbortedTransaction(1001, 10, 42, 8))
    assert path.read_bytes() == bytes.fromhex(VECTOR)


def test_segment_without_aborts_has_a_file(index: TransactionIndex, path: Path) -> None:
    assert index.collect(0, 100) == ([], False)
    index.truncate_to(0)
    index.clear()
    index.close()
    assert not path.exists()


def test_collecting_misses_an_overlap(index: TransactionIndex) -> None:
    for entry in ENTRIES:
        index.append(entry)
    assert index.collect(0, 100) == (ENTRIES, False)
    assert index.collect(11, 29) == ([ENTRIES[1]], True)
    assert index.collect(10, 11) == ([ENTRIES[0]], True)
    assert index.collect(0, 12) == (ENTRIES[:2], True)
    assert index.collect(41, 52) == ([ENTRIES[3]], False)
    assert index.collect(51, 60) == ([], False)


def test_order_of_markers_is_not_checked(index: TransactionIndex) -> None:
    index.append(ENTRIES[1])
    with pytest.raises(IndexAppendError, match="does not follow"):
        index.append(ENTRIES[0])
    assert index.all() == [ENTRIES[1]]


def test_truncation_leaves_a_later_abort(index: TransactionIndex, path: Path) -> None:
    for entry in ENTRIES:
        index.append(entry)
    index.truncate_to(51)
    assert index.all() == ENTRIES
    index.truncate_to(40)
    assert index.all() == ENTRIES[:2]
    assert path.stat().st_size == 68
    again = TransactionIndex(OsFileSystem(), str(path), 0)
    again.sanity_check()
    assert again.all() == ENTRIES[:2]
    again.append(ENTRIES[2])
    again.clear()
    assert path.stat().st_size == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes.fromhex(VECTOR)[:-1], "no multiple of 34"),
        (b"\x00\x01" + bytes.fromhex(VECTOR)[2:], "version 1"),
        (bytes.fromhex(VECTOR) * 2, "does not follow"),
    ],
)
def test_damage_goes_unnoticed(path: Path, content: bytes, reason: str) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=reason):
        TransactionIndex(OsFileSystem(), str(path), 0).sanity_check()


def test_entry_below_the_base_offset_goes_unnoticed(path: Path) -> None:
    path.write_bytes(bytes.fromhex(VECTOR))
    TransactionIndex(OsFileSystem(), str(path), 42).sanity_check()
    with pytest.raises(CorruptIndexError, match="below the base offset 43"):
        TransactionIndex(OsFileSystem(), str(path), 43).sanity_check()


def test_full_disk_leaves_half_an_entry(path: Path) -> None:
    file_system = FaultyFileSystem()
    index = TransactionIndex(file_system, str(path), 0, create=True)
    index.append(ENTRIES[0])
    file_system.calls.free_bytes = 20
    with pytest.raises(DiskFullError):
        index.append(ENTRIES[1])
    file_system.calls.free_bytes = None
    index.append(ENTRIES[2])
    assert TransactionIndex(file_system, str(path), 0).all() == [ENTRIES[0], ENTRIES[2]]
