"""Checks of one batch that do not need the log.

The statements cited are those of the log's behaviour: APP (structure), TS (timestamps). The log
checks size limits, offsets, sequences and epochs.
"""

from typing import NamedTuple

from seglog.protocol.compression import Codec, CorruptCompressionError
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records import kernel
from seglog.protocol.records.batch import BatchHeader, RecordBatch
from seglog.protocol.types import INT64_MAX, Buffer, TimestampType

_INT64_MIN = -(2**63)


class BatchInspection(NamedTuple):
    """The contents of a batch that passed inspection.

    ``max_timestamp_ms`` is the true maximum of the records, not that of the header (TS-5), -1
    where none has a timestamp (TS-9); ``offset_of_max_timestamp_delta`` is the offset delta of the
    first record that carries it, -1 without records. ``area`` are the records, inflated.
    """

    header: BatchHeader
    codec: Codec
    record_count: int
    max_timestamp_ms: int
    offset_of_max_timestamp_delta: int
    has_consecutive_offsets: bool
    area: Buffer

    @property
    def has_wrong_max_timestamp(self) -> bool:
        """Whether the header's max timestamp must be replaced by the true one (TS-5)."""
        return self.header.max_timestamp != self.max_timestamp_ms

    @property
    def needs_rebuild(self) -> bool:
        """Whether offsets inside the batch are not 0, 1, 2, ... (APP-19)."""
        return not self.has_consecutive_offsets


def inspect_batch(
    view: memoryview,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    require_keys: bool = False,
    timestamp_bounds_ms: tuple[int, int] | None = None,
    from_client: bool = True,
    require_zero_base_offset: bool = False,
) -> BatchInspection:
    """Check a batch from the first byte to the last; nothing is changed.

    Args:
        view: exactly one batch.
        max_decompressed_bytes: bound on the inflated records.
        require_keys: refuse records without key, as a compacted topic must (APP-14).
        timestamp_bounds_ms: the earliest and the latest legal timestamp, both inclusive; -1 is
            always legal (TS-1, TS-2). None where the broker stamps the records itself (TS-4).
        from_client: the rules for batches of clients: all records are there (APP-9), no control
            batch (APP-10), a complete producer identity (APP-11), the client's own timestamps
            (TS-3, TS-4). Coordinators and leaders may send what these forbid.
        require_zero_base_offset: the base offset must be 0 (APP-4).

    Raises:
        RecordError: CORRUPT_MESSAGE (length, checksum), UNKNOWN_SERVER_ERROR or INVALID_RECORD
            (compression), UNSUPPORTED_FOR_MESSAGE_FORMAT
            (formats 0 and 1), UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE (inflates beyond the
            bound), INVALID_TIMESTAMP or INVALID_RECORD; the latter two name the records at fault.
    """
    batch = RecordBatch(view)
    header = batch.header
    if header.size_bytes != len(view):
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"{len(view) - header.size_bytes} bytes follow the only batch that may be there",
        )
    if require_zero_base_offset and header.base_offset != 0:
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"the base offset of a batch from a client is {header.base_offset} instead of 0",
        )
    batch.check()
    _check_counts(header)
    if from_client:
        _check_client_batch(header)
    codec = header.codec
    area = _inflated(batch, max_decompressed_bytes)
    earliest_ms, latest_ms = timestamp_bounds_ms or (_INT64_MIN, INT64_MAX)
    max_timestamp_ms, delta_of_max, _, is_consecutive, null_keys, bad_timestamps = (
        kernel.scan_records(
            area,
            header.record_count,
            header.base_timestamp,
            require_keys,
            max(earliest_ms, _INT64_MIN),
            min(latest_ms, INT64_MAX),
        )
    )
    if null_keys or bad_timestamps:
        raise _offending_records(null_keys, bad_timestamps, earliest_ms, latest_ms)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp_ms = header.max_timestamp
        first = kernel.find_timestamp(area, header.record_count, header.base_timestamp, _INT64_MIN)
        delta_of_max = -1 if first is None else first[0]
    elif header.record_count == 0:
        # KEEP-9: a batch that compaction emptied keeps the maximum of the records that it had.
        max_timestamp_ms = header.max_timestamp
    return BatchInspection(
        header,
        codec,
        header.record_count,
        max_timestamp_ms,
        delta_of_max,
        is_consecutive,
        area,
    )


def _inflated(batch: RecordBatch, max_bytes: int) -> bytes | memoryview:
    """The records; a stream that cannot be read is refused for good, in Kafka's words.

    CORRUPT_MESSAGE would stand for damage on the way, and clients send the same again until their
    time is up.
    """
    try:
        return batch.records_area(max_bytes)
    except CorruptCompressionError as error:
        code = ErrorCode.INVALID_RECORD if error.is_cut else ErrorCode.UNKNOWN_SERVER_ERROR
        raise RecordError(code, error.message) from error


def _check_counts(header: BatchHeader) -> None:
    """Refuse counts that no batch can have, compacted ones included."""
    if header.last_offset_delta < 0 or not (
        0 <= header.record_count <= header.last_offset_delta + 1
    ):
        raise _invalid(
            f"{header.record_count} records cannot lie in offsets 0 to {header.last_offset_delta}"
        )


def _check_client_batch(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("a client may not write control batches")
    if header.record_count == 0:
        raise _invalid("the batch has no records")
    if header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"the header announces {header.record_count} records, but offsets for "
            f"{header.last_offset_delta + 1}"
        )
    if header.has_producer and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent base sequence {header.base_sequence}")
    if header.is_transactional and not header.has_producer:
        raise _invalid("a transactional batch needs a producer id")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise RecordError(
            ErrorCode.INVALID_TIMESTAMP,
            "the timestamp type of a batch from a client must be CreateTime",
        )


def _invalid(message: str) -> RecordError:
    return RecordError(ErrorCode.INVALID_RECORD, message)


def _offending_records(
    null_keys: tuple[int, ...], bad_timestamps: tuple[int, ...], earliest_ms: int, latest_ms: int
) -> RecordError:
    """Return the error for a batch whose structure is sound but whose records are not (APP-15)."""
    no_key = "a compacted topic needs a key in every record"
    bad_timestamp = f"the timestamp is not in the range {earliest_ms} to {latest_ms}"
    record_errors = [(index, no_key) for index in null_keys]
    record_errors += [(index, bad_timestamp) for index in bad_timestamps]
    record_errors.sort()
    code = ErrorCode.INVALID_TIMESTAMP if bad_timestamps else ErrorCode.INVALID_RECORD
    reason = bad_timestamp if bad_timestamps else no_key
    return RecordError(
        code, f"record {(bad_timestamps or null_keys)[0]} is refused: {reason}", record_errors
    )
