"""Finding records by timestamp inside one batch."""

from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records import kernel
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.types import Buffer

_ANY_TIMESTAMP = -(2**63)


def find_timestamp(
    batch_view: Buffer,
    target_ms: int,
    *,
    from_offset: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> tuple[int, int] | None:
    """Find the first record at or above ``from_offset`` stamped ``target_ms`` or later (LIST-5).

    Every record of a batch that the broker stamped has the batch's time (LIST-11).

    Returns:
        Its offset and timestamp, or None.

    Raises:
        RecordError: the batch cannot be read.
    """
    batch = RecordBatch(batch_view)
    header = batch.header
    append_time = header.append_time_ms
    if append_time is not None and append_time < target_ms:
        return None
    found = kernel.find_timestamp(
        batch.records_area(max_decompressed_bytes),
        header.record_count,
        header.base_timestamp,
        target_ms if append_time is None else _ANY_TIMESTAMP,
        from_offset - header.base_offset,
    )
    if found is None:
        return None
    offset_delta, timestamp = found
    return header.base_offset + offset_delta, timestamp if append_time is None else append_time


def greatest_timestamp(
    batch_view: Buffer,
    *,
    from_offset: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> int | None:
    """The greatest timestamp of the records at or above ``from_offset``, None without any.

    Raises:
        RecordError: the batch cannot be read.
    """
    batch = RecordBatch(batch_view)
    header = batch.header
    greatest = kernel.greatest_timestamp(
        batch.records_area(max_decompressed_bytes),
        header.record_count,
        header.base_timestamp,
        from_offset - header.base_offset,
    )
    append_time = header.append_time_ms
    return greatest if append_time is None or greatest is None else append_time
