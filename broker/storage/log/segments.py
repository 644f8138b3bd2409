"""The segments of one log, ordered by base offset."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.ownership import Owned, owner_only
from seglog.broker.storage.segment.segment import LogSegment


class LogSegments(Owned):
    """An ordered map from base offset to segment; the last one is the active one.

    Iteration is over a snapshot, so that a loop may remove segments.

    Attributes:
        version: rises with every change of the set but a segment that comes at the end: values
            derived from sealed segments stay valid for a version, and may be continued.
    """

    __slots__ = ("_base_offsets", "_bytes_before", "_is_served", "_segments", "version")

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments: list[LogSegment] = []
        self._base_offsets: list[int] = []
        # For the first segments, as many as were asked for: bytes of batches from a fixed
        # place on to the start of the segment. Only differences mean something.
        self._bytes_before: list[int] = []
        self._is_served = False
        self.version = 0
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __contains__(self, base_offset: object) -> bool:
        return isinstance(base_offset, int) and self.get(base_offset) is not None

    def __repr__(self) -> str:
        return f"LogSegments({self._base_offsets})"

    @property
    def active(self) -> LogSegment:
        """The segment that takes appends; there is always one in a loaded log."""
        return self._segments[-1]

    @property
    def first(self) -> LogSegment | None:
        """The oldest segment."""
        return self._segments[0] if self._segments else None

    @property
    def last(self) -> LogSegment | None:
        """The newest segment."""
        return self._segments[-1] if self._segments else None

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets, ascending."""
        return list(self._base_offsets)

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        if not self._segments:
            return 0
        self._count_bytes()
        return self._bytes_before[-1] - self._bytes_before[0] + self._segments[-1].log.size

    def bytes_between(
        self, first: LogSegment, first_position: int, last: LogSegment, last_position: int
    ) -> int:
        """Bytes of batches from a place in one segment to a place in the same or a later one.

        Costs two searches: only the last segment grows, so the bytes before each are counted once.
        """
        self._count_bytes()
        before = self._bytes_before
        start = before[bisect_left(self._base_offsets, first.base_offset)] + first_position
        return before[bisect_left(self._base_offsets, last.base_offset)] + last_position - start

    def _count_bytes(self) -> None:
        before, segments = self._bytes_before, self._segments
        while len(before) < len(segments):
            number = len(before)
            before.append(before[-1] + segments[number - 1].log.size if before else 0)

    @owner_only
    def add(self, segment: LogSegment) -> LogSegment | None:
        """Adds a segment; returns the one of the same base offset that it replaces."""
        number = bisect_left(self._base_offsets, segment.base_offset)
        del self._bytes_before[number + 1 :]
        if number < len(self._segments):
            self.version += 1
        if number < len(self._segments) and self._base_offsets[number] == segment.base_offset:
            replaced = self._segments[number]
            self._segments[number] = segment
            self._link(number)
            return replaced
        del self._bytes_before[number:]
        self._base_offsets.insert(number, segment.base_offset)
        self._segments.insert(number, segment)
        self._link(number)
        return None

    def _link(self, number: int) -> None:
        """Tells a segment, and the one before it, where the next one begins."""
        segments = self._segments
        following = self._base_offsets[number + 1] if number + 1 < len(segments) else None
        segments[number].indexes.end_offset = following
        if number:
            segments[number - 1].indexes.end_offset = self._base_offsets[number]
        if self._is_served:
            segments[number].indexes.is_served = True

    def begin_serving(self) -> None:
        """The log is loaded: from now on reads write nothing (``SegmentIndexes.is_served``)."""
        self._is_served = True
        for segment in self._segments:
            segment.indexes.is_served = True

    @owner_only
    def remove(self, base_offset: int) -> LogSegment | None:
        """Takes a segment out; returns it, None if there is none of that base offset."""
        number = bisect_left(self._base_offsets, base_offset)
        if number == len(self._segments) or self._base_offsets[number] != base_offset:
            return None
        self.version += 1
        del self._base_offsets[number]
        # Retention takes the first one: the sums of the others stay right.
        del self._bytes_before[number : number + 1 if number == 0 else None]
        removed = self._segments.pop(number)
        if number:
            following = self._base_offsets[number] if number < len(self._segments) else None
            self._segments[number - 1].indexes.end_offset = following
        return removed

    @owner_only
    def clear(self) -> list[LogSegment]:
        """Takes all segments out."""
        removed = self._segments
        self._segments, self._base_offsets, self._bytes_before = [], [], []
        self.version += 1
        return removed

    def get(self, base_offset: int) -> LogSegment | None:
        """The segment of exactly that base offset."""
        number = bisect_left(self._base_offsets, base_offset)
        if number < len(self._segments) and self._base_offsets[number] == base_offset:
            return self._segments[number]
        return None

    def floor(self, offset: int) -> LogSegment | None:
        """The segment with the greatest base offset <= ``offset``."""
        number = bisect_right(self._base_offsets, offset) - 1
        return self._segments[number] if number >= 0 else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """The segment with the smallest base offset > ``base_offset``."""
        number = bisect_right(self._base_offsets, base_offset)
        return self._segments[number] if number < len(self._segments) else None

    def higher_all(self, base_offset: int) -> list[LogSegment]:
        """All segments with a base offset > ``base_offset``."""
        return self._segments[bisect_right(self._base_offsets, base_offset) :]

    def values(self, from_offset: int, to_offset: int) -> list[LogSegment]:
        """The segments that overlap the offsets [from_offset, to_offset)."""
        if from_offset >= to_offset:
            return []
        start = max(bisect_right(self._base_offsets, from_offset) - 1, 0)
        return self._segments[start : bisect_left(self._base_offsets, to_offset)]

    def sealed(self, first: int = 0) -> list[LogSegment]:
        """All but the active one; those from the ``first``-th on, counted from 0."""
        return self._segments[first:-1]

    def below(self, offset: int) -> list[LogSegment]:
        """The segments that end at or below an offset; never the active one."""
        return self._segments[: max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def from_number(self, number: int) -> Iterator[LogSegment]:
        """The segments from the ``number``-th on, while nothing is removed."""
        while number < len(self._segments):
            yield self._segments[number]
            number += 1

    def close(self) -> None:
        """Closes all segments; the first failure is raised when all were tried."""
        failure: StorageError | None = None
        for segment in self._segments:
            try:
                segment.close()
            except StorageError as error:  # raised below, once every file is closed
                failure = failure or error
        if failure is not None:
            raise failure
