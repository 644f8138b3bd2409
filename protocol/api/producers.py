"""Producer ids, and the producers that a partition remembers."""

from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode


@shape
class InitProducerIdRequest:
    """Ask for a producer id; with ``producer_id`` and ``producer_epoch``, for its next epoch."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60000
    producer_id: int = -1
    producer_epoch: int = -1


@shape
class InitProducerIdResponse:
    """The id and epoch to use."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


@shape
class DescribeProducersRequest:
    """Describe the producers of some ``(topic, partition)`` pairs."""

    partitions: list[tuple[str, int]]


@shape
class ActiveProducer:
    """One producer; ``transaction_start_offset`` is -1 while it has no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp_ms: int = -1
    coordinator_epoch: int = -1
    transaction_start_offset: int = -1


@shape
class DescribeProducersResult:
    """The producers of one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    producers: list[ActiveProducer] = field(default_factory=list)


@shape
class DescribeProducersResponse:
    """One result for each partition of the request."""

    partitions: list[DescribeProducersResult]
    throttle_time_ms: int = 0
