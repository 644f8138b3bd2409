"""Looking into logs, and running housekeeping on demand."""

from typing import ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    boolean,
    by_topic,
    error_code,
    float64,
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


@shape
class DescribeLogDirsRequest:
    """Sizes by data directory; None means every partition."""

    partitions: list[tuple[str, int]] | None = by_topic(
        row(topic=topic_name("0+"), partition=int32("0+")),
        "0+",
        is_bare=True,
        nullable="0+",
        default=None,
    )


@shape
class LogDirPartition:
    """One partition in a data directory."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    size_bytes: int = int64("0+", kafka="partition_size")
    offset_lag: int = int64("0+", default=0)
    is_future: bool = boolean("0+", kafka="is_future_key", default=False)


@kafka_order("error")
@shape
class LogDirDescription:
    """One data directory; the byte counts are -1 where the directory is offline.

    ``trouble`` says why it is offline or takes no records, in words that follow its path; None
    while all is well. Kafka's dialect has no place for it.
    """

    path: str = string("0+", kafka="log_dir")
    error: ErrorCode = error_code("0+")
    partitions: list[LogDirPartition] = by_topic(LogDirPartition, "0+")
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: ClassVar = kafka_only(boolean("5+", default=False, ignorable=True))
    trouble: str | None = string(default=None)


@kafka_order("throttle_time_ms")
@shape
class DescribeLogDirsResponse:
    """One description a data directory."""

    error_code: ClassVar = kafka_only(int16("3+", default=0, ignorable=True))
    log_dirs: list[LogDirDescription] = array(LogDirDescription, "0+", kafka="results")
    throttle_time_ms: int = int32("0+", default=0)


@shape
class DescribePartitionsRequest:
    """Offsets, segments and cleaner state of partitions; None means every topic."""

    topics: list[str] | None = array("string", default=None)
    include_segments: bool = boolean(default=False)


@shape
class SegmentDescription:
    """One segment of a log."""

    base_offset: int = int64()
    next_offset: int = int64()
    size_bytes: int = int64()
    largest_timestamp_ms: int = int64()
    offset_index_entries: int = int32()
    time_index_entries: int = int32()


@shape
class PartitionDescription:
    """What one log holds; ``uncleanable_reason`` is None while it can be cleaned.

    ``error_message`` says why it cannot be served, where there is an ``error``; ``damage`` names
    the records that a reader found damaged last, None if there are none. ``cleaning_state`` is
    idle, in progress, aborted or paused; while a pass is in progress the byte counts show its
    progress: the dirty part counts twice.
    """

    topic: str = string()
    partition: int = int32()
    error: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(default=None)
    log_dir: str = string(default="")
    leader_epoch: int = int32(default=-1)
    log_start_offset: int = int64(default=-1)
    last_stable_offset: int = int64(default=-1)
    high_watermark: int = int64(default=-1)
    log_end_offset: int = int64(default=-1)
    recovery_point: int = int64(default=-1)
    size_bytes: int = int64(default=0)
    segment_count: int = int32(default=0)
    first_dirty_offset: int = int64(default=-1)
    cleanable_ratio: float = float64(default=0.0)
    uncleanable_reason: str | None = string(default=None)
    cleaning_state: str = string(default="idle")
    cleaning_bytes_done: int = int64(default=0)
    cleaning_bytes_total: int = int64(default=0)
    segments: list[SegmentDescription] = array(SegmentDescription, default_factory=list)
    damage: str | None = string(default=None)


@shape
class DescribePartitionsResponse:
    """One description a partition, and the topics that do not exist."""

    partitions: list[PartitionDescription] = array(PartitionDescription)
    unknown_topics: list[str] = array("string", default_factory=list)


@shape
class RunRetentionRequest:
    """Run retention now on the named topics (None: all); ``dry_run`` only says what would go."""

    topics: list[str] | None = array("string", default=None)
    dry_run: bool = boolean(default=False)


@shape
class RetentionFinding:
    """A segment that is deleted or would be, and the rule that says so."""

    topic: str = string()
    partition: int = int32()
    base_offset: int = int64()
    size_bytes: int = int64()
    reason: str = string()


@shape
class RunRetentionResponse:
    """A segment that was, or would be, deleted."""

    findings: list[RetentionFinding] = array(RetentionFinding)
    error: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(default=None)


@shape
class CleanLogsRequest:
    """Compact the partitions of a topic now; ``partitions`` None means all of them."""

    topic: str = string()
    partitions: list[int] | None = array("int32", default=None)
    wait: bool = boolean(default=False)


@shape
class CleanLogResult:
    """State of one partition's cleaning: ``state`` is queued, cleaning, done, nothing or failed."""

    topic: str = string()
    partition: int = int32()
    state: str = string()
    error: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(default=None)
    bytes_read: int = int64(default=0)
    bytes_written: int = int64(default=0)
    size_before: int = int64(default=0)
    size_after: int = int64(default=0)


@shape
class CleanLogsResponse:
    """One result a partition."""

    partitions: list[CleanLogResult] = array(CleanLogResult)


@shape
class RollSegmentsRequest:
    """Close the active segment of partitions and begin a new one."""

    topic: str = string()
    partitions: list[int] | None = array("int32", default=None)


@shape
class RollSegmentsResult:
    """The base offset of the segment that is active now."""

    topic: str = string()
    partition: int = int32()
    error: ErrorCode = error_code(default=ErrorCode.NONE)
    active_base_offset: int = int64(default=-1)
    error_message: str | None = string(default=None)


@shape
class RollSegmentsResponse:
    """One result a partition."""

    partitions: list[RollSegmentsResult] = array(RollSegmentsResult)


def _fail_log_dirs(
    _request: DescribeLogDirsRequest, error: ErrorCode, _text: str | None
) -> DescribeLogDirsResponse:
    """Refuse the request; old versions have only the error of a directory to say so."""
    return DescribeLogDirsResponse([LogDirDescription("", error, [])])


OPERATIONS: Final = (
    Operation(
        ApiKey.DESCRIBE_LOG_DIRS,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
        versions="0-5",
        served="1-5",
        flexible="2+",
        fail=_fail_log_dirs,
    ),
    Operation(ApiKey.DESCRIBE_PARTITIONS, DescribePartitionsRequest, DescribePartitionsResponse),
    Operation(ApiKey.RUN_RETENTION, RunRetentionRequest, RunRetentionResponse),
    Operation(ApiKey.CLEAN_LOGS, CleanLogsRequest, CleanLogsResponse),
    Operation(ApiKey.ROLL_SEGMENTS, RollSegmentsRequest, RollSegmentsResponse),
)
