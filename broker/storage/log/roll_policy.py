"""When the active segment is sealed and the next one opened: a pure decision.

The rules are Apache Kafka's (size, age by record timestamps, full index, relative offset beyond
31 bits), with one deliberate difference: a roll because of age happens at most once per
``log.roll.min.interval.ms`` (1 s) of the broker's clock in one log. Record timestamps come from
clients; a backfill whose records are stamped one day apart would otherwise open a segment, three
files and a producer snapshot for each message. Size and index rolls are not held back, and a
``segment.ms`` below the interval is honoured as it is.
"""

import zlib
from enum import Enum
from typing import NamedTuple, Protocol

from seglog.config.log_config import LogConfig
from seglog.protocol.types import INT32_MAX


class RollReason(Enum):
    """Why a segment was sealed."""

    SIZE = "size"
    AGE = "age"
    OFFSET_INDEX_FULL = "offset index full"
    TIME_INDEX_FULL = "time index full"
    OFFSET_RANGE = "offset range"
    REQUESTED = "requested"


class _Index(Protocol):
    @property
    def is_full(self) -> bool: ...


class RollCandidate(Protocol):
    """The input of the decision about the active segment."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def created_ms(self) -> int: ...
    @property
    def first_batch_timestamp(self) -> int | None: ...
    @property
    def offset_index(self) -> _Index: ...
    @property
    def time_index(self) -> _Index: ...


def effective_segment_ms(config: LogConfig) -> int:
    """The age at which a segment rolls; compacted topics must not let it exceed their lag bound."""
    if config.compacts:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def segment_jitter_ms(config: LogConfig, log_name: str, base_offset: int) -> int:
    """How much earlier than ``segment.ms`` this segment rolls.

    Jitter keeps logs that were created together from rolling together. It is drawn from a hash of
    the log's name and the segment's base offset instead of a random number, so a restart does not
    change it.
    """
    bound_ms = min(config.segment_jitter_ms, config.segment_ms)
    if bound_ms <= 0:
        return 0
    return zlib.crc32(f"{log_name}/{base_offset}".encode()) % bound_ms


def waited_ms(segment: RollCandidate, incoming_max_timestamp_ms: int, now_ms: int) -> int:
    """Age of the segment: by record timestamps where it has some, else by the wall clock."""
    first_ms = segment.first_batch_timestamp
    if first_ms is not None and first_ms >= 0:
        return incoming_max_timestamp_ms - first_ms
    return now_ms - segment.created_ms


def should_roll(
    segment: RollCandidate,
    config: LogConfig,
    *,
    incoming_bytes: int,
    incoming_max_timestamp_ms: int,
    incoming_last_offset: int,
    jitter_ms: int,
    now_ms: int,
) -> RollReason | None:
    """Decide, before writing, whether the incoming bytes belong into a fresh segment."""
    if incoming_last_offset - segment.base_offset > INT32_MAX:
        return RollReason.OFFSET_RANGE
    size_bytes = segment.size_bytes
    if size_bytes == 0:
        return None
    if size_bytes > config.segment_bytes - incoming_bytes:
        return RollReason.SIZE
    limit_ms = effective_segment_ms(config)
    if waited_ms(
        segment, incoming_max_timestamp_ms, now_ms
    ) > limit_ms - jitter_ms and not _was_created_just_now(segment, config, limit_ms, now_ms):
        return RollReason.AGE
    if segment.offset_index.is_full:
        return RollReason.OFFSET_INDEX_FULL
    if segment.time_index.is_full:
        return RollReason.TIME_INDEX_FULL
    return None


class RollBounds(NamedTuple):
    """Within these a batch fits into a segment for sure, unless an index is full."""

    max_size_bytes: int
    max_offset: int
    max_timestamp_ms: int


def roll_bounds(segment: RollCandidate, config: LogConfig, jitter_ms: int) -> RollBounds | None:
    """Bounds that an append compares with, instead of asking `should_roll` each time.

    They hold until the segment or the configuration is another one. None for a segment whose age
    is judged by the wall clock.
    """
    first_ms = segment.first_batch_timestamp
    if first_ms is None or first_ms < 0:
        return None
    return RollBounds(
        config.segment_bytes,
        segment.base_offset + INT32_MAX,
        first_ms + effective_segment_ms(config) - jitter_ms,
    )


def is_overdue_for_compaction(segment: RollCandidate, config: LogConfig, now_ms: int) -> bool:
    """Whether records in the active segment have waited for compaction for too long.

    No append comes to a quiet log, so no roll for age is decided there (`should_roll`), and the
    cleaner leaves active segments alone: a task has to look by the clock.
    """
    if not config.compacts or segment.size_bytes == 0:
        return False
    limit_ms = config.max_compaction_lag_ms
    return waited_ms(segment, now_ms, now_ms) > limit_ms and not _was_created_just_now(
        segment, config, limit_ms, now_ms
    )


def _was_created_just_now(
    segment: RollCandidate, config: LogConfig, limit_ms: int, now_ms: int
) -> bool:
    """Whether a roll for age would follow the last one too soon, unless the clock was set back."""
    return 0 <= now_ms - segment.created_ms < min(config.segment_min_interval_ms, limit_ms)
