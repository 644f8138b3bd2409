"""The batches of a follower append: taken as the leader wrote them, after a few checks."""

from typing import NamedTuple

from seglog.broker.storage.errors import StorageError
from seglog.protocol.records.batch import BatchHeader, iter_batches


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
        RecordError: a checksum is wrong, or something is no batch.
        UnexpectedOffsetError: offsets do not ascend from the log end.
    """
    headers: list[BatchHeader] = []
    expected_min = log_end_offset
    size = 0
    for batch in iter_batches(records):
        batch.check()
        header = batch.header
        if header.partition_leader_epoch > leader_epoch:
            break
        if header.base_offset < expected_min:
            raise UnexpectedOffsetError(header.base_offset, expected_min)
        expected_min = header.next_offset
        headers.append(header)
        size += header.size_bytes
    return ReplicatedBatches(records[:size], headers)
