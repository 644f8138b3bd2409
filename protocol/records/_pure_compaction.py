"""The kernels of log compaction in plain Python.

Twins of ``protocol/_kernel_offset_map.pxi``, ``_kernel_compaction.pxi`` and
``_kernel_filtering.pxi``: same names, arguments, results and errors; ``compaction.py`` explains
their purpose. The map of this twin is a dict with the capacity, not the fixed memory, of the
compiled one.
"""

import hashlib
import struct
from array import array
from dataclasses import dataclass
from typing import Final

from seglog.protocol.checksum import crc32c
from seglog.protocol.records._pure_fields import (
    FieldPositions,
    MalformedError,
    append_varint,
    parse_record,
    varint_bytes,
    wrap_int64,
)
from seglog.protocol.records.batch import HEADER_BYTES, BatchHeader, read_header
from seglog.protocol.types import Buffer

_MAP_ENTRY_BYTES: Final = 24
_RECORD_GROWTH_BYTES: Final = 24
_RECORD_BYTES_MIN: Final = 7  # length, attributes, two deltas, two lengths, a count of headers
_WALK_END, _WALK_SPECIAL, _WALK_FULL, _WALK_CORRUPT, _WALK_NO_SPACE = range(5)
_NOT_PLAIN: Final = 0x37  # codec, transactional, control
_DELETE_HORIZON: Final = 0x40
_LOG_APPEND_TIME: Final = 0x08

FilteredRecords = tuple[int, int, int, bool, int, int, bytes | None]


def key_hash(key: Buffer) -> bytes:
    """The 16 bytes under which the map knows a key."""
    return hashlib.md5(key, usedforsecurity=False).digest()


class SkimpyOffsetMap:
    """The last offset of each key, up to a fixed number of keys (CMAP-1..4)."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.slots = memory_bytes // _MAP_ENTRY_BYTES
        self.usable_slots = int(self.slots * load_factor)
        if not 0 < load_factor <= 1 or self.usable_slots < 2:
            raise ValueError(
                f"a key map of {memory_bytes} bytes at load factor {load_factor}"
                " holds fewer than 2 keys"
            )
        self.clear()

    def clear(self) -> None:
        """Forget every key."""
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    @property
    def size(self) -> int:
        """How many keys it holds."""
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no further key may be put."""
        return self.size >= self.usable_slots

    def put(self, key: Buffer, offset: int) -> None:
        """Remember ``offset`` as the last of ``key``; raises ValueError where the map is full."""
        hash_bytes = key_hash(key)
        if self.size >= self.slots and hash_bytes not in self._offsets:
            raise ValueError(f"the key map is full: {self.size} of {self.slots} slots are taken")
        self._offsets[hash_bytes] = offset
        self.latest_offset = offset

    def get(self, key: Buffer) -> int:
        """The last offset of ``key``, -1 where it is not known."""
        return self._offsets.get(key_hash(key), -1)


@dataclass(slots=True)
class _Judgement:
    """The decision of pass two about the records of one batch."""

    staying: list[tuple[FieldPositions, int]]  # with their timestamps
    total: int = 0
    invalid: int = 0
    keeps_tombstones: bool = False

    def base_timestamp(self, header: BatchHeader, horizon_ms: int) -> int:
        """KEEP-7, KEEP-11: a horizon that was set never moves."""
        if header.attributes & _DELETE_HORIZON:
            return header.base_timestamp
        if self.keeps_tombstones:
            return horizon_ms
        return self.staying[0][1] if self.staying else -1

    def max_timestamp(self, header: BatchHeader) -> int:
        """KEEP-7: of the records that stay, or the broker's stamp."""
        if header.attributes & _LOG_APPEND_TIME:
            return header.max_timestamp
        return max((timestamp for _, timestamp in self.staying), default=-1)


def frame_batches(
    data: Buffer, position: int, next_offset: int, end_offset: int
) -> tuple[int, int, int]:
    """How far a chunk holds whole batches of format 2 whose offsets ascend."""
    view = memoryview(data)
    while len(view) - position >= HEADER_BYTES:
        size, header = _whole_batch(view, position)
        if (
            size < 0
            or header.magic != 2
            or header.base_offset < next_offset
            or header.last_offset_delta < 0
            or header.last_offset >= end_offset
        ):
            return position, _WALK_CORRUPT, next_offset
        if size == 0:
            break
        next_offset = header.next_offset
        position += size
    return position, _WALK_END, next_offset


