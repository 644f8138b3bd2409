"""Producer ids, and the producers that a partition remembers."""

from typing import ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    boolean,
    by_topic,
    error_code,
    int16,
    int32,
    int64,
    kafka_only,
    string,
    topic_name,
)
from seglog.protocol.declaration.keys import ApiKey
from seglog.protocol.declaration.layout import row
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode

_INIT_ERRORS: Final = {
    ErrorCode.PRODUCER_FENCED: (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (5, ErrorCode.INVALID_TXN_STATE),
}


@shape
class InitProducerIdRequest:
    """Ask for a producer id; with ``producer_id`` and ``producer_epoch``, for its next epoch."""

    transactional_id: str | None = string("0+", nullable="0+", default=None)
    transaction_timeout_ms: int = int32("0+", default=60000)
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: ClassVar = kafka_only(boolean("6+", default=False))
    keep_prepared_txn: ClassVar = kafka_only(boolean("6+", default=False))


@kafka_order("throttle_time_ms")
@shape
class InitProducerIdResponse:
    """The id and epoch to use."""

    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_INIT_ERRORS)
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+", default=-1)
    ongoing_txn_producer_id: ClassVar = kafka_only(int64("6+", default=-1))
    ongoing_txn_producer_epoch: ClassVar = kafka_only(int16("6+", default=-1))
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)


@shape
class DescribeProducersRequest:
    """Describe the producers of some ``(topic, partition)`` pairs."""

    partitions: list[tuple[str, int]] = by_topic(
        row(topic=topic_name("0+", kafka="name"), partition=int32("0+")),
        "0+",
        inner="partition_indexes",
        is_bare=True,
    )


@shape
class ActiveProducer:
    """One producer; ``transaction_start_offset`` is -1 while it has no open transaction."""

    producer_id: int = int64("0+")
    producer_epoch: int = int32("0+")
    last_sequence: int = int32("0+", default=-1)
    last_timestamp_ms: int = int64("0+", kafka="last_timestamp", default=-1)
    coordinator_epoch: int = int32("0+", default=-1)
    transaction_start_offset: int = int64("0+", kafka="current_txn_start_offset", default=-1)


@shape
class DescribeProducersResult:
    """The producers of one partition."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("0+", nullable="0+", default=None)
    producers: list[ActiveProducer] = array(
        ActiveProducer, "0+", kafka="active_producers", default_factory=list
    )


@kafka_order("throttle_time_ms")
@shape
class DescribeProducersResponse:
    """One result for each partition of the request."""

    partitions: list[DescribeProducersResult] = by_topic(
        DescribeProducersResult, "0+", answers="partitions"
    )
    throttle_time_ms: int = int32("0+", default=0)


OPERATIONS: Final = (
    Operation(
        ApiKey.INIT_PRODUCER_ID,
        InitProducerIdRequest,
        InitProducerIdResponse,
        versions="0-6",
        served="0-5",
        flexible="2+",
    ),
    Operation(
        ApiKey.DESCRIBE_PRODUCERS,
        DescribeProducersRequest,
        DescribeProducersResponse,
        versions="0",
        flexible="0+",
    ),
)
