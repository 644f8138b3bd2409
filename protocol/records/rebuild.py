"""Writing a batch anew with fewer records, another codec or consecutive offsets."""

from collections.abc import Sequence

from seglog.protocol.compression import Codec
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES, MIN_RECORD_BYTES
from seglog.protocol.records import kernel
from seglog.protocol.records.batch import DELETE_HORIZON_BIT, HEADER_BYTES, BatchHeader, RecordBatch
from seglog.protocol.records.builder import finish_batch
from seglog.protocol.records.faults import RecordFault, malformed_records
from seglog.protocol.types import NO_TIMESTAMP, Buffer, TimestampType


def rebuild_batch(
    view: Buffer,
    *,
    keep: Sequence[int] | None = None,
    codec: Codec | None = None,
    level: int | None = None,
    base_offset: int | None = None,
    delete_horizon_ms: int | None = None,
    renumber_offsets: bool = False,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """Return a new batch of the records of ``view``; its checksum is not looked at.

    Producer id and epoch, base sequence, leader epoch, timestamp type and flags stay (CMP-4,
    KEEP-6), and so do keys, values, headers and absolute timestamps of the records. Base and last
    offset stay even where their records go (KEEP-5). A batch that the broker stamped keeps its
    time; another takes base and max timestamp from the records that are left (KEEP-7). Without any
    record it is reduced to its 61-byte header, which keeps the max timestamp.

    Args:
        view: one whole batch.
        keep: indexes of the records to keep, ascending; None keeps all.
        codec: how to compress them, by default as they were; control batches never are.
        level: the codec's level.
        base_offset: the new base offset, by default the old one.
        delete_horizon_ms: from when on tombstones may go; a horizon that is set already stays.
        renumber_offsets: give the records the offsets 0, 1, 2, ... of the batch (APP-19).
        max_decompressed_bytes: bound on the inflated records.

    Raises:
        RecordError: the batch cannot be read, or the new one would be too large.
        IndexError: ``keep`` names a record that the batch does not have.
    """
    batch = RecordBatch(view)
    return rebuild_records(
        batch.header,
        batch.records_area(max_decompressed_bytes),
        keep=keep,
        codec=codec,
        level=level,
        base_offset=base_offset,
        delete_horizon_ms=delete_horizon_ms,
        renumber_offsets=renumber_offsets,
    )


def rebuild_records(
    header: BatchHeader,
    area: Buffer,
    *,
    keep: Sequence[int] | None = None,
    codec: Codec | None = None,
    level: int | None = None,
    base_offset: int | None = None,
    delete_horizon_ms: int | None = None,
    renumber_offsets: bool = False,
) -> bytearray:
    """``rebuild_batch`` for a batch whose records were inflated already, to ``area``."""
    if header.delete_horizon_ms is not None:
        delete_horizon_ms = header.delete_horizon_ms
    new_batch, kept, base_timestamp, max_timestamp = kernel.rewrite_records(
        area,
        header.record_count,
        header.base_timestamp,
        delete_horizon_ms,
        None if keep is None else _mask(keep, header.record_count, memoryview(area).nbytes),
        renumber=renumber_offsets,
        reserve_bytes=HEADER_BYTES,
    )
    if kept == 0 or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if kept == 0:
        base_timestamp = NO_TIMESTAMP
    elif delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    new_header = header._replace(
        base_offset=header.base_offset if base_offset is None else base_offset,
        attributes=attributes,
        last_offset_delta=kept - 1 if renumber_offsets and kept else header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=kept,
    )
    new_codec = header.codec if codec is None else codec
    return finish_batch(
        new_header, new_batch, Codec.NONE if header.is_control else new_codec, level
    )


def _mask(keep: Sequence[int], record_count: int, area_bytes: int) -> bytearray:
    if record_count > area_bytes // MIN_RECORD_BYTES:
        raise malformed_records(RecordFault.COUNT_TOO_LARGE, record_count)
    mask = bytearray(record_count)
    for index in keep:
        if not 0 <= index < record_count:
            raise IndexError(f"record {index} of a batch of {record_count}")
        mask[index] = 1
    return mask