def map_batches(
    keys: SkimpyOffsetMap, data: Buffer, position: int, start_offset: int
) -> tuple[int, int]:
    """Pass one over the plain batches of a chunk."""
    view = memoryview(data)
    while len(view) - position >= HEADER_BYTES:
        size, header = _whole_batch(view, position)
        if size <= 0:
            return position, _WALK_CORRUPT if size < 0 else _WALK_END
        if header.attributes & _NOT_PLAIN or header.magic != 2:
            return position, _WALK_SPECIAL
        batch = view[position : position + size]
        if not _is_sound(batch, header):
            return position, _WALK_CORRUPT
        why = map_records(keys, batch[HEADER_BYTES:], header, start_offset)
        if why != _WALK_END:
            return position, why
        position += size
    return position, _WALK_END


def map_records(keys: SkimpyOffsetMap, area: Buffer, header: BatchHeader, start_offset: int) -> int:
    """Pass one over the decompressed records of one batch."""
    data = bytes(area)
    if not _holds(header, len(data)):
        return _WALK_CORRUPT
    if header.base_offset + header.last_offset_delta >= start_offset:
        position, last_delta = 0, -1
        for _ in range(header.record_count):
            try:
                record = parse_record(data, position, len(data))
            except MalformedError:
                return _WALK_CORRUPT
            if not last_delta < record.offset_delta <= header.last_offset_delta:
                return _WALK_CORRUPT
            last_delta = record.offset_delta
            position = record.end
            offset = header.base_offset + record.offset_delta
            if record.key_length < 0 or offset < start_offset:
                continue
            if keys.is_full:
                return _WALK_FULL
            keys.put(data[record.key : record.key + record.key_length], offset)
        if position != len(data):
            return _WALK_CORRUPT
    keys.latest_offset = max(keys.latest_offset, header.base_offset + header.last_offset_delta)
    return _WALK_END


def filter_records(
    keys: SkimpyOffsetMap, area: Buffer, header: BatchHeader, now_ms: int, horizon_ms: int
) -> FilteredRecords | None:
    """Pass two over the decompressed records of one batch."""
    data = bytes(area)
    if not _holds(header, len(data)):
        return None
    judged = _judge(keys, data, header, now_ms)
    if judged is None:
        return None
    had_horizon = bool(header.attributes & _DELETE_HORIZON)
    has_horizon = had_horizon or judged.keeps_tombstones
    kept = len(judged.staying)
    if kept == judged.total and has_horizon == had_horizon:
        return (
            kept,
            judged.total,
            judged.invalid,
            has_horizon,
            header.base_timestamp,
            header.max_timestamp,
            None,
        )
    base_timestamp = judged.base_timestamp(header, horizon_ms)
    return (
        kept,
        judged.total,
        judged.invalid,
        has_horizon,
        base_timestamp,
        judged.max_timestamp(header),
        bytes(_rebuild(data, judged, base_timestamp)),
    )


def filter_batches(
    keys: SkimpyOffsetMap,
    data: Buffer,
    position: int,
    out: bytearray | memoryview,
    written: int,
    *,
    now_ms: int,
    horizon_ms: int,
    protected_offsets: "array[int]",
) -> tuple[int, int, int, int, int, int]:
    """Pass two over the plain batches of a chunk."""
    view = memoryview(data)
    total = kept = invalid = 0
    why = _WALK_END
    while len(view) - position >= HEADER_BYTES:
        size, header = _whole_batch(view, position)
        if size <= 0:
            why = _WALK_CORRUPT if size < 0 else _WALK_END
            break
        if header.attributes & _NOT_PLAIN or header.magic != 2 or header.record_count == 0:
            why = _WALK_SPECIAL
            break
        batch = view[position : position + size]
        if not _holds(header, size - HEADER_BYTES) or not _is_sound(batch, header):
            why = _WALK_CORRUPT
            break
        if len(out) - written < size + header.record_count * _RECORD_GROWTH_BYTES:
            why = _WALK_NO_SPACE
            break
        judged = _judge(keys, bytes(batch[HEADER_BYTES:]), header, now_ms)
        if judged is None:
            why = _WALK_CORRUPT
            break
        if not judged.staying and header.last_offset in protected_offsets:
            why = _WALK_SPECIAL
            break
        total += judged.total
        kept += len(judged.staying)
        invalid += judged.invalid
        result = _kept_batch(batch, header, judged, horizon_ms) if judged.staying else b""
        out[written : written + len(result)] = result
        written += len(result)
        position += size
    return position, written, why, total, kept, invalid


