"""The fields of one record and their variable-length integers in plain Python.

Twin of ``protocol/_kernel_varint.pxi``; only the Python twins of the kernels use it.
"""

from typing import Final, NamedTuple

from seglog.protocol.limits import MIN_RECORD_BYTES
from seglog.protocol.records.faults import RecordFault, malformed_records

_MIN_RECORD_BODY_BYTES: Final = MIN_RECORD_BYTES - 1


class MalformedError(Exception):
    """A fault found while parsing; the public functions add which record it was."""

    def __init__(self, fault: RecordFault) -> None:
        super().__init__(fault)
        self.fault = fault


class FieldPositions(NamedTuple):
    """Where the fields of one record lie in the area; a length of -1 means null."""

    body: int
    tail: int
    key: int
    value: int
    headers: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_length: int
    value_length: int
    header_count: int


def check_count(record_count: int, area_bytes: int) -> None:
    """Refuse a count before any record is read that the bytes of the area cannot hold."""
    if record_count < 0:
        raise malformed_records(RecordFault.NEGATIVE_COUNT, record_count)
    if record_count > area_bytes // MIN_RECORD_BYTES:
        raise malformed_records(RecordFault.COUNT_TOO_LARGE, record_count)


def wrap_int64(value: int) -> int:
    """Overflow as Java's long arithmetic does."""
    return (value + 2**63) % 2**64 - 2**63


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def varint_bytes(value: int) -> int:
    return max(1, (_zigzag(value).bit_length() + 6) // 7)


def append_varint(out: bytearray, value: int) -> None:
    rest = _zigzag(value)
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)


def read_varint(area: bytes, position: int, end: int, bits: int) -> tuple[int, int]:
    """Return a zig-zag varint of at most ``bits`` bits and the position behind it."""
    encoded = shift = 0
    while True:
        if position >= end:
            raise MalformedError(RecordFault.TRUNCATED)
        group = area[position]
        position += 1
        if shift + 7 > bits and group >> (bits - shift):
            raise MalformedError(RecordFault.VARINT_TOO_LONG)
        encoded |= (group & 127) << shift
        if group < 128:
            return (encoded >> 1) ^ -(encoded & 1), position
        shift += 7


def read_sized(
    area: bytes, position: int, end: int, lowest: int, fault: RecordFault
) -> tuple[int, int, int]:
    """Return the length of a field, where its bytes start, and where they end."""
    length, position = read_varint(area, position, end, 32)
    if length < lowest:
        raise MalformedError(fault)
    if length > end - position:
        raise MalformedError(RecordFault.TRUNCATED)
    return length, position, position + max(length, 0)


def _skip_headers(area: bytes, position: int, end: int, count: int) -> None:
    for _ in range(count):
        _, _, position = read_sized(area, position, end, 0, RecordFault.BAD_HEADER_KEY)
        _, _, position = read_sized(area, position, end, -1, RecordFault.BAD_HEADER_VALUE)
    if position != end:
        raise MalformedError(RecordFault.LENGTH_MISMATCH)


def parse_record(area: bytes, position: int, end: int) -> FieldPositions:
    """Check the whole record that starts at ``position`` and note where its fields lie."""
    if position >= end:
        raise MalformedError(RecordFault.MISSING_RECORDS)
    length, body = read_varint(area, position, end, 32)
    if length < _MIN_RECORD_BODY_BYTES:
        raise MalformedError(RecordFault.BAD_LENGTH)
    if length > end - body:
        raise MalformedError(RecordFault.TRUNCATED)
    end = body + length
    timestamp_delta, position = read_varint(area, body + 1, end, 64)
    offset_delta, tail = read_varint(area, position, end, 32)
    key_length, key, position = read_sized(area, tail, end, -1, RecordFault.BAD_KEY_LENGTH)
    value_length, value, position = read_sized(
        area, position, end, -1, RecordFault.BAD_VALUE_LENGTH
    )
    header_count, headers = read_varint(area, position, end, 32)
    if header_count < 0 or header_count > end - headers:
        raise MalformedError(RecordFault.BAD_HEADER_COUNT)
    _skip_headers(area, headers, end, header_count)
    return FieldPositions(
        body, tail, key, value, headers, end,
        timestamp_delta, offset_delta, key_length, value_length, header_count,
    )  # fmt: skip
