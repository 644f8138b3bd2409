"""A common rate for all cleaner threads: ``log.cleaner.io.max.bytes.per.second`` (CLN-14)."""

import threading
from collections.abc import Callable
from typing import Final

_WINDOW_SECONDS: Final = 0.3
"""Rates are judged over windows at least this long, so that small chunks do not each wait."""
_LONGEST_WAIT_SECONDS: Final = 0.1
"""After so long a wait it is looked at whether there is still something to wait for."""


class Throttle:
    """Counts read and written bytes, and lets a thread wait when it was too fast.

    Args:
        bytes_per_second: the rate of all threads together.
        monotonic: seconds of a clock that never goes back.
        wait: waits for so many seconds; returns early when the broker stops.
    """

    def __init__(
        self,
        bytes_per_second: float,
        monotonic: Callable[[], float],
        wait: Callable[[float], object],
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._wait = wait
        self._lock = threading.Lock()
        self._window_start = monotonic()
        self._window_bytes = 0

    def take(self, byte_count: int, is_over: Callable[[], bool]) -> None:
        """Account for a chunk; waits if the window has seen more than its share.

        The wait ends early when ``is_over`` tells that the pass is to end, or when the rate is
        changed: a chunk at a low rate takes minutes, and the deletion of its topic, and all other
        changes of topics, would wait for it.
        """
        bytes_per_second = self.bytes_per_second
        left = self._delay_after(byte_count, bytes_per_second)
        end = self._monotonic() + left
        while left > 0 and not is_over():
            if self.bytes_per_second != bytes_per_second:
                self._begin_window()
                return
            self._wait(min(left, _LONGEST_WAIT_SECONDS))
            left = end - self._monotonic()

    def _begin_window(self) -> None:
        with self._lock:
            self._window_start = self._monotonic()
            self._window_bytes = 0

    def _delay_after(self, byte_count: int, bytes_per_second: float) -> float:
        with self._lock:
            now = self._monotonic()
            self._window_bytes += byte_count
            elapsed = now - self._window_start
            due = self._window_bytes / bytes_per_second
            if due - elapsed < _WINDOW_SECONDS and elapsed < _WINDOW_SECONDS:
                return 0.0
            delay = max(0.0, due - elapsed)
            self._window_start = now + delay
            self._window_bytes = 0
            return delay
