"""What of a data file was seen to be in order since it was opened."""

from typing import Final

_RANGES_MAX: Final = 64


class CheckedRanges:
    """Which ranges of a data file were seen to hold batches in order; sorted and disjoint.

    What this process has appended is in order. What was there before is walked over once, when it
    is first read.
    """

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def end_of(self, position: int) -> int:
        """Up to where everything from ``position`` on was seen; ``position`` if nothing was."""
        for start, end in reversed(self._ranges):
            if start <= position:
                return max(position, end)
        return position

    def add(self, start: int, end: int) -> None:
        """Note a range, which begins and ends with a batch."""
        ranges = self._ranges
        if ranges and ranges[-1][0] <= start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            return
        apart = []
        for each in ranges:
            if each[1] < start or end < each[0]:
                apart.append(each)
            else:
                start, end = min(start, each[0]), max(end, each[1])
        # A reader that jumps about pays for its jumps; what is forgotten is looked at again.
        self._ranges = sorted([*apart[-(_RANGES_MAX - 1) :], (start, end)])

    def clear(self) -> None:
        """Forget everything."""
        self._ranges = []

    def cut(self, end: int) -> None:
        """Forget what lies behind ``end``."""
        self._ranges = [(start, min(stop, end)) for start, stop in self._ranges if start < end]
