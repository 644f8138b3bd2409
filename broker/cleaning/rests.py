"""Rests: a cleaner thread leaves its processor for a moment, again and again, while others need it.

A pass keeps a thread busy for seconds. A thread that wakes meanwhile on its processor, the loop by
a request or a client by its answer, may wait for up to 3 ms until the turn of the cleaner is over,
where the request itself takes a tenth of one: ``runtime/long_turns.py`` asks the kernel to cut such
turns short, and it does not always do so. A thread that sleeps has no turn. With a rest after every
chunk no thread waits for much longer than a chunk takes, some 150 microseconds; and the rests are
long enough to leave more of the memory, and of a shared machine, to others than a pass takes. The
price is speed: a pass makes 250 MB/s, where it would make 750. So it is paid only while there are
requests (CLN-17).
"""

from collections.abc import Callable
from typing import Final

from seglog.broker.runtime.traffic import Traffic

TURN_NS: Final = 100_000
"""How long a thread works without a rest; it is looked at between two chunks."""
REST_SECONDS: Final = 200e-6
"""The requested time; Linux adds the slack of its timers, 50 microseconds."""
QUIET_NS: Final = 100_000_000
"""After so long without a request the cleaner works without rests.

A client that sends ten requests a second or more finds the cleaner resting with each of them. A
consumer that waits for records asks twice a second, and slows a pass for a fifth of the time.
"""


def rest_after(turn_ns: int, quiet_ns: int) -> float:
    """How many seconds to rest now; 0 for not at all.

    Args:
        turn_ns: how long ago the last rest was.
        quiet_ns: how long ago the last request was worked on.
    """
    if turn_ns < TURN_NS or quiet_ns >= QUIET_NS:
        return 0.0
    return REST_SECONDS


class Rests:
    """The rests of one thread.

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

    def rest_if_due(self) -> None:
        """Rest, unless this turn has only begun or there are no requests."""
        now_ns = self._monotonic_ns()
        seconds = rest_after(now_ns - self._turn_start_ns, now_ns - self._traffic.last_work_ns)
        if seconds > 0:
            self._sleep(seconds)
            self._turn_start_ns = self._monotonic_ns()
