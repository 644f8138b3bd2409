"""How long something is tried again: the one answer for planning, tasks, and the sink."""

import threading
import time
from collections.abc import Callable

from seglog.clients.spark.connection_options import ConnectionOptions


class Patience:
    """Pauses between attempts, until the time for retries has passed since the last progress.

    A write into many partitions, or a read of many ranges, may take longer than that time as a
    whole: it is given up only when for so long nothing of it has got on.

    Args:
        options: the time for retries, and the pause.
        stopped: ends a pause at once; there is no further attempt then.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        stopped: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_s = options.retry_timeout_ms / 1000
        self._pause_s = options.retry_backoff_ms / 1000
        self._stopped = stopped or threading.Event()
        self._clock = clock
        self._deadline_s = clock() + self._timeout_s

    def got_on(self) -> None:
        """Something was done: from now on the whole time is left again."""
        self._deadline_s = self._clock() + self._timeout_s

    def no_longer_than(self, seconds: float) -> None:
        """Give up earlier, for what can pass, but not after long."""
        self._deadline_s = min(self._deadline_s, self._clock() + seconds)

    def pause(self) -> bool:
        """Wait before the next attempt; False if there is to be none."""
        if self._clock() + self._pause_s > self._deadline_s:
            return False
        return not self._stopped.wait(self._pause_s)
