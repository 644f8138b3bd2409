"""Requests that wait for a partition to move on, without polling.

A parked fetch is one ``FetchWaiter`` that watches several partitions. Each change of a partition
recounts the bytes of that one partition for it, and the waiter calls its owner once, as soon as the
sum suffices or the wait has lost its sense. Kafka's purgatory does the same by looking at all
partitions of a request after every append.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class FetchWatch:
    """One partition of a parked fetch: a cursor, and the bytes available behind it."""

    __slots__ = ("available_bytes", "count_available", "waiter", "waiters")

    def __init__(
        self,
        waiter: "FetchWaiter",
        waiters: "FetchWaiters",
        count_available: Callable[[], int],
        available_bytes: int,
    ) -> None:
        self.waiter = waiter
        self.waiters = waiters
        self.count_available = count_available
        self.available_bytes = available_bytes


class FetchWaiter:
    """One parked request; ``on_ready`` is called once, when it should be answered.

    Args:
        min_bytes: how much all watched partitions together must have.
        on_ready: called on the loop thread from inside the change that made it ready; it must not
            touch the log there, only schedule the answer.
    """

    __slots__ = ("_available_bytes", "_min_bytes", "_on_ready", "_watches")

    def __init__(self, min_bytes: int, on_ready: Callable[[], None]) -> None:
        self._min_bytes = min_bytes
        self._on_ready = on_ready
        self._available_bytes = 0
        self._watches: list[FetchWatch] | None = []

    @property
    def is_satisfied(self) -> bool:
        """Whether enough is there already."""
        return self._available_bytes >= self._min_bytes

    def watch(self, waiters: "FetchWaiters", count_available: Callable[[], int]) -> None:
        """Wait for one more partition; ``count_available`` says how many bytes it has by now."""
        assert self._watches is not None, "the request has been answered"
        available_bytes = count_available()
        self._available_bytes += available_bytes
        watch = FetchWatch(self, waiters, count_available, available_bytes)
        self._watches.append(watch)
        waiters.add(watch)

    def recount(self, watch: FetchWatch) -> None:
        """Look at one partition again after it changed."""
        available_bytes = watch.count_available()
        self._available_bytes += available_bytes - watch.available_bytes
        watch.available_bytes = available_bytes
        if self._available_bytes >= self._min_bytes:
            self.wake()

    def wake(self) -> None:
        """Call ``on_ready`` with any amount of data, unless that has happened or it was closed."""
        if self._watches is not None:
            self.close()
            self._on_ready()

    def close(self) -> None:
        """Stop watching; nothing will be called any more."""
        watches, self._watches = self._watches, None
        for watch in watches or ():
            watch.waiters.remove(watch)


class FetchWaiters:
    """The parked fetches of one partition."""

    __slots__ = ("_watches",)

    def __init__(self) -> None:
        # A dict keeps the order: the longest waiting one is answered first.
        self._watches: dict[FetchWatch, None] = {}

    def __len__(self) -> int:
        return len(self._watches)

    def add(self, watch: FetchWatch) -> None:
        """Park a request here."""
        self._watches[watch] = None

    def remove(self, watch: FetchWatch) -> None:
        """Take a request away; it may be gone already."""
        self._watches.pop(watch, None)

    def recount(self) -> None:
        """There is more to read: answer the waiters that have enough now."""
        for watch in list(self._watches):
            watch.waiter.recount(watch)

    def wake_all(self) -> None:
        """Something happened that every reader should see at once (truncation, offline, delete)."""
        for watch in list(self._watches):
            watch.waiter.wake()


class OffsetWaiters:
    """Futures that are resolved when an offset, such as the high watermark, reaches a value."""

    __slots__ = ("_order", "_waiting")

    def __init__(self) -> None:
        self._order = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def wait_for(self, offset: int) -> "asyncio.Future[None]":
        """A future for the moment when the value is at least ``offset``."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (offset, next(self._order), future))
        return future

    def advance(self, value: int) -> None:
        """Resolve the waits for ``value`` or less."""
        while self._waiting and self._waiting[0][0] <= value:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Fail everything that waits."""
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)
