"""What batches may take in memory while workers inflate and rebuild them.

A request of some kilobytes may hold a thousand batches, each of which inflates to the bound of one
batch, and a thousand connections may send one each. The bytes that all of them may come to at
once are reserved before their work begins; later requests wait.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from seglog.broker.partition.counters import BrokerCounters
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES

VALIDATION_BYTES_MAX: Final = 4 * MAX_DECOMPRESSED_BYTES
"""As much as two batches of the usual bound take, each inflated and written anew."""

EntryT = TypeVar("EntryT")


class ValidationMemory:
    """Bytes that are handed out in the order in which they were asked for.

    Args:
        counters: of the broker; ``validation_bytes`` is the present reservation.
        capacity_bytes: how much at most.
    """

    __slots__ = ("_capacity", "_counters", "_waiting")

    def __init__(
        self, counters: BrokerCounters, capacity_bytes: int = VALIDATION_BYTES_MAX
    ) -> None:
        self._counters = counters
        self._capacity = capacity_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def windows(
        self, entries: Sequence[EntryT], bytes_of: Callable[[EntryT], int]
    ) -> Iterator[tuple[list[EntryT], int]]:
        """Cut ``entries`` into runs that fit at once, with what each run takes.

        A batch that alone may take more than there is gets all there is: it runs by itself.
        """
        window: list[EntryT] = []
        total = 0
        for entry in entries:
            size = min(bytes_of(entry), self._capacity)
            if window and total + size > self._capacity:
                yield window, total
                window, total = [], 0
            window.append(entry)
            total += size
        if window:
            yield window, total

    @asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator[None]:
        """Wait until ``size`` bytes are free, and hold them; must not be more than there is."""
        assert size <= self._capacity, (size, self._capacity)
        if self._waiting or self._counters.validation_bytes + size > self._capacity:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                # A request that is cancelled in the turn in which the bytes came already holds
                # them.
                if not turn.cancelled():
                    self._give_back(size)
                raise
        else:
            self._counters.validation_bytes += size
        try:
            yield
        finally:
            self._give_back(size)

    def _give_back(self, size: int) -> None:
        counters = self._counters
        counters.validation_bytes -= size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.cancelled():
                if counters.validation_bytes + wanted > self._capacity:
                    return
                counters.validation_bytes += wanted
                turn.set_result(None)
            self._waiting.popleft()
