"""Whatever is written is read back, by every path that writes batches."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.protocol.compression import Codec, compress, decompress
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records import (
    RecordBatch,
    build_batch,
    estimate_size,
    find_timestamp,
    inspect_batch,
    rebuild_batch,
)
from support.examples import examples
from support.record_strategies import record_lists

codecs = st.sampled_from(list(Codec))
REFUSALS = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE}


def refusal_of(codec: Codec, stream: bytes) -> ErrorCode | None:
    try:
        decompress(codec, stream, 100_000)
    except RecordError as error:
        return error.code
    return None


def fields_of(batch: RecordBatch) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in batch.records()]


@given(record_lists, codecs, st.integers(0, 2**40))
def test_records_change_between_writing_and_reading(
    records: list[Any], codec: Codec, base_offset: int
) -> None:
    built = build_batch(records, codec=codec, base_offset=base_offset)
    batch = RecordBatch(built)
    batch.check()
    assert fields_of(batch) == [
        (base_offset + index, *record) for index, record in enumerate(records)
    ]
    if codec is Codec.NONE:
        assert len(built) <= estimate_size(records)


@given(record_lists.filter(bool), codecs, codecs, st.data())
def test_rebuilding_changes_what_is_kept(
    records: list[Any], codec: Codec, new_codec: Codec, data: st.DataObject
) -> None:
    keep = data.draw(st.lists(st.integers(0, len(records) - 1), unique=True).map(sorted))
    horizon = data.draw(st.none() | st.integers(0, 2**42))
    built = build_batch(
        records, codec=codec, base_offset=7, leader_epoch=3, producer_id=5, producer_epoch=1,
        base_sequence=9, is_transactional=True,
    )  # fmt: skip
    rebuilt = RecordBatch(
        rebuild_batch(built, keep=keep, codec=new_codec, delete_horizon_ms=horizon)
    )
    rebuilt.check()
    before, after = RecordBatch(built), rebuilt
    assert fields_of(after) == [fields_of(before)[index] for index in keep]
    for name in (
        "base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch",
        "base_sequence", "last_sequence", "is_transactional", "timestamp_type",
    ):  # fmt: skip
        assert getattr(after.header, name) == getattr(before.header, name)
    if keep:
        assert after.header.delete_horizon_ms == horizon
        assert after.header.codec is new_codec
        assert after.header.max_timestamp == max(records[index][0] for index in keep)


@given(record_lists.filter(bool), codecs, st.integers(-(2**62), 2**62))
def test_search_by_time_misses_a_record(records: list[Any], codec: Codec, target: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=100)
    stamps = [record[0] for record in records]
    hits = [(100 + index, stamp) for index, stamp in enumerate(stamps) if stamp >= target]
    assert find_timestamp(batch, target) == (hits[0] if hits else None)
    first_greatest = 100 + stamps.index(max(stamps))
    assert find_timestamp(batch, max(stamps)) == (first_greatest, max(stamps))
    inspection = inspect_batch(memoryview(batch))
    assert inspection.max_timestamp_ms == max(stamps)
    assert not inspection.has_wrong_max_timestamp


@given(st.binary(max_size=3000), st.integers(1, 40), codecs)
def test_compression_changes_bytes(data: bytes, repeat: int, codec: Codec) -> None:
    data *= repeat
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data


@given(st.binary(min_size=1, max_size=300), codecs.filter(bool), st.data())
@settings(max_examples=examples(300))
def test_damaged_streams_raise_something_else(
    content: bytes, codec: Codec, data: st.DataObject
) -> None:
    stream = bytearray(compress(codec, content * 50))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    del stream[data.draw(st.integers(0, len(stream))) :]
    assert refusal_of(codec, bytes(stream)) in {None, *REFUSALS}


@given(st.binary(max_size=200), codecs.filter(bool))
@settings(max_examples=examples(300))
def test_noise_raises_something_else(noise: bytes, codec: Codec) -> None:
    assert refusal_of(codec, noise) in {None, *REFUSALS}


@given(st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_a_header_of_noise_raises_something_else(noise: bytes) -> None:
    try:
        inspect_batch(memoryview(noise), from_client=False)
    except RecordError:
        return
    raise AssertionError(f"accepted {noise!r}")
