"""Which threads came since a moment: the ones that were there may end at any time."""

import threading
from collections.abc import Set as AbstractSet


def threads_now() -> frozenset[threading.Thread]:
    """The threads that run now."""
    return frozenset(threading.enumerate())


def new_threads(before: AbstractSet[threading.Thread]) -> list[str]:
    """The names of the threads that run now and were not among ``before``.

    Counts are no measure of what is left: a thread of an earlier test, still on its way out when
    the first count is taken, is gone at the second, and two that should be equal are not.
    """
    return sorted(thread.name for thread in threads_now() - before)
