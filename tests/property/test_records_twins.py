"""The compiled kernels and their Python twins give the same results and the same refusals."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.protocol.errors import RecordError
from seglog.protocol.records import Record, _pure
from support.examples import examples
from support.record_strategies import (
    areas,
    damaged_areas,
    int32,
    int64,
    optional_bytes,
    record_lists,
    timestamps,
)

compiled = pytest.importorskip("seglog.protocol._kernel", reason="needs the compiled kernel")


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a kernel function gives back, or how it refuses."""
    try:
        return function(*arguments)
    except RecordError as error:
        return error.code, error.message, error.record_errors
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError) as error:
        return type(error)


def assert_same(name: str, *arguments: Any) -> None:
    expected = outcome(getattr(_pure, name), *arguments)
    assert outcome(getattr(compiled, name), *arguments) == expected


@given(record_lists, st.integers(0, 70), st.none() | int64)
def test_encoding_differs(records: list[Any], reserve_bytes: int, base: int | None) -> None:
    assert_same("encode_records", records, reserve_bytes, None, base)


@given(record_lists, st.lists(int32 | st.integers(-(2**33), 2**33), max_size=6))
def test_encoding_with_offset_deltas_differs(records: list[Any], deltas: list[int]) -> None:
    assert_same("encode_records", records, 0, deltas)


odd_values = st.sampled_from(
    [None, 1, 1.5, "text", b"bytes", bytearray(b"array"), memoryview(b"view"), 2**63, (), [b"x"]]
)
odd_headers = st.sampled_from(
    [(), [], None, 5, [("name", "text")], [(b"name", b"")], [("only one",)], [("\ud800", None)],
     [("ok", bytearray(b"1"))], {"key": 1}]
)  # fmt: skip


@given(st.tuples(odd_values, odd_values, odd_values, odd_headers))
def test_arguments_of_the_wrong_type_are_taken_by_one_of_them(record: tuple[Any, ...]) -> None:
    assert_same("encode_records", [record])


@given(damaged_areas(), int64, st.none() | timestamps, int64)
@settings(max_examples=examples(500))
def test_decoding_differs(
    area: tuple[bytes, int, int], base_offset: int, append_time: int | None, from_offset: int
) -> None:
    data, count, base = area
    assert_same("decode_records", data, count, Record, "t", 3, base_offset, base, append_time)
    assert_same("decode_records", data, count, Record, "t", 3, 10, base, None, from_offset)


@given(damaged_areas(), st.booleans(), timestamps, timestamps, st.integers(0, 3))
@settings(max_examples=examples(500))
def test_checking_differs(
    area: tuple[bytes, int, int], require_keys: bool, earliest: int, latest: int, most: int
) -> None:
    assert_same("scan_records", *area, require_keys, earliest, latest, most)
    assert_same("scan_records", *area)


@given(damaged_areas(), timestamps, int64)
@settings(max_examples=examples(300))
def test_searching_differs(area: tuple[bytes, int, int], target: int, from_delta: int) -> None:
    assert_same("find_timestamp", *area, target)
    assert_same("find_timestamp", *area, target, from_delta)


@given(
    damaged_areas(),
    st.none() | timestamps,
    st.none() | st.binary(max_size=7),
    st.booleans(),
    st.integers(0, 61),
)
@settings(max_examples=examples(500))
def test_rewriting_differs(
    area: tuple[bytes, int, int],
    base: int | None,
    mask: bytes | None,
    renumber: bool,
    reserve_bytes: int,
) -> None:
    assert_same("rewrite_records", *area, base, mask, renumber, reserve_bytes)
    if mask is not None and area[1] >= 0:
        fitting = (mask + bytes(area[1]))[: area[1]]
        assert_same("rewrite_records", *area, base, fitting, renumber, reserve_bytes)


@given(st.lists(optional_bytes, max_size=8), st.integers(-1, 50))
def test_partitioning_differs(keys: list[bytes | None], partition_count: int) -> None:
    assert_same("partition_keys", keys, partition_count)
    for key in keys:
        assert_same("murmur2", key)


@given(areas(), st.integers(0, 40), st.binary(max_size=10))
def test_bytes_outside_of_the_area_are_read(
    area: tuple[bytes, int, int], cut: int, beyond: bytes
) -> None:
    """The same cut area gives the same refusal whatever lies behind it in memory."""
    data, count, base = area
    length = max(0, len(data) - cut)
    alone = outcome(compiled.scan_records, data[:length], count, base)
    inside = memoryview(data[:length] + beyond)[:length]
    assert outcome(compiled.scan_records, inside, count, base) == alone
