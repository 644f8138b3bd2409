"""A log's sealed segments on disk and a cleaner over them, without a broker around."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import (
    CleaningPlan,
    CleaningResult,
    SegmentSwap,
    SourceSegment,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.log.exchange import swap_segments
from seglog.broker.storage.log.producer_entry import LastProducerRecord
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import RecordBatch, iter_batches
from seglog.protocol.records.record import Record
from seglog.protocol.types import TopicPartition

NOW_MS = 1_700_000_000_000


class SealedLog:
    """Segments that hold the given batches; ``segments`` is what a reader would see."""

    def __init__(self, directory: Path, config: LogConfig) -> None:
        self.directory = str(directory)
        self.config = config
        self.file_system = OsFileSystem()
        self.segments = LogSegments()
        self.end_offset = 0
        self.first_dirty_offset = 0
        self.aborted: list[AbortedTransaction] = []
        self.last_records: Mapping[int, LastProducerRecord] = {}
        self.high_watermark = -1
        self.removed: list[LogSegment] = []
        self.swaps: list[SegmentSwap] = []

    def add_segment(self, batches: Sequence[bytes | bytearray], base_offset: int) -> LogSegment:
        """Seal a segment of batches whose offsets are assigned."""
        segment = LogSegment.create(
            self.file_system, self.directory, base_offset, self.config, NOW_MS
        )
        for batch in batches:
            header = RecordBatch(batch).header
            segment.append(batch, (header,))
            self.end_offset = max(self.end_offset, header.next_offset)
        segment.on_become_inactive()
        self.segments.add(segment)
        return segment

    def reopen(self, base_offsets: Sequence[int], end_offset: int) -> None:
        """Take segments that are in the folder already, whatever their files hold."""
        for base_offset in base_offsets:
            self.segments.add(
                LogSegment.open(self.file_system, self.directory, base_offset, self.config, NOW_MS)
            )
        self.end_offset = end_offset

    def plan(self, now_ms: int = NOW_MS) -> CleaningPlan:
        """A pass over everything."""
        segments = list(self.segments)
        ends = [segment.base_offset for segment in segments[1:]] + [self.end_offset]
        return CleaningPlan(
            topic_partition=TopicPartition("topic", 0),
            directory=self.directory,
            segments=[
                SourceSegment(
                    segment.base_offset,
                    end_offset,
                    segment.log,
                    segment.size_bytes,
                    segment.offset_index.size_bytes,
                    segment.time_index.size_bytes,
                    segment.files.modified_ms,
                )
                for segment, end_offset in zip(segments, ends, strict=True)
            ],
            log_start=0,
            first_dirty_offset=self.first_dirty_offset,
            high_watermark=self.high_watermark,
            aborted=self.aborted,
            last_records=self.last_records,
            now_ms=now_ms,
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            delete_retention_ms=self.config.delete_retention_ms,
            max_decompressed_bytes=self.config.max_decompressed_message_bytes,
        )

    def clean(
        self, now_ms: int = NOW_MS, *, map_bytes: int = 1 << 16, buffer_bytes: int = 4096
    ) -> CleaningResult:
        """One pass; what it wrote is swapped in."""
        cleaner = Cleaner(
            self.file_system, map_bytes=map_bytes, map_load_factor=0.9, buffer_bytes=buffer_bytes
        )
        result = cleaner.clean(
            self.plan(now_ms), account=lambda _bytes: None, hand_over=self._swap_in
        )
        self.first_dirty_offset = result.end_offset
        return result

    def _swap_in(self, swap: SegmentSwap) -> None:
        self.swaps.append(swap)
        new = [
            LogSegment.open(
                self.file_system, self.directory, base, self.config, NOW_MS, suffix=CLEANED_SUFFIX
            )
            for base in swap.new_base_offsets
        ]
        old = [self.segments.get(base) for base in swap.old_base_offsets]
        self.removed += swap_segments(
            self.file_system, self.directory, self.segments, new, [each for each in old if each]
        )

    def batches(self) -> list[RecordBatch]:
        """Every batch of every segment."""
        return [
            batch
            for segment in self.segments
            for batch in iter_batches(segment.log.read(0, segment.size_bytes))
        ]

    def records(self) -> list[Record]:
        """Every data record of every segment."""
        return [
            record
            for batch in self.batches()
            if not batch.header.is_control
            for record in batch.records()
        ]

    def close(self) -> None:
        """Let the descriptors go."""
        self.segments.close()
        for segment in self.removed:
            segment.delete_files()
