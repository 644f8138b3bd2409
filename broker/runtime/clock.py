"""The two clocks of the machine, as something that is passed in.

Wall time stamps records and judges their age; it may jump. Monotonic time measures durations. Their
values have nothing to do with each other.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def time_ms(self) -> int:
        """Milliseconds since the epoch, in UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment in the past; never goes back."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    __slots__ = ()

    def time_ms(self) -> int:
        """Milliseconds since the epoch, in UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since the machine was started."""
        return time.monotonic_ns() // 1_000_000
