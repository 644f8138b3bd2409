"""Long turns on the processor for worker threads, so that others can cut in.

Linux lets a thread that has just woken interrupt a running one at once if it has asked for shorter
turns; else it waits until the turn of the running one is over, some 3 ms. The loop, and the clients
on the same machine, sleep and wake thousands of times a second. With a worker on each processor
that cleans a log or frees the pages of a deleted segment, every hundredth of their requests met a
turn that had just begun. Workers therefore ask for the longest turns that there are: in all they
get no less of the processor, but a waking thread goes first.

Threads that work in bulk ask for ``SCHED_BATCH`` as well: they get as much, and preempt no other
thread when they wake. Without it: the loop lets go of the interpreter lock to write a record, a
cleaner thread that has waited for the lock wakes on the loop's processor, and as it has slept more
than the loop, the kernel has it go first, in the midst of the request. A trace showed that of half
of the requests that took three times as long as others.

Their priority stays. A worker of low priority that holds the interpreter lock may not
run for a long time while others are busy, and the loop waits for the lock.

Source: ``sched_setattr(2)``, ``sched(7)``; ``sched_runtime`` of ordinary threads is heeded since
Linux 6.12.
"""

import ctypes
import logging
import os
import platform
import sys
from typing import Final

logger = logging.getLogger(__name__)

TURN_NANOSECONDS: Final = 100_000_000
"""The most that the kernel takes."""
_SYSTEM_CALLS: Final = {"x86_64": 314, "aarch64": 274}
"""Number of ``sched_setattr`` by machine; the C library has no function for it."""
_THIS_THREAD: Final = 0


class _SchedulingAttributes(ctypes.Structure):
    """``struct sched_attr`` in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def take_long_turns(*, interrupts_others: bool = True) -> bool:
    """Ask for the longest turns for the calling thread; False where that is not to be had.

    To be had is an older kernel too, which takes the wish and does not heed it.

    Args:
        interrupts_others: whether the thread may take the place of a running one when it wakes.
    """
    number = _SYSTEM_CALLS.get(platform.machine())
    if number is None or not sys.platform.startswith("linux"):
        return False
    if os.sched_getscheduler(_THIS_THREAD) != os.SCHED_OTHER:
        return False  # the operator has decided how this process is scheduled
    attributes = _SchedulingAttributes(
        policy=os.SCHED_OTHER if interrupts_others else os.SCHED_BATCH,
        nice=os.getpriority(os.PRIO_PROCESS, _THIS_THREAD),
        runtime=TURN_NANOSECONDS,
    )
    attributes.size = ctypes.sizeof(attributes)
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(number, _THIS_THREAD, ctypes.byref(attributes), 0) == 0:
        return True
    # A container's filter of system calls may forbid it; then everything works as well as before.
    logger.debug("event=long-turns-refused errno=%d", ctypes.get_errno())
    return False
