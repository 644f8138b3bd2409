"""Looking into logs, and running housekeeping on demand."""

from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode


@shape
class DescribeLogDirsRequest:
    """Sizes by data directory; None means every partition."""

    partitions: list[tuple[str, int]] | None = None


@shape
class LogDirPartition:
    """One partition in a data directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


@shape
class LogDirDescription:
    """One data directory; the byte counts are -1 where the directory is offline.

    ``trouble`` says why it is offline or takes no records, in words that follow its path; None
    while all is well. Kafka's dialect has no place for it.
    """

    path: str
    error: ErrorCode
    partitions: list[LogDirPartition]
    total_bytes: int = -1
    usable_bytes: int = -1
    trouble: str | None = None


@shape
class DescribeLogDirsResponse:
    """One description a data directory."""

    log_dirs: list[LogDirDescription]
    throttle_time_ms: int = 0


@shape
class DescribePartitionsRequest:
    """Offsets, segments and cleaner state of partitions; None means every topic."""

    topics: list[str] | None = None
    include_segments: bool = False


@shape
class SegmentDescription:
    """One segment of a log."""

    base_offset: int
    next_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    offset_index_entries: int
    time_index_entries: int


@shape
class PartitionDescription:
    """What one log holds; ``uncleanable_reason`` is None while it can be cleaned.

    ``error_message`` says why it cannot be served, where there is an ``error``; ``damage`` names
    the records that a reader found damaged last, None while nobody has found any.
    ``cleaning_state`` is idle, in progress, aborted or paused; while a pass is in progress the byte
    counts say how far it is: what is dirty is gone over twice.
    """

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    log_dir: str = ""
    leader_epoch: int = -1
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    log_end_offset: int = -1
    recovery_point: int = -1
    size_bytes: int = 0
    segment_count: int = 0
    first_dirty_offset: int = -1
    cleanable_ratio: float = 0.0
    uncleanable_reason: str | None = None
    cleaning_state: str = "idle"
    cleaning_bytes_done: int = 0
    cleaning_bytes_total: int = 0
    segments: list[SegmentDescription] = field(default_factory=list)
    damage: str | None = None


@shape
class DescribePartitionsResponse:
    """One description a partition, and the topics that do not exist."""

    partitions: list[PartitionDescription]
    unknown_topics: list[str] = field(default_factory=list)


@shape
class RunRetentionRequest:
    """Run retention now on the named topics (None: all); ``dry_run`` only says what would go."""

    topics: list[str] | None = None
    dry_run: bool = False


@shape
class RetentionFinding:
    """A segment that is deleted or would be, and the rule that says so."""

    topic: str
    partition: int
    base_offset: int
    size_bytes: int
    reason: str


@shape
class RunRetentionResponse:
    """What was, or would be, deleted."""

    findings: list[RetentionFinding]
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@shape
class CleanLogsRequest:
    """Compact the partitions of a topic now; ``partitions`` None means all of them."""

    topic: str
    partitions: list[int] | None = None
    wait: bool = False


@shape
class CleanLogResult:
    """State of one partition's cleaning: ``state`` is queued, cleaning, done, nothing or failed."""

    topic: str
    partition: int
    state: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    size_before: int = 0
    size_after: int = 0


@shape
class CleanLogsResponse:
    """One result a partition."""

    partitions: list[CleanLogResult]


@shape
class RollSegmentsRequest:
    """Close the active segment of partitions and begin a new one."""

    topic: str
    partitions: list[int] | None = None


@shape
class RollSegmentsResult:
    """The base offset of the segment that is active now."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    active_base_offset: int = -1
    error_message: str | None = None


@shape
class RollSegmentsResponse:
    """One result a partition."""

    partitions: list[RollSegmentsResult]
