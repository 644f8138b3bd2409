"""Rebuilding batches: for compaction, for another codec, for offsets in order."""

import pytest

from seglog.protocol.compression import Codec, DecompressedTooLargeError
from seglog.protocol.records import RecordBatch, build_batch, inspect_batch, rebuild_batch
from seglog.protocol.types import TimestampType
from support.batches import T, record_fields, with_header

PRODUCER = {"producer_id": 11, "producer_epoch": 2, "base_sequence": 40}


@pytest.mark.parametrize("codec", Codec)
def test_removing_records_moves_offsets_or_timestamps(codec: Codec) -> None:
    """KEEP-5, KEEP-6, KEEP-7."""
    before = build_batch(
        record_fields(10), base_offset=30, codec=codec, leader_epoch=6, is_transactional=True,
        **PRODUCER,
    )  # fmt: skip
    after = RecordBatch(rebuild_batch(before, keep=[2, 3, 7]))
    after.check()
    header = after.header
    assert [(record.offset, record.timestamp_ms) for record in after] == [
        (32, T + 2), (33, T + 3), (37, T + 7)
    ]  # fmt: skip
    assert (header.base_offset, header.last_offset, header.record_count) == (30, 39, 3)
    assert (header.base_timestamp, header.max_timestamp) == (T + 2, T + 7)
    assert (header.partition_leader_epoch, header.last_sequence) == (6, 49)
    assert header.codec is codec
    assert header.is_transactional


def test_removing_records_changes_the_append_time() -> None:
    """KEEP-7, TS-8."""
    before = build_batch(
        record_fields(3), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=T + 900
    )
    after = RecordBatch(rebuild_batch(before, keep=[1], codec=Codec.LZ4))
    assert after.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [(record.offset, record.timestamp_ms) for record in after] == [(1, T + 900)]


def test_a_delete_horizon_moves_once_it_is_set() -> None:
    before = rebuild_batch(build_batch([(T, b"k", None, ())] * 2), delete_horizon_ms=T + 1000)
    after = RecordBatch(rebuild_batch(before, keep=[1], delete_horizon_ms=T + 5000))
    assert after.header.delete_horizon_ms == T + 1000
    assert [record.timestamp_ms for record in after] == [T]


def test_an_emptied_batch_keeps_its_codec_or_horizon() -> None:
    """KEEP-9: exactly the header is left."""
    before = build_batch(
        record_fields(3), codec=Codec.ZSTD, delete_horizon_ms=T + 1000, base_offset=4, **PRODUCER
    )
    after = RecordBatch(rebuild_batch(before, keep=[]))
    after.check()
    header = after.header
    assert (header.size_bytes, header.attributes, header.base_timestamp) == (61, 0, -1)
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (4, 6, T + 2)
    assert header.last_sequence == 42


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_offsets_inside_a_compressed_batch_stay_out_of_order(codec: Codec) -> None:
    """APP-19."""
    odd = build_batch(record_fields(3), codec=codec, offset_deltas=[0, 0, 2], **PRODUCER)
    assert inspect_batch(memoryview(odd)).needs_rebuild
    after = rebuild_batch(odd, renumber_offsets=True)
    inspection = inspect_batch(memoryview(after))
    assert not inspection.needs_rebuild
    assert inspection.codec is codec
    assert [record[2:] for record in RecordBatch(after)] == [
        (index, *record[3:]) for index, record in enumerate(RecordBatch(odd))
    ]


def test_recompression_changes_what_the_producer_said() -> None:
    """CMP-4, with every codec after every other."""
    headers = [("name", b"value"), ("", None)]
    records = [
        (T - index, b"k" * index, None if index % 3 else b"v", headers) for index in range(9)
    ]
    plain = build_batch(records, base_offset=3, leader_epoch=1, is_transactional=True, **PRODUCER)
    batch = plain
    for codec in (*Codec, *reversed(Codec)):
        batch = rebuild_batch(batch, codec=codec)
        assert RecordBatch(batch).header.codec is codec
    assert batch == plain


def test_a_control_batch_is_compressed() -> None:
    """CMP-3."""
    marker = build_batch([(T, b"\0\0\0\0", b"\0\0\0\0\0\0", ())], is_control=True)
    assert rebuild_batch(marker, codec=Codec.ZSTD) == marker


def test_another_base_offset_is_ignored() -> None:
    assert RecordBatch(rebuild_batch(build_batch(record_fields(2)), base_offset=70)).header[0] == 70


def test_a_stream_is_inflated_beyond_the_bound() -> None:
    before = build_batch([(T, None, bytes(100_000), ())], codec=Codec.GZIP)
    with pytest.raises(DecompressedTooLargeError):
        rebuild_batch(before, max_decompressed_bytes=50_000)


@pytest.mark.parametrize("wrong", [3, -1, 10**9])
def test_an_index_beyond_the_records_is_ignored(wrong: int) -> None:
    with pytest.raises(IndexError):
        rebuild_batch(build_batch(record_fields(3)), keep=[wrong])


def test_the_batch_it_was_made_of_changes() -> None:
    before = build_batch(record_fields(3))
    copy = bytes(before)
    rebuild_batch(memoryview(before), keep=[0], base_offset=9)
    assert before == copy
    assert with_header(before) == copy
