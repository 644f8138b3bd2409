"""What groups are on disk: the records of ``__consumer_offsets``, in Apache Kafka's formats."""

from typing import Final, NamedTuple

from seglog.broker.coordinator.groups.group import ClassicGroup
from seglog.broker.coordinator.groups.members import Member
from seglog.broker.coordinator.groups.state import ClockReading, GroupLimits
from seglog.broker.coordinator.internal_topics.records import Place, StoredRecord
from seglog.protocol.api import ZERO_TOPIC_ID
from seglog.protocol.kafka.codec import encode_record_key, encode_versioned
from seglog.protocol.kafka.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

NO_EXPIRY_MS: Final = -1

_GROUP_VALUE_VERSION: Final = 3
# The first one that has the topic's id, as a tagged field; Kafka reads it from 3.5 on.
_OFFSET_VALUE_VERSION: Final = 4
_OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1


class CommittedOffset(NamedTuple):
    """One offset of a group.

    Attributes:
        offset: where to go on reading.
        leader_epoch: of the last record that was read, -1 if unknown.
        metadata: the client's own words.
        committed_ms: when it was committed.
        expires_ms: -1 unless the client asked for a time of its own.
        topic_id: of the topic, zero if unknown.
        record_offset: where it is stored in its partition of the internal topic.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = -1
    expires_ms: int = NO_EXPIRY_MS
    topic_id: bytes = ZERO_TOPIC_ID
    record_offset: int = -1


def offset_record(group_id: str, place: Place, committed: CommittedOffset) -> StoredRecord:
    """The record that stores one offset.

    Raises:
        ProtocolError: a name is too long for its field.
    """
    has_expiry = committed.expires_ms != NO_EXPIRY_MS
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_ms,
        expire_timestamp=committed.expires_ms,
        topic_id=committed.topic_id,
    )
    version = _OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VALUE_VERSION
    return offset_key(group_id, place), encode_versioned(value, version)


def offset_tombstone(group_id: str, place: Place) -> StoredRecord:
    """The record that deletes one offset."""
    return offset_key(group_id, place), None


def offset_key(group_id: str, place: Place) -> bytes:
    """The key of one offset."""
    topic, partition = place
    return encode_record_key(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_record(group: ClassicGroup) -> StoredRecord:
    """The record that stores a group with its members and their assignments.

    Raises:
        ProtocolError: a name is too long for its field.
    """
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.members.leader_id,
        current_state_timestamp=group.changed_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=member.assignment,
            )
            for member in group.members
        ],
    )
    return _group_key(group.group_id), encode_versioned(value, _GROUP_VALUE_VERSION)


def group_tombstone(group_id: str) -> StoredRecord:
    """The record that deletes a group."""
    return _group_key(group_id), None


def _group_key(group_id: str) -> bytes:
    return encode_record_key(GroupMetadataKey(group=group_id))


def restored_group(
    group_id: str, value: GroupMetadataValue, limits: GroupLimits, now: ClockReading
) -> ClassicGroup:
    """A group as its record has it."""
    members = [
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.session_timeout,
            each.rebalance_timeout if each.rebalance_timeout >= 0 else each.session_timeout,
            [(value.protocol or "", bytes(each.subscription))],
            bytes(each.assignment),
        )
        for each in value.members
    ]
    return ClassicGroup.restored(
        group_id,
        limits,
        now,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        leader_id=value.leader,
        members=members,
        changed_ms=value.current_state_timestamp,
    )
