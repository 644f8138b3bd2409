"""Looking into logs, and running housekeeping on demand."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    ERROR,
    FLOAT,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    list_of,
    nullable,
)
from seglog.protocol.native.messages.common_fields import (
    NAMES,
    OUTCOME,
    PLACE,
    PLACES,
    THROTTLE,
)
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

DESCRIBE_LOG_DIRS_REQUEST: Final = Message(api.DescribeLogDirsRequest, partitions=nullable(PLACES))
DESCRIBE_LOG_DIRS_RESPONSE: Final = Message(
    api.DescribeLogDirsResponse,
    log_dirs=list_of(
        Message(
            api.LogDirDescription,
            path=STRING,
            error=ERROR,
            partitions=list_of(
                Message(
                    api.LogDirPartition,
                    **PLACE,
                    size_bytes=INT64,
                    offset_lag=INT64,
                    is_future=BOOLEAN,
                ).field
            ),
            total_bytes=INT64,
            usable_bytes=INT64,
            trouble=NULLABLE_STRING,
        ).field
    ),
    **THROTTLE,
)
DESCRIBE_PARTITIONS_REQUEST: Final = Message(
    api.DescribePartitionsRequest, topics=nullable(NAMES), include_segments=BOOLEAN
)
_SEGMENT: Final = Message(
    api.SegmentDescription,
    base_offset=INT64,
    next_offset=INT64,
    size_bytes=INT64,
    largest_timestamp_ms=INT64,
    offset_index_entries=INT32,
    time_index_entries=INT32,
)
DESCRIBE_PARTITIONS_RESPONSE: Final = Message(
    api.DescribePartitionsResponse,
    partitions=list_of(
        Message(
            api.PartitionDescription,
            **PLACE,
            error=ERROR,
            error_message=NULLABLE_STRING,
            log_dir=STRING,
            leader_epoch=INT32,
            log_start_offset=INT64,
            last_stable_offset=INT64,
            high_watermark=INT64,
            log_end_offset=INT64,
            recovery_point=INT64,
            size_bytes=INT64,
            segment_count=INT32,
            first_dirty_offset=INT64,
            cleanable_ratio=FLOAT,
            uncleanable_reason=NULLABLE_STRING,
            cleaning_state=STRING,
            cleaning_bytes_done=INT64,
            cleaning_bytes_total=INT64,
            segments=list_of(_SEGMENT.field),
            damage=NULLABLE_STRING,
        ).field
    ),
    unknown_topics=NAMES,
)
RUN_RETENTION_REQUEST: Final = Message(
    api.RunRetentionRequest, topics=nullable(NAMES), dry_run=BOOLEAN
)
RUN_RETENTION_RESPONSE: Final = Message(
    api.RunRetentionResponse,
    findings=list_of(
        Message(
            api.RetentionFinding, **PLACE, base_offset=INT64, size_bytes=INT64, reason=STRING
        ).field
    ),
    **OUTCOME,
)
CLEAN_LOGS_REQUEST: Final = Message(
    api.CleanLogsRequest, topic=STRING, partitions=nullable(list_of(INT32)), wait=BOOLEAN
)
CLEAN_LOGS_RESPONSE: Final = Message(
    api.CleanLogsResponse,
    partitions=list_of(
        Message(
            api.CleanLogResult,
            **PLACE,
            state=STRING,
            **OUTCOME,
            bytes_read=INT64,
            bytes_written=INT64,
            size_before=INT64,
            size_after=INT64,
        ).field
    ),
)
ROLL_SEGMENTS_REQUEST: Final = Message(
    api.RollSegmentsRequest, topic=STRING, partitions=nullable(list_of(INT32))
)
ROLL_SEGMENTS_RESPONSE: Final = Message(
    api.RollSegmentsResponse,
    partitions=list_of(
        Message(
            api.RollSegmentsResult,
            **PLACE,
            error=ERROR,
            active_base_offset=INT64,
            error_message=NULLABLE_STRING,
        ).field
    ),
)

OPERATIONS: Final = (
    Operation(ApiKey.DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS_REQUEST, DESCRIBE_LOG_DIRS_RESPONSE),
    Operation(
        ApiKey.DESCRIBE_PARTITIONS, DESCRIBE_PARTITIONS_REQUEST, DESCRIBE_PARTITIONS_RESPONSE
    ),
    Operation(ApiKey.RUN_RETENTION, RUN_RETENTION_REQUEST, RUN_RETENTION_RESPONSE),
    Operation(ApiKey.CLEAN_LOGS, CLEAN_LOGS_REQUEST, CLEAN_LOGS_RESPONSE),
    Operation(ApiKey.ROLL_SEGMENTS, ROLL_SEGMENTS_REQUEST, ROLL_SEGMENTS_RESPONSE),
)
