"""Threads for work that blocks or burns CPU: a bounded pool a purpose, results on the loop.

A job sees only immutable things and returns a value; the caller, on the event-loop thread, puts the
value where it belongs. A pool starts its threads when they are needed, so that an idle daemon
has none. The threads are daemonic: a sync that hangs on a dying disk cannot keep the process from
ending once the deadline of ``stop`` has passed.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_STOP: Final = None
"""A thread that takes this from the queue ends."""


class WorkersStoppedError(RuntimeError):
    """A job that came after its pool was stopped."""


class WorkerPool:
    """A named set of at most ``threads`` threads that run jobs in the order they came in.

    All methods are called on the thread of ``loop``.

    Args:
        name: of the pool, and with a number of its threads.
        threads: how many at most.
        loop: where results go.
        in_bulk: no caller waits for its long jobs: its threads preempt no others.
    """

    def __init__(
        self, name: str, threads: int, loop: asyncio.AbstractEventLoop, *, in_bulk: bool = False
    ) -> None:
        if threads < 1:
            raise ValueError(f"worker pool {name!r} needs at least one thread, not {threads}")
        self.name = name
        self.threads = threads
        self._loop = loop
        self._in_bulk = in_bulk
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._workers: list[threading.Thread] = []
        self._started = 0
        self._unfinished: dict[asyncio.Future[Any], float] = {}
        self._stopping = False

    @property
    def unfinished(self) -> int:
        """How many jobs are running or wait for a thread."""
        return len(self._unfinished)

    def run(self, job: Callable[[], ResultT]) -> "asyncio.Future[ResultT]":
        """Run ``job`` in a thread.

        The future is resolved on the loop with the result or error of the job. Cancelling it takes
        back a job that has not begun.

        Raises:
            WorkersStoppedError: the pool has been stopped.
        """
        if self._stopping:
            raise WorkersStoppedError(f"worker pool {self.name!r} is stopped")
        future: asyncio.Future[ResultT] = self._loop.create_future()
        self._unfinished[future] = time.monotonic()
        future.add_done_callback(self._finished)
        self._jobs.put((job, future))
        # One idle thread may be woken by several jobs that came in the same moment, hence a thread
        # for every unfinished job up to the limit.
        if self._started < min(self.threads, len(self._unfinished)):
            self._start_worker()
        return future

    def busy_seconds(self) -> float:
        """How long the oldest job has been there that is not done; 0 if there is none."""
        since = next(iter(self._unfinished.values()), None)
        return 0.0 if since is None else time.monotonic() - since

    async def idle(self) -> None:
        """Wait until nothing runs or waits for a thread."""
        while self._unfinished:
            await asyncio.wait(set(self._unfinished))

    def resize(self, threads: int) -> None:
        """Use at most ``threads`` threads from now on; surplus ones end after their job."""
        if threads < 1:
            raise ValueError(f"worker pool {self.name!r} needs at least one thread, not {threads}")
        self.threads = threads
        while self._started > threads:
            self._started -= 1
            self._jobs.put(_STOP)

    async def stop(self, deadline_seconds: float) -> bool:
        """Refuse new jobs, wait for those that were accepted; False if the deadline passed first.

        The futures of jobs that do not finish in time are cancelled; their results are dropped.
        """
        self._stopping = True
        in_time = True
        if self._unfinished:
            _, late = await asyncio.wait(set(self._unfinished), timeout=deadline_seconds)
            in_time = not late
            for future in late:
                future.cancel()
            if late:
                logger.warning("event=workers-late pool=%s jobs=%d", self.name, len(late))
        for _ in range(self._started):
            self._jobs.put(_STOP)
        self._started = 0
        if in_time:
            # Nothing runs any more: each thread only has to take its stop sign.
            for worker in self._workers:
                worker.join(timeout=1.0)
        return in_time

    def _finished(self, future: "asyncio.Future[Any]") -> None:
        self._unfinished.pop(future, None)

    def _start_worker(self) -> None:
        self._started += 1
        worker = threading.Thread(
            target=_work,
            args=(self._jobs, self._loop, self._in_bulk),
            name=f"{self.name}-{self._started}",
            daemon=True,
        )
        self._workers = [thread for thread in self._workers if thread.is_alive()]
        self._workers.append(worker)
        worker.start()


def _work(
    jobs: "queue.SimpleQueue[_Job | None]", loop: asyncio.AbstractEventLoop, in_bulk: bool
) -> None:
    # Imported here: an idle daemon has no such thread and saves the import.
    from seglog.broker.runtime.long_turns import take_long_turns

    take_long_turns(interrupts_others=not in_bulk)
    while (entry := jobs.get()) is not None:
        job, future = entry
        if not future.cancelled():
            result, error = _outcome_of(job)
            try:
                loop.call_soon_threadsafe(_resolve, future, result, error)
            except RuntimeError:
                # The loop closed while a late job was running: no caller waits for it any more.
                logger.warning("event=workers-orphan job=%r error=%r", job, error)
                return
        # Without this the last job's arguments stay alive until the next one comes.
        del entry, job, future


def _outcome_of(job: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return job(), None
    except BaseException as error:  # noqa: BLE001 - handed to the waiting caller unchanged
        return None, error


def _resolve(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def on_loop(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """A caller for the thread of the running loop: at once there, soon from others."""
    owner = threading.get_ident()

    def run(function: Callable[[], None]) -> None:
        if threading.get_ident() == owner:
            function()
        else:
            loop.call_soon_threadsafe(function)

    return run


def run_parallel(
    jobs: Sequence[Callable[[], ResultT]], *, threads: int, name: str = "recovery"
) -> list[ResultT]:
    """Run ``jobs`` in at most ``threads`` threads and wait; the results in the order of the jobs.

    Blocks, and is therefore for the start of the daemon, before its loop serves clients.

    Raises:
        BaseException: the error of the first job, in the order of ``jobs``, that failed; the others
            have run to their end by then.
    """
    if threads <= 1 or len(jobs) <= 1:
        return [job() for job in jobs]
    outcomes: list[tuple[Any, BaseException | None]] = [(None, None)] * len(jobs)
    remaining: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(jobs)):
        remaining.put(index)

    def drain() -> None:
        while True:
            try:
                index = remaining.get_nowait()
            except queue.Empty:
                return
            outcomes[index] = _outcome_of(jobs[index])

    workers = [
        threading.Thread(target=drain, name=f"{name}-{number}", daemon=True)
        for number in range(1, min(threads, len(jobs)) + 1)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for _, error in outcomes:
        if error is not None:
            raise error
    return [result for result, _ in outcomes]
