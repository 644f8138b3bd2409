"""Batches that are wrong in one way, and those that only look wrong."""

import gzip
from collections.abc import Callable

import pytest

from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records import (
    RecordBatch,
    build_batch,
    inspect_batch,
    kernel,
    patch_timestamps,
)
from seglog.protocol.types import TimestampType
from support.batches import (
    VECTORS,
    T,
    batch_of_area,
    client_batch,
    concatenate,
    record_fields,
    with_header,
    with_wrong_checksum,
)

CORRUPT = ErrorCode.CORRUPT_MESSAGE
INVALID = ErrorCode.INVALID_RECORD
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


def refusal(view: memoryview, **options: object) -> RecordError:
    with pytest.raises(RecordError) as caught:
        inspect_batch(view, **options)  # type: ignore[arg-type]  # checked by the callee
    return caught.value


def area_of(count: int, offset_deltas: list[int] | None = None) -> bytes:
    return bytes(kernel.encode_records(record_fields(count), 0, offset_deltas)[0])


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_refused(codec: Codec) -> None:
    view = client_batch(5, codec=codec, step_ms=-10)
    before = bytes(view)
    inspection = inspect_batch(
        view, require_keys=True, timestamp_bounds_ms=(T - 40, T), require_zero_base_offset=True
    )
    assert view == before
    assert inspection.header == RecordBatch(view).header
    assert (inspection.codec, inspection.record_count) == (codec, 5)
    assert (inspection.max_timestamp_ms, inspection.offset_of_max_timestamp_delta) == (T, 0)
    assert bytes(inspection.area) == bytes(RecordBatch(view).records_area())
    assert not inspection.needs_rebuild
    assert not inspection.has_wrong_max_timestamp


