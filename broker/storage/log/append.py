"""Getting a batch ready to be written: everything that can be decided without the log's state.

`prepare_append` is pure and may run in a worker thread while the owner of the log goes on; the
owner's part (offsets, producer state, the write itself) is in ``log.py``. The bytes are changed in
place, in the buffer they were received in; only another codec than the producer's, or gaps in the
inner offsets of a compressed batch, make a new buffer.
"""

from typing import Final, NamedTuple

from seglog.broker.storage.log.producer_state import AppendOrigin, TransactionMarker
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec, DecompressedTooLargeError
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_END,
    MAGIC_POSITION,
    MIN_ENTRY_LENGTH,
    BatchHeader,
    RecordBatch,
    check_magic,
    patch_timestamps,
)
from seglog.protocol.records.control import ControlType, read_marker
from seglog.protocol.records.ordinary import ordinary_header
from seglog.protocol.records.rebuild import rebuild_records
from seglog.protocol.records.validation import BatchInspection, inspect_batch
from seglog.protocol.types import INT64_MAX, NO_TIMESTAMP, TimestampType

INLINE_RECOMPRESSED_BYTES_MAX: Final = 16 * 1024
"""More than this is compressed in a worker: the strongest levels take some 10 MB a second."""

_ATTRIBUTES_LOW_BYTE: Final = 22
_NO_HEADER: Final = BatchHeader(0, 0, -1, 2, 0, 0, -1, -1, -1, -1, -1, -1, 0)


class NeedsWorkerError(Exception):
    """Preparing a batch would take longer than its caller allows; nothing was decided about it."""


class PreparedAppend(NamedTuple):
    """One batch that has passed every check which needs no log.

    ``view`` is the batch as it will be written, but for base offset and leader epoch, None if there
    was no complete batch (APP-2). ``header`` tells its base offset as 0. ``marker`` is set for the
    end of a transaction, ``log_append_time_ms`` is -1 unless the broker stamps the records.
    ``worked_bytes`` are those that were inflated or compressed.
    """

    view: memoryview | None
    header: BatchHeader
    origin: AppendOrigin
    log_append_time_ms: int
    marker: TransactionMarker | None
    worked_bytes: int = 0


