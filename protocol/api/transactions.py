"""Transactions: adding partitions and offsets to them, ending them, and looking at them."""

from typing import Final

from seglog.protocol.api.group_offsets import OffsetCommitPartition, OffsetCommitResult
from seglog.protocol.declaration.fields import (
    array,
    boolean,
    by_topic,
    error_code,
    int8,
    int16,
    int32,
    int64,
    since,
    string,
    topic_name,
    topic_uuid,
)
from seglog.protocol.declaration.keys import ApiKey
from seglog.protocol.declaration.layout import row, variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode

_ADD_PARTITIONS_ERRORS: Final = {
    ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (5, ErrorCode.INVALID_TXN_STATE),
}
_STEP_ERRORS: Final = {
    ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (4, ErrorCode.INVALID_TXN_STATE),
}
_TXN_COMMIT_ERRORS: Final = {
    ErrorCode.PRODUCER_FENCED: (6, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (4, ErrorCode.INVALID_TXN_STATE),
}


_FIRST_WITH_ERROR: Final = 4
_PLACE: Final = row(topic=topic_name("0+", kafka="name"), partition=int32("0+"))


@kafka_order("transactional_id", "producer_id", "producer_epoch", "verify_only")
@shape
class TransactionPartitions:
    """Partitions to add to one transaction; ``verify_only`` asks whether they are in it already."""

    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    partitions: list[tuple[str, int]] = by_topic(_PLACE, "4+", is_bare=True)
    verify_only: bool = boolean("4+", default=False, ignorable=True)


@shape
class AddPartitionsToTxnRequest:
    """Add partitions to transactions; clients name one transaction, brokers several."""

    transactions: list[TransactionPartitions] = array(
        TransactionPartitions,
        "4+",
        only="0-3",
        only_layout=variant(
            TransactionPartitions,
            transactional_id=string("0-3", kafka="v3_and_below_transactional_id"),
            producer_id=int64("0-3", kafka="v3_and_below_producer_id"),
            producer_epoch=int16("0-3", kafka="v3_and_below_producer_epoch"),
            partitions=by_topic(_PLACE, "0-3", kafka="v3_and_below_topics", is_bare=True),
        ),
    )


@shape
class AddPartitionsToTxnResult:
    """What became of one partition."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code(
        "0+", kafka="partition_error_code", default=ErrorCode.NONE, older=_ADD_PARTITIONS_ERRORS
    )


@shape
class TransactionPartitionsResult:
    """One result for each partition of one transaction."""

    transactional_id: str = string("4+", ignorable=True)
    partitions: list[AddPartitionsToTxnResult] = by_topic(
        AddPartitionsToTxnResult,
        "4+",
        kafka="topic_results",
        inner="results_by_partition",
        answers="partitions",
    )


@kafka_order("throttle_time_ms", "error")
@shape
class AddPartitionsToTxnResponse:
    """One result for each transaction of the request, or an error for all of it."""

    transactions: list[TransactionPartitionsResult] = array(
        TransactionPartitionsResult,
        "4+",
        kafka="results_by_transaction",
        answers="transactions",
        only="0-3",
        only_layout=variant(
            TransactionPartitionsResult,
            partitions=by_topic(
                AddPartitionsToTxnResult,
                "0-3",
                kafka="results_by_topic_v3_and_below",
                inner="results_by_partition",
            ),
        ),
    )
    error: ErrorCode = error_code(
        "4+", default=ErrorCode.NONE, older=_ADD_PARTITIONS_ERRORS, ignorable=True
    )
    throttle_time_ms: int = int32("0+", default=0)


@shape
class AddOffsetsToTxnRequest:
    """Add the offsets of a group to a transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


@kafka_order("throttle_time_ms")
@shape
class AddOffsetsToTxnResponse:
    """Whether they were added."""

    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_STEP_ERRORS)
    throttle_time_ms: int = int32("0+", default=0)


@shape
class EndTxnRequest:
    """Commit or abort; ``bumps_epoch`` asks for the epoch of the next transaction (Kafka's TV2)."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    commit: bool = boolean("0+", kafka="committed")
    bumps_epoch: bool = since("5+", default=False, native=True)


@kafka_order("throttle_time_ms")
@shape
class EndTxnResponse:
    """Whether it ends so; id and epoch of the next transaction where they were asked for."""

    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_STEP_ERRORS)
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
    throttle_time_ms: int = int32("0+", default=0)


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

    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    commit: bool = boolean("0+", kafka="transaction_result")
    partitions: list[tuple[str, int]] = by_topic(
        _PLACE, "0+", inner="partition_indexes", is_bare=True
    )
    coordinator_epoch: int = int32("0+", default=0)
    transaction_version: int = int8("2+", default=0, ignorable=True)


@shape
class WriteTxnMarkersRequest:
    """Write markers: by hand, into partitions whose transaction has no coordinator any more."""

    ends: list[TransactionEnd] = array(TransactionEnd, "0+", kafka="markers")


@shape
class TransactionEndPartitionResult:
    """What became of one marker."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)


