"""CreatePartitions."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
)


class CreatePartitionsAssignment(Struct):
    """The brokers for one new partition."""

    broker_ids: list[int] = array("int32", "0+")


class CreatePartitionsTopic(Struct):
    """A topic to grow; ``count`` is the new total."""

    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+"
    )


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Adds partitions to topics."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """One result a topic."""

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
