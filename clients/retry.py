"""How long to wait before the next attempt, how long to go on, and how often to complain."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from seglog.clients.errors import ClientError

_AnswerT = TypeVar("_AnswerT")

LOG_INTERVAL_S: Final = 5.0
"""Shortest time between two log lines about one trouble: 12 a minute."""


class Backoff:
    """Exponential delays with jitter.

    Args:
        first_s: centre of the first delay, in seconds.
        max_s: no delay is longer.
        min_s: no delay is shorter, whatever the jitter says.
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


async def answered_in_time(
    ask: Callable[[float], Awaitable[_AnswerT]],
    timeout_s: float,
    pause_s: Callable[[int], float],
    *,
    is_passing: Callable[[ClientError], bool] = lambda error: error.retriable,
    on_retry: Callable[[ClientError], object] = lambda _error: None,
) -> _AnswerT:
    """Ask again while that can help and time is left; the last error is raised.

    Args:
        ask: asks once, within the seconds that it is given.
        timeout_s: for all attempts together.
        pause_s: how long to wait after the n-th failure in a row.
        is_passing: whether it can help to ask again after an error.
        on_retry: told of each error after which that is done.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    attempt = 0
    while True:
        attempt += 1
        try:
            return await ask(max(0.001, deadline_s - loop.time()))
        except ClientError as error:
            wait_s = pause_s(attempt)
            if not is_passing(error) or loop.time() + wait_s >= deadline_s:
                raise
            on_retry(error)
        await asyncio.sleep(wait_s)


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
