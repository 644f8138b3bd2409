"""Transactions: adding partitions and offsets to them, ending them, and looking at them."""

from typing import Final

from seglog.protocol.api.group_offsets import OffsetCommitPartition, OffsetCommitResult
from seglog.protocol.declaration.fields import (
    by_topic,
    error_code,
    int16,
    int32,
    int64,
    since,
    string,
    topic_name,
    topic_uuid,
)
from seglog.protocol.declaration.keys import ApiKey
from seglog.protocol.declaration.layout import variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import field, kafka_order, shape
from seglog.protocol.errors import ErrorCode

_TXN_COMMIT_ERRORS: Final = {
    ErrorCode.PRODUCER_FENCED: (6, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (4, ErrorCode.INVALID_TXN_STATE),
}


@shape
class TransactionPartitions:
    """Partitions to add to one transaction; ``verify_only`` asks whether they are in it already."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[tuple[str, int]]
    verify_only: bool = False


@shape
class AddPartitionsToTxnRequest:
    """Add partitions to transactions; clients name one transaction, brokers several."""

    transactions: list[TransactionPartitions]


@shape
class AddPartitionsToTxnResult:
    """What became of one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE


@shape
class TransactionPartitionsResult:
    """One result for each partition of one transaction."""

    transactional_id: str
    partitions: list[AddPartitionsToTxnResult]


@shape
class AddPartitionsToTxnResponse:
    """One result for each transaction of the request, or an error for all of it."""

    transactions: list[TransactionPartitionsResult]
    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


@shape
class AddOffsetsToTxnRequest:
    """Add the offsets of a group to a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@shape
class AddOffsetsToTxnResponse:
    """Whether they were added."""

    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


@shape
class EndTxnRequest:
    """Commit or abort; ``bumps_epoch`` asks for the epoch of the next transaction (Kafka's TV2)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    bumps_epoch: bool = False


@shape
class EndTxnResponse:
    """Whether it ends so; id and epoch of the next transaction where they were asked for."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


@kafka_order(
    "transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id", "member_id",
    "group_instance_id",
)  # fmt: skip
@shape
class TxnOffsetCommitRequest:
    """Store offsets that become visible when the transaction commits.

    ``may_add`` adds the group's offsets to the transaction if they are not yet (Kafka's TV2).
    """

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    partitions: list[OffsetCommitPartition] = by_topic(
        variant(
            OffsetCommitPartition,
            topic=topic_name("0-5", kafka="name", ignorable=True),
            topic_id=topic_uuid("6+"),
            partition=int32("0+", kafka="partition_index"),
            offset=int64("0+", kafka="committed_offset"),
            leader_epoch=int32("2+", kafka="committed_leader_epoch", default=-1, ignorable=True),
            metadata=string("0+", kafka="committed_metadata", nullable="0+"),
        ),
        "0+",
    )
    generation_id: int = int32("3+", kafka="generation_id_or_member_epoch", default=-1)
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    may_add: bool = since("5+", default=False, native=True)


@kafka_order("throttle_time_ms")
@shape
class TxnOffsetCommitResponse:
    """One result for each partition of the request."""

    partitions: list[OffsetCommitResult] = by_topic(
        variant(
            OffsetCommitResult,
            topic=topic_name("0-5", kafka="name", ignorable=True),
            topic_id=topic_uuid("6+"),
            partition=int32("0+", kafka="partition_index"),
            error=error_code("0+", older=_TXN_COMMIT_ERRORS),
        ),
        "0+",
        runs="0+",
        answers="partitions",
    )
    throttle_time_ms: int = int32("0+", default=0)


@shape
class TransactionEnd:
    """Say in some partitions that a producer's transaction has ended."""

    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: list[tuple[str, int]]
    coordinator_epoch: int = 0
    transaction_version: int = 0


@shape
class WriteTxnMarkersRequest:
    """Write markers: by hand, into partitions whose transaction has no coordinator any more."""

    ends: list[TransactionEnd]


@shape
class TransactionEndPartitionResult:
    """What became of one marker."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE


@shape
class TransactionEndResult:
    """One result for each partition of one end."""

    producer_id: int
    partitions: list[TransactionEndPartitionResult]


@shape
class WriteTxnMarkersResponse:
    """One result for each end of the request."""

    ends: list[TransactionEndResult]


@shape
class DescribeTransactionsRequest:
    """Describe transactions."""

    transactional_ids: list[str]


@shape
class TransactionDescription:
    """One transaction with the ``(topic, partition)`` pairs that are in it."""

    transactional_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: int = -1
    start_time_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    partitions: list[tuple[str, int]] = field(default_factory=list)


@shape
class DescribeTransactionsResponse:
    """One description for each transactional id of the request."""

    transactions: list[TransactionDescription]
    throttle_time_ms: int = 0


@shape
class ListTransactionsRequest:
    """List transactions; empty filters match all.

    ``duration_ms`` keeps those that run at least so long (-1: all), ``transactional_id_pattern`` is
    a regular expression.
    """

    states: list[str] = field(default_factory=list)
    producer_ids: list[int] = field(default_factory=list)
    duration_ms: int = -1
    transactional_id_pattern: str | None = None


@shape
class ListedTransaction:
    """One transaction."""

    transactional_id: str
    producer_id: int
    state: str


@shape
class ListTransactionsResponse:
    """The transactions, and the asked states that do not exist."""

    transactions: list[ListedTransaction]
    unknown_states: list[str] = field(default_factory=list)
    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


OPERATIONS: Final = (
    Operation(
        ApiKey.TXN_OFFSET_COMMIT,
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        versions="0-6",
        served="0-5",
        flexible="3+",
    ),
)
