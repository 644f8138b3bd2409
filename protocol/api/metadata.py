"""Metadata: brokers, topics and their partitions, at once or page by page."""

from typing import ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    boolean,
    error_code,
    int32,
    kafka_only,
    nested,
    string,
    uuid,
)
from seglog.protocol.declaration.keys import (
    AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    ZERO_TOPIC_ID,
    ApiKey,
)
from seglog.protocol.declaration.layout import row, single, variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode

_METADATA_ERRORS: Final = {
    ErrorCode.LISTENER_NOT_FOUND: (6, ErrorCode.LEADER_NOT_AVAILABLE),
    ErrorCode.UNKNOWN_TOPIC_ID: (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


def _name_topics(request: "MetadataRequest", asked: list[tuple[bytes, str | None]] | None) -> None:
    """Tell names from ids: a null name stands for an id."""
    if asked is not None:
        request.topics = [name for _, name in asked if name is not None]
        request.topic_ids = [topic_id for topic_id, name in asked if name is None]


def _named_topics(request: "MetadataRequest") -> list[tuple[bytes, str | None]] | None:
    if request.topics is None and not request.topic_ids:
        return None
    names = [(ZERO_TOPIC_ID, name) for name in request.topics or ()]
    return [*names, *((topic_id, None) for topic_id in request.topic_ids)]


@kafka_order("asked")
@shape
class MetadataRequest:
    """Describe topics, by name or id; None means all of them."""

    topics: list[str] | None = array("string", default=None)
    topic_ids: list[bytes] = array("uuid", default_factory=list)
    allow_auto_topic_creation: bool = boolean("4+", default=False, absent=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False, native=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False, native=False)
    asked: ClassVar = kafka_only(
        array(
            row(
                topic_id=uuid("10+", default=ZERO_TOPIC_ID, ignorable=True),
                name=string("0+", nullable="10+"),
            ),
            "0+",
            kafka="topics",
            nullable="1+",
        ),
        take=_name_topics,
        give=_named_topics,
    )


@shape
class BrokerMetadata:
    """Where a broker is reached on the listener that was asked."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


@kafka_order("error")
@shape
class PartitionMetadata:
    """Leader and replicas of one partition."""

    partition: int = int32("0+", kafka="partition_index")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("7+", absent=-1, ignorable=True)
    replica_ids: list[int] = array("int32", "0+", kafka="replica_nodes")
    isr_ids: list[int] = array("int32", "0+", kafka="isr_nodes")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_METADATA_ERRORS)
    offline_replica_ids: list[int] = array(
        "int32", "5+", kafka="offline_replicas", default_factory=list, ignorable=True
    )


@kafka_order("error", "name", "topic_id", "is_internal", "partitions")
@shape
class TopicMetadata:
    """One topic; ``name`` is None where an id was asked for that is not known."""

    name: str | None = string("0+", nullable="12+", null="")
    topic_id: bytes = uuid("10+", absent=ZERO_TOPIC_ID, ignorable=True)
    partitions: list[PartitionMetadata] = array(PartitionMetadata, "0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_METADATA_ERRORS)
    is_internal: bool = boolean("1+", default=False, ignorable=True)
    error_message: str | None = string(default=None)
    authorized_operations: int = int32(
        "8+",
        kafka="topic_authorized_operations",
        default=AUTHORIZED_OPERATIONS_NOT_REQUESTED,
        ignorable=True,
        native=False,
    )


@kafka_order("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics",
             "authorized_operations")  # fmt: skip
@shape
class MetadataResponse:
    """The cluster as the broker sees it."""

    brokers: list[BrokerMetadata] = array(BrokerMetadata, "0+")
    cluster_id: str = string("2+", nullable="2+", absent=None, ignorable=True, native="string")
    controller_id: int = int32("1+", absent=-1, ignorable=True)
    topics: list[TopicMetadata] = array(TopicMetadata, "0+")
    error: ErrorCode = error_code("13+", default=ErrorCode.NONE, ignorable=True)
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    authorized_operations: int = int32(
        "8-10",
        kafka="cluster_authorized_operations",
        default=AUTHORIZED_OPERATIONS_NOT_REQUESTED,
        ignorable=True,
        native=False,
    )


def _finish_metadata(request: MetadataRequest, version: int) -> None:
    """Version 0 has no null: its empty list means all topics."""
    if version == 0 and not request.topics:
        request.topics = None


def _fail_metadata(
    request: MetadataRequest, error: ErrorCode, _message: str | None
) -> MetadataResponse:
    """Refuse every topic that was named; "all topics" become none, with the error above them."""
    topics = [TopicMetadata(name, ZERO_TOPIC_ID, [], error) for name in request.topics or ()]
    topics += [TopicMetadata(None, topic_id, [], error) for topic_id in request.topic_ids]
    return MetadataResponse([], "", -1, topics, error)


@shape
class DescribeTopicPartitionsRequest:
    """Describe topics in the order of their names, page by page.

    No topics means all of them; ``cursor`` is the ``(topic, partition)`` at which to go on.
    """

    topics: list[str] = array(single(name=string("0+")), "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: tuple[str, int] | None = nested(
        row(topic_name=string("0+"), partition_index=int32("0+")),
        "0+",
        nullable="0+",
        default=None,
    )


@kafka_order("throttle_time_ms")
@shape
class DescribeTopicPartitionsResponse:
    """A page of topics; ``next_cursor`` is None on the last one."""

    topics: list[TopicMetadata] = array(
        variant(
            TopicMetadata,
            error=error_code("0+"),
            name=string("0+", nullable="0+"),
            topic_id=uuid("0+", ignorable=True),
            is_internal=boolean("0+", ignorable=True),
            partitions=array(
                variant(
                    PartitionMetadata,
                    error=error_code("0+"),
                    partition=int32("0+", kafka="partition_index"),
                    leader_id=int32("0+"),
                    leader_epoch=int32("0+", default=-1, ignorable=True),
                    replica_ids=array("int32", "0+", kafka="replica_nodes"),
                    isr_ids=array("int32", "0+", kafka="isr_nodes"),
                    # Replicas beyond the in-sync ones are not tracked. Null is allowed, but the
                    # Java client cannot read it.
                    eligible_leader_replicas=kafka_only(array("int32", "0+", nullable="0+")),
                    last_known_elr=kafka_only(array("int32", "0+", nullable="0+")),
                    offline_replica_ids=array(
                        "int32", "0+", kafka="offline_replicas", ignorable=True
                    ),
                ),
                "0+",
            ),
            authorized_operations=int32("0+", kafka="topic_authorized_operations"),
        ),
        "0+",
        answers="topics",
    )
    next_cursor: tuple[str, int] | None = nested(
        row(topic_name=string("0+"), partition_index=int32("0+")),
        "0+",
        nullable="0+",
        default=None,
    )
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)


OPERATIONS: Final = (
    Operation(
        ApiKey.METADATA,
        MetadataRequest,
        MetadataResponse,
        versions="0-13",
        flexible="9+",
        finish_request=_finish_metadata,
        fail=_fail_metadata,
    ),
    Operation(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
        versions="0",
        flexible="0+",
        is_native=False,
    ),
)
