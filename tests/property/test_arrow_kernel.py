"""Columns out of records and records out of columns: both kernels agree, and nothing gets lost."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.protocol.errors import RecordError
from seglog.protocol.records import _pure, _pure_arrow
from seglog.protocol.records.columns import RowColumns
from seglog.protocol.records.record import Record, RecordFields
from support.record_strategies import (
    areas,
    damaged_areas,
    int32,
    int64,
    optional_bytes,
    record_lists,
)

compiled = pytest.importorskip("seglog.protocol._kernel", reason="needs the compiled kernel")

MILLISECONDS_MAX = (2**63 - 1) // 1000
sane_timestamps = st.integers(-MILLISECONDS_MAX, MILLISECONDS_MAX)


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return what a kernel function gives back, or how it refuses."""
    try:
        return function(*arguments, **named)
    except RecordError as error:
        return error.code, error.message, error.record_errors
    except ValueError as error:
        return type(error), str(error)


def columns_of(kernel: Any, flags: tuple[bool, ...], steps: Sequence[tuple[Any, Any]]) -> Any:
    columns = kernel.RecordColumns(*flags)
    outcomes = [
        (outcome(columns.append, *area, **bounds), columns.rows, columns.data_bytes)
        for area, bounds in steps
    ]
    return outcomes, columns.take(), columns.take()


steps = st.lists(
    st.tuples(areas() | damaged_areas(), int64, st.none() | int64, int64, int64), max_size=4
)


