"""WriteTxnMarkers."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import write_txn_markers as wire
from seglog.protocol.kafka.translate.operation import Operation, by_topic


def read_markers(message: wire.WriteTxnMarkersRequest, _version: int) -> api.WriteTxnMarkersRequest:
    """Flatten topics and partitions."""
    return api.WriteTxnMarkersRequest(
        [
            api.TransactionEnd(
                each.producer_id,
                each.producer_epoch,
                each.transaction_result,
                [
                    (topic.name, partition)
                    for topic in each.topics
                    for partition in topic.partition_indexes
                ],
                each.coordinator_epoch,
                each.transaction_version,
            )
            for each in message.markers
        ]
    )


def write_markers(
    response: api.WriteTxnMarkersResponse, _version: int
) -> wire.WriteTxnMarkersResponse:
    """Nest the results by topic."""
    return wire.WriteTxnMarkersResponse(
        markers=[
            wire.WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=[
                    wire.WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            wire.WritableTxnMarkerPartitionResult(
                                partition_index=result.partition, error_code=result.error
                            )
                            for result in results
                        ],
                    )
                    for topic, results in by_topic(each.partitions).items()
                ],
            )
            for each in response.ends
        ]
    )


def fail_markers(
    request: api.WriteTxnMarkersRequest, error: ErrorCode, _message: str | None
) -> api.WriteTxnMarkersResponse:
    """Refuse every partition."""
    return api.WriteTxnMarkersResponse(
        [
            api.TransactionEndResult(
                each.producer_id,
                [
                    api.TransactionEndPartitionResult(topic, partition, error)
                    for topic, partition in each.partitions
                ],
            )
            for each in request.ends
        ]
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.WRITE_TXN_MARKERS,
        wire.WriteTxnMarkersRequest,
        wire.WriteTxnMarkersResponse,
        read_markers,
        write_markers,
        fail_markers,
    ),
)
