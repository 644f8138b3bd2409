"""Reads that have to wait for work in another thread: done there, taken over, and tried again."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from seglog.broker.runtime.directory_workers import DirectoryWorkers
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import DeferredReadError

ResultT = TypeVar("ResultT")

_ROUNDS_MAX: Final = 10_000
"""Each round makes progress; a read that needs more of them would never end."""


PoolOf: TypeAlias = Callable[[str], WorkerPool]


def read_pools(logs: LogManager, directories: DirectoryWorkers) -> PoolOf:
    """The threads that read a file, by its path: a disk that hangs holds up no reader of others."""

    def pool_of(path: str) -> WorkerPool:
        for log_dir in logs.log_dirs:
            if path.startswith(f"{log_dir.path}/"):
                return directories.reads(log_dir.path)
        raise ValueError(f"{path} is in none of the data directories")

    return pool_of


class DeferredReads:
    """Does the work that reads wait for, once for all reads that wait for the same.

    Args:
        pool_of: the threads that do it, by the path of the file or folder that is read.
    """

    __slots__ = ("_pool_of", "_running")

    def __init__(self, pool_of: PoolOf) -> None:
        self._pool_of = pool_of
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
        take_over = await self._pool_of(error.path).run(error.work)
        take_over()