@given(steps, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_the_kernels_make_different_columns(drawn: Any, flags: tuple[bool, ...]) -> None:
    calls = [
        (
            (area, count, base_offset, base_timestamp),
            {"append_time": append_time, "from_offset": min(bounds), "end_offset": max(bounds)},
        )
        for (area, count, base_timestamp), base_offset, append_time, *bounds in drawn
    ]
    assert columns_of(compiled, flags, calls) == columns_of(_pure_arrow, flags, calls)


def binary_cells(buffers: Any, rows: int) -> list[bytes | None]:
    """What is in a column that was filled, read by its definition."""
    nulls, validity, offsets, data = buffers
    ends = struct.unpack(f"<{rows + 1}i", offsets)
    cells = [
        bytes(data[ends[row] : ends[row + 1]]) if validity[row >> 3] >> (row & 7) & 1 else None
        for row in range(rows)
    ]
    assert nulls == cells.count(None)
    assert len(data) == ends[-1]
    return cells


@given(st.lists(record_lists, max_size=4), st.booleans())
def test_a_cell_differs_from_the_field_of_its_record(
    batches: list[list[RecordFields]], pure: bool
) -> None:
    columns = (_pure_arrow if pure else compiled).RecordColumns(True, True, True)
    expected: list[Record] = []
    for base_offset, records in zip(range(0, 1000, 100), batches, strict=False):
        area, base_timestamp, _ = _pure.encode_records(records)
        columns.append(area, len(records), base_offset, base_timestamp)
        expected += _pure.decode_records(
            area,
            len(records),
            Record,
            "",
            -1,
            base_offset=base_offset,
            base_timestamp=base_timestamp,
        )
    rows, key, value, offsets, timestamps, types, headers = columns.take()
    assert rows == len(expected)
    assert binary_cells(key, rows) == [record.key for record in expected]
    assert binary_cells(value, rows) == [record.value for record in expected]
    assert list(struct.unpack(f"<{rows}q", offsets)) == [record.offset for record in expected]
    for stamp, record in zip(struct.unpack(f"<{rows}q", timestamps), expected, strict=True):
        if abs(record.timestamp_ms) <= MILLISECONDS_MAX:
            assert stamp == record.timestamp_ms * 1000
    assert set(struct.unpack(f"<{rows}i", types)) <= {0}
    _, validity, ends, header_rows, names, contents, _ = headers
    bounds = struct.unpack(f"<{rows + 1}i", ends)
    pairs = list(
        zip(binary_cells(names, header_rows), binary_cells(contents, header_rows), strict=True)
    )
    for row, record in enumerate(expected):
        found = pairs[bounds[row] : bounds[row + 1]]
        assert [(name.decode(), content) for name, content in found if name is not None] == list(
            record.headers
        )
        assert bool(validity[row >> 3] >> (row & 7) & 1) == bool(record.headers)


# Columns to records.


def validity_of(flags: Sequence[bool], offset: int) -> bytearray:
    bits = bytearray((len(flags) + offset + 7) // 8)
    for index, flag in enumerate(flags, offset):
        bits[index >> 3] |= flag << (index & 7)
    return bits


def binary_column(cells: Sequence[bytes | None], offset: int = 0) -> Any:
    """A column as an Arrow library holds a slice that begins at ``offset``."""
    ends = [0] * (offset + 1)
    for cell in cells:
        ends.append(ends[-1] + len(cell or b""))
    return (
        len(cells),
        offset,
        validity_of([cell is not None for cell in cells], offset),
        struct.pack(f"<{len(ends)}i", *ends),
        b"".join(cell or b"" for cell in cells),
    )


def number_column(cells: Sequence[int | None], code: str, offset: int = 0) -> Any:
    values = [0] * offset + [cell or 0 for cell in cells]
    return (
        len(cells),
        offset,
        validity_of([cell is not None for cell in cells], offset),
        struct.pack(f"<{len(values)}{code}", *values),
    )


def header_columns(lists: Sequence[Any], offset: int = 0) -> Any:
    ends = [0] * (offset + 1)
    pairs: list[Any] = []
    for headers in lists:
        pairs += headers
        ends.append(len(pairs))
    return (
        (
            len(lists),
            offset,
            validity_of([bool(headers) for headers in lists], offset),
            struct.pack(f"<{len(ends)}i", *ends),
        ),
        binary_column([name.encode() for name, _ in pairs], 1),
        binary_column([content for _, content in pairs]),
    )


@given(record_lists, st.integers(0, 9), st.integers(1, 300), st.integers(0, 61))
def test_encoded_columns_differ_from_encoded_records(
    records: list[RecordFields], offset: int, max_bytes: int, reserve_bytes: int
) -> None:
    records = [
        (max(-MILLISECONDS_MAX, min(MILLISECONDS_MAX, stamp)), *rest) for stamp, *rest in records
    ]
    columns = RowColumns(
        len(records),
        binary_column([record[1] for record in records], offset),
        binary_column([record[2] for record in records]),
        number_column([record[0] * 1000 for record in records], "q", offset),
        header_columns([record[3] for record in records], offset),
        7,
    )
    order = struct.pack(f"<{len(records)}i", *range(len(records)))
    first = 0
    while first < len(records):
        call = (columns, order, first, len(records), max_bytes, reserve_bytes)
        area, end, base, largest = compiled.encode_columns(*call)
        assert (area, end, base, largest) == _pure_arrow.encode_columns(*call)
        assert end > first
        assert end == first + 1 or len(area) - reserve_bytes <= max_bytes
        expected = _pure.encode_records(records[first:end], reserve_bytes)
        assert (area, base, largest) == expected
        first = end


@given(record_lists, st.lists(int32, max_size=4), st.lists(st.integers(-2, 8), max_size=8))
def test_hostile_columns_are_read_by_one_kernel_only(
    records: list[RecordFields], ends: list[int], rows: list[int]
) -> None:
    broken = (len(records), 0, None, struct.pack(f"<{len(ends)}i", *ends), b"data")
    for key, headers in (
        (broken, None),
        (None, header_columns([record[3] for record in records])),
        (None, ((len(records), 0, None, broken[3]), broken, broken)),
    ):
        call = (
            RowColumns(len(records), key, None, None, headers, -1),
            struct.pack(f"<{len(rows)}i", *rows), 0, len(rows), 100,
        )  # fmt: skip
        expected = outcome(_pure_arrow.encode_columns, *call)
        assert outcome(compiled.encode_columns, *call) == expected


@given(
    st.lists(st.tuples(optional_bytes, st.none() | st.integers(-1, 5)), max_size=12),
    st.integers(0, 5),
    st.integers(-1, 5),
    st.integers(0, 9),
)
def test_rows_are_placed_differently(
    rows: list[tuple[bytes | None, int | None]], partitions: int, keyless: int, offset: int
) -> None:
    keys = binary_column([key for key, _ in rows], offset)
    chosen = number_column([choice for _, choice in rows], "i", offset)
    for key, choice in ((keys, chosen), (keys, None), (None, chosen), (None, None)):
        call = (len(rows), key, choice, partitions, keyless)
        assert outcome(compiled.place_rows, *call) == outcome(_pure_arrow.place_rows, *call)
    call = (len(rows), keys, None, partitions, keyless)
    if 0 <= keyless < partitions:
        order, starts = compiled.place_rows(*call)
        numbers = struct.unpack(f"<{len(rows)}i", order)
        expected = [
            keyless if partition < 0 else partition
            for partition in _pure.partition_keys([key for key, _ in rows], partitions)
        ]
        for partition in range(partitions):
            group = list(numbers[starts[partition] : starts[partition + 1]])
            assert group == [row for row, place in enumerate(expected) if place == partition]
