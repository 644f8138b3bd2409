"""Reads that have to wait for work in another thread: done there, taken over, and tried again."""

from collections.abc import Callable
from typing import Final, TypeVar

from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.errors import DeferredReadError

ResultT = TypeVar("ResultT")

_ROUNDS_MAX: Final = 10_000
"""Each round makes progress; whoever asks for more of them asks for ever."""


async def read_deferred(
    pool: WorkerPool, error: DeferredReadError, read: Callable[[], ResultT]
) -> ResultT:
    """The result of ``read``, which raised ``error`` before, once what it needs is there.

    Raises:
        StorageError: what the work or ``read`` says.
    """
    for _ in range(_ROUNDS_MAX):
        take_over = await pool.run(error.work)
        take_over()
        try:
            return read()
        except DeferredReadError as again:
            error = again
    raise error
