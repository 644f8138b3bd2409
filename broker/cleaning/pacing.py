"""Pacing: a cleaner thread pauses after every chunk while there are requests (CLN-17).

A pass keeps a thread busy for seconds. A thread that wakes meanwhile on its processor, the loop by
a request or a client by its answer, may wait for up to 3 ms until the turn of the cleaner is over,
where the request itself takes a tenth of one: ``runtime/long_turns.py`` asks the kernel to cut such
turns short, and it does not always do so. A thread that sleeps has no turn. With a pause after
every chunk no thread waits for much longer than a chunk takes, some 150 microseconds; and the
pauses are long enough to leave more of the memory, and of a shared machine, to others than a pass
takes. The price is speed: a pass makes 250 MB/s, where it would make 750.
"""

from collections.abc import Callable
from typing import Final

from seglog.broker.runtime.traffic import Traffic

TURN_NS: Final = 100_000
"""How long a thread works without a pause; it is looked at between two chunks."""
PAUSE_SECONDS: Final = 200e-6
"""The requested time; Linux adds the slack of its timers, 50 microseconds."""
QUIET_NS: Final = 100_000_000
"""After so long without a request the cleaner works without pauses.

A client that sends ten requests a second or more finds the cleaner pausing with each of them. A
consumer that waits for records asks twice a second, and slows a pass for a fifth of the time.
"""


def pause_after(turn_ns: int, quiet_ns: int) -> float:
    """How many seconds to pause now; 0 for not at all.

    Args:
        turn_ns: how long ago the last pause was.
        quiet_ns: how long ago the last request was worked on.
    """
    if turn_ns < TURN_NS or quiet_ns >= QUIET_NS:
        return 0.0
    return PAUSE_SECONDS


class Pacer:
    """The pauses of one thread.

    Args:
        traffic: when there were requests.
        monotonic_ns: the clock of ``traffic``.
        sleep: sleeps for so many seconds.
    """

    __slots__ = ("_monotonic_ns", "_sleep", "_traffic", "_turn_start_ns")

    def __init__(
        self,
        traffic: Traffic,
        monotonic_ns: Callable[[], int],
        sleep: Callable[[float], object],
    ) -> None:
        self._traffic = traffic
        self._monotonic_ns = monotonic_ns
        self._sleep = sleep
        self._turn_start_ns = monotonic_ns()

    def pause_if_due(self) -> None:
        """Pause, unless this turn has only begun or there are no requests."""
        now_ns = self._monotonic_ns()
        seconds = pause_after(now_ns - self._turn_start_ns, now_ns - self._traffic.last_work_ns)
        if seconds > 0:
            self._sleep(seconds)
            self._turn_start_ns = self._monotonic_ns()
