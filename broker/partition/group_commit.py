"""Group commit: appends that must be on disk before they are answered share one sync.

While a sync runs in a worker, appends go on; those that need to be durable join the next sync,
which begins when the running one is done. A sync that is asked for begins at the end of the current
turn of the event loop, so that all requests that arrived together share it.

    append a, append b | sync 1 (a, b) ............. | sync 2 (c, d, e)
                         append c, append d, append e  answered: a, b

A sync that failed is never repeated: after it the kernel may have dropped the dirty pages and
report success the next time. The log's directory goes offline, and recovery at the next start finds
what really reached the disk.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.runtime.workers import WorkerPool, WorkersStoppedError
from seglog.broker.storage.errors import (
    DiskFullError,
    MissingFileError,
    NotSyncedError,
    StorageError,
)

logger = logging.getLogger(__name__)

_NOTHING_LOST = (WorkersStoppedError, DiskFullError, NotSyncedError)
"""Nothing was synced, or only a side file found no room: the next attempt may be believed."""


class RunnableTicket(Protocol):
    """A sync that was begun on the loop thread; ``run`` does the blocking part in any thread."""

    @property
    def continues_to(self) -> int | None:
        """Where the flush ends that this ticket is only a part of; None for its last one."""
        ...

    def run(self) -> object:
        """Sync everything the ticket names."""
        ...

    def give_up(self) -> bool:
        """Release its files, if it was not begun, and never do anything."""
        ...


TicketT = TypeVar("TicketT", bound=RunnableTicket)


class FlushableLog(Protocol[TicketT]):
    """The part of a log that group commit needs."""

    def begin_flush(self, upto: int | None = None) -> TicketT:
        """Name the files to sync so that everything below ``upto`` (None: all) is on disk."""
        ...

    def finish_flush(self, ticket: TicketT) -> bool:
        """Move the recovery point after the ticket was run; whether all it names is on disk."""
        ...


class GroupCommit(Generic[TicketT]):
    """The syncs of one log: at most one runs, at most one waits.

    Args:
        log: the log whose bytes are synced.
        pool: where.
        on_synced: called when more of the log is on disk, before its waiters are woken.
        on_failure: called with the error of a failed sync, before its waiters are woken.
        counters: of the broker.

    Attributes:
        found_no_room: whether the last sync ended because a side file found no room. Only another
            sync moves the recovery point, and with it the end for readers.
    """

    __slots__ = (
        "_closed",
        "_counters",
        "_failure",
        "_is_scheduled",
        "_log",
        "_next",
        "_next_is_commit",
        "_next_is_partial",
        "_next_upto",
        "_on_failure",
        "_on_synced",
        "_pool",
        "_running",
        "found_no_room",
    )

    def __init__(
        self,
        log: FlushableLog[TicketT],
        pool: WorkerPool,
        on_synced: Callable[[], None],
        on_failure: Callable[[BaseException], None],
        counters: BrokerCounters,
    ) -> None:
        self._log = log
        self._pool = pool
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._counters = counters
        self._running: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None
        # While only rolled segments were asked for, the active one is left alone.
        self._next_is_partial = True
        self._next_upto = 0
        self._next_is_commit = False
        self._is_scheduled = False
        self._failure: BaseException | None = None
        self._closed: Exception | None = None
        self.found_no_room = False

    def close(self, reason: Exception) -> None:
        """The log is not served any more: its topic is being deleted, or the broker stops.

        Syncs go on as long as the files let them. Waiters of a sync that finds its files renamed or
        closed get ``reason``: that says nothing about the disk, and there is nothing to lose.
        """
        self._closed = reason

    def commit(self) -> "asyncio.Future[None]":
        """The same as ``flush``, for an append whose answer waits for it."""
        self._counters.grouped_appends += 1
        self._next_is_commit = True
        return self.flush()

    def flush(self) -> "asyncio.Future[None]":
        """Sync everything appended so far; the future, shared by present callers, fails with it.

        Shield it before awaiting it: a cancelled caller must not cancel it for the others.
        """
        self._next_is_partial = False
        return self._ask()

    def flush_below(self, offset: int) -> "asyncio.Future[None]":
        """Sync everything below ``offset``, for example the segments before the active one."""
        self._next_upto = max(self._next_upto, offset)
        return self._ask()

    def _ask(self) -> "asyncio.Future[None]":
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            if self._running is None and not self._is_scheduled:
                self._is_scheduled = True
                loop.call_soon(self._begin)
        return self._next

    def _begin(self) -> None:
        self._is_scheduled = False
        assert self._next is not None
        assert self._running is None
        self._running, self._next = self._next, None
        upto = self._next_upto if self._next_is_partial else None
        self._counters.group_commits += self._next_is_commit
        self._next_is_partial, self._next_upto, self._next_is_commit = True, 0, False
        if self._failure is not None:
            self._end(self._failure)
            return
        self._sync(upto)

    def _sync(self, upto: int | None) -> None:
        """Begin a sync of everything below ``upto``, or of the first part of it."""
        try:
            ticket = self._log.begin_flush(upto)
        except StorageError as error:
            self._end(self._closed or error)
            return
        try:
            sync = self._pool.run(partial(_run_timed, ticket))
        except WorkersStoppedError as error:
            self._give_up(ticket)
            self._end(self._closed or error)
            return
        sync.add_done_callback(lambda done: self._synced(ticket, done))

    def _give_up(self, ticket: TicketT) -> None:
        # One that has begun may still fail: the log keeps it, and cannot be closed cleanly.
        if ticket.give_up():
            self._log.finish_flush(ticket)

    def _synced(self, ticket: TicketT, sync: "asyncio.Future[int]") -> None:
        if sync.cancelled():
            self._give_up(ticket)
            self._end(WorkersStoppedError("the broker stopped before the sync was done"))
            return
        is_on_disk = self._log.finish_flush(ticket)
        if is_on_disk:
            self._on_synced()
        error = sync.exception()
        if error is None:
            self._counters.flush_durations.observe(sync.result())
            if not is_on_disk:
                # A ticket that waits for a thread is given up when its directory goes offline, and
                # then does nothing: its waiters must not hear that their records are safe.
                error = self._closed or NotSyncedError()
            elif ticket.continues_to is not None:
                self._sync(ticket.continues_to)
                return
        elif isinstance(error, MissingFileError):
            error = self._closed or error
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        running, self._running = self._running, None
        assert running is not None
        self.found_no_room = isinstance(error, DiskFullError)
        if error is None:
            self._counters.flushes += 1
            running.set_result(None)
        else:
            says_nothing = error is self._closed or isinstance(error, _NOTHING_LOST)
            if self._failure is None and not says_nothing:
                self._failure = error
                self._counters.flush_failures += 1
                logger.error("event=flush-failed", exc_info=error)
                self._on_failure(error)
            running.set_exception(error)
            # No caller asks for the outcome of a background flush.
            running.exception()
        if self._next is not None:
            self._begin()


def _run_timed(ticket: RunnableTicket) -> int:
    """Sync, in a worker, and say how many nanoseconds that took."""
    started_ns = time.monotonic_ns()
    ticket.run()
    return time.monotonic_ns() - started_ns
