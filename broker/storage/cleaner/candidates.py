"""Which log to clean next, and the input of a pass over it (CLN-1..7).

Everything here only looks at logs; the owner of the logs calls it on its own thread.
"""

from itertools import pairwise
from typing import NamedTuple

from seglog.broker.storage.cleaner.plan import CleaningPlan, SourceSegment
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.types import TopicPartition


class CleanableLog(NamedTuple):
    """The cleanable part of one log.

    Attributes:
        first_dirty_offset: where the part begins that was not cleaned yet.
        first_uncleanable_offset: where a pass must stop.
        clean_bytes: size of the segments that were cleaned before.
        cleanable_bytes: size of the dirty segments that may be cleaned.
        overdue_ms: by how much the oldest dirty record has passed ``max.compaction.lag.ms``; 0 if
            it has not.
        checkpoint_is_invalid: the checkpoint named an offset that the log does not have.
    """

    topic_partition: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    checkpoint_is_invalid: bool

    @property
    def ratio(self) -> float:
        """The part of the log, up to where it may be cleaned, that is dirty (CLN-4)."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_eligible(self, min_ratio: float) -> bool:
        """Whether it is worth a pass (CLN-5)."""
        return self.cleanable_bytes > 0 and (self.ratio > min_ratio or self.overdue_ms > 0)


def look_at(log: Log, checkpoint: int | None, now_ms: int) -> CleanableLog:
    """Find the cleanable part of ``log``.

    Args:
        checkpoint: the offset up to which it was cleaned, None if it never was.
        now_ms: wall clock.
    """
    offsets = log.offsets
    is_invalid = checkpoint is not None and not (offsets.log_start <= checkpoint <= offsets.log_end)
    first_dirty = offsets.log_start if checkpoint is None or is_invalid else checkpoint
    active = log.segments.active
    # CLN-3: a pass removes the older value that is on disk, then a power cut takes the newer one
    # that is not: both would be lost. So a pass ends at the recovery point.
    first_uncleanable = min(offsets.last_stable, active.base_offset, offsets.recovery_point)
    clean_bytes = cleanable_bytes = 0
    for segment, end_offset in _sealed_with_ends(log):
        if end_offset <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        if end_offset > first_uncleanable or _is_too_young(log, segment, now_ms):
            first_uncleanable = min(first_uncleanable, segment.base_offset)
            break
        cleanable_bytes += segment.size_bytes
    first_uncleanable = max(first_uncleanable, first_dirty)
    return CleanableLog(
        log.topic_partition,
        first_dirty,
        first_uncleanable,
        clean_bytes,
        cleanable_bytes,
        _overdue_ms(log, first_dirty, now_ms),
        is_invalid,
    )


def nothing_to_clean(log: Log) -> CleanableLog:
    """The result for a log whose files cannot be read."""
    start = log.offsets.log_start
    return CleanableLog(log.topic_partition, start, start, 0, 0, 0, checkpoint_is_invalid=False)


def make_plan(log: Log, cleanable: CleanableLog, now_ms: int) -> CleaningPlan:
    """Freeze the input of a pass over ``log``."""
    segments = [
        SourceSegment(
            segment.base_offset,
            end_offset,
            segment.log,
            segment.size_bytes,
            segment.offset_index.size_bytes,
            segment.time_index.size_bytes,
            segment.files.modified_ms,
            _position_before(segment, log.offsets.log_start),
        )
        for segment, end_offset in _sealed_with_ends(log)
        if end_offset <= cleanable.first_uncleanable_offset
    ]
    config = log.config
    start = (
        max(segments[0].base_offset, log.offsets.log_start)
        if segments
        else cleanable.first_dirty_offset
    )
    return CleaningPlan(
        topic_partition=log.topic_partition,
        directory=log.directory,
        segments=segments,
        log_start=log.offsets.log_start,
        first_dirty_offset=cleanable.first_dirty_offset,
        high_watermark=log.offsets.high_watermark,
        aborted=log.aborted_transactions(start, cleanable.first_uncleanable_offset),
        last_records=log.producer_state.last_records(),
        now_ms=now_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        # A topic whose limit was lowered still has to be cleaned.
        max_decompressed_bytes=max(config.max_decompressed_message_bytes, MAX_DECOMPRESSED_BYTES),
        compression_levels={
            "gzip": config.compression_gzip_level,
            "lz4": config.compression_lz4_level,
            "zstd": config.compression_zstd_level,
        },
        truncations=log.truncations,
    )


def _sealed_with_ends(log: Log) -> list[tuple[LogSegment, int]]:
    """The sealed segments that the log start has not passed, each with the next one's base offset.

    Those below it go with the next retention; damage there does not matter any more.
    """
    log_start = log.offsets.log_start
    return [
        (segment, following.base_offset)
        for segment, following in pairwise(log.segments)
        if following.base_offset > log_start
    ]


def _position_before(segment: LogSegment, log_start: int) -> int:
    """A batch boundary at or before the log start, 0 for segments that begin behind it."""
    if segment.base_offset >= log_start:
        return 0
    return segment.offset_index.lookup(log_start).position


def _is_too_young(log: Log, segment: LogSegment, now_ms: int) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    return lag_ms > 0 and segment.largest_timestamp_ms > now_ms - lag_ms


def _overdue_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    """By how much the oldest first batch of the dirty segments is older than it may get (CLN-5).

    Timestamps come from clients, so that it need not be in the first of them.
    """
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= now_ms:
        return 0
    oldest_ms = now_ms
    for segment, end_offset in _sealed_with_ends(log):
        if end_offset <= first_dirty:
            continue
        first = segment.first_batch_timestamp
        if first is not None and first >= 0:
            oldest_ms = min(oldest_ms, first)
    return max(0, now_ms - lag_ms - oldest_ms)
