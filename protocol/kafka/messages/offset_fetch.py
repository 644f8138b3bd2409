"""OffsetFetch."""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, up to version 7."""

    name: str = string("0-7")
    partition_indexes: list[int] = array("int32", "0-7")


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, from version 8 on; named by its id from version 10 on."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int] = array("int32", "8+")


class OffsetFetchRequestGroup(Struct):
    """One group; null topics means all that have offsets."""

    group_id: str = string("8+")
    member_id: str | None = string("9+", default=None, nullable="9+", ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+"
    )


class OffsetFetchRequest(Message, api_key=9, versions="0-10", flexible="6+", served="1-10"):
    """Reads offsets of one group up to version 7, of several from version 8 on."""

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchResponsePartition(Struct):
    """The offset of one partition, up to version 7."""

    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


class OffsetFetchResponseTopic(Struct):
    """The results of one topic, up to version 7."""

    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponsePartitions(Struct):
    """The offset of one partition, from version 8 on."""

    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


class OffsetFetchResponseTopics(Struct):
    """The results of one topic, from version 8 on."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


class OffsetFetchResponseGroup(Struct):
    """The results of one group."""

    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+", default=0)


class OffsetFetchResponse(Message, api_key=9, versions="0-10", flexible="6+"):
    """The stored offsets, -1 where there is none."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
