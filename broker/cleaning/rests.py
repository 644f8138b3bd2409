"""Rests: a cleaner thread leaves its processor for a moment, again and again.

A pass keeps a thread busy for seconds. Whoever is woken meanwhile on its processor, the loop by a
request or a client by its answer, may wait for up to 3 ms until that thread's turn is over, where
the request itself takes a tenth of one: ``runtime/long_turns.py`` asks the kernel to cut such turns
short, and it does not always do so. A thread that sleeps has no turn. With a rest after every chunk
nobody waits for much longer than a chunk takes, some 150 microseconds; and the rests are long
enough to leave more of the memory, and of a machine that is shared, to others than a pass takes.
The price is speed: a pass makes 250 MB/s, where it would make 700.
"""

from collections.abc import Callable
from typing import Final

TURN_SECONDS: Final = 100e-6
"""How long a thread works without a rest; it is looked at between two chunks."""
REST_SECONDS: Final = 200e-6
"""What is asked for; Linux adds the slack of its timers, 50 microseconds.

With 10 the p99 of others was at most doubled in one run of two, with 100 in two of three.
"""


class Rests:
    """The rests of one thread.

    Args:
        monotonic: seconds of a clock that never goes back and can tell microseconds.
        sleep: sleeps for so many seconds.
    """

    __slots__ = ("_monotonic", "_sleep", "_turn_start")

    def __init__(self, monotonic: Callable[[], float], sleep: Callable[[float], object]) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._turn_start = monotonic()

    def rest_if_due(self) -> None:
        """Rest, unless this turn has only begun."""
        if self._monotonic() - self._turn_start < TURN_SECONDS:
            return
        self._sleep(REST_SECONDS)
        self._turn_start = self._monotonic()
