"""How long to wait before the next attempt, how long to go on, and how often to complain."""

import logging
import random
from collections.abc import Callable
from typing import Final

LOG_INTERVAL_S: Final = 5.0
"""Shortest time between two log lines about one trouble: 12 a minute."""
UNKNOWN_TOPIC_GRACE_S: Final = 1.0
"""How long a topic may stay unknown before that is believed: creation takes a moment."""
SHORTEST_WAIT_S: Final = 0.001
"""What an attempt gets at least."""


class Backoff:
    """Exponential delays with jitter.

    Args:
        first_s: centre of the first delay, in seconds.
        max_s: no delay is longer.
        min_s: no delay is shorter, with any jitter.
        uniform: a source of floats in [0, 1).
    """

    __slots__ = ("_first_s", "_max_s", "_min_s", "_uniform")

    JITTER: Final = 0.2

    def __init__(
        self,
        first_s: float,
        max_s: float,
        *,
        min_s: float = 0.0,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._min_s = min_s
        self._uniform = uniform

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after the ``attempt``-th failure in a row, counted from 1."""
        # 2**40 times any first delay is beyond any maximum, and a larger power may not be a float.
        delay = min(self._first_s * 2.0 ** min(attempt - 1, 40), self._max_s)
        spread = 1.0 + self.JITTER * (2.0 * self._uniform() - 1.0)
        return max(self._min_s, min(delay * spread, self._max_s))


class Patience:
    """Whether there is another attempt, and after which pause.

    Args:
        delay_s: the pause after the n-th failure in a row.
        timeout_s: for how long attempts go on, from now or from the last progress.
        now_s: the time.
    """

    __slots__ = ("_attempt", "_delay_s", "_timeout_s", "deadline_s")

    def __init__(self, delay_s: Callable[[int], float], timeout_s: float, now_s: float) -> None:
        self._delay_s = delay_s
        self._timeout_s = timeout_s
        self._attempt = 0
        self.deadline_s = now_s + timeout_s

    def left_s(self, now_s: float) -> float:
        """How long an attempt that begins now may take."""
        return max(SHORTEST_WAIT_S, self.deadline_s - now_s)

    def got_on(self, now_s: float) -> None:
        """Something was done: from now on the whole time is left again.

        A write into many partitions, or a read of many ranges, may take longer as a whole.
        """
        self._attempt = 0
        self.deadline_s = now_s + self._timeout_s

    def no_longer_than(self, seconds: float, now_s: float) -> None:
        """Give up earlier, for what can pass, but not after long."""
        self.deadline_s = min(self.deadline_s, now_s + seconds)

    def pause_s(self, now_s: float) -> float | None:
        """After a failure: how long to wait before the next attempt; None if there is none."""
        self._attempt += 1
        pause_s = self._delay_s(self._attempt)
        return None if now_s + pause_s >= self.deadline_s else pause_s


class LimitedLogger:
    """Writes a log line about one trouble at most every few seconds, and says what it left out.

    Args:
        logger: where the lines go.
        clock: seconds, monotonic.
        interval_s: shortest time between two lines.
    """

    __slots__ = ("_clock", "_interval_s", "_logger", "_next_at", "_suppressed")

    def __init__(
        self,
        logger: logging.Logger,
        clock: Callable[[], float],
        interval_s: float = LOG_INTERVAL_S,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._interval_s = interval_s
        self._next_at = float("-inf")
        self._suppressed = 0

    def warning(self, message: str, *values: object) -> None:
        """Log ``message % values``, or count it if the last line was too short ago."""
        now = self._clock()
        if now < self._next_at:
            self._suppressed += 1
            return
        self._next_at = now + self._interval_s
        if self._suppressed:
            message += " (%d more like this)"
            values = (*values, self._suppressed)
            self._suppressed = 0
        self._logger.warning(message, *values)
