"""Building batches."""

import pytest

from seglog.protocol.compression import Codec
from seglog.protocol.records import (
    RecordBatch,
    build_batch,
    estimate_record_size,
    estimate_size,
)
from support.batches import T, record_fields


def test_offsets_of_compacted_batches_cannot_be_built() -> None:
    batch = RecordBatch(
        build_batch(record_fields(3), base_offset=10, offset_deltas=[1, 4, 7], last_offset_delta=9)
    )
    assert [record.offset for record in batch] == [11, 14, 17]
    assert batch.header.last_offset == 19
    batch = RecordBatch(build_batch(record_fields(3), offset_deltas=[1, 4, 7]))
    assert batch.header.last_offset == 7


def test_a_batch_without_records_names_a_codec() -> None:
    """Kafka writes no stream for nothing."""
    batch = RecordBatch(build_batch([], codec=Codec.GZIP, last_offset_delta=4))
    assert batch.header.codec is Codec.NONE
    assert batch.header.size_bytes == 61
    assert (batch.header.base_timestamp, batch.header.max_timestamp) == (-1, -1)


@pytest.mark.parametrize("codec", Codec)
def test_views_and_arrays_cannot_be_written(codec: Codec) -> None:
    records = [(T, bytearray(b"key"), memoryview(b"a value")[2:], [("h", bytearray(b"x"))])]
    [record] = RecordBatch(build_batch(records, codec=codec))
    assert record[4:] == (b"key", b"value", (("h", b"x"),))


@pytest.mark.parametrize("wrong", ["text", 5, [1, 2]])
def test_a_value_that_is_no_bytes_is_written(wrong: object) -> None:
    with pytest.raises(TypeError):
        build_batch([(T, b"k", wrong, ())])


def test_one_offset_delta_for_two_records_is_taken() -> None:
    with pytest.raises(ValueError, match="1 offset deltas for 2 records"):
        build_batch(record_fields(2), offset_deltas=[0])


def test_timestamps_wrap_around_instead_of_being_refused() -> None:
    with pytest.raises(OverflowError):
        build_batch([(2**63, None, None, ())])


def test_the_level_is_ignored() -> None:
    records = record_fields(2000, value_bytes=50)
    fast = build_batch(records, codec=Codec.ZSTD, level=-1000)
    thorough = build_batch(records, codec=Codec.ZSTD, level=19)
    assert len(thorough) < len(fast)


def test_an_estimate_is_too_small() -> None:
    headers = [("a header ünï", b"value"), ("another", None)]
    for count in (0, 1, 100):
        records = [
            (T - 2**40 * index, b"k" * index, b"v" * index, headers) for index in range(count)
        ]
        assert len(build_batch(records)) <= estimate_size(records)
    assert estimate_record_size(None, None) == estimate_record_size(b"", b"")
    assert estimate_size(records[:1]) == 61 + estimate_record_size(b"", b"", headers)
