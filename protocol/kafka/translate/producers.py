"""InitProducerId and DescribeProducers."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import (
    describe_producers,
    init_producer_id,
)
from seglog.protocol.kafka.translate.operation import Operation, by_topic, older_error

_INIT_ERROR_LADDER: Final = {
    ErrorCode.PRODUCER_FENCED: (4, ErrorCode.INVALID_PRODUCER_EPOCH),
    ErrorCode.TRANSACTION_ABORTABLE: (5, ErrorCode.INVALID_TXN_STATE),
}


def read_init(
    message: init_producer_id.InitProducerIdRequest, _version: int
) -> api.InitProducerIdRequest:
    """The fields as they are."""
    return api.InitProducerIdRequest(
        message.transactional_id,
        message.transaction_timeout_ms,
        message.producer_id,
        message.producer_epoch,
    )


def write_init(
    response: api.InitProducerIdResponse, version: int
) -> init_producer_id.InitProducerIdResponse:
    """The fields as they are, with an error that the version knows."""
    return init_producer_id.InitProducerIdResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=older_error(response.error, version, _INIT_ERROR_LADDER),
        producer_id=response.producer_id,
        producer_epoch=response.producer_epoch,
    )


def fail_init(
    _request: api.InitProducerIdRequest, error: ErrorCode, _message: str | None
) -> api.InitProducerIdResponse:
    """Refuse the request."""
    return api.InitProducerIdResponse(error)


def read_describe(
    message: describe_producers.DescribeProducersRequest, _version: int
) -> api.DescribeProducersRequest:
    """Flatten topics and partitions."""
    return api.DescribeProducersRequest(
        [
            (topic.name, partition)
            for topic in message.topics
            for partition in topic.partition_indexes
        ]
    )


def write_describe(
    response: api.DescribeProducersResponse, _version: int
) -> describe_producers.DescribeProducersResponse:
    """Nest the results by topic."""
    return describe_producers.DescribeProducersResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            describe_producers.TopicResponse(
                name=topic,
                partitions=[
                    describe_producers.PartitionResponse(
                        partition_index=result.partition,
                        error_code=result.error,
                        error_message=result.error_message,
                        active_producers=[_write_producer(each) for each in result.producers],
                    )
                    for result in results
                ],
            )
            for topic, results in by_topic(response.partitions).items()
        ],
    )


def _write_producer(producer: api.ActiveProducer) -> describe_producers.ProducerState:
    return describe_producers.ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start_offset,
    )


def fail_describe(
    request: api.DescribeProducersRequest, error: ErrorCode, message: str | None
) -> api.DescribeProducersResponse:
    """Refuse every partition."""
    return api.DescribeProducersResponse(
        [
            api.DescribeProducersResult(topic, partition, error, message)
            for topic, partition in request.partitions
        ]
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.INIT_PRODUCER_ID,
        init_producer_id.InitProducerIdRequest,
        init_producer_id.InitProducerIdResponse,
        read_init,
        write_init,
        fail_init,
    ),
    Operation(
        ApiKey.DESCRIBE_PRODUCERS,
        describe_producers.DescribeProducersRequest,
        describe_producers.DescribeProducersResponse,
        read_describe,
        write_describe,
        fail_describe,
    ),
)
