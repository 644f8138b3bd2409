"""What time it is for a client: the clock of the event loop that it runs on."""

import asyncio
import time
from collections.abc import Callable


def fine_clock(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Seconds, monotonic, in which the timers of a loop count; for time shorter than 1 ms, too.

    A loop that is made from asyncio's brings its clock: the program that makes the loop sets the
    time. That of uvloop counts whole milliseconds: behind it is the clock of the system.
    """
    return loop.time if isinstance(loop, asyncio.BaseEventLoop) else time.monotonic
