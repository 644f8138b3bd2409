"""The input of a cleaning pass: frozen by the owner of the log, read by another thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seglog.broker.storage.files.log_file import LogFile
from seglog.broker.storage.log.producer_entry import LastProducerRecord
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.types import INT64_MAX, TopicPartition


class SourceSegment(NamedTuple):
    """A sealed segment.

    Attributes:
        end_offset: the base offset of the next one.
        start_position: where to begin looking for the log start, if it lies in this segment.
    """

    base_offset: int
    end_offset: int
    log: LogFile
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    modified_ms: int
    start_position: int = 0


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """One log at the moment when it was chosen.

    Attributes:
        segments: every segment between log start and first uncleanable offset (CLN-3), oldest
            first; the clean part is among them, since newer records may supersede its (KEEP-1).
        log_start: nothing below it is looked at; it lies in the first segment.
        first_dirty_offset: where the part begins that was not cleaned yet.
        high_watermark: the batch in front of it stays even if it gets empty (KEEP-10).
        aborted: the aborted transactions that overlap the segments, in order of their first offset.
        last_records: the newest trace of each active producer (KEEP-9).
        now_ms: the time of the pass; tombstones are judged by it.
        max_decompressed_bytes: bound on the inflated records of one batch.
        truncations: of the log when the plan was made.
    """

    topic_partition: TopicPartition
    directory: str
    segments: Sequence[SourceSegment]
    log_start: int
    first_dirty_offset: int
    high_watermark: int
    aborted: Sequence[AbortedTransaction]
    last_records: Mapping[int, LastProducerRecord]
    now_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    compression_levels: Mapping[str, int] = field(default_factory=dict)
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    truncations: int = 0

    @property
    def horizon_ms(self) -> int:
        """When the tombstones go that this pass is the first to keep (KEEP-11)."""
        return min(self.now_ms + self.delete_retention_ms, INT64_MAX)

    @property
    def dirty_segments(self) -> Sequence[SourceSegment]:
        """The segments that hold something not cleaned yet."""
        return [each for each in self.segments if each.end_offset > self.first_dirty_offset]


class SegmentSwap(NamedTuple):
    """Finished ``.cleaned`` files that take the place of the segments they were made from."""

    topic_partition: TopicPartition
    old_base_offsets: tuple[int, ...]
    new_base_offsets: tuple[int, ...]


@dataclass(slots=True)
class CleaningStatistics:
    """Reads and writes of one pass.

    ``bytes_mapped`` are those that the key map was built from, ``bytes_read`` those that were
    looked at to be copied. With ``is_map_full`` the pass ends at ``end_offset``, and the next one
    goes on there.
    """

    bytes_mapped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    keys: int = 0
    is_map_full: bool = False
    end_offset: int = INT64_MAX


class CleaningResult(NamedTuple):
    """``end_offset`` is the new first dirty offset: everything below it is clean."""

    end_offset: int
    statistics: CleaningStatistics


def progress_of(plan: CleaningPlan, statistics: CleaningStatistics) -> tuple[int, int]:
    """Bytes that a pass has gone over, and how many there are to go over.

    The dirty part counts twice: a pass reads it for the key map, and again to copy it; except for
    the rest that no longer fits into the map.
    """
    to_copy = sum(
        each.size_bytes for each in plan.segments if each.base_offset < statistics.end_offset
    )
    to_map = statistics.bytes_mapped
    if not statistics.is_map_full:
        to_map = sum(each.size_bytes for each in plan.dirty_segments)
    return statistics.bytes_mapped + statistics.bytes_read, to_map + to_copy
