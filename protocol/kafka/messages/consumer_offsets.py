"""The records of the internal topic ``__consumer_offsets``.

A key starts with an int16 that says what kind of record it is (the ``api_key`` of the classes
here; 0 and 1 are both offsets), a value with an int16 version. Kafka's group coordinator,
``group-coordinator`` schemas.
"""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    array,
    binary,
    int32,
    int64,
    string,
    uuid,
)


class LegacyOffsetCommitKey(Message, api_key=0, versions="0"):
    """Key of a committed offset, as old brokers wrote it; read like ``OffsetCommitKey``."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class LegacyOffsetCommitValue(Message, api_key=0, versions="0"):
    """A committed offset, as old brokers wrote it."""

    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")


class OffsetCommitKey(Message, api_key=1, versions="0"):
    """Key of a committed offset."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    """A committed offset; version 1 has an expiry time of its own, version 4 the topic's id."""

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", default=ZERO_UUID, ignorable=True, tag=0)


class GroupMetadataKey(Message, api_key=2, versions="0"):
    """Key of a group's state."""

    group: str = string("0")


class MemberMetadata(Struct):
    """One member of a stored group."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+", ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32("0+")
    subscription: bytes = binary("0+")
    assignment: bytes = binary("0+")


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    """A group's state; its members are those of a stable generation."""

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")
