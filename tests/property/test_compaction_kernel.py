"""The compiled kernels of compaction against their Python twins and a small model."""

import hashlib
from array import array
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.protocol.records import _pure_compaction as pure
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.compaction import WalkStop
from seglog.protocol.types import TimestampType
from support.examples import examples

kernel = pytest.importorskip("seglog.protocol._kernel", reason="the kernels are not compiled")

NOW_MS = 1_700_000_000_000
HORIZON_MS = NOW_MS + 86_400_000


class Written(NamedTuple):
    """One record of the model."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


keys = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"key-" * 20, b"\0" * 16]))
values = st.one_of(st.none(), st.binary(max_size=40))
records = st.tuples(
    st.integers(NOW_MS - 10_000, NOW_MS), keys, values, st.just((("h", b"x"),)) | st.just(())
)
batches = st.lists(
    st.tuples(
        st.lists(records, min_size=1, max_size=6),
        st.sampled_from([None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),  # delete horizon
        st.booleans(),  # stamped by the broker
        st.integers(0, 3),  # offsets missing in front of the batch
    ),
    min_size=1,
    max_size=6,
)


def build(specification: list) -> tuple[bytes, int]:
    """The bytes of the batches, one behind the other, and the offset behind the last."""
    data = bytearray()
    offset = 0
    for fields, horizon_ms, broker_stamped, gap in specification:
        offset += gap
        data += build_batch(
            fields,
            base_offset=offset,
            delete_horizon_ms=horizon_ms,
            timestamp_type=TimestampType(int(broker_stamped)),
            log_append_time_ms=NOW_MS - 5 if broker_stamped else -1,
        )
        offset += len(fields)
    return bytes(data), offset


def run(
    module,
    data: bytes,
    start_offset: int,
    memory_bytes: int = 2400,
    protected: frozenset[int] = frozenset(),
):
    """Both passes of one implementation."""
    offset_map = module.SkimpyOffsetMap(memory_bytes, 0.9)
    mapped = module.map_batches(offset_map, data, 0, start_offset)
    out = bytearray(2 * len(data) + 4096)
    filtered = module.filter_batches(
        offset_map,
        data,
        0,
        out,
        0,
        now_ms=NOW_MS,
        horizon_ms=HORIZON_MS,
        protected_offsets=array("q", sorted(protected)),
    )
    return mapped, offset_map.size, offset_map.latest_offset, filtered, bytes(out[: filtered[1]])


@given(
    batches,
    st.integers(0, 10),
    st.sampled_from([48 + 24, 120, 2400]),
    st.frozensets(st.integers(0, 20)),
)
def test_the_kernel_and_its_twin_keep_different_records(
    specification: list, start_offset: int, memory_bytes: int, protected: frozenset[int]
) -> None:
    data, _ = build(specification)
    arguments = (data, start_offset, memory_bytes, protected)
    assert run(kernel, *arguments) == run(pure, *arguments)


@given(batches, st.data())
def test_damaged_bytes_crash_the_kernel_or_divide_the_twins(
    specification: list, data_source: st.DataObject
) -> None:
    """The area is read without the checksum in front of it, as after a decompression."""
    data, _ = build(specification)
    damaged = bytearray(data)
    for _ in range(data_source.draw(st.integers(1, 4))):
        damaged[data_source.draw(st.integers(0, len(data) - 1))] = data_source.draw(
            st.integers(0, 255)
        )
    assert run(kernel, bytes(damaged), 0) == run(pure, bytes(damaged), 0)
    header = next(iter(iter_batches(data))).header
    area = bytes(damaged[61 : header.size_bytes])
    for start in (0, 1):
        results = []
        for module in (kernel, pure):
            offset_map = module.SkimpyOffsetMap(2400, 0.9)
            why = module.map_records(offset_map, area, header, start)
            results.append(
                (
                    why,
                    offset_map.size,
                    offset_map.latest_offset,
                    module.filter_records(offset_map, area, header, NOW_MS, HORIZON_MS),
                )
            )
        assert results[0] == results[1]


@settings(max_examples=examples(200))
@given(st.lists(st.lists(records, min_size=1, max_size=5), min_size=1, max_size=6))
def test_a_pass_keeps_a_superseded_record_or_loses_a_live_one(specification: list) -> None:
    """KEEP-2..5 against the last value of each key in a dict."""
    data, end_offset = build([(fields, None, False, 0) for fields in specification])
    written = [
        Written(record.offset, record.timestamp_ms, record.key, record.value)
        for batch in iter_batches(data)
        for record in batch
    ]
    last = {record.key: record.offset for record in written if record.key is not None}
    expected = [record for record in written if last.get(record.key) == record.offset]

    mapped, size, latest, (position, _, why, *_), kept = run(kernel, data, 0)

    assert mapped == (len(data), WalkStop.END)
    assert (size, latest) == (len(last), end_offset - 1)
    assert (position, why) == (len(data), WalkStop.END)
    assert [
        Written(r.offset, r.timestamp_ms, r.key, r.value)
        for batch in iter_batches(kept)
        for r in batch
    ] == expected
    for batch in iter_batches(kept):
        batch.check()
        has_tombstone = any(r.value is None for r in batch)
        assert batch.header.has_delete_horizon == has_tombstone
        if has_tombstone:
            assert batch.header.delete_horizon_ms == HORIZON_MS


def test_an_empty_batch_that_a_producer_needs_vanishes_unasked() -> None:
    """KEEP-9, KEEP-10: the walk stops there, and only there."""
    data = b"".join(
        bytes(build_batch([(NOW_MS, b"k", b"v", ())], base_offset=offset)) for offset in range(4)
    )
    *_, (position, _, why, *_), _ = run(kernel, data, 0, protected=frozenset({1, 3}))
    assert (position, why) == (len(data) // 4, WalkStop.SPECIAL)
    *_, (position, _, why, *_), kept = run(kernel, data, 0)
    assert (position, why) == (len(data), WalkStop.END)
    assert [r.offset for batch in iter_batches(kept) for r in batch] == [3]


@given(st.binary(max_size=300))
def test_two_keys_become_one_because_the_hash_is_not_md5(key: bytes) -> None:
    """CMAP-1: 16 bytes of MD5, also over the 56 and 64 byte borders of its padding."""
    assert kernel.key_hash(key) == hashlib.md5(key, usedforsecurity=False).digest()


@given(st.dictionaries(st.binary(max_size=70), st.integers(0, 2**62), max_size=80))
def test_the_map_forgets_or_confuses_keys_while_it_probes(offsets: dict[bytes, int]) -> None:
    """CMAP-2..4: put, put again and get, in a map that is nearly full."""
    offset_map = kernel.SkimpyOffsetMap(24 * max(3, len(offsets)), 1.0)
    for key in offsets:
        offset_map.put(key, 7)
    for key, offset in offsets.items():
        offset_map.put(key, offset)
    assert offset_map.size == len(offsets)
    assert {key: offset_map.get(key) for key in offsets} == offsets
    assert offset_map.get(b"never put" * 10) == -1
    offset_map.clear()
    assert (offset_map.size, offset_map.latest_offset) == (0, -1)


@pytest.mark.parametrize("module", [kernel, pure])
def test_a_full_map_takes_one_more_key(module) -> None:
    """CMAP-4: a known key may be put again, a new one is an error."""
    offset_map = module.SkimpyOffsetMap(24 * 3, 1.0)
    for number in range(3):
        offset_map.put(b"key-%d" % number, number)
    offset_map.put(b"key-1", 9)
    with pytest.raises(ValueError, match="3 of 3 slots"):
        offset_map.put(b"key-3", 3)
    assert offset_map.get(b"key-3") == -1


@given(batches, st.integers(0, 200), st.integers(0, 300))
def test_the_sparse_index_of_a_cleaned_segment_differs_between_twins(
    specification: list, interval_bytes: int, since: int
) -> None:
    data, _ = build(specification)
    arguments = (data, len(data), 1000, interval_bytes)
    before = {"bytes_since_entry": since, "max_timestamp": -1, "offset_of_max_timestamp": -1}
    assert kernel.index_batches(*arguments, **before) == pure.index_batches(*arguments, **before)
