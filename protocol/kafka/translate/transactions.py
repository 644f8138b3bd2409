"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: what producers ask for."""

from collections.abc import Iterable
from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import transaction_steps as wire
from seglog.protocol.kafka.translate.operation import (
    Operation,
    by_topic,
    older_error,
)

_FIRST_WITH_TRANSACTION_LIST: Final = 4
_FIRST_WITH_EPOCH_BUMP: Final = 5
_ADD_PARTITIONS_LADDER: Final = {
    ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (5, ErrorCode.INVALID_TXN_STATE),
}
_STEP_LADDER: Final = {
    ErrorCode.PRODUCER_FENCED: (2, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (4, ErrorCode.INVALID_TXN_STATE),
}


def _pairs(topics: list[wire.AddPartitionsToTxnTopic]) -> list[tuple[str, int]]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def read_add_partitions(
    message: wire.AddPartitionsToTxnRequest, version: int
) -> api.AddPartitionsToTxnRequest:
    """One transaction or several, always as a list."""
    if version < _FIRST_WITH_TRANSACTION_LIST:
        only = api.TransactionPartitions(
            message.v3_and_below_transactional_id,
            message.v3_and_below_producer_id,
            message.v3_and_below_producer_epoch,
            _pairs(message.v3_and_below_topics),
        )
        return api.AddPartitionsToTxnRequest([only])
    return api.AddPartitionsToTxnRequest(
        [
            api.TransactionPartitions(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                _pairs(each.topics),
                each.verify_only,
            )
            for each in message.transactions
        ]
    )


def write_add_partitions(
    response: api.AddPartitionsToTxnResponse, version: int
) -> wire.AddPartitionsToTxnResponse:
    """A list of transactions, or the partitions of the only one."""
    if version < _FIRST_WITH_TRANSACTION_LIST:
        results = response.transactions[0].partitions
        if response.error:
            results = [
                api.AddPartitionsToTxnResult(each.topic, each.partition, response.error)
                for each in results
            ]
        return wire.AddPartitionsToTxnResponse(
            throttle_time_ms=response.throttle_time_ms,
            error_code=0,
            results_by_transaction=[],
            results_by_topic_v3_and_below=_write_topics(results, version),
        )
    return wire.AddPartitionsToTxnResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=older_error(response.error, version, _ADD_PARTITIONS_LADDER),
        results_by_transaction=[
            wire.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_write_topics(each.partitions, version),
            )
            for each in response.transactions
        ],
        results_by_topic_v3_and_below=[],
    )


def _write_topics(
    results: Iterable[api.AddPartitionsToTxnResult], version: int
) -> list[wire.AddPartitionsToTxnTopicResult]:
    return [
        wire.AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                wire.AddPartitionsToTxnPartitionResult(
                    partition_index=each.partition,
                    partition_error_code=older_error(each.error, version, _ADD_PARTITIONS_LADDER),
                )
                for each in entries
            ],
        )
        for topic, entries in by_topic(results).items()
    ]


def fail_add_partitions(
    request: api.AddPartitionsToTxnRequest, error: ErrorCode, _message: str | None
) -> api.AddPartitionsToTxnResponse:
    """Refuse every partition."""
    return api.AddPartitionsToTxnResponse(
        [
            api.TransactionPartitionsResult(
                each.transactional_id,
                [
                    api.AddPartitionsToTxnResult(topic, partition, error)
                    for topic, partition in each.partitions
                ],
            )
            for each in request.transactions
        ],
        error,
    )


def read_add_offsets(
    message: wire.AddOffsetsToTxnRequest, _version: int
) -> api.AddOffsetsToTxnRequest:
    """The fields as they are."""
    return api.AddOffsetsToTxnRequest(
        message.transactional_id, message.producer_id, message.producer_epoch, message.group_id
    )


def write_add_offsets(
    response: api.AddOffsetsToTxnResponse, version: int
) -> wire.AddOffsetsToTxnResponse:
    """With an error that the version knows."""
    return wire.AddOffsetsToTxnResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=older_error(response.error, version, _STEP_LADDER),
    )


def fail_add_offsets(
    _request: api.AddOffsetsToTxnRequest, error: ErrorCode, _message: str | None
) -> api.AddOffsetsToTxnResponse:
    """Refuse the request."""
    return api.AddOffsetsToTxnResponse(error)


def read_end(message: wire.EndTxnRequest, version: int) -> api.EndTxnRequest:
    """From version 5 on the epoch is bumped."""
    return api.EndTxnRequest(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        message.committed,
        bumps_epoch=version >= _FIRST_WITH_EPOCH_BUMP,
    )


def write_end(response: api.EndTxnResponse, version: int) -> wire.EndTxnResponse:
    """With an error that the version knows."""
    return wire.EndTxnResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=older_error(response.error, version, _STEP_LADDER),
        producer_id=response.producer_id,
        producer_epoch=response.producer_epoch,
    )


def fail_end(
    _request: api.EndTxnRequest, error: ErrorCode, _message: str | None
) -> api.EndTxnResponse:
    """Refuse the request."""
    return api.EndTxnResponse(error)


OPERATIONS: Final = (
    Operation(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        wire.AddPartitionsToTxnRequest,
        wire.AddPartitionsToTxnResponse,
        read_add_partitions,
        write_add_partitions,
        fail_add_partitions,
    ),
    Operation(
        ApiKey.ADD_OFFSETS_TO_TXN,
        wire.AddOffsetsToTxnRequest,
        wire.AddOffsetsToTxnResponse,
        read_add_offsets,
        write_add_offsets,
        fail_add_offsets,
    ),
    Operation(
        ApiKey.END_TXN,
        wire.EndTxnRequest,
        wire.EndTxnResponse,
        read_end,
        write_end,
        fail_end,
    ),
)
