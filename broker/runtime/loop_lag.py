"""How late the event loop is: the first thing to look at when everything is slow at once."""

import asyncio
from typing import Final

INTERVAL_SECONDS: Final = 0.25


class LoopLag:
    """Asks the loop to be called at regular times and sees how late it is.

    Attributes:
        last_seconds: the last delay that was seen.
    """

    __slots__ = ("_due", "_loop", "_max_seconds", "_timer", "last_seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = 0.0
        self._max_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.last_seconds = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._due = self._loop.time() + INTERVAL_SECONDS
        self._timer = self._loop.call_at(self._due, self._measure)

    def stop(self) -> None:
        """Measure no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_max_seconds(self) -> float:
        """The longest delay since this was asked last."""
        longest, self._max_seconds = self._max_seconds, 0.0
        return longest

    def _measure(self) -> None:
        lag = max(0.0, self._loop.time() - self._due)
        self.last_seconds = lag
        self._max_seconds = max(self._max_seconds, lag)
        self.start()
