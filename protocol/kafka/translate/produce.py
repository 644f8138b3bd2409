"""Produce."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.declaration.operation import Withholding
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import fast_produce
from seglog.protocol.kafka.messages import produce as wire
from seglog.protocol.kafka.translate.operation import (
    Operation,
    older_error,
    runs_of_topic,
)

ERROR_LADDER: Final = {
    ErrorCode.KAFKA_STORAGE_ERROR: (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ErrorCode.TRANSACTION_ABORTABLE: (11, ErrorCode.INVALID_TXN_STATE),
    ErrorCode.UNKNOWN_TOPIC_ID: (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
_FIRST_WITH_ZSTD: Final = 7
_FIRST_WITH_LEADERS: Final = 10
_FIRST_TO_ADD_PARTITIONS: Final = 12
_ATTRIBUTES_LOW_BYTE: Final = 22
_CODEC_MASK: Final = 0x07
_ZSTD: Final = 4


def read_request(message: wire.ProduceRequest, version: int) -> api.ProduceRequest:
    """Flatten topics and partitions; from version 12 on records may add to a transaction."""
    return api.ProduceRequest(
        message.acks,
        message.timeout_ms,
        [
            api.ProducePartition(
                topic.name,
                entry.index,
                entry.records if isinstance(entry.records, memoryview) else None,
                topic.topic_id,
            )
            for topic in message.topic_data
            for entry in topic.partition_data
        ],
        message.transactional_id,
        may_add=(message.transactional_id is not None and version >= _FIRST_TO_ADD_PARTITIONS),
    )


def write_response(response: api.ProduceResponse, version: int) -> wire.ProduceResponse:
    """Nest the results by topic."""
    return wire.ProduceResponse(
        responses=[
            wire.TopicProduceResponse(
                name=topic,
                topic_id=topic_id,
                partition_responses=[_write_result(result, version) for result in results],
            )
            for (topic, topic_id), results in runs_of_topic(response.partitions)
        ],
        throttle_time_ms=response.throttle_time_ms,
        node_endpoints=(
            [
                wire.NodeEndpoint(
                    node_id=each.node_id, host=each.host, port=each.port, rack=each.rack
                )
                for each in response.leaders
            ]
            if version >= _FIRST_WITH_LEADERS
            else []
        ),
    )


def _write_result(
    result: api.ProducePartitionResult, version: int
) -> wire.PartitionProduceResponse:
    return wire.PartitionProduceResponse(
        index=result.partition,
        error_code=older_error(result.error, version, ERROR_LADDER),
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=[
            wire.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in result.record_errors
        ],
        error_message=result.error_message,
        current_leader=(
            wire.LeaderIdAndEpoch(
                leader_id=result.current_leader[0], leader_epoch=result.current_leader[1]
            )
            if result.current_leader is not None and version >= _FIRST_WITH_LEADERS
            else None
        ),
    )


def fail_request(
    request: api.ProduceRequest, error: ErrorCode, message: str | None
) -> api.ProduceResponse:
    """Refuse every partition."""
    return api.ProduceResponse([_refusal(entry, error, message) for entry in request.partitions])


def _refusal(
    entry: api.ProducePartition, error: ErrorCode, message: str | None
) -> api.ProducePartitionResult:
    return api.ProducePartitionResult(
        entry.topic, entry.partition, error, error_message=message, topic_id=entry.topic_id
    )


def take_new_codecs(request: api.ProduceRequest, version: int) -> list[api.ProducePartitionResult]:
    """Refuse zstd where the client's version says that it cannot have meant it (APP-8)."""
    if version >= _FIRST_WITH_ZSTD:
        return []
    kept, refused = [], []
    for entry in request.partitions:
        records = entry.records
        if (
            records is not None
            and len(records) > _ATTRIBUTES_LOW_BYTE
            and records[_ATTRIBUTES_LOW_BYTE] & _CODEC_MASK == _ZSTD
        ):
            text = f"zstd needs Produce version {_FIRST_WITH_ZSTD}, this is version {version}"
            refused.append(_refusal(entry, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text))
        else:
            kept.append(entry)
    request.partitions = kept
    return refused


def put_back(response: api.ProduceResponse, refused: list[api.ProducePartitionResult]) -> None:
    """Add the refusals of ``take_new_codecs``."""
    response.partitions = [*response.partitions, *refused]


PRODUCE: Final = Operation(
    ApiKey.PRODUCE,
    wire.ProduceRequest,
    wire.ProduceResponse,
    read_request,
    write_response,
    fail_request,
    Withholding(take_new_codecs, put_back),
    fast_produce.decode_request,
    fast_produce.encode_response,
)
OPERATIONS: Final = (PRODUCE,)
