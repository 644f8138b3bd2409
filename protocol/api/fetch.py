"""Fetch."""

from collections.abc import Sequence
from typing import ClassVar, Final

from seglog.protocol.api.metadata import BrokerMetadata
from seglog.protocol.declaration.fields import (
    array,
    by_topic,
    error_code,
    int32,
    int64,
    kafka_only,
    nested,
    number_of,
    records,
    since,
    string,
    topic_name,
    topic_uuid,
    uuid,
)
from seglog.protocol.declaration.keys import ZERO_TOPIC_ID, ApiKey, RecordSource
from seglog.protocol.declaration.layout import row, variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT32_MAX, INT64_MAX, IsolationLevel

_FIRST_WITH_LEADERS: Final = 16
"""Older ones have a place for a leader, but none for its address; Kafka fills neither."""
FETCH_ERRORS: Final = {
    # FETCH-10.
    ErrorCode.KAFKA_STORAGE_ERROR: (6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.UNKNOWN_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ErrorCode.INCONSISTENT_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: (14, ErrorCode.OFFSET_OUT_OF_RANGE),
}
"""Errors that came with a later version, with what stood for them before."""


@kafka_order(
    "topic", "partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch",
    "log_start_offset", "max_bytes",
)  # fmt: skip
@shape
class FetchPartition:
    """What to read of one partition; ``max_bytes`` is exceeded by a single large first batch."""

    topic: str = topic_name("0-12", ignorable=True)
    partition: int = int32("0+")
    fetch_offset: int = int64("0+")
    max_bytes: int = int32("0+", kafka="partition_max_bytes")
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    last_fetched_epoch: int = int32("12+", default=-1, native=False)
    log_start_offset: int = int64("5+", default=-1, ignorable=True, native=False)
    topic_id: bytes = topic_uuid("13+", default=ZERO_TOPIC_ID)
    replica_directory_id: ClassVar = kafka_only(
        uuid("17+", default=ZERO_TOPIC_ID, ignorable=True, tag=0)
    )
    high_watermark: ClassVar = kafka_only(int64("18+", default=INT64_MAX, ignorable=True, tag=1))


def _take_replica_state(request: "FetchRequest", state: tuple[int, int] | None) -> None:
    if state is not None:
        request.replica_id = state[0]


def _give_replica_state(request: "FetchRequest") -> tuple[int, int]:
    return request.replica_id, -1


@kafka_order(
    "cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes",
    "isolation_level", "session_id", "session_epoch", "partitions", "forgotten", "rack_id",
)  # fmt: skip
@shape
class FetchRequest:
    """Read batches of several partitions; waits up to ``max_wait_ms`` for ``min_bytes``.

    ``session_*`` and ``forgotten`` belong to Kafka's incremental fetch sessions, as does
    ``uses_topic_ids``: whether the client names topics by id. ``replica_id`` is -1 for consumers.
    """

    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", absent=INT32_MAX, ignorable=True)
    partitions: list[FetchPartition] = by_topic(FetchPartition, "0+")
    isolation_level: IsolationLevel = number_of(
        IsolationLevel, "int8", "4+", default=IsolationLevel.READ_UNCOMMITTED, ignorable=True
    )
    session_id: int = int32("7+", default=0, ignorable=True, native=False)
    session_epoch: int = int32("7+", default=-1, ignorable=True, native=False)
    forgotten: list[tuple[bytes, str, list[int]]] = array(
        row(
            topic_id=uuid("13+", default=ZERO_TOPIC_ID, ignorable=True),
            topic=string("7-12", ignorable=True),
            partitions=array("int32", "7+"),
        ),
        "7+",
        kafka="forgotten_topics_data",
        default_factory=list,
        native=False,
    )
    replica_id: int = int32("0-14", default=-1, ignorable=True, native=False)
    rack_id: str = string("11+", default="", ignorable=True, native=False)
    uses_topic_ids: bool = since("13+", default=False)
    cluster_id: ClassVar = kafka_only(
        string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    )
    replica_state: ClassVar = kafka_only(
        nested(
            row(replica_id=int32("15+", default=-1), replica_epoch=int64("15+", default=-1)),
            "15+",
            tag=1,
            default=None,
        ),
        take=_take_replica_state,
        give=_give_replica_state,
    )


@kafka_order(
    "topic", "topic_id", "partition", "error", "high_watermark", "last_stable_offset",
    "log_start_offset", "diverging_epoch", "current_leader", "snapshot_id",
    "aborted_transactions", "preferred_read_replica",
)  # fmt: skip
@shape
class FetchPartitionResult:
    """Batches of one partition, from the one that contains the asked offset on.

    ``aborted_transactions`` holds ``(producer id, first offset)`` pairs, None for read_uncommitted.
    ``current_leader`` is ``(node id, leader epoch)`` for a client that is behind the times.
    """

    topic: str = topic_name("0-12", ignorable=True)
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=FETCH_ERRORS)
    high_watermark: int = int64("0+", default=-1)
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    # Null is legal, but kafka-python fails on it; Kafka never sends it.
    records: RecordSource | memoryview | None = records(
        "0+", nullable="0+", default=None, null=b"", never_null=True
    )
    aborted_transactions: Sequence[tuple[int, int]] | None = array(
        row(producer_id=int64("4+"), first_offset=int64("4+")),
        "4+",
        nullable="4+",
        default=None,
        absent=(),
        ignorable=True,
    )
    diverging_epoch: tuple[int, int] | None = nested(
        row(epoch=int32("12+", default=-1), end_offset=int64("12+", default=-1)),
        "12+",
        tag=0,
        default=None,
        native=False,
    )
    error_message: str | None = string(default=None)
    topic_id: bytes = topic_uuid("13+", default=ZERO_TOPIC_ID)
    current_leader: tuple[int, int] | None = nested(
        row(leader_id=int32("12+", default=-1), leader_epoch=int32("12+", default=-1)),
        "12+",
        tag=1,
        default=None,
        ignorable=True,
        native=False,
    )
    snapshot_id: ClassVar = kafka_only(
        nested(
            row(end_offset=int64("0+", default=-1), epoch=int32("0+", default=-1)),
            "12+",
            tag=2,
            default=None,
        )
    )
    preferred_read_replica: ClassVar = kafka_only(int32("11+", default=-1))


@kafka_order("throttle_time_ms", "error", "session_id")
@shape
class FetchResponse:
    """One result a partition; ``error`` is about the request as a whole (fetch sessions).

    ``leaders`` are the brokers that the results name as leaders.
    """

    partitions: list[FetchPartitionResult] = by_topic(
        FetchPartitionResult, "0+", kafka="responses", runs="0+", answers="partitions"
    )
    error: ErrorCode = error_code("7+", default=ErrorCode.NONE, ignorable=True)
    session_id: int = int32("7+", default=0, native=False)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    leaders: Sequence[BrokerMetadata] = array(
        variant(
            BrokerMetadata,
            node_id=int32("16+"),
            host=string("16+"),
            port=int32("16+"),
            rack=string("16+", nullable="16+", default=None),
        ),
        "16+",
        kafka="node_endpoints",
        tag=0,
        default=(),
        ignorable=True,
        native=False,
    )


def _start_response(response: FetchResponse, version: int) -> FetchResponse:
    """Name no leader without its address."""
    if version < _FIRST_WITH_LEADERS:
        for each in response.partitions:
            each.current_leader = None
    return response


OPERATIONS: Final = (
    Operation(
        ApiKey.FETCH,
        FetchRequest,
        FetchResponse,
        versions="0-18",
        served="4-17",
        flexible="12+",
        start_response=_start_response,
    ),
)
