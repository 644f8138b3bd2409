"""DescribeProducers."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
)


class TopicRequest(Struct):
    """One topic that is asked for."""

    name: str = string("0+")
    partition_indexes: list[int] = array("int32", "0+")


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    """Asks which producers are active on partitions."""

    topics: list[TopicRequest] = array(TopicRequest, "0+")


class ProducerState(Struct):
    """One producer as the partition remembers it."""

    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+")
    current_txn_start_offset: int = int64("0+", default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState, "0+")


class TopicResponse(Struct):
    """The results of one topic."""

    name: str = string("0+")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+")


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    """One result a partition."""

    throttle_time_ms: int = int32("0+")
    topics: list[TopicResponse] = array(TopicResponse, "0+")
