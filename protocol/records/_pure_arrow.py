"""Records as columns in Arrow's layout, and back, in plain Python.

Twins of ``protocol/_kernel_arrow_*.pxi``; the property tests hold the two against each other. No
Arrow library is needed for it: columns are plain buffers, little-endian, with a bit for each row
that is not null and, where cells vary in length, int32 offsets into their data.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from seglog.protocol.records._pure import murmur2
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
from seglog.protocol.types import INT32_MAX, INT64_MAX, Buffer

BinaryBuffers = tuple[int, bytearray, bytearray, bytearray]
"""Nulls, validity, offsets and data of a column that was filled."""
HeaderBuffers = tuple[int, bytearray, bytearray, int, BinaryBuffers, BinaryBuffers, bool]
"""Nulls, validity, offsets, header rows, their keys, their values, whether a key is not ASCII."""
ColumnBuffers = tuple[
    int,
    BinaryBuffers | None,
    BinaryBuffers | None,
    bytearray,
    bytearray,
    bytearray,
    HeaderBuffers | None,
]
"""Rows, keys, values, offsets, timestamps (microseconds), timestamp types, headers."""
BinaryColumn = tuple[int, int, Buffer | None, Buffer | None, Buffer | None]
"""Rows, offset, validity, offsets and data of a column from an Arrow library."""
NumberColumn = tuple[int, int, Buffer | None, Buffer | None]
"""Rows, offset, validity and values of one."""
HeaderColumns = tuple[NumberColumn, BinaryColumn, BinaryColumn]
"""The lists (rows, offset, validity, offsets) and the keys and values that they point to."""


class RowColumns(NamedTuple):
    """Columns to make records of; a missing column is None, its cells are null.

    Attributes:
        rows: how many there are.
        timestamps: microseconds.
        default_timestamp: milliseconds, for rows without a timestamp.
    """

    rows: int
    key: BinaryColumn | None
    value: BinaryColumn | None
    timestamps: NumberColumn | None
    headers: HeaderColumns | None
    default_timestamp: int


INT64_MIN: Final = -(2**63)
_MICROSECONDS_MAX: Final = INT64_MAX // 1000


def _bits(flags: Sequence[bool]) -> bytearray:
    bits = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        if flag:
            bits[index >> 3] |= 1 << (index & 7)
    return bits


def _to_microseconds(milliseconds: int) -> int:
    if milliseconds > _MICROSECONDS_MAX:
        return INT64_MAX
    return INT64_MIN if milliseconds < -_MICROSECONDS_MAX else milliseconds * 1000


class _Binary:
    """One variable-length column while it is being filled."""

    def __init__(self) -> None:
        self.cells: list[bytes | None] = []

    def take(self) -> BinaryBuffers:
        ends = [0]
        for cell in self.cells:
            ends.append(ends[-1] + len(cell or b""))
        return (
            sum(cell is None for cell in self.cells),
            _bits([cell is not None for cell in self.cells]),
            bytearray(struct.pack(f"<{len(ends)}i", *ends)),
            bytearray(b"".join(cell or b"" for cell in self.cells)),
        )

    def data_bytes(self) -> int:
        return sum(len(cell or b"") for cell in self.cells)


_Row = tuple[int, int, bool, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]


class RecordColumns:
    """Collects records as columns.

    Args:
        with_key: whether there is a column of keys.
        with_value: and one of values.
        with_headers: and one of headers: lists of pairs, null for a record without any.
    """

    def __init__(
        self, with_key: bool = True, with_value: bool = True, with_headers: bool = False
    ) -> None:
        self._with_key = with_key
        self._with_value = with_value
        self._with_headers = with_headers
        self._rows: list[_Row] = []

    @property
    def rows(self) -> int:
        """How many records were collected."""
        return len(self._rows)

    @property
    def data_bytes(self) -> int:
        """Bytes of keys, values and headers that were collected."""
        total = 0
        for _, _, _, key, value, headers in self._rows:
            total += len(key or b"") + len(value or b"")
            total += sum(len(name) + len(content or b"") for name, content in headers)
        return total

    def append(
        self,
        data: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        *,
        append_time: int | None = None,
        from_offset: int = INT64_MIN,
        end_offset: int = INT64_MAX,
    ) -> int:
        """Add the records of an area whose offsets lie in ``from_offset`` to ``end_offset``.

        Every record is stamped ``append_time`` if that is given. Nothing is added if the area is
        not well formed.

        Returns:
            How many were added.

        Raises:
            RecordError: INVALID_RECORD.
            ValueError: the columns cannot hold so much.
        """
        area = bytes(memoryview(data))
        check_count(record_count, len(area))
        rows_max = self.rows + record_count
        if self.data_bytes + len(area) > INT32_MAX or rows_max > INT32_MAX // 8:
            raise ValueError("the columns are full, take them first")
        added: list[_Row] = []
        position = 0
        for index in range(record_count):
            try:
                fields = parse_record(area, position, len(area))
            except MalformedError as error:
                raise malformed_records(error.fault, index) from None
            position = fields.end
            offset = wrap_int64(base_offset + fields.offset_delta)
            if from_offset <= offset < end_offset:
                stamp = append_time
                if stamp is None:
                    stamp = wrap_int64(base_timestamp + fields.timestamp_delta)
                added.append(self._row(area, fields, offset, stamp, append_time is not None))
        # With headers the compiled twin walks twice and misses records before left bytes.
        if position != len(area):
            raise malformed_records(RecordFault.BYTES_LEFT, record_count)
        self._rows += added
        return len(added)

    def _row(
        self, area: bytes, fields: FieldPositions, offset: int, stamp: int, is_append_time: bool
    ) -> _Row:
        key = value = None
        if self._with_key and fields.key_length >= 0:
            key = area[fields.key : fields.key + fields.key_length]
        if self._with_value and fields.value_length >= 0:
            value = area[fields.value : fields.value + fields.value_length]
        headers = _headers(area, fields) if self._with_headers else []
        return offset, _to_microseconds(stamp), is_append_time, key, value, headers

    def take(self) -> ColumnBuffers:
        """Return the columns and begin anew."""
        rows, self._rows = self._rows, []
        key, value = _Binary(), _Binary()
        key.cells = [row[3] for row in rows]
        value.cells = [row[4] for row in rows]
        return (
            len(rows),
            key.take() if self._with_key else None,
            value.take() if self._with_value else None,
            bytearray(struct.pack(f"<{len(rows)}q", *(row[0] for row in rows))),
            bytearray(struct.pack(f"<{len(rows)}q", *(row[1] for row in rows))),
            bytearray(struct.pack(f"<{len(rows)}i", *(row[2] for row in rows))),
            _header_buffers([row[5] for row in rows]) if self._with_headers else None,
        )


def _headers(area: bytes, fields: FieldPositions) -> list[tuple[bytes, bytes | None]]:
    headers = []
    position = fields.headers
    for _ in range(fields.header_count):
        _, start, position = read_sized(area, position, fields.end, 0, RecordFault.BAD_HEADER_KEY)
        name = area[start:position]
        length, start, position = read_sized(
            area, position, fields.end, -1, RecordFault.BAD_HEADER_VALUE
        )
        headers.append((name, None if length < 0 else area[start:position]))
    return headers


def _header_buffers(lists: list[list[tuple[bytes, bytes | None]]]) -> HeaderBuffers:
    names, contents = _Binary(), _Binary()
    ends = [0]
    for headers in lists:
        names.cells += [name for name, _ in headers]
        contents.cells += [content for _, content in headers]
        ends.append(len(names.cells))
    return (
        sum(not headers for headers in lists),
        _bits([bool(headers) for headers in lists]),
        bytearray(struct.pack(f"<{len(ends)}i", *ends)),
        len(names.cells),
        names.take(),
        contents.take(),
        any(not (name or b"").isascii() for name in names.cells),
    )


# Columns to records.


class _Validity:
    """Which rows of a column are not null."""

    def __init__(self, rows: int, offset: int, validity: Buffer | None) -> None:
        if rows < 0 or offset < 0:
            raise ValueError("a column cannot have a negative length or offset")
        self.offset = offset
        self._bits = None if validity is None else bytes(memoryview(validity))
        if self._bits is not None and 8 * len(self._bits) < offset + rows:
            raise ValueError("the validity of a column is shorter than the column")

    def is_null(self, row: int) -> bool:
        place = self.offset + row
        return self._bits is not None and not self._bits[place >> 3] >> (place & 7) & 1


class _BinarySource:
    """One variable-length column from an Arrow library."""

    def __init__(self, column: BinaryColumn) -> None:
        self.rows, offset, validity, offsets, data = column
        if self.rows < 0 or offset < 0:
            raise ValueError("a column cannot have a negative length or offset")
        self._data = bytes(memoryview(data)) if data is not None else b""
        raw = bytes(memoryview(offsets)) if offsets is not None else b""
        if self.rows and len(raw) < 4 * (offset + self.rows + 1):
            raise ValueError("the offsets of a column are shorter than the column")
        self._offsets = struct.unpack_from(f"<{len(raw) // 4}i", raw)
        self._validity = _Validity(self.rows, offset, validity)

    def cell(self, row: int) -> bytes | None:
        """The cell; raises ``IndexError`` if it lies outside of the data."""
        if self._validity.is_null(row):
            return None
        place = self._validity.offset + row
        begin, end = self._offsets[place], self._offsets[place + 1]
        if not 0 <= begin <= end <= len(self._data):
            raise IndexError(row)
        return self._data[begin:end]


class _NumberSource:
    """One column of numbers from an Arrow library."""

    def __init__(self, column: NumberColumn, code: str) -> None:
        self.rows, offset, validity, values = column
        if self.rows < 0 or offset < 0:
            raise ValueError("a column cannot have a negative length or offset")
        raw = bytes(memoryview(values)) if values is not None else b""
        width = struct.calcsize(f"<{code}")
        if len(raw) < width * (offset + self.rows):
            raise ValueError("the values of a column are shorter than the column")
        self._values = struct.unpack_from(f"<{len(raw) // width}{code}", raw)
        self._validity = _Validity(self.rows, offset, validity)

    def cell(self, row: int) -> int | None:
        if self._validity.is_null(row):
            return None
        return int(self._values[self._validity.offset + row])


def place_rows(
    rows: int,
    key: BinaryColumn | None,
    chosen: NumberColumn | None,
    partition_count: int,
    keyless_partition: int,
) -> tuple[bytearray, list[int]]:
    """Group rows by partition, each group in the order of the rows.

    A row goes where the ``chosen`` column says, else where Kafka's producers put its key, else to
    ``keyless_partition``.

    Returns:
        Row numbers as int32, and for each partition where its group begins among them; behind the
        last one where it ends.

    Raises:
        ValueError: a row asks for a partition that does not exist, or columns that do not fit.
    """
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    if not 0 <= keyless_partition < partition_count:
        raise ValueError(f"there is no partition {keyless_partition} of {partition_count}")
    keys = None if key is None else _BinarySource(key)
    choices = None if chosen is None else _NumberSource(chosen, "i")
    if rows < 0 or (keys is not None and keys.rows != rows):
        raise ValueError("the key column has another length")
    if choices is not None and choices.rows != rows:
        raise ValueError("the partition column has another length")
    groups: list[list[int]] = [[] for _ in range(partition_count)]
    for row in range(rows):
        partition = None if choices is None else choices.cell(row)
        if partition is None:
            partition = _partition_of_key(keys, row, partition_count, keyless_partition)
        elif not 0 <= partition < partition_count:
            raise ValueError(
                f"row {row} asks for partition {partition}, there are {partition_count}"
            )
        groups[partition].append(row)
    order = [row for group in groups for row in group]
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + len(group))
    return bytearray(struct.pack(f"<{len(order)}i", *order)), starts


def _partition_of_key(
    keys: _BinarySource | None, row: int, partition_count: int, keyless_partition: int
) -> int:
    try:
        key = None if keys is None else keys.cell(row)
    except IndexError:
        raise ValueError(f"the key of row {row} lies outside of its column") from None
    if key is None:
        return keyless_partition
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class _RecordSource:
    """The columns of the records that are to be encoded."""

    def __init__(self, columns: RowColumns) -> None:
        rows, key, value, timestamps, headers, default_timestamp = columns
        self.rows = rows
        self._default_timestamp = default_timestamp
        self._key = None if key is None else _BinarySource(key)
        self._value = None if value is None else _BinarySource(value)
        self._timestamps = None if timestamps is None else _NumberSource(timestamps, "q")
        for name, column in (
            ("key", self._key),
            ("value", self._value),
            ("timestamp", self._timestamps),
        ):
            if column is not None and column.rows != rows:
                raise ValueError(f"the {name} column has another length")
        self._lists: _NumberSource | None = None
        if headers is not None:
            (list_rows, list_offset, list_validity, list_offsets), names, contents = headers
            if list_rows != rows:
                raise ValueError("the headers column has another length")
            self._lists = _NumberSource((rows + 1, list_offset, None, list_offsets), "i")
            self._list_validity = _Validity(rows, list_offset, list_validity)
            self._names, self._contents = _BinarySource(names), _BinarySource(contents)

    def timestamp(self, row: int) -> int:
        microseconds = None if self._timestamps is None else self._timestamps.cell(row)
        return self._default_timestamp if microseconds is None else microseconds // 1000

    def body(self, row: int, timestamp_delta: int, offset_delta: int) -> bytearray:
        """The record behind its length; raises ``IndexError`` for cells that do not exist."""
        body = bytearray(1)
        append_varint(body, timestamp_delta)
        append_varint(body, offset_delta)
        _append_sized(body, None if self._key is None else self._key.cell(row))
        _append_sized(body, None if self._value is None else self._value.cell(row))
        headers = self._header_range(row)
        append_varint(body, len(headers))
        for index in headers:
            name = self._names.cell(index)
            if name is None:
                raise IndexError(row)
            _append_sized(body, name)
            _append_sized(body, self._contents.cell(index))
        return body

    def _header_range(self, row: int) -> range:
        if self._lists is None or self._list_validity.is_null(row):
            return range(0)
        first, end = self._lists.cell(row), self._lists.cell(row + 1)
        assert first is not None
        assert end is not None
        if not 0 <= first <= end <= min(self._names.rows, self._contents.rows):
            raise IndexError(row)
        return range(first, end)


def _append_sized(out: bytearray, cell: bytes | None) -> None:
    if cell is None:
        out.append(1)
        return
    append_varint(out, len(cell))
    out += cell


def encode_columns(
    columns: RowColumns,
    order: Buffer,
    first: int,
    end: int,
    max_bytes: int,
    reserve_bytes: int = 0,
) -> tuple[bytearray, int, int, int]:
    """Encode the rows that ``order[first:end]`` names behind ``reserve_bytes`` zeros.

    As many as ``max_bytes`` hold, but one at the least. Timestamps come in microseconds and are
    rounded down to milliseconds; a null one, or no column of them, is ``default_timestamp`` (in
    milliseconds). Offsets are 0, 1, 2, ...

    Returns:
        The bytes, the place in ``order`` behind the last row encoded, the base timestamp and the
        largest timestamp (-1 and -1 without rows).

    Raises:
        RecordError: MESSAGE_TOO_LARGE: a record that no batch can hold.
        ValueError: columns that do not fit, or a header without a key.
    """
    rows = columns.rows
    source = _RecordSource(columns)
    indexes = memoryview(order).cast("B")
    count_max = indexes.nbytes // 4
    if not 0 <= first <= end <= count_max:
        raise ValueError(f"rows {first} to {end} of {count_max}")
    out = bytearray(reserve_bytes)
    base = largest = -1
    for place in range(first, end):
        (row,) = struct.unpack_from("<i", indexes, 4 * place)
        if not 0 <= row < rows:
            raise ValueError(f"there is no row {row} in {rows}")
        stamp = source.timestamp(row)
        if place == first:
            base = largest = stamp
        try:
            body = source.body(row, wrap_int64(stamp - base), place - first)
        except IndexError:
            raise ValueError(
                f"row {row} has a header without a key or lies outside of its column"
            ) from None
        record = bytearray()
        append_varint(record, len(body))
        record += body
        if place > first and len(out) - reserve_bytes + len(record) > max_bytes:
            return out, place, base, largest
        if len(out) + len(record) > INT32_MAX:
            raise records_too_large()
        out += record
        largest = max(largest, stamp)
    return out, end, base, largest
