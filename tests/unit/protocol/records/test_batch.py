"""Headers, walking over batches, patching them in place."""

import pytest

from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records import (
    HEADER_BYTES,
    RecordBatch,
    build_batch,
    iter_batches,
    patch_offsets,
    patch_timestamps,
    read_header,
)
from seglog.protocol.types import TimestampType
from support.batches import T, batch_of_area, client_batch, concatenate, record_fields, with_header

LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


def test_properties_of_a_header_are_read_from_the_wrong_bits() -> None:
    batch = build_batch(
        record_fields(4),
        base_offset=100,
        codec=Codec.ZSTD,
        producer_id=9,
        producer_epoch=1,
        base_sequence=2**31 - 2,
        is_transactional=True,
        timestamp_type=LOG_APPEND_TIME,
        log_append_time_ms=T + 77,
        delete_horizon_ms=T + 5,
    )
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 103, 104)
    assert header.codec is Codec.ZSTD
    assert header.timestamp_type is LOG_APPEND_TIME
    assert header.append_time_ms == header.max_timestamp == T + 77
    assert header.is_transactional
    assert not header.is_control
    assert header.has_producer
    assert header.delete_horizon_ms == T + 5
    assert header.attributes == 4 | 8 | 16 | 64


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(7, 2, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2147483637, 20, 9), (-1, 4, -1)],
)
def test_sequences_do_not_wrap_at_the_end_of_int32(base: int, delta: int, last: int) -> None:
    """IDEM-5, IDEM-16."""
    batch = with_header(client_batch(), base_sequence=base, last_offset_delta=delta)
    assert read_header(batch).last_sequence == last


def test_records_stamped_by_the_broker_keep_the_time_of_the_client() -> None:
    batch = build_batch(
        record_fields(3), timestamp_type=LOG_APPEND_TIME, log_append_time_ms=T + 1000
    )
    assert {record.timestamp_ms for record in RecordBatch(batch)} == {T + 1000}


def test_records_below_the_wanted_offset_are_decoded() -> None:
    """READ-3: a batch that holds the wanted offset may start before it."""
    batch = RecordBatch(build_batch(record_fields(10), base_offset=50, codec=Codec.LZ4))
    assert [record.offset for record in batch.records("t", 1, 57)] == [57, 58, 59]


def test_a_header_key_that_is_no_text_stops_the_reader() -> None:
    """Java reads replacement characters; the bytes on disk are left as they are."""
    record = bytes([2 * 9, 0, 0, 0, 1, 1, 2, 2, 0xFF, 1])
    [decoded] = RecordBatch(batch_of_area(record, 1))
    assert decoded.headers == (("\ufffd", None),)


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (-1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_another_format_is_read_as_format_2(magic: int, code: ErrorCode) -> None:
    view = with_header(client_batch(), magic=magic)
    for read in (RecordBatch, lambda buffer: list(iter_batches(buffer))):
        with pytest.raises(RecordError) as caught:
            read(view)
        assert caught.value.code is code


@pytest.mark.parametrize("length", [0, 60])
def test_a_buffer_too_short_for_a_header_is_read_beyond(length: int) -> None:
    short = client_batch()[:length]
    for read in (RecordBatch, read_header):
        with pytest.raises(RecordError) as caught:
            read(short)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("batch_length", [-1, 48, 2**31 - 1])
def test_a_length_that_cannot_be_is_believed(batch_length: int) -> None:
    view = with_header(client_batch(), batch_length=batch_length)
    with pytest.raises(RecordError) as caught:
        RecordBatch(view)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_what_follows_a_batch_belongs_to_it() -> None:
    first = client_batch(2)
    batch = RecordBatch(concatenate([first, client_batch(3)]))
    assert batch.view == first
    batch.check()


def test_walking_misses_a_batch() -> None:
    batches = [client_batch(count, codec=Codec(count % 5)) for count in range(1, 8)]
    walked = list(iter_batches(b"ahead" + concatenate(batches), 5))
    assert [batch.view for batch in walked] == batches


@pytest.mark.parametrize("kept", [0, 1, 11, 16, 17, 60, 61, -1])
def test_a_torn_tail_is_an_error(kept: int) -> None:
    whole, torn = client_batch(5), client_batch(5)[:kept]
    assert [batch.view for batch in iter_batches(concatenate([whole, torn]))] == [whole]


@pytest.mark.parametrize("batch_length", [-(2**31), -1, 0, 13])
def test_walking_goes_on_after_a_length_that_cannot_be(batch_length: int) -> None:
    good = client_batch()
    bad = with_header(good, batch_length=batch_length)
    walk = iter_batches(concatenate([good, bad]))
    assert next(walk).view == good
    with pytest.raises(RecordError) as caught:
        next(walk)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_smaller_than_its_header_is_walked_over() -> None:
    bad = with_header(client_batch(), batch_length=48)
    with pytest.raises(RecordError):
        list(iter_batches(bad))


def test_a_flipped_bit_goes_unnoticed() -> None:
    """APP-3: every bit from the attributes on, and those of the checksum itself."""
    good = client_batch()
    for position in range(17, len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x10
        batch = RecordBatch(damaged)
        with pytest.raises(RecordError) as caught:
            batch.check()
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_assigning_offsets_breaks_the_checksum() -> None:
    view = client_batch(3)
    before = bytes(view)
    patch_offsets(view, 2**40, 17)
    batch = RecordBatch(view)
    batch.check()
    assert [record.offset for record in batch] == [2**40, 2**40 + 1, 2**40 + 2]
    assert batch.header.partition_leader_epoch == 17
    assert (view[8:12], view[16:]) == (before[8:12], before[16:])


def test_stamping_by_the_broker_leaves_a_wrong_checksum() -> None:
    """TS-4."""
    view = client_batch(codec=Codec.GZIP)
    assert patch_timestamps(view, LOG_APPEND_TIME, T + 5000)
    batch = RecordBatch(view)
    batch.check()
    assert batch.header.codec is Codec.GZIP
    assert {record.timestamp_ms for record in batch} == {T + 5000}


def test_a_right_max_timestamp_costs_a_checksum() -> None:
    """APP-18, TS-5: nothing is touched, not even a checksum that happens to be wrong."""
    view = client_batch(3)
    view[17] ^= 1
    before = bytes(view)
    assert not patch_timestamps(view, TimestampType.CREATE_TIME, T + 2)
    assert view == before


def test_a_batch_without_records_has_to_have_a_stream() -> None:
    view = with_header(client_batch(0), attributes=int(Codec.ZSTD))
    assert len(view) == HEADER_BYTES
    assert RecordBatch(view).records() == []


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_read(number: int) -> None:
    with pytest.raises(RecordError) as caught:
        RecordBatch(with_header(client_batch(), attributes=number)).records()
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
