"""Transactions: adding partitions and offsets to them, ending them, and looking at them."""

from seglog.protocol.api.groups import OffsetCommitPartition, OffsetCommitResult
from seglog.protocol.api.shape import field, shape
from seglog.protocol.errors import ErrorCode


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


@shape
class TxnOffsetCommitRequest:
    """Store offsets that become visible when the transaction commits.

    ``may_add`` adds the group's offsets to the transaction if they are not yet (Kafka's TV2).
    """

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    partitions: list[OffsetCommitPartition]
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    may_add: bool = False


@shape
class TxnOffsetCommitResponse:
    """One result for each partition of the request."""

    partitions: list[OffsetCommitResult]
    throttle_time_ms: int = 0


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
    """Write markers: by hand, into partitions whose transaction nobody coordinates any more."""

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
