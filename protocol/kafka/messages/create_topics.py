"""CreateTopics."""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class CreatableReplicaAssignment(Struct):
    """The brokers for one partition."""

    partition_index: int = int32("0+")
    broker_ids: list[int] = array("int32", "0+")


class CreatableTopicConfig(Struct):
    """One configuration override."""

    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Struct):
    """A topic to create; -1 for a count takes the broker's default."""

    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message, api_key=19, versions="0-7", flexible="5+", served="2-7"):
    """Creates topics."""

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+", default=False)


class CreatableTopicConfigs(Struct):
    """One configuration value of the topic that was created."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


class CreatableTopicResult(Struct):
    """What became of one topic."""

    name: str = string("0+")
    topic_id: bytes = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", default=0, ignorable=True, tag=0)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Message, api_key=19, versions="0-7", flexible="5+"):
    """One result a topic."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")