def index_batches(
    data: Buffer,
    end: int,
    file_position: int,
    interval_bytes: int,
    *,
    bytes_since_entry: int,
    max_timestamp: int,
    offset_of_max_timestamp: int,
) -> tuple[list[tuple[int, int, int, int]], int, int, int, int, int]:
    """Entries of the sparse indexes of a segment for a chunk of whole batches (IDX-1, TIX-1)."""
    view = memoryview(data)[:end]
    entries: list[tuple[int, int, int, int]] = []
    position = 0
    first_offset = last_offset = -1
    while end - position >= HEADER_BYTES:
        size, header = _whole_batch(view, position)
        if size <= 0:
            raise ValueError(f"no whole batch at byte {position} of {end}")
        last_offset = header.base_offset + header.last_offset_delta
        if position == 0:
            first_offset = header.base_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp = header.max_timestamp
            offset_of_max_timestamp = last_offset
        if bytes_since_entry > interval_bytes:
            entries.append(
                (last_offset, file_position + position, max_timestamp, offset_of_max_timestamp)
            )
            bytes_since_entry = 0
        bytes_since_entry += size
        position += size
    return (
        entries,
        bytes_since_entry,
        max_timestamp,
        offset_of_max_timestamp,
        first_offset,
        last_offset,
    )


def _whole_batch(view: memoryview, position: int) -> tuple[int, BatchHeader]:
    """The size of the batch: 0 if it reaches beyond the end, -1 if it is no batch."""
    header = read_header(view, position)
    if header.size_bytes < HEADER_BYTES:
        return -1, header
    return (0 if header.size_bytes > len(view) - position else header.size_bytes), header


def _holds(header: BatchHeader, area_bytes: int) -> bool:
    """Whether an area of that size can hold as many records as the batch says."""
    return 0 <= header.record_count <= area_bytes // _RECORD_BYTES_MIN


def _is_sound(batch: memoryview, header: BatchHeader) -> bool:
    return header.crc == crc32c(batch[21:])


def _judge(
    keys: SkimpyOffsetMap, data: bytes, header: BatchHeader, now_ms: int
) -> _Judgement | None:
    """Decide on each record (KEEP-2..4, KEEP-11); None if the records are broken."""
    judged = _Judgement([])
    horizon_reached = bool(header.attributes & _DELETE_HORIZON and now_ms >= header.base_timestamp)
    position, last_delta = 0, -1
    for _ in range(header.record_count):
        try:
            record = parse_record(data, position, len(data))
        except MalformedError:
            return None
        if not last_delta < record.offset_delta <= header.last_offset_delta:
            return None
        last_delta = record.offset_delta
        position = record.end
        judged.total += 1
        offset = header.base_offset + record.offset_delta
        if offset <= keys.latest_offset:
            if record.key_length < 0:
                judged.invalid += 1
                continue
            if keys.get(data[record.key : record.key + record.key_length]) > offset:
                continue
            if record.value_length < 0:
                if horizon_reached:
                    continue
                judged.keeps_tombstones = True
        timestamp = (
            header.max_timestamp
            if header.attributes & _LOG_APPEND_TIME
            else wrap_int64(header.base_timestamp + record.timestamp_delta)
        )
        judged.staying.append((record, timestamp))
    return judged if position == len(data) else None


def _rebuild(data: bytes, judged: _Judgement, base_timestamp: int) -> bytearray:
    """The records that stay with their timestamps relative to a new base."""
    out = bytearray()
    for record, timestamp in judged.staying:
        delta = wrap_int64(timestamp - base_timestamp)
        tail = data[record.tail : record.end]
        append_varint(out, 1 + varint_bytes(delta) + varint_bytes(record.offset_delta) + len(tail))
        out.append(data[record.body])
        append_varint(out, delta)
        append_varint(out, record.offset_delta)
        out += tail
    return out


def _kept_batch(
    batch: memoryview, header: BatchHeader, judged: _Judgement, horizon_ms: int
) -> bytearray:
    """The batch as it stays: byte for byte, or rebuilt (KEEP-5..7)."""
    has_horizon = bool(header.attributes & _DELETE_HORIZON)
    if len(judged.staying) == judged.total and (has_horizon or not judged.keeps_tombstones):
        return bytearray(batch)
    base_timestamp = judged.base_timestamp(header, horizon_ms)
    out = bytearray(batch[:HEADER_BYTES])
    out += _rebuild(bytes(batch[HEADER_BYTES:]), judged, base_timestamp)
    attributes = header.attributes | (_DELETE_HORIZON if judged.keeps_tombstones else 0)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">h", out, 21, attributes)
    struct.pack_into(">qq", out, 27, base_timestamp, judged.max_timestamp(header))
    struct.pack_into(">i", out, 57, len(judged.staying))
    struct.pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    return out
