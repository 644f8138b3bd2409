"""One log line where thousands of the same kind would come."""

import logging
from collections.abc import Callable
from typing import Final

INTERVAL_SECONDS_DEFAULT: Final = 10.0


class RateLimitedLog:
    """Logs the first event of a kind, then at most one a kind and interval.

    Args:
        logger: where to.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        logger: logging.Logger,
        now: Callable[[], float],
        interval_seconds: float = INTERVAL_SECONDS_DEFAULT,
    ) -> None:
        self._logger = logger
        self._now = now
        self._interval_seconds = interval_seconds
        self._next_at: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def report(self, kind: str, details: str) -> None:
        """Log ``event=kind details``, or only count it if the kind was logged a moment ago."""
        now = self._now()
        if now < self._next_at.get(kind, now):
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return
        self._next_at[kind] = now + self._interval_seconds
        suppressed = self._suppressed.pop(kind, 0)
        self._logger.warning("event=%s %s suppressed=%d", kind, details, suppressed)
