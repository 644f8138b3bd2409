"""Workers: the threads of a broker, one pool a purpose."""

import asyncio

from seglog.broker.runtime.directory_workers import DirectoryWorkers
from seglog.broker.runtime.workers import WorkerPool


class Workers:
    """The pools of a broker: a slow deletion delays no sync, and one disk delays no other.

    Attributes:
        directories: work in data directories: syncs, changes, removals.
        catalog: one thread for changes of the topic catalog, which happen one at a time; it waits
            for the threads of the directories.
        background: anything else that blocks for a while.
        validation: decompressing and checking large batches.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        sync_threads: int = 4,
        read_threads: int = 4,
        background_threads: int = 2,
        validation_threads: int = 2,
    ) -> None:
        self.directories = DirectoryWorkers(
            loop, sync_threads=sync_threads, read_threads=read_threads
        )
        self.catalog = WorkerPool("catalog", 1, loop)
        self.background = WorkerPool("background", background_threads, loop)
        self.validation = WorkerPool("validation", validation_threads, loop)

    @property
    def pools(self) -> tuple[WorkerPool, ...]:
        """All pools."""
        return (
            self.validation,
            self.catalog,
            self.background,
            *self.directories.pools,
        )

    async def stop(self, deadline_seconds: float) -> bool:
        """Stop all pools side by side; False if any of them had to be given up."""
        self.directories.refuse()
        return all(await asyncio.gather(*(pool.stop(deadline_seconds) for pool in self.pools)))
