"""Creating, growing and deleting topics."""

from typing import ClassVar, Final

from seglog.protocol.api.configs import ConfigEntry
from seglog.protocol.declaration.fields import (
    array,
    boolean,
    error_code,
    int16,
    int32,
    kafka_only,
    mapping,
    number_of,
    string,
    uuid,
)
from seglog.protocol.declaration.keys import ZERO_TOPIC_ID, ApiKey
from seglog.protocol.declaration.layout import row, single, variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import ConfigSource

_DELETE_ERRORS: Final = {
    ErrorCode.TOPIC_DELETION_DISABLED: (3, ErrorCode.INVALID_REQUEST),
    ErrorCode.UNKNOWN_TOPIC_ID: (6, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


def _by_partition(assignments: list[tuple[int, list[int]]]) -> dict[int, list[int]]:
    """A partition that is assigned twice gets the replicas of both, which is refused."""
    merged: dict[int, list[int]] = {}
    for partition, broker_ids in assignments:
        merged.setdefault(partition, []).extend(broker_ids)
    return merged


@kafka_order("name", "partitions", "replication_factor", "assignments", "configs")
@shape
class NewTopic:
    """A topic to create; -1 for partitions or replication factor takes the broker's default."""

    name: str = string("0+")
    partitions: int = int32("0+", kafka="num_partitions", default=-1)
    replication_factor: int = int16("0+", default=-1)
    configs: dict[str, str | None] = mapping(
        row(name=string("0+"), value=string("0+", nullable="0+")), "0+", default_factory=dict
    )
    assignments: dict[int, list[int]] = mapping(
        row(partition_index=int32("0+"), broker_ids=array("int32", "0+")),
        "0+",
        default_factory=dict,
        read=_by_partition,
    )


@shape
class CreateTopicsRequest:
    """Create topics, or with ``validate_only`` say what creating them would answer."""

    topics: list[NewTopic] = array(NewTopic, "0+")
    timeout_ms: int = int32("0+", default=30000)
    validate_only: bool = boolean("1+", default=False)


@kafka_order("name", "topic_id", "error", "error_message", "topic_config_error_code")
@shape
class CreateTopicResult:
    """What became of one topic."""

    name: str = string("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("1+", nullable="0+", default=None, absent="", ignorable=True)
    topic_id: bytes = uuid("7+", default=ZERO_TOPIC_ID, ignorable=True)
    partitions: int = int32("5+", kafka="num_partitions", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[ConfigEntry] = array(
        variant(
            ConfigEntry,
            name=string("5+"),
            value=string("5+", nullable="5+"),
            is_read_only=boolean("5+", kafka="read_only"),
            source=number_of(
                ConfigSource, "int8", "5+", kafka="config_source", absent=-1, ignorable=True
            ),
            is_sensitive=boolean("5+"),
        ),
        "5+",
        nullable="5+",
        default_factory=list,
        ignorable=True,
        native="array",
    )
    topic_config_error_code: ClassVar = kafka_only(int16("5+", default=0, ignorable=True, tag=0))


@kafka_order("throttle_time_ms")
@shape
class CreateTopicsResponse:
    """One result a topic."""

    topics: list[CreateTopicResult] = array(CreateTopicResult, "0+", answers="topics")
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)


def _sort_topics(request: "DeleteTopicsRequest", topics: list[tuple[str | None, bytes]]) -> None:
    """Tell names from ids."""
    for name, topic_id in topics:
        if name is None:
            request.topic_ids.append(topic_id)
        elif topic_id == ZERO_TOPIC_ID:
            request.names.append(name)
        else:
            request.named_twofold.append((name, topic_id))


def _sorted_topics(request: "DeleteTopicsRequest") -> list[tuple[str | None, bytes]]:
    names = [(name, ZERO_TOPIC_ID) for name in request.names]
    ids = [(None, topic_id) for topic_id in request.topic_ids]
    return [*names, *ids, *request.named_twofold]


@kafka_order("topics", "names")
@shape
class DeleteTopicsRequest:
    """Delete topics by name or id.

    ``named_twofold`` are those that were given both, which is refused: it is unknown which of the
    two is meant where they differ.
    """

    names: list[str] = array(
        "string", "0-5", kafka="topic_names", default_factory=list, ignorable=True
    )
    topic_ids: list[bytes] = array("uuid", default_factory=list)
    timeout_ms: int = int32("0+", default=30000)
    named_twofold: list[tuple[str, bytes]] = array(
        row(name=string(), topic_id=uuid()), default_factory=list, native=False
    )
    topics: ClassVar = kafka_only(
        array(
            row(
                name=string("6+", nullable="6+", default=None),
                topic_id=uuid("6+", default=ZERO_TOPIC_ID),
            ),
            "6+",
        ),
        take=_sort_topics,
        give=_sorted_topics,
    )


@kafka_order("name", "topic_id")
@shape
class DeleteTopicResult:
    """What became of one topic."""

    name: str | None = string("0+", nullable="6+", null="")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_DELETE_ERRORS)
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    topic_id: bytes = uuid("6+", default=ZERO_TOPIC_ID, ignorable=True)


@kafka_order("throttle_time_ms")
@shape
class DeleteTopicsResponse:
    """One result a topic."""

    topics: list[DeleteTopicResult] = array(DeleteTopicResult, "0+", kafka="responses")
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


def _fail_delete_topics(
    request: DeleteTopicsRequest, error: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """Refuse every topic, however it was named."""
    return DeleteTopicsResponse(
        [
            DeleteTopicResult(name, error, message, topic_id)
            for name, topic_id in _sorted_topics(request)
        ]
    )


@shape
class NewPartitions:
    """Grow a topic to ``count`` partitions."""

    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[list[int]] | None = array(
        single(broker_ids=array("int32", "0+")), "0+", nullable="0+", default=None
    )


@shape
class CreatePartitionsRequest:
    """Grow topics."""

    topics: list[NewPartitions] = array(NewPartitions, "0+")
    timeout_ms: int = int32("0+", default=30000)
    validate_only: bool = boolean("0+", default=False)


@shape
class CreatePartitionsResult:
    """What became of one topic."""

    name: str = string("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("0+", nullable="0+", default=None)


@kafka_order("throttle_time_ms")
@shape
class CreatePartitionsResponse:
    """One result a topic."""

    topics: list[CreatePartitionsResult] = array(
        CreatePartitionsResult, "0+", kafka="results", answers="topics"
    )
    throttle_time_ms: int = int32("0+", default=0)


OPERATIONS: Final = (
    Operation(
        ApiKey.CREATE_TOPICS,
        CreateTopicsRequest,
        CreateTopicsResponse,
        versions="0-7",
        served="2-7",
        flexible="5+",
    ),
    Operation(
        ApiKey.DELETE_TOPICS,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        versions="0-6",
        served="1-6",
        flexible="4+",
        fail=_fail_delete_topics,
    ),
    Operation(
        ApiKey.CREATE_PARTITIONS,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        versions="0-3",
        flexible="2+",
    ),
)
