"""The kernels of the record format in plain Python: twins of the compiled ones.

Same names, arguments, results and errors as ``_kernel_records.pxi``, ``_kernel_areas.pxi`` and
``_kernel_partitioning.pxi``; they run where no compiler was at hand, and the property tests hold
the two against each other. ``data`` is always the (decompressed) records area of one batch, and
nothing else. A structure that is not sound raises RecordError(INVALID_RECORD).
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from seglog.protocol.records._pure_fields import (
    FieldPositions,
    MalformedError,
    append_varint,
    check_count,
    parse_record,
    read_sized,
    wrap_int64,
)
from seglog.protocol.records.faults import RecordFault, malformed_records, records_too_large
from seglog.protocol.records.record import Headers, RecordFields
from seglog.protocol.types import INT32_MAX, INT64_MAX, Buffer

RecordT = TypeVar("RecordT", bound=tuple[object, ...])

INT64_MIN: Final = -(2**63)
_RECORD_OVERHEAD_BYTES_MAX: Final = 36
_RECORD_FIELD_COUNT: Final = 7


def _as_bytes(data: Buffer) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data))


def _walk(area: bytes, record_count: int, *, to_end: bool = True) -> Iterator[FieldPositions]:
    """Yield ``record_count`` records; with ``to_end`` they must fill the area exactly."""
    position = 0
    for index in range(record_count):
        try:
            fields = parse_record(area, position, len(area))
        except MalformedError as error:
            raise malformed_records(error.fault, index) from None
        position = fields.end
        yield fields
    if to_end and position != len(area):
        raise malformed_records(RecordFault.BYTES_LEFT, record_count)


def _check_int(value: int, lowest: int, highest: int) -> int:
    value = operator.index(value)  # refuses what would have to be cut off, as a float
    if not lowest <= value <= highest:
        raise OverflowError(f"{value} is not in the range {lowest} to {highest}")
    return value


def _append_sized(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)
        return
    content = _as_bytes(data)
    append_varint(out, len(content))
    out += content


def _encode_headers(headers: Headers) -> tuple[int, bytearray]:
    out = bytearray()
    count = 0
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        _append_sized(out, name.encode())
        _append_sized(out, value)
        count += 1
    return count, out


def _encode_body(timestamp_delta: int, offset_delta: int, record: RecordFields) -> bytearray:
    _, key, value, headers = record
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_sized(body, key)
    _append_sized(body, value)
    header_count, header_bytes = _encode_headers(headers)
    append_varint(body, header_count)
    body += header_bytes
    return body


def encode_records(
    records: Iterable[RecordFields],
    reserve_bytes: int = 0,
    offset_deltas: Sequence[int] | None = None,
    base_timestamp: int | None = None,
) -> tuple[bytearray, int, int]:
    """Encode ``(timestamp_ms, key, value, headers)`` tuples behind ``reserve_bytes`` zeros.

    Timestamps are stored relative to ``base_timestamp``, by default that of the first record, and
    offsets as 0, 1, 2, ... unless ``offset_deltas`` names them.

    Returns:
        The bytes, the base timestamp and the largest timestamp (-1 and -1 without records).

    Raises:
        RecordError: MESSAGE_TOO_LARGE where no batch could hold them.
    """
    items = tuple(records)
    if offset_deltas is not None and len(offset_deltas) != len(items):
        raise ValueError(f"{len(offset_deltas)} offset deltas for {len(items)} records")
    if base_timestamp is not None:
        base = _check_int(base_timestamp, INT64_MIN, INT64_MAX)
    else:
        base = _check_int(items[0][0], INT64_MIN, INT64_MAX) if items else -1
    out = bytearray(reserve_bytes)
    largest = -1
    for index, item in enumerate(items):
        if len(item) != 4:
            raise ValueError(f"record {index} has {len(item)} fields instead of 4")
        timestamp = _check_int(item[0], INT64_MIN, INT64_MAX)
        delta = index
        if offset_deltas is not None:
            delta = _check_int(offset_deltas[index], -(2**31), INT32_MAX)
        body = _encode_body(wrap_int64(timestamp - base), delta, item)
        if len(out) + len(body) + _RECORD_OVERHEAD_BYTES_MAX > INT32_MAX:
            raise records_too_large()
        append_varint(out, len(body))
        out += body
        if index == 0 or timestamp > largest:
            largest = timestamp
    return out, base, largest


def _decode_headers(area: bytes, fields: FieldPositions) -> tuple[tuple[str, bytes | None], ...]:
    headers = []
    position = fields.headers
    for _ in range(fields.header_count):
        _, start, position = read_sized(area, position, fields.end, 0, RecordFault.BAD_HEADER_KEY)
        name = area[start:position].decode(errors="replace")
        length, start, position = read_sized(
            area, position, fields.end, -1, RecordFault.BAD_HEADER_VALUE
        )
        headers.append((name, None if length < 0 else area[start:position]))
    return tuple(headers)


def decode_records(
    data: Buffer,
    record_count: int,
    record_type: type[RecordT],
    topic: str,
    partition: int,
    *,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
    from_offset: int = INT64_MIN,
) -> list[RecordT]:
    """Decode a records area into ``record_type`` tuples (see ``records.record.Record``).

    Every record is stamped ``append_time`` if that is given; those below ``from_offset`` are left
    out. A header key that is not UTF-8 is read as Java reads it, with replacement characters.
    """
    if len(getattr(record_type, "_fields", ())) != _RECORD_FIELD_COUNT:
        raise TypeError(f"{record_type} is not a named tuple of {_RECORD_FIELD_COUNT} fields")
    area = _as_bytes(data)
    check_count(record_count, len(area))
    out = []
    for fields in _walk(area, record_count):
        offset = wrap_int64(base_offset + fields.offset_delta)
        if offset < from_offset:
            continue
        timestamp = append_time
        if timestamp is None:
            timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
        key = value = None
        if fields.key_length >= 0:
            key = area[fields.key : fields.key + fields.key_length]
        if fields.value_length >= 0:
            value = area[fields.value : fields.value + fields.value_length]
        headers = _decode_headers(area, fields) if fields.header_count else ()
        record = (topic, partition, offset, timestamp, key, value, headers)
        out.append(tuple.__new__(record_type, record))
    return out


def scan_records(
    data: Buffer,
    record_count: int,
    base_timestamp: int,
    require_keys: bool = False,
    earliest_timestamp: int = INT64_MIN,
    latest_timestamp: int = INT64_MAX,
    *,
    offenders_max: int = 1000,
) -> tuple[int, int, int, bool, tuple[int, ...], tuple[int, ...]]:
    """Check the structure of a records area and sum it up.

    A timestamp of -1 (none) is never out of bounds; both bounds are legal themselves.

    Returns:
        The largest timestamp, the offset delta of the first record that carries it, the offset
        delta of the last record (-1 each without records), whether the offset deltas are
        0, 1, 2, ..., the indexes of records without key (only with ``require_keys``) and of those
        stamped before ``earliest_timestamp`` or after ``latest_timestamp``; of each kind the first
        ``offenders_max``, since a small stream may inflate to millions of them.
    """
    area = _as_bytes(data)
    check_count(record_count, len(area))
    largest = delta_of_largest = last_delta = -1
    consecutive = True
    null_keys: list[int] = []
    bad_timestamps: list[int] = []
    for index, fields in enumerate(_walk(area, record_count)):
        timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
        last_delta = fields.offset_delta
        if index == 0 or timestamp > largest:
            largest, delta_of_largest = timestamp, last_delta
        is_legal = timestamp == -1 or earliest_timestamp <= timestamp <= latest_timestamp
        if not is_legal and len(bad_timestamps) < offenders_max:
            bad_timestamps.append(index)
        if last_delta != index:
            consecutive = False
        if require_keys and fields.key_length < 0 and len(null_keys) < offenders_max:
            null_keys.append(index)
    return (
        largest, delta_of_largest, last_delta, consecutive, tuple(null_keys), tuple(bad_timestamps)
    )  # fmt: skip


def find_timestamp(
    data: Buffer,
    record_count: int,
    base_timestamp: int,
    target: int,
    from_delta: int = INT64_MIN,
) -> tuple[int, int] | None:
    """Find the first record stamped ``target`` or later whose offset delta reaches ``from_delta``.

    Returns:
        Its offset delta and timestamp, or None. The records behind it are not read.
    """
    area = _as_bytes(data)
    check_count(record_count, len(area))
    for fields in _walk(area, record_count, to_end=False):
        timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
        if timestamp >= target and fields.offset_delta >= from_delta:
            return fields.offset_delta, timestamp
    return None


def greatest_timestamp(
    data: Buffer, record_count: int, base_timestamp: int, from_delta: int = INT64_MIN
) -> int | None:
    """The greatest timestamp of the records whose offset delta reaches ``from_delta``, or None."""
    area = _as_bytes(data)
    check_count(record_count, len(area))
    return max(
        (
            wrap_int64(base_timestamp + fields.timestamp_delta)
            for fields in _walk(area, record_count, to_end=False)
            if fields.offset_delta >= from_delta
        ),
        default=None,
    )


def rewrite_records(
    data: Buffer,
    record_count: int,
    base_timestamp: int,
    new_base_timestamp: int | None = None,
    keep_mask: Buffer | None = None,
    *,
    renumber: bool = False,
    reserve_bytes: int = 0,
) -> tuple[bytearray, int, int, int]:
    """Copy records to a new area behind ``reserve_bytes`` zeros.

    Absolute timestamps, keys, values and headers stay byte for byte. The new base timestamp is by
    default that of the first record kept. Offset deltas stay, or become 0, 1, 2, ... with
    ``renumber``. ``keep_mask`` has one byte a record, 0 for those to leave out.

    Returns:
        The bytes, how many records they hold, their base timestamp and the largest timestamp
        (-1 and -1 without records, unless a base was given).
    """
    area = _as_bytes(data)
    mask = None if keep_mask is None else _as_bytes(keep_mask)
    if mask is not None and len(mask) != record_count:
        raise ValueError(f"a mask of {len(mask)} bytes for {record_count} records")
    check_count(record_count, len(area))
    base = -1 if new_base_timestamp is None else new_base_timestamp
    out = bytearray(reserve_bytes)
    kept = 0
    largest = -1
    for index, fields in enumerate(_walk(area, record_count)):
        if mask is not None and not mask[index]:
            continue
        timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
        if kept == 0 and new_base_timestamp is None:
            base = timestamp
        if kept == 0 or timestamp > largest:
            largest = timestamp
        body = bytearray(area[fields.body : fields.body + 1])
        append_varint(body, wrap_int64(timestamp - base))
        append_varint(body, kept if renumber else fields.offset_delta)
        body += area[fields.tail : fields.end]
        append_varint(out, len(body))
        out += body
        kept += 1
    if len(out) > INT32_MAX:
        raise records_too_large()
    return out, kept, base, largest


def murmur2(key: Buffer) -> int:
    """Hash a key as Kafka's producers do, to a signed int32.

    MurmurHash2 by Austin Appleby (public domain), 32 bits, seed 0x9747B28C.
    """
    data = _as_bytes(key)
    multiplier = 0x5BD1E995
    digest = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * multiplier & 0xFFFFFFFF
        word = (word ^ word >> 24) * multiplier & 0xFFFFFFFF
        digest = digest * multiplier & 0xFFFFFFFF ^ word
    if whole != len(data):
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * multiplier & 0xFFFFFFFF
    digest = (digest ^ digest >> 13) * multiplier & 0xFFFFFFFF
    digest ^= digest >> 15
    return digest - 2**32 if digest >= 2**31 else digest


def partition_keys(keys: Iterable[Buffer | None], partition_count: int) -> list[int]:
    """Name the partition of each key as Kafka's default partitioner does, -1 for None."""
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    return [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partition_count for key in keys]
