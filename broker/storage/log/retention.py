"""Which segments may be deleted, and why: a pure decision.

Candidates are taken from the oldest segment forward, in three steps of one pass: below the log
start offset, over the size limit, over the age limit; each step stops at its first segment that
stays. A dry run and the real deletion use this same function.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from seglog.broker.storage.errors import MissingFileError
from seglog.config.log_config import LogConfig


class DeletionReason(Enum):
    """Why a segment is deleted."""

    LOG_START = "log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class RetentionCandidate(Protocol):
    """The input of the decision about a segment."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def largest_timestamp_ms(self) -> int:
        """Raises ``MissingFileError`` where that takes a file which is gone."""
        ...


class RetentionBounds(NamedTuple):
    """The log's offsets that limit deletion."""

    log_start: int
    high_watermark: int
    log_end: int


Segment = TypeVar("Segment", bound=RetentionCandidate)


def deletable_segments(
    segments: Sequence[Segment], config: LogConfig, bounds: RetentionBounds, now_ms: int
) -> list[tuple[Segment, DeletionReason]]:
    """The segments that go now, oldest first.

    Args:
        segments: all segments of the log by base offset; the last is the active one.
        config: of the topic; without ``delete`` in its policy only the log start rule applies.
        bounds: nothing at or above the high watermark is deleted.
        now_ms: wall clock.

    The active segment is deleted by age only, and only when it holds something; its owner rolls
    first. Size never empties the active segment, not even with ``retention.bytes=0``.
    """
    found: list[tuple[Segment, DeletionReason]] = []
    position = _skip_below_log_start(segments, bounds, found)
    if not config.deletes:
        return found
    position = _skip_over_size(segments, position, config.retention_bytes, bounds, found)
    _skip_over_age(segments, position, config.retention_ms, bounds, now_ms, found)
    return found


def _upper_bound(segments: Sequence[Segment], position: int, bounds: RetentionBounds) -> int:
    """First offset after the segment; it must not be above the high watermark."""
    if position + 1 < len(segments):
        return segments[position + 1].base_offset
    return bounds.log_end


def _skip_below_log_start(
    segments: Sequence[Segment],
    bounds: RetentionBounds,
    found: list[tuple[Segment, DeletionReason]],
) -> int:
    limit = min(bounds.log_start, bounds.high_watermark)
    position = 0
    while position + 1 < len(segments) and segments[position + 1].base_offset <= limit:
        found.append((segments[position], DeletionReason.LOG_START))
        position += 1
    return position


def _skip_over_size(
    segments: Sequence[Segment],
    position: int,
    retention_bytes: int,
    bounds: RetentionBounds,
    found: list[tuple[Segment, DeletionReason]],
) -> int:
    if retention_bytes < 0:
        return position
    excess = sum(segment.size_bytes for segment in segments[position:]) - retention_bytes
    while position + 1 < len(segments):
        size_bytes = segments[position].size_bytes
        if excess < size_bytes or _upper_bound(segments, position, bounds) > bounds.high_watermark:
            break
        found.append((segments[position], DeletionReason.SIZE))
        excess -= size_bytes
        position += 1
    return position


def _skip_over_age(
    segments: Sequence[Segment],
    position: int,
    retention_ms: int,
    bounds: RetentionBounds,
    now_ms: int,
    found: list[tuple[Segment, DeletionReason]],
) -> None:
    if retention_ms < 0:
        return
    undecided: list[tuple[Segment, DeletionReason]] = []
    for index in range(position, len(segments)):
        segment = segments[index]
        is_empty_active = index + 1 == len(segments) and segment.size_bytes == 0
        if is_empty_active or _upper_bound(segments, index, bounds) > bounds.high_watermark:
            return
        undecided.append((segment, DeletionReason.TIME))
        try:
            age_ms = now_ms - segment.largest_timestamp_ms
        except MissingFileError:
            # The file was removed by hand. It is no younger than the next one, and goes with that;
            # else it would keep everything behind it until a restart.
            continue
        if age_ms <= retention_ms:
            return
        found += undecided
        undecided.clear()


def frees_space(old: LogConfig, new: LogConfig) -> bool:
    """Whether other settings let more be deleted than before, or sooner."""
    limits = (
        (old.retention_ms, new.retention_ms),
        (old.retention_bytes, new.retention_bytes),
        (old.retention_bytes_total, new.retention_bytes_total),
    )
    is_lower = any(after >= 0 and (before < 0 or after < before) for before, after in limits)
    return (
        (new.deletes and (is_lower or not old.deletes))
        or (new.compacts and not old.compacts)
        or new.file_delete_delay_ms < old.file_delete_delay_ms
    )
