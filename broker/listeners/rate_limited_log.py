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

    def report(self, message: str, *values: object) -> None:
        """Log ``message % values``, or only count it if this message was logged a moment ago."""
        now = self._now()
        if now < self._next_at.get(message, now):
            self._suppressed[message] = self._suppressed.get(message, 0) + 1
            return
        self._next_at[message] = now + self._interval_seconds
        suppressed = self._suppressed.pop(message, 0)
        self._logger.warning(f"{message} suppressed=%d", *values, suppressed)  # noqa: G004 - a constant
