"""From a timestamp to an offset: which segment, then the indexes of that segment.

The first segment whose greatest timestamp reaches the target holds the answer. Greatest timestamps
need not ascend from segment to segment, but their running maximum does, and the first segment that
reaches a target is also the first whose running maximum does: so it is found by binary search, and
the cost does not grow with the number of segments. The running maxima of sealed segments are
computed once per change of the segment list.
"""

from bisect import bisect_left
from collections.abc import Sequence

from seglog.broker.storage.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log_reader import FetchIsolation, LogReader
from seglog.broker.storage.offsets import LogOffsets
from seglog.broker.storage.segment import LogSegment
from seglog.broker.storage.segments import LogSegments
from seglog.broker.storage.time_index import TimestampOffset
from seglog.protocol.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
)


class TimestampLookup:
    """Answers of one log to questions for offsets by time (LIST-1 to 11)."""

    __slots__ = ("_leader_epochs", "_maxima", "_offsets", "_reader", "_sealed", "_segments")

    def __init__(
        self,
        segments: LogSegments,
        offsets: LogOffsets,
        leader_epochs: LeaderEpochCache,
        reader: LogReader,
    ) -> None:
        self._segments = segments
        self._offsets = offsets
        self._leader_epochs = leader_epochs
        self._reader = reader
        self._sealed: Sequence[LogSegment] = ()
        self._maxima: list[int] = []

    def forget(self) -> None:
        """Drop what is known of sealed segments, after a truncation has opened one again."""
        self._sealed = ()
        self._maxima = []

    def find(self, timestamp_ms: int, isolation: FetchIsolation) -> TimestampOffset | None:
        """The first record stamped ``timestamp_ms`` or later that a reader may see, None if none.

        The special values of `seglog.protocol.types` ask for the earliest offset, the end, or the
        first record that carries the greatest timestamp.

        Raises:
            StorageError: the files cannot be read.
            RecordError: a batch on the way cannot be read.
        """
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return self._earliest()
        if timestamp_ms == LATEST_TIMESTAMP:
            limit = self._reader.limit(isolation)
            return TimestampOffset(NO_TIMESTAMP, limit, self._leader_epochs.latest_epoch)
        if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return TimestampOffset(NO_TIMESTAMP, NO_OFFSET, NO_LEADER_EPOCH)
        found = (
            self._find_greatest()
            if timestamp_ms == MAX_TIMESTAMP
            else self._find_at_or_after(max(timestamp_ms, 0))
        )
        if found is None or found.offset >= self._reader.limit(isolation):
            return None
        return found

    def _earliest(self) -> TimestampOffset:
        log_start = self._offsets.log_start
        entry = self._leader_epochs.earliest_entry
        epoch = NO_LEADER_EPOCH
        if entry is not None and entry.start_offset <= log_start:
            epoch = self._leader_epochs.epoch_for_offset(log_start) or entry.epoch
        return TimestampOffset(NO_TIMESTAMP, log_start, epoch)

    def _find_at_or_after(self, timestamp_ms: int) -> TimestampOffset | None:
        segments = self._current()
        first = bisect_left(self._maxima, timestamp_ms)
        log_start = self._offsets.log_start
        for segment in segments[first:]:
            if segment.largest_timestamp_ms < timestamp_ms:
                continue
            found = segment.find_offset_by_timestamp(timestamp_ms, log_start)
            if found is not None:
                return found
        return None

    def _find_greatest(self) -> TimestampOffset | None:
        greatest = {segment: self._greatest_visible(segment) for segment in self._current()}
        while greatest:
            segment = max(greatest, key=greatest.__getitem__)
            if greatest[segment] < 0:
                return None
            found = self._find_at_or_after(greatest[segment])
            if found is not None:
                return found
            # Of a batch that compaction has emptied, and whose header has kept its time (KEEP-9).
            of_records = self._greatest_of_records(segment)
            greatest[segment] = of_records if of_records < greatest[segment] else NO_TIMESTAMP
        return None

    def _greatest_visible(self, segment: LogSegment) -> int:
        """The greatest timestamp of a segment; deleted records below the log start do not count."""
        log_start = self._offsets.log_start
        if segment.base_offset >= log_start:
            return segment.max_timestamp_ms
        greatest = segment.translate(segment.offset_of_max_timestamp)
        if greatest is not None and greatest.base_offset >= log_start:
            return segment.max_timestamp_ms
        return self._greatest_of_records(segment)

    def _greatest_of_records(self, segment: LogSegment) -> int:
        """The greatest timestamp of the records at or above the log start that a segment holds."""
        log_start = self._offsets.log_start
        visible = NO_TIMESTAMP
        for header, position in segment.batches(log_start):
            if header.record_count == 0:
                continue
            if header.base_offset >= log_start:
                visible = max(visible, header.max_timestamp)
                continue
            batch = segment.read_batch(position, header.size_bytes)
            for record in batch.records(from_offset=log_start):
                visible = max(visible, record.timestamp_ms)
        return visible

    def _current(self) -> Sequence[LogSegment]:
        """All segments; sees to it that the running maxima are those of the sealed ones."""
        segments = tuple(self._segments)
        sealed = segments[:-1]
        if sealed != self._sealed:
            self._sealed = sealed
            self._maxima = []
            running = NO_TIMESTAMP
            for segment in sealed:
                running = max(running, segment.largest_timestamp_ms)
                self._maxima.append(running)
        return segments