@shape
class TransactionEndResult:
    """One result for each partition of one end."""

    producer_id: int = int64("0+")
    partitions: list[TransactionEndPartitionResult] = by_topic(
        TransactionEndPartitionResult, "0+", answers="partitions"
    )


@shape
class WriteTxnMarkersResponse:
    """One result for each end of the request."""

    ends: list[TransactionEndResult] = array(
        TransactionEndResult, "0+", kafka="markers", answers="ends"
    )


@shape
class DescribeTransactionsRequest:
    """Describe transactions."""

    transactional_ids: list[str] = array("string", "0+")


@kafka_order("error")
@shape
class TransactionDescription:
    """One transaction with the ``(topic, partition)`` pairs that are in it."""

    transactional_id: str = string("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    state: str = string("0+", kafka="transaction_state", default="")
    timeout_ms: int = int32("0+", kafka="transaction_timeout_ms", default=-1)
    start_time_ms: int = int64("0+", kafka="transaction_start_time_ms", default=-1)
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+", default=-1)
    partitions: list[tuple[str, int]] = by_topic(
        row(topic=topic_name("0+"), partition=int32("0+")),
        "0+",
        is_bare=True,
        default_factory=list,
    )


@kafka_order("throttle_time_ms")
@shape
class DescribeTransactionsResponse:
    """One description for each transactional id of the request."""

    transactions: list[TransactionDescription] = array(
        TransactionDescription, "0+", kafka="transaction_states", answers="transactional_ids"
    )
    throttle_time_ms: int = int32("0+", default=0)


@shape
class ListTransactionsRequest:
    """List transactions; empty filters match all.

    ``duration_ms`` keeps those that run at least so long (-1: all), ``transactional_id_pattern`` is
    a regular expression.
    """

    states: list[str] = array("string", "0+", kafka="state_filters", default_factory=list)
    producer_ids: list[int] = array(
        "int64", "0+", kafka="producer_id_filters", default_factory=list
    )
    duration_ms: int = int64("1+", kafka="duration_filter", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@shape
class ListedTransaction:
    """One transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    state: str = string("0+", kafka="transaction_state")


@kafka_order("throttle_time_ms", "error", "unknown_states")
@shape
class ListTransactionsResponse:
    """The transactions, and the asked states that do not exist."""

    transactions: list[ListedTransaction] = array(
        ListedTransaction, "0+", kafka="transaction_states"
    )
    unknown_states: list[str] = array(
        "string", "0+", kafka="unknown_state_filters", default_factory=list
    )
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    throttle_time_ms: int = int32("0+", default=0)


def _start_add_partitions(
    response: AddPartitionsToTxnResponse, version: int
) -> AddPartitionsToTxnResponse:
    """Say an error of the whole request at its partitions: old versions have no other place."""
    if version >= _FIRST_WITH_ERROR or not response.error:
        return response
    only = response.transactions[0]
    results = [
        AddPartitionsToTxnResult(each.topic, each.partition, response.error)
        for each in only.partitions
    ]
    return AddPartitionsToTxnResponse(
        [TransactionPartitionsResult(only.transactional_id, results)],
        throttle_time_ms=response.throttle_time_ms,
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        versions="0-5",
        flexible="3+",
        is_native=False,
        start_response=_start_add_partitions,
    ),
    Operation(
        ApiKey.ADD_OFFSETS_TO_TXN,
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
        versions="0-4",
        flexible="3+",
        is_native=False,
    ),
    Operation(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, versions="0-5", flexible="3+"),
    Operation(
        ApiKey.WRITE_TXN_MARKERS,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
        versions="0-2",
        served="1-2",
        flexible="1+",
    ),
    Operation(
        ApiKey.DESCRIBE_TRANSACTIONS,
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        versions="0",
        flexible="0+",
    ),
    Operation(
        ApiKey.LIST_TRANSACTIONS,
        ListTransactionsRequest,
        ListTransactionsResponse,
        versions="0-2",
        flexible="0+",
    ),
    Operation(
        ApiKey.TXN_OFFSET_COMMIT,
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        versions="0-6",
        served="0-5",
        flexible="3+",
    ),
)