class AppendInfo(NamedTuple):
    """The result of an append, or of the earlier one that it repeats (``is_duplicate``).

    ``first_offset`` is -1 and ``record_count`` 0 for an append without a complete batch.
    ``rolled`` says that a segment was sealed, which now waits for a flush.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    max_timestamp_ms: int
    record_count: int
    bytes: int
    is_duplicate: bool
    rolled: bool
    log_start_offset: int


STORED_AS_SENT: Final = frozenset({"producer", "uncompressed"})
"""Values of ``compression.type`` with which an uncompressed batch is stored as it came."""


def prepare_append(
    records: memoryview,
    config: LogConfig,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    *,
    inline_bytes_max: int | None = None,
) -> PreparedAppend:
    """Validate the one batch of a leader append and bring it into the form that will be stored.

    Args:
        records: writable; an incomplete batch behind the first is left out (APP-1).
        config: of the topic.
        now_ms: wall clock, which stamps the records of LogAppendTime topics.
        origin: CLIENT or COORDINATOR; whether more is allowed than to clients.
        inline_bytes_max: how much may be inflated on this thread, None for the bound of the topic.

    Raises:
        NeedsWorkerError: the batch inflates to more, or much has to be compressed.
        RecordError: the batch is refused, with the wire code that says why.
    """
    from_client = origin is AppendOrigin.CLIENT
    if from_client and config.compression_type in STORED_AS_SENT and not config.stamps_on_append:
        earliest_ms, latest_ms = _timestamp_bounds(config, now_ms)
        ordinary = ordinary_header(
            records,
            require_keys=config.compacts,
            earliest_ms=earliest_ms,
            latest_ms=latest_ms,
        )
        if ordinary is not None:
            _check_size(records, config, from_client)
            return PreparedAppend(records, ordinary, origin, NO_TIMESTAMP, None)
    view = _only_batch(records, from_client)
    if view is None:
        return PreparedAppend(None, _NO_HEADER, origin, NO_TIMESTAMP, None)
    _check_size(view, config, from_client)
    inspection = _inspected(view, config, now_ms, from_client, inline_bytes_max)
    view, worked_bytes = _in_stored_codec(view, inspection, config, from_client, inline_bytes_max)
    header = _stamped(view, inspection, config, now_ms)
    marker = transaction_marker(view) if header.is_control else None
    append_time_ms = now_ms if config.stamps_on_append else NO_TIMESTAMP
    return PreparedAppend(view, header, origin, append_time_ms, marker, worked_bytes)


def _in_stored_codec(
    view: memoryview,
    inspection: BatchInspection,
    config: LogConfig,
    from_client: bool,
    inline_bytes_max: int | None,
) -> tuple[memoryview, int]:
    """A batch in the codec and with the offsets that are stored; how many bytes were worked on.

    Raises:
        NeedsWorkerError: much has to be compressed.
        RecordError: it is too large then.
    """
    codec = _stored_codec(inspection, config)
    area_bytes = len(inspection.area)
    if codec is inspection.codec and not inspection.needs_rebuild:
        return view, 0 if codec is Codec.NONE else area_bytes
    if (
        inline_bytes_max is not None
        and codec is not Codec.NONE
        and area_bytes > INLINE_RECOMPRESSED_BYTES_MAX
    ):
        raise NeedsWorkerError
    rebuilt = _rebuilt(inspection, codec, config)
    _check_size(rebuilt, config, from_client)
    return rebuilt, area_bytes


def _stamped(
    view: memoryview, inspection: BatchInspection, config: LogConfig, now_ms: int
) -> BatchHeader:
    """The header of a batch, whose timestamp type and greatest timestamp are right now."""
    header = BatchHeader._make(HEADER.unpack_from(view))
    if config.stamps_on_append:
        patch_timestamps(view, TimestampType.LOG_APPEND_TIME, now_ms)
    elif header.max_timestamp != inspection.max_timestamp_ms:
        patch_timestamps(view, header.timestamp_type, inspection.max_timestamp_ms)
    else:
        return header
    return BatchHeader._make(HEADER.unpack_from(view))


def memory_to_prepare(records: memoryview, config: LogConfig) -> int:
    """Bytes of memory that ``prepare_append`` of ``records`` may take at most, beside them.

    Nothing is inflated to find out. A batch of which most is known by its size takes none: it is
    stored from where it is.
    """
    if len(records) < HEADER_BYTES:
        return 0
    if records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
        # Inflated, and once more written anew.
        return 2 * config.max_decompressed_message_bytes
    return 0 if config.compression_type in STORED_AS_SENT else 2 * len(records)


def transaction_marker(view: memoryview) -> TransactionMarker | None:
    """The end of a transaction that a control batch holds, None if it says something else.

    Raises:
        RecordError: the control record is not well formed.
    """
    marker = read_marker(RecordBatch(view))
    if marker is None:
        return None
    return TransactionMarker(marker.control_type is ControlType.ABORT, marker.coordinator_epoch)


def _only_batch(records: memoryview, from_client: bool) -> memoryview | None:
    """Cut out the single batch of a leader append; None if not even one is complete (APP-2, 8)."""
    total = len(records)
    size = _batch_size(records, 0)
    if size is None or size > total:
        if from_client:
            raise RecordError(
                ErrorCode.INVALID_RECORD,
                f"{total} bytes hold no complete batch"
                + (f", the first one says it has {size}" if size is not None else ""),
            )
        return None
    if size == total:
        return records
    next_size = _batch_size(records, size)
    if next_size is not None and size + next_size <= total:
        raise RecordError(
            ErrorCode.INVALID_RECORD, "an append to a partition must hold exactly one batch"
        )
    return records[:size]


def _batch_size(records: memoryview, position: int) -> int | None:
    """The announced size of the batch at a position, None if its beginning is cut off.

    Raises:
        RecordError: no batch can have this length, or it is of another format.
    """
    if len(records) - position < MAGIC_END:
        return None
    length = int.from_bytes(
        records[position + LENGTH_POSITION : position + LOG_OVERHEAD], "big", signed=True
    )
    check_magic(records[position + MAGIC_POSITION])
    if length < MIN_ENTRY_LENGTH:
        raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"a batch says it has {length} bytes")
    return length + LOG_OVERHEAD


def _check_size(view: memoryview, config: LogConfig, from_client: bool) -> None:
    size = len(view)
    # The metadata of a large group is one record: refused for its size, the group would rebalance
    # for ever, and no client could mend that.
    if from_client and size > config.max_message_bytes:
        raise RecordError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise RecordError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size} bytes, segment.bytes is {config.segment_bytes}",
        )


def _timestamp_bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and latest timestamp that is accepted, both inclusive (TS-1)."""
    return (
        now_ms - config.message_timestamp_before_max_ms,
        min(now_ms + config.message_timestamp_after_max_ms, INT64_MAX),
    )


def _stored_codec(inspection: BatchInspection, config: LogConfig) -> Codec:
    """The codec the batch is stored with (CMP-1 to 3)."""
    wanted = config.compression_type
    if wanted == "producer" or inspection.header.is_control:
        return inspection.codec
    return Codec.NONE if wanted == "uncompressed" else Codec.from_name(wanted)


def _compression_level(codec: Codec, config: LogConfig) -> int | None:
    if codec is Codec.GZIP:
        return config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    if codec is Codec.ZSTD:
        return config.compression_zstd_level
    return None


def _inspected(
    view: memoryview,
    config: LogConfig,
    now_ms: int,
    from_client: bool,
    inline_bytes_max: int | None,
) -> BatchInspection:
    limit = config.max_decompressed_message_bytes
    bound = limit if inline_bytes_max is None else min(limit, inline_bytes_max)
    try:
        return inspect_batch(
            view,
            max_decompressed_bytes=bound,
            require_keys=config.compacts and from_client,
            timestamp_bounds_ms=None
            if config.stamps_on_append
            else _timestamp_bounds(config, now_ms),
            from_client=from_client,
            require_zero_base_offset=from_client,
        )
    except DecompressedTooLargeError as error:
        if bound < limit:
            raise NeedsWorkerError from error
        raise RecordError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{error.message}, which is max.decompressed.message.bytes: send smaller batches, or "
            "raise it for the topic",
        ) from error


def _rebuilt(inspection: BatchInspection, codec: Codec, config: LogConfig) -> memoryview:
    """The same records in a new batch with consecutive offsets and the given codec (CMP-4)."""
    return memoryview(
        rebuild_records(
            inspection.header,
            inspection.area,
            codec=codec,
            level=_compression_level(codec, config),
            renumber_offsets=True,
        )
    )
