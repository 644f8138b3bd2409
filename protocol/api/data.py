"""Produce and fetch."""

from collections.abc import Sequence

from seglog.protocol.api.metadata import BrokerMetadata
from seglog.protocol.declaration.keys import ZERO_TOPIC_ID, RecordSource
from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import (
    IsolationLevel,
)


@shape
class ProducePartition:
    """The batches for one partition; ``records`` is a writable view, None where none were sent."""

    topic: str
    partition: int
    records: memoryview | None
    topic_id: bytes = ZERO_TOPIC_ID


@shape
class ProduceRequest:
    """Append record batches; ``acks`` is 0, 1 or -1, ``timeout_ms`` bounds the wait for -1.

    With ``may_add`` records of a transaction add their partition to it (Kafka's TV2);
    without, it has to be added before.
    """

    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]
    transactional_id: str | None = None
    may_add: bool = False


@shape
class ProducePartitionResult:
    """Where a batch was stored; ``log_append_time_ms`` is -1 unless the broker stamps records.

    ``current_leader`` is ``(node id, leader epoch)`` for a client that asked the wrong broker.
    """

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str]] = ()
    error_message: str | None = None
    topic_id: bytes = ZERO_TOPIC_ID
    current_leader: tuple[int, int] | None = None


@shape
class ProduceResponse:
    """One result for each partition of the request, in its order.

    ``leaders`` are the brokers that the results name as leaders.
    """

    partitions: list[ProducePartitionResult]
    throttle_time_ms: int = 0
    leaders: Sequence[BrokerMetadata] = ()


@shape
class FetchPartition:
    """What to read of one partition; ``max_bytes`` is exceeded by a single large first batch."""

    topic: str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    topic_id: bytes = ZERO_TOPIC_ID


@shape
class FetchRequest:
    """Read batches of several partitions; waits up to ``max_wait_ms`` for ``min_bytes``.

    ``session_*`` and ``forgotten`` belong to Kafka's incremental fetch sessions, as does
    ``uses_topic_ids``: whether the client names topics by id. ``replica_id`` is -1 for consumers.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: list[FetchPartition]
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    session_id: int = 0
    session_epoch: int = -1
    forgotten: list[tuple[bytes, str, list[int]]] = field(default_factory=list)
    replica_id: int = -1
    rack_id: str = ""
    uses_topic_ids: bool = False


@shape
class FetchPartitionResult:
    """Batches of one partition, from the one that contains the asked offset on.

    ``aborted_transactions`` holds ``(producer id, first offset)`` pairs, None for read_uncommitted.
    ``current_leader`` is ``(node id, leader epoch)`` for a client that is behind the times.
    """

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: RecordSource | memoryview | None = None
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    diverging_epoch: tuple[int, int] | None = None
    error_message: str | None = None
    topic_id: bytes = ZERO_TOPIC_ID
    current_leader: tuple[int, int] | None = None


@shape
class FetchResponse:
    """One result a partition; ``error`` is about the request as a whole (fetch sessions).

    ``leaders`` are the brokers that the results name as leaders.
    """

    partitions: list[FetchPartitionResult]
    error: ErrorCode = ErrorCode.NONE
    session_id: int = 0
    throttle_time_ms: int = 0
    leaders: Sequence[BrokerMetadata] = ()
