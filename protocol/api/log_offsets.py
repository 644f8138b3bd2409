"""Offsets of a log: finding them by time and by leader epoch, deleting the records below one."""

from typing import ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    by_topic,
    error_code,
    int32,
    int64,
    kafka_only,
    number_of,
    string,
    topic_name,
)
from seglog.protocol.declaration.keys import ApiKey
from seglog.protocol.declaration.operation import Operation, Withholding
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    IsolationLevel,
)

_LIST_ERRORS: Final = {
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


@kafka_order("topic", "partition", "current_leader_epoch")
@shape
class ListOffsetsPartition:
    """Ask for the first offset at or after ``timestamp_ms``, or for a special one (``types``)."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    timestamp_ms: int = int64("0+", kafka="timestamp")
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    max_num_offsets: ClassVar = kafka_only(int32("0", default=1))


@kafka_order("replica_id", "isolation_level")
@shape
class ListOffsetsRequest:
    """Look up offsets by time."""

    partitions: list[ListOffsetsPartition] = by_topic(ListOffsetsPartition, "0+")
    isolation_level: IsolationLevel = number_of(
        IsolationLevel, "int8", "2+", default=IsolationLevel.READ_UNCOMMITTED
    )
    replica_id: int = int32("0+", default=-1, native=False)
    timeout_ms: int = int32("10+", default=0, ignorable=True)


@shape
class ListOffsetsResult:
    """The offset found; ``offset`` and ``timestamp_ms`` are -1 where no record qualifies."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_LIST_ERRORS)
    old_style_offsets: ClassVar = kafka_only(array("int64", "0", default=()))
    timestamp_ms: int = int64("1+", kafka="timestamp", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1, ignorable=True)
    error_message: str | None = string(default=None)


@kafka_order("throttle_time_ms")
@shape
class ListOffsetsResponse:
    """One result for each partition of the request."""

    partitions: list[ListOffsetsResult] = by_topic(ListOffsetsResult, "0+", answers="partitions")
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)


@kafka_order("topic", "partition", "current_leader_epoch")
@shape
class OffsetForLeaderEpochPartition:
    """Where did ``leader_epoch`` end; ``current_leader_epoch`` is what the asker knows, or -1."""

    topic: str = topic_name("0+")
    partition: int = int32("0+")
    leader_epoch: int = int32("0+")
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)


@kafka_order("replica_id")
@shape
class OffsetForLeaderEpochRequest:
    """Look up the ends of leader epochs; ``replica_id`` is negative for consumers."""

    partitions: list[OffsetForLeaderEpochPartition] = by_topic(OffsetForLeaderEpochPartition, "0+")
    replica_id: int = int32("3+", default=-1, absent=-2, ignorable=True)


@kafka_order("topic", "error")
@shape
class OffsetForLeaderEpochResult:
    """The last epoch that is not newer than the asked one, and its end offset; -1 if unknown."""

    topic: str = topic_name("0+")
    partition: int = int32("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64("0+", default=-1)


@kafka_order("throttle_time_ms")
@shape
class OffsetForLeaderEpochResponse:
    """One result for each partition of the request."""

    partitions: list[OffsetForLeaderEpochResult] = by_topic(
        OffsetForLeaderEpochResult, "0+", answers="partitions"
    )
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)


@shape
class DeleteRecordsPartition:
    """Make ``offset`` the new log start; -1 means the high watermark."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    offset: int = int64("0+")


@shape
class DeleteRecordsRequest:
    """Delete the oldest records of some partitions."""

    partitions: list[DeleteRecordsPartition] = by_topic(DeleteRecordsPartition, "0+")
    timeout_ms: int = int32("0+", default=30000)


@kafka_order("topic", "partition", "low_watermark")
@shape
class DeleteRecordsResult:
    """``low_watermark`` is the log start offset after the deletion."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    low_watermark: int = int64("0+", default=-1)
    error_message: str | None = string(default=None)


@kafka_order("throttle_time_ms")
@shape
class DeleteRecordsResponse:
    """One result for each partition of the request."""

    partitions: list[DeleteRecordsResult] = by_topic(
        DeleteRecordsResult, "0+", answers="partitions"
    )
    throttle_time_ms: int = int32("0+", default=0)


def _take_new_timestamps(request: ListOffsetsRequest, version: int) -> list[ListOffsetsResult]:
    """Refuse special timestamps that the version does not have (LIST-3, LIST-4)."""
    kept, refused = [], []
    for entry in request.partitions:
        timestamp_ms = entry.timestamp_ms
        if timestamp_ms >= 0 or _FIRST_WITH_TIMESTAMP.get(timestamp_ms, _NEVER) <= version:
            kept.append(entry)
        else:
            refused.append(
                ListOffsetsResult(
                    entry.topic,
                    entry.partition,
                    ErrorCode.UNSUPPORTED_VERSION,
                    error_message=f"timestamp {timestamp_ms} in version {version}",
                )
            )
    if refused:
        request.partitions = kept
    return refused


def _put_back(response: ListOffsetsResponse, refused: list[ListOffsetsResult]) -> None:
    """Add the refusals of ``_take_new_timestamps``."""
    response.partitions = [*response.partitions, *refused]


OPERATIONS: Final = (
    Operation(
        ApiKey.LIST_OFFSETS,
        ListOffsetsRequest,
        ListOffsetsResponse,
        versions="0-11",
        served="1-11",
        flexible="6+",
        withholding=Withholding(_take_new_timestamps, _put_back),
    ),
    Operation(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        versions="0-4",
        served="2-4",
        flexible="4+",
    ),
    Operation(
        ApiKey.DELETE_RECORDS,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        versions="0-2",
        flexible="2+",
    ),
)
