"""Building batches out of records."""

from collections.abc import Iterable, Sequence
from typing import Final

from seglog.protocol.compression import Codec, compress
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.limits import MAX_BATCH_BYTES
from seglog.protocol.records import kernel
from seglog.protocol.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    write_checksum,
)
from seglog.protocol.records.record import Headers, RecordFields
from seglog.protocol.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Buffer,
    TimestampType,
)

RECORD_OVERHEAD_BYTES_MAX: Final = 21
"""Most that length, attributes and the two deltas of a record take."""

_VARINT_BYTES_MAX: Final = 5


def build_batch(
    records: Sequence[RecordFields],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    leader_epoch: int = NO_LEADER_EPOCH,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Build one batch with its checksum.

    Offsets are consecutive unless ``offset_deltas`` gives one for each record. The batch ends at
    the last of them unless ``last_offset_delta`` says that records behind it were removed. Records
    of a LOG_APPEND_TIME batch are all read as stamped ``log_append_time_ms``.

    Raises:
        RecordError: MESSAGE_TOO_LARGE above 2**31 - 1 bytes.
        ValueError: the codec has no such level.
    """
    attributes = LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    attributes |= TRANSACTIONAL_BIT if is_transactional else 0
    attributes |= CONTROL_BIT if is_control else 0
    attributes |= DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0
    batch, base_timestamp, max_timestamp = kernel.encode_records(
        records, HEADER_BYTES, offset_deltas, delete_horizon_ms
    )
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time_ms
    if last_offset_delta is None:
        last_offset_delta = offset_deltas[-1] if offset_deltas else len(records) - 1
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return finish_batch(header, batch, codec, level)


def finish_batch(
    header: BatchHeader, batch: bytearray, codec: Codec, level: int | None = None
) -> bytearray:
    """Compress the records behind the first 61 bytes of ``batch`` and write the header into those.

    The function fills in length, checksum and the codec's bits of ``header``. It may change
    ``batch``; use only the result.
    """
    if codec is not Codec.NONE and header.record_count:
        with memoryview(batch) as whole, whole[HEADER_BYTES:] as area:
            compressed = compress(codec, area, level)
        batch = bytearray(HEADER_BYTES)
        batch += compressed
    else:
        codec = Codec.NONE
    if len(batch) > MAX_BATCH_BYTES:
        raise RecordError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch cannot have {len(batch)} bytes")
    header = header._replace(
        batch_length=len(batch) - LOG_OVERHEAD, attributes=header.attributes & ~7 | codec
    )
    HEADER.pack_into(batch, 0, *header)
    with memoryview(batch) as view:
        write_checksum(view)
    return batch


def estimate_record_size(key: Buffer | None, value: Buffer | None, headers: Headers = ()) -> int:
    """Return the most bytes that a record can take in an uncompressed batch."""
    size = RECORD_OVERHEAD_BYTES_MAX + 3 * _VARINT_BYTES_MAX
    size += (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
    for name, header_value in headers:
        size += 2 * _VARINT_BYTES_MAX + len(name.encode())
        size += len(header_value) if header_value is not None else 0
    return size


def estimate_size(records: Iterable[RecordFields]) -> int:
    """Return the most bytes that an uncompressed batch of ``records`` can have."""
    return HEADER_BYTES + sum(
        estimate_record_size(key, value, headers) for _, key, value, headers in records
    )
