"""Pauses between attempts, in the thread that makes them."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from seglog.clients.config import ClientConfig
from seglog.clients.session.retrying import Backoff, Patience


@dataclass(frozen=True, kw_only=True)
class PatientConfig(ClientConfig):
    """A configuration that says for how long a broker that is away is waited for.

    Attributes:
        retry_timeout_ms: time for which attempts go on without any progress.
    """

    retry_timeout_ms: int = 60_000


class Waiter:
    """Waits between attempts, until the time for retries has passed since the last progress.

    Args:
        config: the time for retries, and the pauses.
        stopped: ends a pause at once; there is no further attempt then.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        config: PatientConfig,
        stopped: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._patience = Patience(backoff.delay_s, config.retry_timeout_ms / 1000, clock())
        self._stopped = stopped or threading.Event()
        self._clock = clock

    def got_on(self) -> None:
        """Something was done: from now on the whole time is left again."""
        self._patience.got_on(self._clock())

    def no_longer_than(self, seconds: float) -> None:
        """Give up earlier, for what can pass, but not after long."""
        self._patience.no_longer_than(seconds, self._clock())

    def pause_until(self, at_s: float) -> bool:
        """Wait until a time of the clock; False if there is to be no further attempt."""
        if at_s >= self._patience.deadline_s:
            return False
        return not self._stopped.wait(max(0.0, at_s - self._clock()))

    def pause(self) -> bool:
        """Wait before the next attempt; False if there is to be none."""
        pause_s = self._patience.pause_s(self._clock())
        return pause_s is not None and not self._stopped.wait(pause_s)
