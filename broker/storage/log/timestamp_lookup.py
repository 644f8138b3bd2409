"""From a timestamp to an offset: which segment, then the indexes of that segment.

The first segment whose greatest timestamp reaches the target holds the answer. Greatest timestamps
need not ascend from segment to segment, but their running maximum does, and the first segment that
reaches a target is also the first whose running maximum does: so it is found by binary search, and
the cost does not grow with the number of segments. The running maxima of sealed segments are kept,
and continued when a segment is rolled. After a start they are not known: the time indexes that tell
them are many files, which another thread opens (``DeferredReadError``).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.log.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log.offsets import LogOffsets
from seglog.broker.storage.log.reader import FetchIsolation, LogReader
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.batch_search import BatchSearch
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.time_index import TimestampOffset
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

_LOADED_AT_ONCE_MAX: Final = 8
"""So many segments have their time index opened on the spot."""
_LOADED_APART_MAX: Final = 256
"""So many are opened in one go by another thread."""


class TimestampLookup:
    """Answers of one log to questions for offsets by time (LIST-1 to 11)."""

    __slots__ = (
        "_leader_epochs",
        "_maxima",
        "_offsets",
        "_reader",
        "_search",
        "_segments",
        "_version",
    )

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
        self._search = BatchSearch(segments.active.files.directory)
        self._version = segments.version
        self._maxima: list[int] = []

    def find(
        self, timestamp_ms: int, isolation: FetchIsolation, max_decompressed_bytes: int
    ) -> TimestampOffset | None:
        """The first record stamped ``timestamp_ms`` or later that a reader may see, None if none.

        The special values of `seglog.protocol.types` ask for the earliest offset, the end, or the
        first record that carries the greatest timestamp. Records of one batch may inflate to
        ``max_decompressed_bytes``.

        Raises:
            DeferredReadError: indexes have to be opened first, or a batch inflates to much.
            StorageError: the files cannot be read.
            RecordError: a batch on the way cannot be read.
        """
        self._search.max_decompressed_bytes = max_decompressed_bytes
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
        first = bisect_left(self._known_maxima(), timestamp_ms)
        log_start = self._offsets.log_start
        for segment in self._segments.from_number(first):
            if segment.largest_timestamp_ms < timestamp_ms:
                continue
            found = segment.find_offset_by_timestamp(timestamp_ms, log_start, self._search)
            if found is not None:
                return found
        return None

    def _find_greatest(self) -> TimestampOffset | None:
        maxima = self._known_maxima()
        latest = max(self._segments.active.max_timestamp_ms, maxima[-1] if maxima else NO_TIMESTAMP)
        found = self._find_at_or_after(latest) if latest >= 0 else None
        return found if found is not None else self._find_greatest_left()

    def _find_greatest_left(self) -> TimestampOffset | None:
        """The same where the record with the greatest timestamp of all is gone."""
        greatest = {segment: self._greatest_visible(segment) for segment in self._segments}
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
            greatest = self._search.greatest_timestamp(batch, log_start)
            if greatest is not None:
                visible = max(visible, greatest)
        return visible

    def _known_maxima(self) -> list[int]:
        """For each sealed segment the greatest timestamp up to its end."""
        segments = self._segments
        if self._version != segments.version:
            self._version, self._maxima = segments.version, []
        new = segments.sealed(len(self._maxima))
        if len(new) > _LOADED_AT_ONCE_MAX:
            # Of doubted ones nothing comes this way, however often it is tried: below they are
            # asked themselves, and raise the work that has to be done first.
            unknown = [
                segment
                for segment in new
                if not (segment.indexes.is_loaded or segment.indexes.is_doubted)
            ]
            if len(unknown) > _LOADED_AT_ONCE_MAX:
                raise DeferredReadError(
                    segments.active.files.directory,
                    f"the time indexes of {len(unknown)} segments have not been read yet",
                    partial(_load_apart, tuple(unknown[:_LOADED_APART_MAX])),
                )
        running = self._maxima[-1] if self._maxima else NO_TIMESTAMP
        for segment in new:
            running = max(running, segment.largest_timestamp_ms)
            self._maxima.append(running)
        return self._maxima


def _load_apart(segments: Sequence[LogSegment]) -> Callable[[], None]:
    """Open the indexes of sealed segments in another thread."""
    results = [segment.indexes.load_apart() for segment in segments]

    def take_over() -> None:
        for take in results:
            take()

    return take_over
