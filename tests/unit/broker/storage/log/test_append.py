"""What a leader append refuses, and what it changes in a batch before it is stored."""

import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from seglog.broker.storage.log.append import PreparedAppend, prepare_append
from seglog.broker.storage.log.producer_state import AppendOrigin, TransactionMarker
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import RecordBatch, write_checksum
from seglog.protocol.records.builder import RecordFields, build_batch
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import TimestampType

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIG = LogConfig()
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))
STAMPED = LogConfig(message_timestamp_type="LogAppendTime")


def records(count: int = 4, timestamp_ms: int = NOW_MS) -> list[RecordFields]:
    return [
        (timestamp_ms + index, b"key %d" % index, b"value %d" % index, [("h", b"x")])
        for index in range(count)
    ]


def prepare(
    batch: bytes | bytearray,
    config: LogConfig = CONFIG,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> PreparedAppend:
    return prepare_append(memoryview(bytearray(batch)), config, NOW_MS, origin)


def stored(prepared: PreparedAppend) -> RecordBatch:
    assert prepared.view is not None
    batch = RecordBatch(prepared.view)
    batch.check()
    assert batch.header == prepared.header
    return batch


def refusal(
    batch: bytes | bytearray,
    config: LogConfig = CONFIG,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> RecordError:
    with pytest.raises(RecordError) as caught:
        prepare(batch, config, origin)
    return caught.value


def patched(batch: bytearray, position: int, content: bytes, *, checksum: bool = True) -> bytearray:
    changed = bytearray(batch)
    changed[position : position + len(content)] = content
    if checksum:
        with memoryview(changed) as view:
            write_checksum(view)
    return changed


def test_good_batch_is_not_copied_and_not_changed() -> None:
    """APP-18: the very bytes that were received are stored."""
    received = memoryview(build_batch(records(), producer_id=7, producer_epoch=0, base_sequence=0))
    before = bytes(received)
    prepared = prepare_append(received, CONFIG, NOW_MS)
    assert prepared.view is received
    assert bytes(received) == before
    assert prepared.log_append_time_ms == -1


def test_torn_bytes_behind_the_batch_are_left_out() -> None:
    """APP-1."""
    batch = build_batch(records())
    assert stored(prepare(batch + b"\0" * 11)).header.size_bytes == len(batch)
    assert stored(prepare(batch + batch[:-1])).header.size_bytes == len(batch)


@pytest.mark.parametrize("length", [0, 11, 16, 17, 60, 100])
def test_client_append_without_a_whole_batch_is_refused(length: int) -> None:
    """APP-8, C041."""
    batch = build_batch(records(20))[:length]
    assert refusal(batch).code is ErrorCode.INVALID_RECORD
    assert prepare(batch, origin=AppendOrigin.COORDINATOR).view is None


def test_two_batches_in_one_append_are_refused() -> None:
    """APP-8."""
    assert refusal(build_batch(records()) * 2).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("position", "content", "checksum", "code"),
    [
        (17, b"\xff\xff\xff\xff", False, ErrorCode.CORRUPT_MESSAGE),
        (16, b"\x00", False, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (16, b"\x01", False, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (16, b"\x03", False, ErrorCode.CORRUPT_MESSAGE),
        (57, b"\0\0\0\5", True, ErrorCode.INVALID_RECORD),
        (23, b"\0\0\0\2", True, ErrorCode.INVALID_RECORD),
        (23, b"\0\0\0\4", True, ErrorCode.INVALID_RECORD),
        (8, b"\x7f\xff\xff\xff", False, ErrorCode.INVALID_RECORD),
        (8, b"\0\0\0\x40", False, ErrorCode.CORRUPT_MESSAGE),
        (8, b"\0\0\0\0", False, ErrorCode.CORRUPT_MESSAGE),
        (8, b"\xff\xff\xff\xff", False, ErrorCode.CORRUPT_MESSAGE),
        (0, b"\0\0\0\0\0\0\0\1", False, ErrorCode.INVALID_RECORD),
        (21, b"\0\x10", True, ErrorCode.INVALID_RECORD),
        (21, b"\0\x20", True, ErrorCode.INVALID_RECORD),
        (21, b"\0\x08", True, ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=[
        "checksum",
        "magic 0",
        "magic 1",
        "magic 3",
        "more records announced",
        "last offset delta too small",
        "last offset delta too large",
        "length too long",
        "length too short",
        "length zero",
        "length negative",
        "base offset not zero",
        "transactional without producer",
        "control bit",
        "timestamp type of the broker",
    ],
)
def test_bad_batch_is_refused_with_a_fitting_code(
    position: int, content: bytes, checksum: bool, code: ErrorCode
) -> None:
    """C041, APP-3, APP-4, APP-9, APP-10, TS-4."""
    batch = patched(build_batch(records()), position, content, checksum=checksum)
    assert refusal(batch).code is code


def test_batch_without_records_is_refused() -> None:
    """APP-9, C041."""
    assert refusal(build_batch([])).code is ErrorCode.INVALID_RECORD


def test_producer_without_sequence_is_refused() -> None:
    """APP-11."""
    batch = build_batch(records(), producer_id=7, producer_epoch=0, base_sequence=-1)
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


def test_batch_above_the_limits_is_refused_with_the_limit_that_it_breaks() -> None:
    """APP-5, APP-7."""
    batch = build_batch(records())
    exactly = replace(CONFIG, max_message_bytes=len(batch), segment_bytes=len(batch))
    assert prepare(batch, exactly).view is not None
    too_large = refusal(batch, replace(exactly, max_message_bytes=len(batch) - 1))
    assert too_large.code is ErrorCode.MESSAGE_TOO_LARGE
    too_long = refusal(batch, replace(exactly, segment_bytes=len(batch) - 1))
    assert too_long.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_record_without_key_on_a_compacted_topic_names_its_index() -> None:
    """APP-14, C018."""
    fields: Sequence[RecordFields] = [
        (NOW_MS, b"a", b"1", ()),
        (NOW_MS, None, b"2", ()),
        (NOW_MS, b"b", b"3", ()),
    ]
    error = refusal(build_batch(fields), COMPACT)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1]
    assert prepare(build_batch(fields)).view is not None


def test_timestamps_on_the_limits_are_accepted_and_beyond_refused() -> None:
    """TS-1, TS-7."""
    config = replace(CONFIG, message_timestamp_before_max_ms=DAY_MS)
    hour_ms = 3_600_000
    for accepted in (NOW_MS - DAY_MS, NOW_MS + hour_ms, -1):
        assert prepare(build_batch(records(1, accepted)), config).view is not None
    for refused in (NOW_MS - DAY_MS - 1, NOW_MS + hour_ms + 1):
        error = refusal(build_batch(records(1, refused)), config)
        assert error.code is ErrorCode.INVALID_TIMESTAMP
        assert error.record_errors[0][0] == 0


def test_seconds_instead_of_milliseconds_name_every_record() -> None:
    """C002b."""
    config = replace(CONFIG, message_timestamp_before_max_ms=DAY_MS)
    error = refusal(build_batch(records(5, NOW_MS // 1000)), config)
    assert [index for index, _ in error.record_errors] == [0, 1, 2, 3, 4]


def test_broker_stamps_records_of_log_append_time_topics() -> None:
    """TS-4, C002c: whatever the client's clock says."""
    prepared = prepare(build_batch(records(3, 1000)), STAMPED)
    batch = stored(prepared)
    assert prepared.log_append_time_ms == NOW_MS
    assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.header.max_timestamp == NOW_MS
    assert {record.timestamp_ms for record in batch.records()} == {NOW_MS}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("claimed_ms", [-1, 0, NOW_MS + 10**12])
def test_max_timestamp_that_the_client_left_wrong_is_corrected(
    codec: Codec, claimed_ms: int
) -> None:
    """TS-5, C006."""
    batch = build_batch(records(3), codec=codec)
    wrong = patched(batch, 35, claimed_ms.to_bytes(8, "big", signed=True))
    assert stored(prepare(wrong)).header.max_timestamp == NOW_MS + 2


def test_records_without_timestamp_leave_the_maximum_unset() -> None:
    """TS-9."""
    fields: list[RecordFields] = [(-1, b"k", b"v", ())]
    assert stored(prepare(build_batch(fields))).header.max_timestamp == -1


@pytest.mark.parametrize(
    ("wanted", "codec"),
    [
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
    ],
)
@pytest.mark.parametrize("sent", list(Codec))
def test_topic_codec_replaces_the_producers_and_nothing_else(
    wanted: str, codec: Codec, sent: Codec
) -> None:
    """CMP-1, CMP-4, CMP-5."""
    batch = build_batch(
        records(), codec=sent, producer_id=7, producer_epoch=2, base_sequence=5,
        is_transactional=True,
    )  # fmt: skip
    result = stored(prepare(batch, replace(CONFIG, compression_type=wanted)))
    before, after = RecordBatch(batch).header, result.header
    assert after.codec is codec
    assert after[9:] == before[9:]
    assert after.is_transactional
    assert result.records() == RecordBatch(batch).records()
    if sent is codec:
        assert bytes(result.view) == bytes(batch)


def test_size_is_checked_again_after_recompression() -> None:
    """APP-6."""
    fields: list[RecordFields] = [(NOW_MS, b"k", bytes(10_000), ())]
    small = build_batch(fields, codec=Codec.GZIP)
    config = replace(CONFIG, compression_type="uncompressed", max_message_bytes=5000)
    assert prepare(small, replace(config, compression_type="producer")).view is not None
    assert refusal(small, config).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_gaps_in_a_batch_are_closed_instead_of_refused(codec: Codec) -> None:
    """APP-19: stored as they are they would give a client the means to stop the cleaner."""
    gapped = build_batch(records(), codec=codec, offset_deltas=[0, 2, 2, 3])
    assert [record.offset for record in stored(prepare(gapped)).records()] == [0, 1, 2, 3]


def test_compressed_garbage_is_refused() -> None:
    """C040."""
    batch = build_batch(records(50), codec=Codec.GZIP)
    broken = patched(batch, 70, b"\xff" * 20)
    assert refusal(broken).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_value_that_happens_to_be_compressed_is_left_alone() -> None:
    """C040."""
    fields: list[RecordFields] = [(NOW_MS, None, zlib.compress(b"x" * 100, wbits=31), ())]
    batch = build_batch(fields, codec=Codec.GZIP)
    assert bytes(stored(prepare(batch)).view) == bytes(batch)


def test_coordinator_may_write_markers_and_they_stay_uncompressed() -> None:
    """APP-10, CMP-3."""
    marker = build_marker(
        ControlType.ABORT, producer_id=7, producer_epoch=1, coordinator_epoch=3, timestamp_ms=NOW_MS
    )
    config = replace(COMPACT, compression_type="zstd")
    prepared = prepare(marker, config, AppendOrigin.COORDINATOR)
    assert prepared.marker == TransactionMarker(is_abort=True, coordinator_epoch=3)
    assert stored(prepared).header.codec is Codec.NONE
    assert refusal(marker).code is ErrorCode.INVALID_RECORD
