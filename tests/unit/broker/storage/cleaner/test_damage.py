"""Batches that lie, and damage below the log start: an error that says what is wrong, or none."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import CorruptLogError
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.records.batch import HEADER_BYTES, read_header, write_checksum
from seglog.protocol.records.builder import build_batch, finish_batch
from seglog.protocol.records.control import ControlType, build_marker
from support.cleaning import NOW_MS, SealedLog
from support.log_builder import KEEP, append, read_all
from support.log_cleaning import CompactedLog

CONFIG = LogConfig(segment_index_bytes=1 << 12, index_interval_bytes=200)


def batch_at(offset: int, count: int = 10, **options) -> bytearray:
    fields = [(NOW_MS, b"k%d" % (offset + number), bytes(50), ()) for number in range(count)]
    return build_batch(fields, base_offset=offset, **options)


def patched(position: int, layout: str, value: int, *, codec: Codec = Codec.NONE) -> bytearray:
    """The batch of the offsets 10 to 19 with another header field, and a checksum to go with it."""
    batch = batch_at(10, codec=codec)
    struct.pack_into(layout, batch, position, value)
    write_checksum(memoryview(batch))
    return batch


def with_deltas(deltas: list[int], last_offset_delta: int = 9) -> bytearray:
    fields = [(NOW_MS, b"k%d" % number, b"v", ()) for number in range(len(deltas))]
    batch = build_batch(fields, base_offset=10, offset_deltas=deltas)
    struct.pack_into(">i", batch, 23, last_offset_delta)
    write_checksum(memoryview(batch))
    return batch


def large_with_count(count: int) -> bytearray:
    """S11: room for that many records was asked for again and again, and never given."""
    batch = build_batch([(NOW_MS, b"k", bytes(600_000), ())], base_offset=10)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">i", batch, 23, count - 1)
    write_checksum(memoryview(batch))
    return batch


def marker_without_key() -> bytearray:
    marker = build_marker(
        ControlType.ABORT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
        base_offset=10,
    )
    other = build_batch([(NOW_MS, b"", b"", ())], base_offset=10)
    area = bytearray(HEADER_BYTES) + other[HEADER_BYTES:]
    return finish_batch(read_header(marker), area, Codec.NONE, None)


LIES: dict[str, Callable[[], bytearray]] = {
    "far too many records": lambda: large_with_count(600_000),
    "too many records": lambda: patched(57, ">i", 11),
    "too few records": lambda: patched(57, ">i", 9),
    "fewer than no records": lambda: patched(57, ">i", -1),
    "too many compressed records": lambda: patched(57, ">i", 1 << 30, codec=Codec.LZ4),
    "fewer than no compressed records": lambda: patched(57, ">i", -7, codec=Codec.ZSTD),
    "an end in front of its beginning": lambda: patched(23, ">i", -1),
    "an end in front of its records": lambda: patched(23, ">i", 3),
    "an end in front of compressed records": lambda: patched(23, ">i", 3, codec=Codec.GZIP),
    "an end beyond the segment": lambda: patched(23, ">i", 1 << 30),
    "a codec that nobody knows": lambda: patched(21, ">h", 7),
    "compressed bytes that are none": lambda: patched(21, ">h", 4),
    "offsets all the same": lambda: with_deltas([0, 0, 0]),
    "offsets that descend": lambda: with_deltas([5, 3, 1]),
    "an offset in front of the batch": lambda: with_deltas([-1, 0, 1]),
    "an offset behind the batch": lambda: with_deltas([0, 1, 1 << 29]),
    "a base offset far above": lambda: patched(0, ">q", 10 | 1 << 20),
    "a base offset below": lambda: patched(0, ">q", 8),
    "a base offset below nothing": lambda: patched(0, ">q", -10),
    "the greatest base offset": lambda: patched(0, ">q", 2**63 - 1),
    "a length of nothing": lambda: patched(8, ">i", 0),
    "a negative length": lambda: patched(8, ">i", -5),
    "a length beyond the file": lambda: patched(8, ">i", 1 << 30),
    "a length within the next batch": lambda: patched(8, ">i", len(batch_at(10)) - 12 + 7),
    "another format": lambda: patched(16, ">b", 1),
    "a marker without a key": marker_without_key,
    "zeros": lambda: bytearray(len(batch_at(10))),
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SealedLog]:
    sealed = SealedLog(tmp_path, CONFIG)
    yield sealed
    sealed.close()


@pytest.mark.parametrize("first_dirty", [0, 40])
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_ends_the_pass_with_its_place_and_reason(
    log: SealedLog, tmp_path: Path, lie: str, first_dirty: int
) -> None:
    """CLN-8, SEG-5, S11: in the part that both passes read and in the one that only one reads."""
    first, lying, last = batch_at(0), LIES[lie](), batch_at(20)
    for base_offset, content in (0, first + lying + last), (30, batch_at(30)):
        for suffix in (".index", ".timeindex"):
            (tmp_path / f"{base_offset:020}{suffix}").touch()
        (tmp_path / f"{base_offset:020}.log").write_bytes(content)
    log.reopen([0, 30], 40)
    log.first_dirty_offset = first_dirty
    names = sorted(entry.name for entry in tmp_path.iterdir())
    places = f"({len(first)}|{len(first) + len(lying)})"  # some show only in what follows
    for buffer_bytes in (100, 2000, 1 << 20):
        with pytest.raises(CorruptLogError, match=rf"position {places}: ."):
            log.clean(buffer_bytes=buffer_bytes)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names


DAMAGES: dict[str, Callable[[bytearray], None]] = {
    "a bit flipped": lambda batch: batch.__setitem__(100, batch[100] ^ 1),
    "zeros": lambda batch: batch.__setitem__(slice(None), bytes(len(batch))),
    "another length": lambda batch: struct.pack_into(">i", batch, 8, len(batch) - 12 + 7),
    "a length beyond the file": lambda batch: struct.pack_into(">i", batch, 8, 1 << 30),
    "a base offset above": lambda batch: struct.pack_into(">q", batch, 0, 1 << 40),
    "a base offset a little above": lambda batch: struct.pack_into(">q", batch, 0, 300),
    "a base offset below": lambda batch: struct.pack_into(">q", batch, 0, 3),
}


class DamagedLog:
    """Batches of 10 in three segments; one of them, 140 to 149, is damaged on disk."""

    def __init__(self, folder: Path, damage: str, interval_bytes: int) -> None:
        config = replace(
            KEEP,
            cleanup_policy=frozenset({"compact"}),
            index_interval_bytes=interval_bytes,
            segment_index_bytes=1 << 12,
        )
        self.compacted = CompactedLog(folder / "log", config)
        log = self.compacted.log
        for number in range(36):
            if number in (12, 24):
                log.roll(NOW_MS)
            keys = [b"k%d" % (10 * number + each) for each in range(10)]
            append(log, [b"value" * 8] * 10, keys=keys)
        segment = log.segments.get(120)
        assert segment is not None
        position = segment.log.size // 12 * 2
        content = bytearray(Path(segment.log.path).read_bytes())
        batch = content[position : position + segment.log.size // 12]
        DAMAGES[damage](batch)
        content[position : position + len(batch)] = batch
        Path(segment.log.path).write_bytes(content)


@pytest.mark.parametrize("interval_bytes", [1, 1 << 20])
@pytest.mark.parametrize("damage", DAMAGES)
def test_delete_records_gets_damage_out_of_the_way(
    tmp_path: Path, damage: str, interval_bytes: int
) -> None:
    """U4: nothing below the log start is read, with an index that knows the place and without."""
    damaged = DamagedLog(tmp_path, damage, interval_bytes)
    compacted = damaged.compacted
    with pytest.raises(CorruptLogError):
        compacted.clean()
    compacted.log.delete_records_before(150)
    append(compacted.log, [b"new"], keys=[b"k151"])
    result = compacted.clean()
    assert result.end_offset == 361
    expected = [offset for offset in range(150, 361) if offset != 151]
    assert [record.offset for record in read_all(compacted.log)] == expected
    first = compacted.log.segments.get(120)
    assert first is not None
    assert next(first.batches())[0].base_offset == 150
    assert compacted.clean().statistics.records_read == len(expected)


@pytest.mark.parametrize("interval_bytes", [1, 1 << 20])
@pytest.mark.parametrize("log_start", [135, 140, 149])
def test_damage_at_the_log_start_is_not_passed_over(
    tmp_path: Path, log_start: int, interval_bytes: int
) -> None:
    """U4: what may still be read must not vanish; the error says what would help."""
    damaged = DamagedLog(tmp_path, "zeros", interval_bytes)
    damaged.compacted.log.delete_records_before(log_start)
    with pytest.raises(CorruptLogError) as caught:
        damaged.compacted.clean()
    if log_start > 140:
        assert f"at the log start, {log_start}, is damaged" in str(caught.value)
        assert "next sound batch begins at offset 150" in str(caught.value)


def test_segments_below_the_log_start_are_not_looked_at(tmp_path: Path) -> None:
    """U4: until retention takes them away they may be as damaged as they like."""
    damaged = DamagedLog(tmp_path, "zeros", 200)
    compacted = damaged.compacted
    compacted.log.delete_records_before(300)
    for base in (0, 120):
        segment = compacted.log.segments.get(base)
        assert segment is not None
        Path(segment.log.path).write_bytes(b"\1" * segment.log.size)
    assert compacted.clean().end_offset == 360
    assert [record.offset for record in read_all(compacted.log)] == list(range(300, 360))
