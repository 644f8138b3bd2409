"""The check of an ordinary batch in plain Python: the twin of ``protocol/_kernel_batches.pxi``."""

from typing import TypeVar

from seglog.protocol.checksum import crc32c
from seglog.protocol.errors import RecordError
from seglog.protocol.records._pure import scan_records
from seglog.protocol.records.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, BatchHeader
from seglog.protocol.types import Buffer

HeaderT = TypeVar("HeaderT", bound=tuple[object, ...])

_TRANSACTIONAL = 0x10


def header_if_ordinary(
    data: Buffer,
    header_type: type[HeaderT],
    require_keys: bool,
    earliest_timestamp: int,
    latest_timestamp: int,
) -> HeaderT | None:
    """The header of a batch that may be appended as it is, None if anything about it is special."""
    view = memoryview(data)
    if len(view) <= HEADER_BYTES or view[16] != 2:
        return None
    fields = HEADER.unpack_from(view)
    header = BatchHeader._make(fields)
    if (
        header.base_offset != 0
        or header.batch_length != len(view) - LOG_OVERHEAD
        or header.attributes & ~_TRANSACTIONAL
        or header.record_count < 1
        or header.record_count != header.last_offset_delta + 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or (header.producer_id < 0 and header.attributes != 0)
        or header.crc != crc32c(view[21:])
    ):
        return None
    try:
        max_timestamp, _, _, is_consecutive, null_keys, bad_timestamps = scan_records(
            view[HEADER_BYTES:],
            header.record_count,
            header.base_timestamp,
            require_keys,
            earliest_timestamp,
            latest_timestamp,
        )
    except RecordError:
        return None
    if not is_consecutive or null_keys or bad_timestamps:
        return None
    if max_timestamp != header.max_timestamp:
        return None
    return tuple.__new__(header_type, fields)
