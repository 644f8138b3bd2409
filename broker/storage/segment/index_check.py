"""Looking whether the indexes of a segment fit to its data file, before their first use."""

from seglog.broker.storage.errors import CorruptIndexError, CorruptLogError
from seglog.broker.storage.files.log_file import LogFile
from seglog.broker.storage.segment.batch_walk import find_batch, walk_batches
from seglog.broker.storage.segment.offset_index import OffsetIndex
from seglog.broker.storage.segment.time_index import TimeIndex, TimestampOffset
from seglog.protocol.types import NO_TIMESTAMP


def check_indexes(
    log: LogFile, offset_index: OffsetIndex, time_index: TimeIndex, interval_bytes: int
) -> None:
    """Compares the indexes with each other and with the data file.

    Looks at sizes, at both ends, and at the batches that the last entries tell of; the cost does
    not depend on the size of the segment.

    Raises:
        CorruptIndexError, FileError: they cannot be used.
    """
    size = log.size
    for index in (offset_index, time_index):
        index.sanity_check(size)
    try:
        _check_offset_index(log, offset_index, interval_bytes)
        _check_time_index(log, offset_index, time_index)
    except CorruptLogError as error:
        raise CorruptIndexError(offset_index.path, error.reason) from error


def _check_offset_index(log: LogFile, offset_index: OffsetIndex, interval_bytes: int) -> None:
    entry = offset_index.last_entry
    if entry is not None:
        find_batch(log, entry.position, log.size, entry.offset, entry.offset)
        return
    for step in walk_batches(log, 0, log.size):
        if step.position > interval_bytes:
            raise CorruptIndexError(
                offset_index.path,
                f"it is empty, although a batch is at position {step.position}",
            )


def _check_time_index(log: LogFile, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
    last = time_index.last_entry
    if last.timestamp_ms == NO_TIMESTAMP:
        first = next(walk_batches(log, 0, log.size), None)
        if first is not None and first.header().max_timestamp != NO_TIMESTAMP:
            raise CorruptIndexError(
                time_index.path, "it is empty, although records have timestamps"
            )
        return
    entry = offset_index.lookup(last.offset)
    for step in walk_batches(log, entry.position, log.size):
        header = step.header()
        if header.last_offset >= last.offset:
            if header.base_offset <= last.offset and header.max_timestamp == last.timestamp_ms:
                return
            break
    raise CorruptIndexError(time_index.path, untrue_entry(last))


def untrue_entry(entry: TimestampOffset) -> str:
    """The fault in an entry of a time index that fits to no batch."""
    return f"no batch at offset {entry.offset} has the timestamp {entry.timestamp_ms} of its entry"
