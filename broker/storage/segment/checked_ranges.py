"""The ranges of a data file that were found in order since it was opened."""

from typing import Final

_OTHERS_MAX: Final = 63


class CheckedRanges:
    """Which ranges of a data file were seen to hold batches in order.

    Appends of this process are in order. Earlier data is walked over once, when it is first read.
    The range that grows is kept apart, so that an append costs a comparison.
    """

    __slots__ = ("_end", "_others", "_start")

    def __init__(self) -> None:
        self._start = self._end = -1
        self._others: tuple[tuple[int, int], ...] = ()

    def end_of(self, position: int) -> int:
        """Up to where everything from ``position`` on was seen; ``position`` if nothing was."""
        if self._start <= position < self._end:
            return self._end
        for start, end in self._others:
            if start <= position < end:
                return end
        return position

    def add(self, start: int, end: int) -> None:
        """Note a range, which begins and ends with a batch."""
        if self._start <= start <= self._end:
            if end > self._end:
                self._end = end
            return
        # A reader that jumps about pays for its jumps: forgotten ranges are checked again.
        apart = []
        for each in (*self._others[-_OTHERS_MAX + 1 :], (self._start, self._end)):
            if each[1] < start or end < each[0]:
                apart.append(each)
            else:
                start, end = min(start, each[0]), max(end, each[1])
        self._others = tuple(each for each in apart if each[0] >= 0)
        self._start, self._end = start, end

    def clear(self) -> None:
        """Forget everything."""
        self._start = self._end = -1
        self._others = ()

    def cut(self, end: int) -> None:
        """Forget the ranges behind ``end``."""
        self._others = tuple((start, min(stop, end)) for start, stop in self._others if start < end)
        if self._start >= end:
            self._start = self._end = -1
        self._end = min(self._end, end)