BAD_BATCHES: dict[str, tuple[Callable[[], memoryview], set[ErrorCode]]] = {
    "checksum off by one": (lambda: with_wrong_checksum(client_batch()), {CORRUPT}),
    "magic 0": (
        lambda: with_header(client_batch(), magic=0),
        {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    ),
    "magic 1": (
        lambda: with_header(client_batch(), magic=1),
        {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT},
    ),
    "magic 3": (lambda: with_header(client_batch(), magic=3), {CORRUPT}),
    "5 records announced, 4 there": (
        lambda: batch_of_area(area_of(4), 5),
        {INVALID},
    ),
    "3 records announced, 4 there": (lambda: batch_of_area(area_of(4), 3), {INVALID}),
    "last offset delta too small": (
        lambda: with_header(client_batch(3), last_offset_delta=1),
        {INVALID},
    ),
    "last offset delta too large": (
        lambda: with_header(client_batch(3), last_offset_delta=3),
        {INVALID},
    ),
    "last offset delta negative": (
        lambda: with_header(client_batch(3), last_offset_delta=-1),
        {INVALID},
    ),
    "record count negative": (lambda: with_header(client_batch(3), record_count=-1), {INVALID}),
    "two batches": (lambda: concatenate([client_batch(), client_batch()]), {INVALID}),
    "length too long": (
        lambda: with_header(client_batch(), batch_length=len(client_batch()) - 11),
        {CORRUPT},
    ),
    "length too short": (
        lambda: with_header(client_batch(), batch_length=len(client_batch()) - 13),
        {CORRUPT, INVALID},
    ),
    "cut in the header": (lambda: client_batch()[:60], {CORRUPT}),
    "nothing": (lambda: client_batch()[:0], {CORRUPT}),
    "no records": (lambda: client_batch(0), {INVALID}),
    "no records, but an offset": (
        lambda: with_header(client_batch(0), last_offset_delta=0),
        {INVALID},
    ),
    "transactional without producer": (
        lambda: memoryview(build_batch(record_fields(1), is_transactional=True)),
        {INVALID},
    ),
    "producer without sequence": (
        lambda: memoryview(build_batch(record_fields(1), producer_id=5, producer_epoch=0)),
        {INVALID},
    ),
    "control batch": (lambda: memoryview(bytearray(VECTORS["commit marker"])), {INVALID}),
    "compressed control batch": (
        lambda: memoryview(build_batch(record_fields(1), is_control=True, codec=Codec.GZIP)),
        {INVALID},
    ),
    "stamped by the client as by the broker": (
        lambda: memoryview(
            build_batch(
                record_fields(1),
                timestamp_type=TimestampType.LOG_APPEND_TIME,
                log_append_time_ms=-1,
            )
        ),
        {ErrorCode.INVALID_TIMESTAMP},
    ),
    "codec 5": (
        lambda: with_header(client_batch(), attributes=5),
        {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE},
    ),
    "codec 7": (
        lambda: with_header(client_batch(), attributes=7),
        {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE},
    ),
    "bytes behind the last record": (lambda: batch_of_area(area_of(2) + b"\0", 2), {INVALID}),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_taken(name: str) -> None:
    """C041, APP-3, APP-9, APP-10, APP-11, TS-3, TS-4."""
    build, codes = BAD_BATCHES[name]
    assert refusal(build()).code in codes


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("count", [3, 5])
def test_a_wrong_count_hides_behind_compression(codec: Codec, count: int) -> None:
    assert refusal(batch_of_area(area_of(4), count, codec=codec)).code is INVALID


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_payload_that_is_not_compressed_is_taken(codec: Codec) -> None:
    """C040, with the code of Kafka, which no client takes for damage on the way."""
    code = refusal(batch_of_area(area_of(4), 4, attributes=codec)).code
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_stream_may_inflate_without_end(codec: Codec) -> None:
    view = memoryview(build_batch([(T, None, bytes(50_000), ())], codec=codec))
    inspect_batch(view, max_decompressed_bytes=60_000)
    error = refusal(view, max_decompressed_bytes=40_000)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_value_that_is_gzip_itself_is_touched() -> None:
    """C040: gzip in gzip is the business of whoever wrote it."""
    value = gzip.compress(b"inner")
    view = memoryview(build_batch([(T, None, value, ())], codec=Codec.GZIP))
    assert inspect_batch(view).record_count == 1
    assert RecordBatch(view).records()[0].value == value


MALFORMED_RECORDS = {
    "length beyond the end": bytes([2 * 7, 0, 0, 0, 1, 1, 0]),
    "length shorter than the fields": bytes([2 * 5, 0, 0, 0, 1, 1, 0]),
    "length longer than the fields": bytes([2 * 7, 0, 0, 0, 1, 1, 0, 0]),
    "length negative": bytes([1, 0, 0, 0, 1, 1, 0]),
    "length of six bytes": bytes([0x8C, 0x80, 0x80, 0x80, 0x80, 0, 0, 0, 0, 1, 1, 0]),
    "timestamp of eleven bytes": bytes([2 * 16, 0, *[0x80] * 10, 0, 0, 1, 1, 0]),
    "key length -2": bytes([2 * 6, 0, 0, 0, 3, 1, 0]),
    "key beyond the record": bytes([2 * 6, 0, 0, 0, 4, 1, 0]) + b"x",
    "value length -2": bytes([2 * 6, 0, 0, 0, 1, 3, 0]),
    "value beyond the record": bytes([2 * 6, 0, 0, 0, 1, 8, 0]) + b"xxxx",
    "header count -1": bytes([2 * 6, 0, 0, 0, 1, 1, 1]),
    "header count of two thousand millions": bytes(
        [2 * 10, 0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F]
    ),
    "header without key": bytes([2 * 8, 0, 0, 0, 1, 1, 2, 1, 0]),
    "header value length -2": bytes([2 * 8, 0, 0, 0, 1, 1, 2, 0, 3]),
    "header beyond the record": bytes([2 * 8, 0, 0, 0, 1, 1, 2, 8, 0]) + b"xxxx",
    "header count too small": bytes([2 * 10, 0, 0, 0, 1, 1, 2, 0, 1, 0, 1]),
}


@pytest.mark.parametrize("name", MALFORMED_RECORDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_malformed_record_is_taken(name: str, codec: Codec) -> None:
    """The second of three records is wrong, and the error says so."""
    first, _, last = (area_of(count)[len(area_of(count - 1)) :] for count in (1, 2, 3))
    area = first + MALFORMED_RECORDS[name] + last
    error = refusal(batch_of_area(area, 3, codec=codec))
    assert error.code is INVALID
    assert [index for index, _ in error.record_errors] in ([1], [])
    assert "1" in error.message


def test_records_without_key_are_taken_by_a_compacted_topic() -> None:
    """C018, APP-14: the batch is refused as a whole, naming each bad record."""
    records = [(T, b"a", b"1", ()), (T, None, b"2", ()), (T, b"b", b"3", ()), (T, None, None, ())]
    view = memoryview(build_batch(records, codec=Codec.SNAPPY))
    error = refusal(view, require_keys=True)
    assert error.code is INVALID
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert "key" in error.message
    assert inspect_batch(view).record_count == 4


def test_an_empty_key_is_no_key() -> None:
    assert inspect_batch(memoryview(build_batch([(T, b"", b"v", ())])), require_keys=True)


@pytest.mark.parametrize(
    ("delta", "is_legal"), [(-101, False), (-100, True), (50, True), (51, False)]
)
def test_a_timestamp_on_the_limit_is_refused(delta: int, is_legal: bool) -> None:
    """TS-1."""
    records = [(T, b"k", b"v", ()), (T + delta, b"k", b"v", ())]
    view = memoryview(build_batch(records))
    if is_legal:
        inspect_batch(view, timestamp_bounds_ms=(T - 100, T + 50))
        return
    error = refusal(view, timestamp_bounds_ms=(T - 100, T + 50))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_a_record_without_timestamp_is_out_of_range() -> None:
    """TS-2, TS-9."""
    view = memoryview(build_batch([(-1, b"k", b"v", ())] * 3))
    inspection = inspect_batch(view, timestamp_bounds_ms=(T, T))
    assert inspection.max_timestamp_ms == -1
    assert not inspection.has_wrong_max_timestamp


def test_bounds_beyond_int64_overflow() -> None:
    """TS-7: ``before.max.ms`` is 2**63 - 1 by default, so the lower bound may be anything."""
    inspect_batch(client_batch(), timestamp_bounds_ms=(T - 2**64, T + 2**64))


def test_the_worse_of_two_errors_is_hidden() -> None:
    """APP-15: one bad timestamp makes it INVALID_TIMESTAMP; all records at fault are named."""
    records = [(T, None, b"v", ()), (T + 9, b"k", b"v", ()), (T + 9, None, b"v", ())]
    error = refusal(memoryview(build_batch(records)), require_keys=True, timestamp_bounds_ms=(T, T))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1, 2, 2]


def test_millions_of_bad_records_are_listed() -> None:
    records = [(T, None, None, ())] * 5000
    error = refusal(memoryview(build_batch(records, codec=Codec.ZSTD)), require_keys=True)
    assert [index for index, _ in error.record_errors] == list(range(1000))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("claimed", [-1, 0, T - 5, T + 10**9])
def test_a_wrong_max_timestamp_is_believed(codec: Codec, claimed: int) -> None:
    """C006, TS-5: the true maximum is reported, and patching it in makes the batch whole."""
    view = with_header(client_batch(3, codec=codec), max_timestamp=claimed)
    inspection = inspect_batch(view)
    assert inspection.has_wrong_max_timestamp
    assert (inspection.max_timestamp_ms, inspection.offset_of_max_timestamp_delta) == (T + 2, 2)
    patch_timestamps(view, TimestampType.CREATE_TIME, inspection.max_timestamp_ms)
    assert not inspect_batch(view).has_wrong_max_timestamp
    assert view == client_batch(3, codec=codec)


@pytest.mark.parametrize("deltas", [[0, 2, 1], [0, 0, 0], [1, 2, 3], [-1, 0, 2], [5, 6, 2]])
def test_odd_offsets_are_refused_instead_of_reported(deltas: list[int]) -> None:
    """APP-19: a reason to build the batch anew."""
    assert inspect_batch(batch_of_area(area_of(3, deltas), 3)).needs_rebuild
    assert inspect_batch(batch_of_area(area_of(3, deltas), 3, codec=Codec.LZ4)).needs_rebuild


def test_a_base_offset_of_the_client_is_checked_where_it_should_not() -> None:
    """APP-4 holds for clients only; the log says where."""
    view = with_header(client_batch(), base_offset=7)
    inspect_batch(view)
    assert refusal(view, require_zero_base_offset=True).code is INVALID


@pytest.mark.parametrize("name", VECTORS)
def test_what_a_leader_sends_is_refused(name: str) -> None:
    """Followers and coordinators write markers, emptied batches and those with holes."""
    view = memoryview(bytearray(VECTORS[name]))
    inspection = inspect_batch(view, from_client=False)
    assert not inspection.has_wrong_max_timestamp
    assert refusal(with_wrong_checksum(view), from_client=False).code is CORRUPT


def test_a_stamped_batch_is_inspected_by_the_time_of_the_client() -> None:
    view = memoryview(
        build_batch(
            record_fields(2),
            offset_deltas=[3, 4],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            log_append_time_ms=T + 500,
        )
    )
    inspection = inspect_batch(view, from_client=False)
    assert (inspection.max_timestamp_ms, inspection.offset_of_max_timestamp_delta) == (T + 500, 3)
    assert not inspection.has_wrong_max_timestamp


def test_more_records_than_offsets_are_taken_from_a_leader() -> None:
    view = with_header(batch_of_area(area_of(3), 3), last_offset_delta=1)
    assert refusal(view, from_client=False).code is INVALID
