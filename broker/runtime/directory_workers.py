"""DirectoryWorkers: every data directory has its own threads; a disk that hangs stops no other.

Each directory has a few threads for reads and for syncs, one for changes (checkpoints, folders of
topics, its copy of the topic catalog: one at a time, in the order they came in) and one that
removes files. They are started when they are needed; an idle broker has none.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, TypeVar

from seglog.broker.runtime.workers import WorkerPool, WorkersStoppedError

ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT", bound=Exception)

PATIENCE_SECONDS: Final = 3.0
_COPIES_WAITING_MAX: Final = 2


class DirectoryWorkers:
    """The pools of all data directories, by path.

    All methods but ``run_each`` are called on the thread of ``loop``.

    Args:
        loop: where results go.
        sync_threads: how many sync at once in one directory.
        read_threads: how many read at once in one directory.

    Attributes:
        patience_seconds: how long work that can go on without a directory waits for it; a directory
            whose disk takes longer for one job counts as hanging.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, sync_threads: int = 4, read_threads: int = 4
    ) -> None:
        self.patience_seconds = PATIENCE_SECONDS
        self._loop = loop
        self._sync_threads = sync_threads
        self._read_threads = read_threads
        self._reads: dict[str, WorkerPool] = {}
        self._sync: dict[str, WorkerPool] = {}
        self._changes: dict[str, WorkerPool] = {}
        self._deletion: dict[str, WorkerPool] = {}
        self._is_stopping = False
        self._lock = threading.Lock()
        self._late: dict[str, int] = {}

    @property
    def pools(self) -> list[WorkerPool]:
        """Every pool that was used so far."""
        pools = (self._reads, self._sync, self._changes, self._deletion)
        return [pool for by_path in pools for pool in by_path.values()]

    def reads(self, path: str) -> WorkerPool:
        """Threads that read data outside of the page cache, and that examine whole files."""
        return self._pool(self._reads, path, "reads", self._read_threads)

    def sync(self, path: str) -> WorkerPool:
        """Threads that sync segments."""
        return self._pool(self._sync, path, "sync", self._sync_threads)

    def changes(self, path: str) -> WorkerPool:
        """The thread for checkpoints, folders of topics, and the copy of the topic catalog."""
        return self._pool(self._changes, path, "changes", 1)

    def deletion(self, path: str) -> WorkerPool:
        """The thread that removes files."""
        return self._pool(self._deletion, path, "delete-file", 1)

    def is_hanging(self, path: str) -> bool:
        """Whether something in the directory has been worked on for longer than it should take."""
        pools = (pools.get(path) for pools in (self._sync, self._changes, self._deletion))
        return any(
            pool is not None and pool.busy_seconds() > self.patience_seconds for pool in pools
        )

    async def wait_unless_elsewhere(
        self, running: "Mapping[asyncio.Future[ResultT], str]", paths: Collection[str]
    ) -> "set[asyncio.Future[ResultT]]":
        """Wait for jobs that another directory could do, until all are done or one hangs alone.

        Returns those that are late.

        Args:
            running: the jobs, with the path of their directory.
            paths: of all directories that could do them.
        """
        waiting = set(running)
        while waiting:
            _, waiting = await asyncio.wait(
                waiting, timeout=self.patience_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            late = {running[each] for each in waiting}
            if waiting and not late.issuperset(paths):
                return (await asyncio.wait(waiting, timeout=self.patience_seconds))[1]
        return waiting

    async def wait_patiently(self, futures: "Collection[asyncio.Future[ResultT]]") -> bool:
        """Wait for jobs in directories, but not for one that hangs; whether all are done."""
        if not futures:
            return True
        _, late = await asyncio.wait(futures, timeout=self.patience_seconds)
        return not late

    def run_each(
        self, jobs: Mapping[str, Callable[[], ErrorT | None]]
    ) -> Mapping[str, ErrorT | None]:
        """Run a job for each directory and wait, in a thread of no directory (see ``RunEach``).

        Once one has succeeded the others get some time, and none if they were late before. At most
        two jobs wait in a directory that hangs: each writes the newest state when it begins.
        """
        ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        outcomes: dict[str, ErrorT | None] = {}

        def run(path: str, job: Callable[[], ErrorT | None]) -> None:
            try:
                outcomes[path] = job()
            finally:
                self._note_done(path)
                ended.put(path)

        with self._lock:
            late = {path for path in jobs if self._late.get(path, 0)}
            wanted = [path for path in jobs if self._late.get(path, 0) < _COPIES_WAITING_MAX]
            for path in wanted:
                self._late[path] = self._late.get(path, 0) + 1
        begin = {path: partial(run, path, jobs[path]) for path in wanted}
        self._loop.call_soon_threadsafe(self._begin_each, begin, ended)
        waited_for = set(wanted)
        deadline: float | None = None
        done: dict[str, ErrorT | None] = {}
        while waited_for:
            if None in done.values():
                if late.issuperset(waited_for):
                    break
                deadline = deadline or time.monotonic() + self.patience_seconds
            try:
                path = ended.get(
                    timeout=None if deadline is None else max(0.0, deadline - time.monotonic())
                )
            except queue.Empty:
                break
            waited_for.discard(path)
            if path in outcomes:
                done[path] = outcomes[path]
        return done

    def _begin_each(
        self, jobs: Mapping[str, Callable[[], None]], ended: "queue.SimpleQueue[str]"
    ) -> None:
        for path, job in jobs.items():
            try:
                self.changes(path).run(job)
            except WorkersStoppedError:
                self._note_done(path)
                ended.put(path)

    def _note_done(self, path: str) -> None:
        with self._lock:
            self._late[path] -= 1

    def _pool(
        self, pools: dict[str, WorkerPool], path: str, purpose: str, threads: int
    ) -> WorkerPool:
        pool = pools.get(path)
        if pool is None:
            if self._is_stopping:
                raise WorkersStoppedError(f"the workers of {path} are stopped")
            # Threads have short names in the lists of a system: a number says which directory.
            name = purpose if not pools else f"{purpose}-dir{len(pools) + 1}"
            pool = pools[path] = WorkerPool(name, threads, self._loop)
        return pool

    def refuse(self) -> None:
        """Make no pools any more, because all are being stopped."""
        self._is_stopping = True
