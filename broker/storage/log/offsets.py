"""The five offsets of a log and the order they must keep.

``log_start <= last_stable <= high_watermark <= log_end`` and ``recovery_point <= log_end`` hold
after every operation; no other class stores these numbers. The last stable offset is derived: it is
the first offset whose transaction is undecided, and never beyond the high watermark.
"""

from seglog.broker.storage.ownership import Owned, owner_only


class LogOffsets(Owned):
    """Offsets of one log, checked on every change.

    Args:
        log_start: first offset a reader may see.
        log_end: next offset to be written.
        recovery_point: first offset not known to be on disk.
        high_watermark: first offset not yet safe to show; a log that was just opened knows none
            better than its start.
    """

    __slots__ = ("_first_unstable", "_high_watermark", "_log_end", "_log_start", "_recovery_point")

    def __init__(
        self,
        *,
        log_start: int,
        log_end: int,
        recovery_point: int,
        high_watermark: int | None = None,
    ) -> None:
        self._log_start = log_start
        self._log_end = log_end
        self._recovery_point = recovery_point
        self._high_watermark = log_start if high_watermark is None else high_watermark
        self._first_unstable: int | None = None
        self.check()

    @property
    def log_start(self) -> int:
        """First offset a reader may see."""
        return self._log_start

    @property
    def log_end(self) -> int:
        """Next offset to be written (LEO)."""
        return self._log_end

    @property
    def recovery_point(self) -> int:
        """First offset not known to be on disk."""
        return self._recovery_point

    @property
    def high_watermark(self) -> int:
        """First offset that is not yet on all in-sync replicas; readers stop before it."""
        return self._high_watermark

    @property
    def first_unstable(self) -> int | None:
        """First offset of the earliest transaction that is not decided below the high watermark."""
        return self._first_unstable

    @property
    def last_stable(self) -> int:
        """End of what a read_committed reader may see (LSO)."""
        unstable = self._first_unstable
        if unstable is None or unstable >= self._high_watermark:
            return self._high_watermark
        return max(unstable, self._log_start)

    @owner_only
    def advance_log_end(self, log_end: int) -> None:
        """Account for an append; the end never moves back here."""
        assert log_end >= self._log_end, (log_end, self._log_end)
        self._log_end = log_end

    @owner_only
    def set_high_watermark(self, offset: int) -> bool:
        """Set the high watermark, held between log start and log end; True if it changed."""
        bounded = min(max(offset, self._log_start), self._log_end)
        if bounded == self._high_watermark:
            return False
        self._high_watermark = bounded
        return True

    @owner_only
    def set_first_unstable(self, offset: int | None) -> None:
        """Remember where the earliest undecided transaction starts, None if there is none."""
        self._first_unstable = offset

    @owner_only
    def advance_log_start(self, offset: int) -> bool:
        """Raise the log start, and the high watermark with it if it lies below; True if moved."""
        if offset <= self._log_start:
            return False
        assert offset <= self._log_end, (offset, self._log_end)
        self._log_start = offset
        self._high_watermark = max(self._high_watermark, offset)
        return True

    @owner_only
    def advance_recovery_point(self, offset: int) -> bool:
        """Note that everything below ``offset`` is on disk; True if the point moved."""
        bounded = min(offset, self._log_end)
        if bounded <= self._recovery_point:
            return False
        self._recovery_point = bounded
        return True

    @owner_only
    def truncate(self, log_end: int) -> None:
        """Move the end back; every offset above it follows."""
        assert 0 <= log_end <= self._log_end, (log_end, self._log_end)
        self._log_end = log_end
        self._log_start = min(self._log_start, log_end)
        self._high_watermark = min(self._high_watermark, log_end)
        self._recovery_point = min(self._recovery_point, log_end)
        self.check()

    @owner_only
    def restart_at(self, offset: int, log_start: int | None = None) -> None:
        """Describe an emptied log whose next record gets ``offset``."""
        self._log_end = self._high_watermark = offset
        self._log_start = offset if log_start is None else log_start
        self._recovery_point = min(self._recovery_point, offset)
        self._first_unstable = None
        self.check()

    def check(self) -> None:
        """Assert the order that this class exists to keep."""
        assert 0 <= self._log_start <= self._high_watermark <= self._log_end, self
        assert self._log_start <= self.last_stable <= self._high_watermark, self
        assert 0 <= self._recovery_point <= self._log_end, self

    def __repr__(self) -> str:
        return (
            f"LogOffsets(log_start={self._log_start}, last_stable={self.last_stable}, "
            f"high_watermark={self._high_watermark}, log_end={self._log_end}, "
            f"recovery_point={self._recovery_point})"
        )
