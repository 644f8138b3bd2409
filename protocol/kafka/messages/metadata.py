"""Metadata: brokers, topics and their partitions."""

from seglog.protocol.kafka.schema import (
    NOT_REQUESTED,
    ZERO_UUID,
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
    uuid,
)


class MetadataRequestTopic(Struct):
    """A topic to describe: by name, or from version 12 on by id with a null name."""

    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    name: str | None = string("0+", nullable="10+")


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """Asks for brokers and topics; null topics (in version 0: no topics) means all of them."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    """Where one broker is reached."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", default=None, nullable="1+", ignorable=True)


class MetadataResponsePartition(Struct):
    """Leader and replicas of one partition."""

    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32", "0+")
    isr_nodes: list[int] = array("int32", "0+")
    offline_replicas: list[int] = array("int32", "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """One topic and its partitions."""

    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")
    topic_id: bytes = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
    topic_authorized_operations: int = int32("8+", default=NOT_REQUESTED)


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """Brokers, controller and topics."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", default=None, nullable="2+", ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=NOT_REQUESTED)
    error_code: int = int16("13+", ignorable=True)
