"""OffsetCommit."""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetCommitRequestPartition(Struct):
    """The offset to store for one partition."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """One topic; named by its id from version 10 on."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+")


class OffsetCommitRequest(Message, api_key=8, versions="0-10", flexible="8+", served="2-10"):
    """Stores the offsets of a group."""

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", default=None, nullable="7+")
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+")


class OffsetCommitResponsePartition(Struct):
    """What became of one offset."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class OffsetCommitResponseTopic(Struct):
    """The results of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+")


class OffsetCommitResponse(Message, api_key=8, versions="0-10", flexible="8+"):
    """One result a partition."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+")
