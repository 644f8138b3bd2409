"""ListOffsets: offsets by time."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ListOffsetsPartition(Struct):
    """A time to look up in one partition, or one of the special negative times."""

    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64("0+")
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    """One topic to search."""

    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Message, api_key=2, versions="0-11", flexible="6+", served="1-11"):
    """Looks up offsets by time."""

    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The offset found, -1 where there is none."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    old_style_offsets: list[int] = array("int64", "0", default=())
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The results of one topic."""

    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Message, api_key=2, versions="0-11", flexible="6+"):
    """One result a partition of the request."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")
