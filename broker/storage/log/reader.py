"""Reading a log: from an offset to a range of a file, without touching the records.

Owned by the log. Readers of the end of the log ask for offsets at which batches were appended a
moment ago; their positions are remembered, so that they need no index lookup and no read.
"""

from bisect import bisect_left
from collections.abc import Iterator
from enum import Enum
from operator import attrgetter
from typing import Final, NamedTuple

from seglog.broker.storage.errors import DamagedRecordsError, OffsetOutOfRangeError
from seglog.broker.storage.files.file_system import FileSlice
from seglog.broker.storage.log.offsets import LogOffsets
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.transaction_index import AbortedTransaction

_REMEMBERED_POSITIONS: Final = 128


class FetchIsolation(Enum):
    """How far a reader may see (READ-2)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class FetchData(NamedTuple):
    """The result of a read; ``slice``, if not None, has to be released.

    ``aborted_transactions`` holds ``(producer id, first offset)`` pairs, possibly more than needed
    (READ-12); None unless the read was TXN_COMMITTED.
    """

    slice: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    aborted_transactions: list[tuple[int, int]] | None = None


class LogReader:
    """Reads of one log.

    Args:
        segments: of the log.
        offsets: of the log.

    Attributes:
        is_being_cut: whether files may reach beyond the log end, since a truncation lowers it
            first.
    """

    __slots__ = (
        "_aborting",
        "_looked_at",
        "_offsets",
        "_positions",
        "_segments",
        "_version",
        "is_being_cut",
    )

    def __init__(self, segments: LogSegments, offsets: LogOffsets) -> None:
        self._segments = segments
        self._offsets = offsets
        self.is_being_cut = False
        self._positions: dict[int, tuple[LogSegment, int]] = {}
        self._version = segments.version
        self._looked_at = 0
        self._aborting: list[LogSegment] = []

    def remember(self, offset: int, segment: LogSegment, position: int) -> None:
        """Note where the batch starts that begins with ``offset``."""
        positions = self._positions
        if len(positions) >= _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]
        positions[offset] = (segment, position)

    def forget(self) -> None:
        """Drop remembered positions, after a truncation or a swap of segments."""
        self._positions.clear()

    def limit(self, isolation: FetchIsolation) -> int:
        """The first offset that a reader may not see."""
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self._offsets.high_watermark
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self._offsets.last_stable
        return self._offsets.log_end

    def read(
        self, offset: int, max_bytes: int, *, isolation: FetchIsolation, min_one_message: bool
    ) -> FetchData:
        """The batches from the one that contains ``offset`` on, out of one segment (READ-1 to 12).

        Args:
            max_bytes: not exceeded, except by the first batch with ``min_one_message``.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start or above the log end.
            StorageError: the files cannot be read.
        """
        self._check_offset(offset)
        limit = self.limit(isolation)
        found = None
        if offset < limit and (max_bytes > 0 or min_one_message):
            found = self._slice(offset, limit, max_bytes, min_one_message)
        offsets = self._offsets
        aborted: list[tuple[int, int]] | None = None
        if isolation is FetchIsolation.TXN_COMMITTED:
            aborted = [] if found is None else self._aborted_within(offset, *found)
        return FetchData(
            found[1] if found is not None else None,
            offsets.high_watermark,
            offsets.last_stable,
            offsets.log_start,
            offsets.log_end,
            aborted,
        )

    def _check_offset(self, offset: int) -> None:
        offsets = self._offsets
        if not offsets.log_start <= offset <= offsets.log_end:
            raise OffsetOutOfRangeError(offset, offsets.log_start, offsets.log_end)

    def _slice(
        self, offset: int, limit: int, max_bytes: int, min_one_message: bool
    ) -> tuple[LogSegment, FileSlice] | None:
        """A slice of the first segment that has something, None if nothing may be shown."""
        segment = self._segments.floor(offset)
        while segment is not None and segment.base_offset < limit:
            end_position = self._end_position(segment, limit)
            remembered = self._positions.get(offset)
            if (
                remembered is not None
                and remembered[0] is segment
                and 0 < end_position - remembered[1] <= max_bytes
            ):
                position = remembered[1]
                return segment, segment.slice(position, offset, end_position)
            found = segment.read(
                offset, max_bytes, max_position=end_position, min_one_message=min_one_message
            )
            if found is not None:
                if found.length:
                    return segment, found
                found.release()
                return None
            segment = self._segments.higher(segment.base_offset)
        return None

    def _end_position(self, segment: LogSegment, limit: int) -> int:
        """The position in the segment where the records below ``limit`` end (READ-10)."""
        if limit >= self._offsets.log_end and not self.is_being_cut:
            return segment.size_bytes
        following = self._segments.higher(segment.base_offset)
        if following is not None and following.base_offset <= limit:
            return segment.size_bytes
        return self._position(segment, limit)

    def _position(self, segment: LogSegment, offset: int) -> int:
        """Where the batch with ``offset`` starts, the end of the segment if it has none."""
        remembered = self._positions.get(offset)
        if remembered is not None and remembered[0] is segment:
            return remembered[1]
        try:
            extent = segment.translate(offset)
        except DamagedRecordsError as error:
            return error.position
        if extent is None:
            return segment.size_bytes
        self.remember(offset, segment, extent.position)
        return extent.position

    def readable_bytes_from(self, offset: int, isolation: FetchIsolation) -> int:
        """How many bytes lie between an offset and the limit, by file positions (FETCH-5).

        0 for an offset at or above the limit, or outside of the log.
        """
        limit = self.limit(isolation)
        if not self._offsets.log_start <= offset < limit:
            return 0
        first = self._segments.floor(offset)
        if first is None:
            return 0
        last = self._segments.floor(limit)
        assert last is not None, (limit, first)
        start, end = self._position(first, offset), self._end_position(last, limit)
        return max(self._segments.bytes_between(first, start, last, end), 0)

    def _aborted_within(
        self, offset: int, segment: LogSegment, data: FileSlice
    ) -> list[tuple[int, int]]:
        upper_bound = segment.upper_bound_offset(data.position + data.length)
        if upper_bound is None:
            following = self._segments.higher(segment.base_offset)
            upper_bound = self._offsets.log_end if following is None else following.base_offset
        return [
            (transaction.producer_id, transaction.first_offset)
            for transaction in self.aborted_transactions(offset, upper_bound)
        ]

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap ``[from_offset, to_offset)``, by marker offset."""
        found: list[AbortedTransaction] = []
        segments = self._segments
        first = segments.floor(from_offset) or segments.active
        for segment in self._aborting_from(first.base_offset):
            part, is_complete = segment.transaction_index.collect(from_offset, to_offset)
            found += part
            if is_complete:
                break
        return found

    def _aborting_from(self, base_offset: int) -> Iterator[LogSegment]:
        """The segments from one on that hold a marker of an aborted transaction, in order.

        Most hold none, and a log may have thousands: those that do are remembered.
        """
        segments = self._segments
        if self._version != segments.version:
            self._version, self._looked_at, self._aborting = segments.version, 0, []
        sealed = segments.sealed(self._looked_at)
        self._looked_at += len(sealed)
        self._aborting += [each for each in sealed if not each.transaction_index.is_empty]
        first = bisect_left(self._aborting, base_offset, key=attrgetter("base_offset"))
        yield from self._aborting[first:]
        yield segments.active
