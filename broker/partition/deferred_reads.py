"""Reads that have to wait for work in another thread: done there, taken over, and tried again."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.errors import DeferredReadError

ResultT = TypeVar("ResultT")

_ROUNDS_MAX: Final = 10_000
"""Each round makes progress; a read that needs more of them would never end."""


class DeferredReads:
    """Does the work that reads wait for, once for all reads that wait for the same.

    Args:
        pool: the threads that do it.
    """

    __slots__ = ("_pool", "_running")

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._running: dict[str, asyncio.Future[None]] = {}

    async def read(self, error: DeferredReadError, read: Callable[[], ResultT]) -> ResultT:
        """The result of ``read``, which raised ``error`` before, once its work is done.

        Raises:
            StorageError: from the work or ``read``.
        """
        for _ in range(_ROUNDS_MAX):
            await self.work_off(error)
            try:
                return read()
            except DeferredReadError as again:
                error = again
        raise error

    async def work_off(self, error: DeferredReadError) -> None:
        """Have the work done and taken over.

        Raises:
            StorageError: from the work.
        """
        running = self._running.get(error.path)
        if running is None:
            running = asyncio.ensure_future(self._work_off(error))
            self._running[error.path] = running
            running.add_done_callback(lambda _: self._running.pop(error.path, None))
        # A caller that gives up must not cancel the work of the others.
        await asyncio.shield(running)

    async def _work_off(self, error: DeferredReadError) -> None:
        take_over = await self._pool.run(error.work)
        take_over()
