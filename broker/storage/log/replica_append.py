"""The batches of a follower append: taken as the leader wrote them, after a few checks."""

from typing import Final, NamedTuple

from seglog.broker.storage.errors import StorageError
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import HEADER_BYTES, BatchHeader, iter_batches

_RECORD_BYTES_MIN: Final = 7


class UnexpectedOffsetError(StorageError):
    """Replicated batches that start below the log end offset, or whose offsets do not ascend."""

    def __init__(self, offset: int, expected_min: int) -> None:
        super().__init__(
            f"a replicated batch is at offset {offset}, expected {expected_min} or more"
        )
        self.offset = offset
        self.expected_min = expected_min


class ReplicatedBatches(NamedTuple):
    """Whole, valid batches in ascending order, and the bytes that hold exactly these."""

    view: memoryview
    headers: list[BatchHeader]


def split_replicated(
    records: memoryview, leader_epoch: int, log_end_offset: int
) -> ReplicatedBatches:
    """Check the batches that a leader has sent (APP-3, APP-20, APP-21).

    Args:
        records: batches with their offsets; a torn tail is left out.
        leader_epoch: the follower's; from the first batch of a newer epoch on all are left out.
        log_end_offset: of the follower; gaps above it are allowed.

    Raises:
        RecordError: a checksum is wrong, something is no batch, or a header contradicts itself.
        UnexpectedOffsetError: offsets do not ascend from the log end.
    """
    headers: list[BatchHeader] = []
    expected_min = log_end_offset
    size = 0
    for batch in iter_batches(records):
        batch.check()
        header = batch.header
        _check_frame(header)
        if header.partition_leader_epoch > leader_epoch:
            break
        if header.base_offset < expected_min:
            raise UnexpectedOffsetError(header.base_offset, expected_min)
        expected_min = header.next_offset
        headers.append(header)
        size += header.size_bytes
    return ReplicatedBatches(records[:size], headers)


def _check_frame(header: BatchHeader) -> None:
    """Check the count in a header; compaction may have left fewer records than offsets.

    Raises:
        RecordError: CORRUPT_MESSAGE. A reader that trusts the count would reserve memory for it.
    """
    count, delta = header.record_count, header.last_offset_delta
    area_bytes = header.size_bytes - HEADER_BYTES
    is_plain = header.codec is Codec.NONE
    if 0 <= count <= delta + 1 and (not is_plain or count * _RECORD_BYTES_MIN <= area_bytes):
        return
    raise RecordError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the replicated batch at offset {header.base_offset} says it has {count} records up to "
        f"offset delta {delta} in {area_bytes} bytes",
    )
