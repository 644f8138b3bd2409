"""Walking a data file through its damages."""

import struct
from pathlib import Path

import pytest

from seglog.broker.tools.log_scan import LogScan, ScannedBatch, Tail, TailKind
from seglog.broker.tools.read_only import read_only_files
from seglog.protocol.records.batch import write_checksum
from support.segment_builder import NOW_MS, batch


def scan(tmp_path: Path, content: bytes, base_offset: int = 0) -> tuple[list[ScannedBatch], Tail]:
    path = tmp_path / f"{base_offset:020d}.log"
    path.write_bytes(content)
    file = read_only_files().open_log(str(path))
    walk = LogScan(file, base_offset)
    batches = list(walk)
    file.close()
    return batches, walk.tail or Tail(TailKind.ZEROS, -1, "")


def damaged(content: bytes, position: int, *, checksum: bool = False) -> bytes:
    """Another byte at a position; ``checksum`` makes it right again."""
    changed = bytearray(content)
    changed[position] ^= 0xFF
    if checksum:
        write_checksum(memoryview(changed))
    return bytes(changed)


def test_one_damaged_batch_hides_the_next(tmp_path: Path) -> None:
    first, second, third = batch(0), batch(1), batch(2)
    batches, _ = scan(tmp_path, first + damaged(second, -1) + damaged(third, -2))
    assert [each.fault is None for each in batches] == [True, False, False]
    assert [each.has_right_checksum for each in batches] == [True, False, False]
    assert "the checksum is" in (batches[2].fault or "")
    assert batches[2].position == len(first) + len(second)


def test_records_that_are_no_records_pass_with_a_right_checksum(tmp_path: Path) -> None:
    wrong = damaged(batch(0), 61, checksum=True)
    batches, _ = scan(tmp_path, wrong + batch(1))
    assert batches[0].fault is not None
    assert batches[0].has_right_checksum
    assert batches[1].fault is None


def test_a_max_timestamp_that_hides_records_passes(tmp_path: Path) -> None:
    """Searches by time trust the header; one that is too great only costs time."""
    low = bytearray(batch(0, (NOW_MS, NOW_MS + 5)))
    struct.pack_into(">q", low, 35, NOW_MS)
    write_checksum(memoryview(low))
    high = bytearray(batch(2, (NOW_MS,)))
    struct.pack_into(">q", high, 35, NOW_MS + 9)
    write_checksum(memoryview(high))
    batches, _ = scan(tmp_path, bytes(low + high))
    assert "max timestamp" in (batches[0].fault or "")
    assert batches[1].fault is None


@pytest.mark.parametrize(
    ("bases", "base_offset"), [((0, 1, 1), 0), ((5, 4), 0), ((3,), 4), ((2**31,), 0)]
)
def test_offsets_out_of_order_pass(
    tmp_path: Path, bases: tuple[int, ...], base_offset: int
) -> None:
    batches, _ = scan(tmp_path, b"".join(map(batch, bases)), base_offset)
    assert batches[-1].fault is not None
    assert all(each.fault is None for each in batches[:-1])


def test_a_gap_that_compaction_left_is_a_fault(tmp_path: Path) -> None:
    batches, _ = scan(tmp_path, batch(0) + batch(1000))
    assert [each.fault for each in batches] == [None, None]


@pytest.mark.parametrize("length", [8, 16, 17, 60, 61, 80])
def test_a_torn_batch_is_read(tmp_path: Path, length: int) -> None:
    whole = batch(0)
    batches, tail = scan(tmp_path, whole + batch(1)[:length])
    assert len(batches) == 1
    assert tail.kind is TailKind.TORN
    assert tail.position == len(whole)


@pytest.mark.parametrize("length", [1, 60, 61, 5000, 3 << 20])
def test_preallocated_zeros_are_taken_for_damage(tmp_path: Path, length: int) -> None:
    batches, tail = scan(tmp_path, batch(0) + bytes(length))
    assert len(batches) == 1
    assert tail.kind is TailKind.ZEROS


def test_garbage_is_taken_for_a_torn_write(tmp_path: Path) -> None:
    _, tail = scan(tmp_path, batch(0) + b"garbage" * 20)
    assert tail.kind is TailKind.GARBAGE
    assert "no batch begins here" in tail.text
    _, tail = scan(tmp_path, batch(0) + bytes(100) + b"x")
    assert tail.kind is TailKind.GARBAGE


def test_an_old_format_ends_the_walk(tmp_path: Path) -> None:
    old = struct.pack(">qiIbb", 0, 70, 0, 1, 0) + bytes(82 - 18)
    batches, _ = scan(tmp_path, old + batch(1))
    assert "old format 1" in (batches[0].fault or "")
    assert batches[1].fault is None


def test_a_batch_beyond_a_window_is_torn_apart(tmp_path: Path) -> None:
    big = batch(1, value=b"v" * (3 << 20))
    batches, _ = scan(tmp_path, batch(0) + big + batch(2))
    assert [each.fault for each in batches] == [None, None, None]
    assert batches[1].batch is not None
    assert len(batches[1].batch.records()[0].value or b"") == 3 << 20
