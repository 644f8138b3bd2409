"""Reading ``__consumer_offsets`` back: what a partition of it says of its groups.

A ``PartitionReplay`` is fed with the bytes of the partition, in a worker; its owner takes the
result over when all of it was read. A record that cannot be understood is left out with a line in
the log, so that one damaged record costs one offset and not a start.
"""

import logging
from typing import Final

from seglog.broker.coordinator.group_records import CommittedOffset, Place
from seglog.broker.coordinator.pending_offsets import put_into_force
from seglog.broker.coordinator.topic_reading import read_partition
from seglog.broker.partition.partition import Partition
from seglog.broker.runtime.workers import WorkerPool
from seglog.protocol.errors import ProtocolError, RecordError
from seglog.protocol.kafka.codec import decode_record_key, decode_versioned
from seglog.protocol.kafka.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from seglog.protocol.kafka.schema import Message
from seglog.protocol.records.batch import RecordBatch, iter_batches
from seglog.protocol.records.control import ControlType, read_marker

logger = logging.getLogger(__name__)

_LOGGED_FAULTS_MAX: Final = 20
_KINDS: Final[tuple[type[Message], ...]] = (
    OffsetCommitKey,
    LegacyOffsetCommitKey,
    GroupMetadataKey,
)


class PartitionReplay:
    """The last word of one partition on every group in it.

    Args:
        name: of the partition, for messages.

    Attributes:
        offsets: of each group.
        pending: of each producer with an open transaction, the offsets of each group in it.
        groups: the stored state of each group that has one.
        faults: how many batches and records could not be read.
    """

    def __init__(self, name: str) -> None:
        self.offsets: dict[str, dict[Place, CommittedOffset]] = {}
        self.groups: dict[str, GroupMetadataValue] = {}
        self.pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        self.faults = 0
        self._name = name

    def feed(self, data: bytes) -> int | None:
        """Take in the next bytes, which begin with a batch.

        Returns:
            The offset behind the last whole batch; None if none can be found because the bytes are
            damaged.
        """
        next_offset = None
        try:
            for batch in iter_batches(data):
                self._take_batch(batch)
                next_offset = batch.header.next_offset
        except RecordError as error:
            self.fault("batch", -1 if next_offset is None else next_offset, error)
            return None
        return next_offset

    def _take_batch(self, batch: RecordBatch) -> None:
        header = batch.header
        try:
            batch.check()
            if header.is_control:
                self._take_marker(batch)
                return
            records = batch.records()
        except RecordError as error:
            self.fault("batch", header.base_offset, error)
            return
        producer_id = header.producer_id if header.is_transactional else None
        for record in records:
            if record.key is None:
                self.fault("record", record.offset, "it has no key")
            else:
                self._take_record(record.offset, record.key, record.value, producer_id)

    def _take_marker(self, batch: RecordBatch) -> None:
        marker = read_marker(batch)
        if marker is None:
            return
        decided = self.pending.pop(marker.producer_id, {})
        if marker.control_type is ControlType.COMMIT:
            for group_id, offsets in decided.items():
                put_into_force(self.offsets.setdefault(group_id, {}), offsets)

    def _take_record(
        self, offset: int, key: bytes, value: bytes | None, producer_id: int | None
    ) -> None:
        try:
            decoded = decode_record_key(key, *_KINDS)
            if isinstance(decoded, GroupMetadataKey):
                self._take_group(decoded.group, value)
            elif isinstance(decoded, OffsetCommitKey | LegacyOffsetCommitKey):
                place = (decoded.topic, decoded.partition)
                if value is None:
                    self._take_tombstone(decoded.group, place)
                else:
                    committed = _committed_offset(value, offset)
                    self._offsets_of(decoded.group, producer_id)[place] = committed
            # Anything else belongs to group protocols that are not offered here.
        except ProtocolError as error:
            self.fault("record", offset, error)

    def _take_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = decode_versioned(GroupMetadataValue, value)

    def _take_tombstone(self, group_id: str, place: Place) -> None:
        """An offset is gone, and so is whatever open transactions have for its place."""
        for groups in (self.offsets, *self.pending.values()):
            groups.get(group_id, {}).pop(place, None)

    def _offsets_of(self, group_id: str, producer_id: int | None) -> dict[Place, CommittedOffset]:
        """Where to note an offset: as undecided if a producer's transaction has stored it."""
        groups = self.offsets
        if producer_id is not None:
            groups = self.pending.setdefault(producer_id, {})
        return groups.setdefault(group_id, {})

    def fault(self, what: str, offset: int, reason: object) -> None:
        """Count something that could not be read, and say so."""
        self.faults += 1
        if self.faults <= _LOGGED_FAULTS_MAX:
            logger.warning(
                "event=group-%s-damaged partition=%s offset=%d reason=%s action=left-out",
                what,
                self._name,
                offset,
                reason,
            )


def _committed_offset(value: bytes, record_offset: int) -> CommittedOffset:
    """What a record at ``record_offset`` stores; raises ``ProtocolError`` if it is damaged."""
    decoded = decode_versioned(OffsetCommitValue, value)
    return CommittedOffset(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        decoded.expire_timestamp,
        bytes(decoded.topic_id),
        record_offset,
    )


async def replay_partition(
    partition: Partition, pool: WorkerPool, buffer_bytes: int
) -> PartitionReplay:
    """Read a whole partition, piece by piece in a worker.

    What is appended meanwhile, such as the marker of a transaction, is read as well.

    Raises:
        StorageError: the disk refused.
    """
    replay = PartitionReplay(str(partition.topic_partition))
    await read_partition(partition, pool, buffer_bytes, replay)
    return replay
