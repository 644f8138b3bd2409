"""DescribeTopicPartitions: metadata page by page."""

from seglog.protocol.kafka.schema import (
    NOT_REQUESTED,
    ZERO_UUID,
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    nested,
    string,
    uuid,
)


class TopicRequest(Struct):
    """One topic that is asked for."""

    name: str = string("0+")


class Cursor(Struct):
    """Where an answer that was too long goes on."""

    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """Asks for topics page by page."""

    topics: list[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = nested(Cursor, "0+", default=None, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    """Leader and replicas of one partition."""

    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32", "0+")
    isr_nodes: list[int] = array("int32", "0+")
    eligible_leader_replicas: list[int] | None = array("int32", "0+", default=None, nullable="0+")
    last_known_elr: list[int] | None = array("int32", "0+", default=None, nullable="0+")
    offline_replicas: list[int] = array("int32", "0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic and its partitions."""

    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: bytes = uuid("0+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean("0+", default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition, "0+"
    )
    topic_authorized_operations: int = int32("0+", default=NOT_REQUESTED)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    """A page of topics; the cursor is null on the last one."""

    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic, "0+"
    )
    next_cursor: Cursor | None = nested(Cursor, "0+", default=None, nullable="0+")
