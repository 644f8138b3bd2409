"""Which transactions of a log hold back its last stable offset.

Those are the open ones, and those that a marker has closed until the high watermark passes it.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at ``marker_offset`` has closed."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_abort: bool


class OpenTransactions:
    """The transactions of one log; true while any may hold back the last stable offset."""

    def __init__(self) -> None:
        # First offset of each open transaction to its producer, in ascending order.
        self._open: OrderedDict[int, int] = OrderedDict()
        # First offset to marker offset of closed transactions whose marker the high watermark has
        # not passed.
        self._unacknowledged: OrderedDict[int, int] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._open) or bool(self._unacknowledged)

    def in_order(self) -> list[tuple[int, int]]:
        """``(producer id, first offset)`` of each open transaction, earliest first."""
        return [(producer_id, first_offset) for first_offset, producer_id in self._open.items()]

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A producer's first batch of a transaction is in the log."""
        self._open[first_offset] = producer_id

    def last_stable_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction is closed and replicated."""
        for first_offset, producer_id in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.marker_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Close the transaction; it counts until the high watermark passes its marker."""
        self._open.pop(completed.first_offset, None)
        self._unacknowledged[completed.first_offset] = completed.marker_offset

    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction starts that is open or not yet acknowledged."""
        earliest_open = next(iter(self._open), None)
        earliest_closed = min(self._unacknowledged, default=None)
        if earliest_open is None or earliest_closed is None:
            return earliest_closed if earliest_open is None else earliest_open
        return min(earliest_open, earliest_closed)

    def acknowledge(self, offset: int) -> None:
        """Forget closed transactions whose marker lies below the high watermark or log start."""
        passed = [
            first_offset
            for first_offset, marker_offset in self._unacknowledged.items()
            if marker_offset < offset
        ]
        for first_offset in passed:
            del self._unacknowledged[first_offset]

    def reset(self, opened: Iterable[tuple[int, int]]) -> None:
        """Start from these open transactions, each ``(first offset, producer id)``."""
        self._open = OrderedDict(sorted(opened))
        self._unacknowledged.clear()
