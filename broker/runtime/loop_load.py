"""How busy the event loop and the handlers of requests are; the rest is their idle share.

Kafka has threads for the network and threads for requests, and shows which share of the time they
are idle; when it comes near to zero the broker is at its limit. Here one thread does both.

Connections add up the wall time of the work that their sockets set off, handlers included. Other
work of the loop (timers, tasks of the scheduler, scrapes) shows in the CPU time of its thread. Each
alone misses some work: a write that waits for the disk takes no CPU time, and a task does not come
from a socket. So the larger of both counts, second by second.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

INTERVAL_SECONDS: Final = 1.0
WINDOW_SECONDS: Final = 60


class BusyTimes(NamedTuple):
    """Sums since the start, in nanoseconds: of all that sockets set off, and of handlers."""

    sockets_ns: int
    handlers_ns: int


class _Sample(NamedTuple):
    at_ns: int
    loop_ns: int
    handlers_ns: int


class LoopLoad:
    """Looks at the sums once a second and remembers those of the last minute.

    Args:
        loop: the event loop, in whose thread everything here is called.
        read: the sums as they are now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, read: Callable[[], BusyTimes]) -> None:
        self._loop = loop
        self._read = read
        self._timer: asyncio.TimerHandle | None = None
        self._sockets_ns = 0
        self._cpu_ns = 0
        self._loop_ns = 0
        self._samples: deque[_Sample] = deque(maxlen=WINDOW_SECONDS + 1)

    def start(self) -> None:
        """Begin to measure."""
        self._sockets_ns = self._read().sockets_ns
        self._cpu_ns = time.thread_time_ns()
        self._tick()

    def stop(self) -> None:
        """Measure no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def busy_seconds(self) -> tuple[float, float]:
        """How long the loop and the handlers were busy since the start."""
        now = self._measure()
        return now.loop_ns / 1e9, now.handlers_ns / 1e9

    def idle_shares(self) -> tuple[float, float]:
        """The share of the last minute, 0 to 1, that the loop and the handlers were idle."""
        now = self._measure()
        oldest = self._samples[0] if self._samples else now
        elapsed_ns = now.at_ns - oldest.at_ns
        if elapsed_ns <= 0:
            return 1.0, 1.0
        return (
            _left_of(elapsed_ns, now.loop_ns - oldest.loop_ns),
            _left_of(elapsed_ns, now.handlers_ns - oldest.handlers_ns),
        )

    def _tick(self) -> None:
        self._samples.append(self._measure())
        self._timer = self._loop.call_later(INTERVAL_SECONDS, self._tick)

    def _measure(self) -> _Sample:
        times = self._read()
        cpu_ns = time.thread_time_ns()
        self._loop_ns += max(times.sockets_ns - self._sockets_ns, cpu_ns - self._cpu_ns)
        self._sockets_ns, self._cpu_ns = times.sockets_ns, cpu_ns
        return _Sample(time.monotonic_ns(), self._loop_ns, times.handlers_ns)


def _left_of(elapsed_ns: int, busy_ns: int) -> float:
    return min(1.0, max(0.0, 1.0 - busy_ns / elapsed_ns))
