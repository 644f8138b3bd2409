"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: questions about the offsets of a log."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.declaration.operation import Withholding
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import (
    delete_records,
    list_offsets,
    offset_for_leader_epoch,
)
from seglog.protocol.kafka.translate.fetch import isolation_level
from seglog.protocol.kafka.translate.operation import (
    Operation,
    by_topic,
    older_error,
)
from seglog.protocol.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

_LIST_ERROR_LADDER: Final = {
    # LIST-8.
    ErrorCode.OFFSET_NOT_AVAILABLE: (5, ErrorCode.LEADER_NOT_AVAILABLE),
}
_FIRST_WITH_TIMESTAMP: Final = {
    # LIST-3 and LIST-4: the version that introduced each special timestamp.
    EARLIEST_TIMESTAMP: 1,
    LATEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
_NEVER: Final = 32767


def read_list_offsets(
    message: list_offsets.ListOffsetsRequest, _version: int
) -> api.ListOffsetsRequest:
    """Flatten topics and partitions."""
    return api.ListOffsetsRequest(
        [
            api.ListOffsetsPartition(
                topic.name, entry.partition_index, entry.timestamp, entry.current_leader_epoch
            )
            for topic in message.topics
            for entry in topic.partitions
        ],
        isolation_level(message.isolation_level),
        message.replica_id,
        message.timeout_ms,
    )


def write_list_offsets(
    response: api.ListOffsetsResponse, version: int
) -> list_offsets.ListOffsetsResponse:
    """Nest the results by topic."""
    return list_offsets.ListOffsetsResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=result.partition,
                        error_code=older_error(result.error, version, _LIST_ERROR_LADDER),
                        timestamp=result.timestamp_ms,
                        offset=result.offset,
                        leader_epoch=result.leader_epoch if version >= 4 else -1,
                    )
                    for result in results
                ],
            )
            for topic, results in by_topic(response.partitions).items()
        ],
    )


def fail_list_offsets(
    request: api.ListOffsetsRequest, error: ErrorCode, message: str | None
) -> api.ListOffsetsResponse:
    """Refuse every partition."""
    return api.ListOffsetsResponse(
        [
            api.ListOffsetsResult(entry.topic, entry.partition, error, error_message=message)
            for entry in request.partitions
        ]
    )


def take_new_timestamps(
    request: api.ListOffsetsRequest, version: int
) -> list[api.ListOffsetsResult]:
    """Refuse special timestamps that the version does not have (LIST-3, LIST-4)."""
    kept, refused = [], []
    for entry in request.partitions:
        timestamp_ms = entry.timestamp_ms
        if timestamp_ms >= 0 or _FIRST_WITH_TIMESTAMP.get(timestamp_ms, _NEVER) <= version:
            kept.append(entry)
        else:
            refused.append(
                api.ListOffsetsResult(
                    entry.topic,
                    entry.partition,
                    ErrorCode.UNSUPPORTED_VERSION,
                    error_message=f"timestamp {timestamp_ms} in version {version}",
                )
            )
    if refused:
        request.partitions = kept
    return refused


def put_back(response: api.ListOffsetsResponse, refused: list[api.ListOffsetsResult]) -> None:
    """Add the refusals of ``take_new_timestamps``."""
    response.partitions = [*response.partitions, *refused]


def read_epochs(
    message: offset_for_leader_epoch.OffsetForLeaderEpochRequest, _version: int
) -> api.OffsetForLeaderEpochRequest:
    """Flatten topics and partitions."""
    return api.OffsetForLeaderEpochRequest(
        [
            api.OffsetForLeaderEpochPartition(
                topic.topic, entry.partition, entry.leader_epoch, entry.current_leader_epoch
            )
            for topic in message.topics
            for entry in topic.partitions
        ],
        message.replica_id,
    )


def write_epochs(
    response: api.OffsetForLeaderEpochResponse, _version: int
) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
    """Nest the results by topic."""
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic,
                partitions=[
                    offset_for_leader_epoch.EpochEndOffset(
                        error_code=result.error,
                        partition=result.partition,
                        leader_epoch=result.leader_epoch,
                        end_offset=result.end_offset,
                    )
                    for result in results
                ],
            )
            for topic, results in by_topic(response.partitions).items()
        ],
    )


def fail_epochs(
    request: api.OffsetForLeaderEpochRequest, error: ErrorCode, _message: str | None
) -> api.OffsetForLeaderEpochResponse:
    """Refuse every partition."""
    return api.OffsetForLeaderEpochResponse(
        [
            api.OffsetForLeaderEpochResult(entry.topic, entry.partition, error)
            for entry in request.partitions
        ]
    )


def read_delete_records(
    message: delete_records.DeleteRecordsRequest, _version: int
) -> api.DeleteRecordsRequest:
    """Flatten topics and partitions."""
    return api.DeleteRecordsRequest(
        [
            api.DeleteRecordsPartition(topic.name, entry.partition_index, entry.offset)
            for topic in message.topics
            for entry in topic.partitions
        ],
        message.timeout_ms,
    )


def write_delete_records(
    response: api.DeleteRecordsResponse, _version: int
) -> delete_records.DeleteRecordsResponse:
    """Nest the results by topic."""
    return delete_records.DeleteRecordsResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            delete_records.DeleteRecordsTopicResult(
                name=topic,
                partitions=[
                    delete_records.DeleteRecordsPartitionResult(
                        partition_index=result.partition,
                        low_watermark=result.low_watermark,
                        error_code=result.error,
                    )
                    for result in results
                ],
            )
            for topic, results in by_topic(response.partitions).items()
        ],
    )


def fail_delete_records(
    request: api.DeleteRecordsRequest, error: ErrorCode, message: str | None
) -> api.DeleteRecordsResponse:
    """Refuse every partition."""
    return api.DeleteRecordsResponse(
        [
            api.DeleteRecordsResult(entry.topic, entry.partition, error, error_message=message)
            for entry in request.partitions
        ]
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.LIST_OFFSETS,
        list_offsets.ListOffsetsRequest,
        list_offsets.ListOffsetsResponse,
        read_list_offsets,
        write_list_offsets,
        fail_list_offsets,
        Withholding(take_new_timestamps, put_back),
    ),
    Operation(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest,
        offset_for_leader_epoch.OffsetForLeaderEpochResponse,
        read_epochs,
        write_epochs,
        fail_epochs,
    ),
    Operation(
        ApiKey.DELETE_RECORDS,
        delete_records.DeleteRecordsRequest,
        delete_records.DeleteRecordsResponse,
        read_delete_records,
        write_delete_records,
        fail_delete_records,
    ),
)
