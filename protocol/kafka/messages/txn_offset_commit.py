"""TxnOffsetCommit."""

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


class TxnOffsetCommitRequestPartition(Struct):
    """The offset to store for one partition."""

    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """One topic; named by its id from version 6 on."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-6", flexible="3+", served="0-5"):
    """Stores offsets that become visible when the transaction commits."""

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


class TxnOffsetCommitResponsePartition(Struct):
    """What became of one offset."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """The results of one topic."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(
        TxnOffsetCommitResponsePartition, "0+"
    )


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-6", flexible="3+"):
    """One result a partition."""

    throttle_time_ms: int = int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")
