"""Produce."""

from collections.abc import Sequence
from typing import Final

from seglog.protocol.api.metadata import BrokerMetadata
from seglog.protocol.declaration.fields import (
    array,
    boolean,
    by_topic,
    error_code,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    topic_name,
    topic_uuid,
)
from seglog.protocol.declaration.keys import ZERO_TOPIC_ID, ApiKey
from seglog.protocol.declaration.layout import row, variant
from seglog.protocol.declaration.operation import Operation, Withholding
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode

PRODUCE_ERRORS: Final = {
    ErrorCode.KAFKA_STORAGE_ERROR: (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.TRANSACTION_ABORTABLE: (11, ErrorCode.INVALID_TXN_STATE),
    ErrorCode.UNKNOWN_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
"""Errors that came with a later version, with what stood for them before."""
_FIRST_WITH_ZSTD: Final = 7
_FIRST_TO_ADD_PARTITIONS: Final = 12
_ATTRIBUTES_LOW_BYTE: Final = 22
_CODEC_MASK: Final = 0x07
_ZSTD: Final = 4


@shape
class ProducePartition:
    """The batches for one partition; ``records`` is a writable view, None where none were sent."""

    topic: str = topic_name("0-12", kafka="name", ignorable=True)
    partition: int = int32("0+", kafka="index")
    records: memoryview | None = records("0+", nullable="0+")
    topic_id: bytes = topic_uuid("13+", default=ZERO_TOPIC_ID)


@kafka_order("transactional_id")
@shape
class ProduceRequest:
    """Append record batches; ``acks`` is 0, 1 or -1, ``timeout_ms`` bounds the wait for -1.

    With ``may_add`` records of a transaction add their partition to it (Kafka's TV2);
    without, it has to be added before.
    """

    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    partitions: list[ProducePartition] = by_topic(
        ProducePartition, "0+", kafka="topic_data", inner="partition_data"
    )
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    may_add: bool = boolean(default=False, native=False)


@shape
class ProducePartitionResult:
    """Where a batch was stored; ``log_append_time_ms`` is -1 unless the broker stamps records.

    ``current_leader`` is ``(node id, leader epoch)`` for a client that asked the wrong broker.
    """

    topic: str = topic_name("0-12", kafka="name", ignorable=True)
    partition: int = int32("0+", kafka="index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=PRODUCE_ERRORS)
    base_offset: int = int64("0+", default=-1)
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: Sequence[tuple[int, str]] = array(
        row(
            batch_index=int32("8+"),
            message=string("8+", kafka="batch_index_error_message", nullable="8+", default=None),
        ),
        "8+",
        default=(),
        ignorable=True,
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    topic_id: bytes = topic_uuid("13+", default=ZERO_TOPIC_ID)
    current_leader: tuple[int, int] | None = nested(
        row(leader_id=int32("10+", default=-1), leader_epoch=int32("10+", default=-1)),
        "10+",
        tag=0,
        default=None,
        ignorable=True,
        native=False,
    )


@shape
class ProduceResponse:
    """One result for each partition of the request, in its order.

    ``leaders`` are the brokers that the results name as leaders.
    """

    partitions: list[ProducePartitionResult] = by_topic(
        ProducePartitionResult,
        "0+",
        kafka="responses",
        inner="partition_responses",
        runs="0+",
        answers="partitions",
    )
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    leaders: Sequence[BrokerMetadata] = array(
        variant(
            BrokerMetadata,
            node_id=int32("10+"),
            host=string("10+"),
            port=int32("10+"),
            rack=string("10+", nullable="10+", default=None),
        ),
        "10+",
        kafka="node_endpoints",
        tag=0,
        default=(),
        ignorable=True,
        native=False,
    )


def _finish_request(request: ProduceRequest, version: int) -> None:
    """From version 12 on records may add their partition to a transaction."""
    request.may_add = request.transactional_id is not None and version >= _FIRST_TO_ADD_PARTITIONS


def _take_new_codecs(request: ProduceRequest, version: int) -> list[ProducePartitionResult]:
    """Refuse zstd where the client's version says that it cannot have meant it (APP-8)."""
    if version >= _FIRST_WITH_ZSTD:
        return []
    kept, refused = [], []
    for entry in request.partitions:
        batches = entry.records
        if (
            batches is not None
            and len(batches) > _ATTRIBUTES_LOW_BYTE
            and batches[_ATTRIBUTES_LOW_BYTE] & _CODEC_MASK == _ZSTD
        ):
            text = f"zstd needs Produce version {_FIRST_WITH_ZSTD}, this is version {version}"
            refused.append(
                ProducePartitionResult(
                    entry.topic,
                    entry.partition,
                    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                    error_message=text,
                    topic_id=entry.topic_id,
                )
            )
        else:
            kept.append(entry)
    request.partitions = kept
    return refused


def _put_back(response: ProduceResponse, refused: list[ProducePartitionResult]) -> None:
    """Add the refusals of ``_take_new_codecs``."""
    response.partitions = [*response.partitions, *refused]


OPERATIONS: Final = (
    Operation(
        ApiKey.PRODUCE,
        ProduceRequest,
        ProduceResponse,
        versions="0-13",
        served="3-13",
        flexible="9+",
        finish_request=_finish_request,
        withholding=Withholding(_take_new_codecs, _put_back),
    ),
)
