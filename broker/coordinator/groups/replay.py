"""Reading ``__consumer_offsets`` back: what a partition of it says of its groups.

See ``topic_reading`` for how that goes.
"""

from typing import Final

from seglog.broker.coordinator.groups.pending_offsets import put_into_force
from seglog.broker.coordinator.groups.records import CommittedOffset
from seglog.broker.coordinator.internal_topics.reading import TopicReplay
from seglog.broker.coordinator.internal_topics.records import Place
from seglog.protocol.kafka.codec import decode_record_key, decode_versioned
from seglog.protocol.kafka.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from seglog.protocol.kafka.schema import Message
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.control import ControlType, read_marker

_KINDS: Final[tuple[type[Message], ...]] = (
    OffsetCommitKey,
    LegacyOffsetCommitKey,
    GroupMetadataKey,
)


class GroupReplay(TopicReplay):
    """The last word of one partition on every group in it.

    Args:
        name: of the partition, for messages.

    Attributes:
        offsets: of each group.
        pending: of each producer with an open transaction, the offsets of each group in it.
        groups: the stored state of each group that has one.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.offsets: dict[str, dict[Place, CommittedOffset]] = {}
        self.groups: dict[str, GroupMetadataValue] = {}
        self.pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}

    def take_marker(self, batch: RecordBatch) -> None:
        """A transaction has ended in this partition: its offsets count, or are forgotten."""
        marker = read_marker(batch)
        if marker is None:
            return
        decided = self.pending.pop(marker.producer_id, {})
        if marker.control_type is ControlType.COMMIT:
            for group_id, offsets in decided.items():
                put_into_force(self.offsets.setdefault(group_id, {}), offsets)

    def take_record(self, batch: RecordBatch, offset: int, key: bytes, value: bytes | None) -> None:
        """The last word on an offset or on a group; other kinds are for other group protocols."""
        decoded = decode_record_key(key, *_KINDS)
        if isinstance(decoded, GroupMetadataKey):
            self._take_group(decoded.group, value)
        elif isinstance(decoded, OffsetCommitKey | LegacyOffsetCommitKey):
            place = (decoded.topic, decoded.partition)
            if value is None:
                self._take_tombstone(decoded.group, place)
            else:
                committed = _committed_offset(value, offset)
                header = batch.header
                producer_id = header.producer_id if header.is_transactional else None
                self._offsets_of(decoded.group, producer_id)[place] = committed

    def _take_group(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = decode_versioned(GroupMetadataValue, value)

    def _take_tombstone(self, group_id: str, place: Place) -> None:
        """An offset is gone, and so are those of open transactions for its place."""
        for groups in (self.offsets, *self.pending.values()):
            groups.get(group_id, {}).pop(place, None)

    def _offsets_of(self, group_id: str, producer_id: int | None) -> dict[Place, CommittedOffset]:
        """Where to note an offset: as undecided if a producer's transaction has stored it."""
        groups = self.offsets
        if producer_id is not None:
            groups = self.pending.setdefault(producer_id, {})
        return groups.setdefault(group_id, {})


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
