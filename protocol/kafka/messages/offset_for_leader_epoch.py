"""OffsetForLeaderEpoch: where leader epochs ended."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
)


class OffsetForLeaderPartition(Struct):
    """An epoch to look up in one partition."""

    partition: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32("0+")


class OffsetForLeaderTopic(Struct):
    """One topic to look up."""

    topic: str = string("0+")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="0-4", flexible="4+", served="2-4"):
    """Asks where leader epochs ended, to detect a truncated log."""

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+")


class EpochEndOffset(Struct):
    """Where an epoch ended."""

    error_code: int = int16("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    """The results of one topic."""

    topic: str = string("0+")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="0-4", flexible="4+"):
    """One result a partition of the request."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+")
