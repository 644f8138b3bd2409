"""One pass over one log, from both sides: the loop that owns the log, and the cleaner thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from seglog.broker.cleaning.rests import Rests
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import (
    CleaningPlan,
    CleaningResult,
    CleaningStatistics,
    SegmentSwap,
)
from seglog.broker.storage.log import Log
from seglog.broker.storage.segment import LogSegment
from seglog.protocol.errors import SeglogError

ResultT = TypeVar("ResultT")


class CleaningAbortedError(SeglogError):
    """The pass was to end: its log is deleted, truncated or not compacted any more, or a stop."""


@dataclass(frozen=True, slots=True)
class CleaningOutcome:
    """How a pass that somebody asked for ended; ``error`` is None where it went well."""

    size_before: int
    size_after: int
    bytes_read: int
    bytes_written: int
    error: SeglogError | None = None


class SegmentExchange(NamedTuple):
    """The steps in which finished segments take the place of their sources.

    Attributes:
        swap_in: gives the new ones their names, and the sources theirs; on the loop. Returns the
            sources.
        sync_directory: puts these names on disk; in the thread of the cleaner.
        schedule_deletion: has the sources removed, which nobody may do before; on the loop.
    """

    swap_in: Callable[["CleaningJob", SegmentSwap], list[LogSegment]]
    sync_directory: Callable[[str], None]
    schedule_deletion: Callable[["CleaningJob", list[LogSegment]], None]


@dataclass(eq=False)
class CleaningJob:
    """A pass that runs or is about to.

    Attributes:
        is_aborted: set by the loop, looked at by the thread with every chunk (SEG-8).
        statistics: filled by the thread, read by the loop for progress.
        ended: resolved on the loop when the pass is over, however it ended.
        answers: who asked for this pass before it began.
    """

    log: Log
    plan: CleaningPlan
    ended: "asyncio.Future[None]"
    is_aborted: bool = False
    statistics: CleaningStatistics = field(default_factory=CleaningStatistics)
    size_before: int = 0
    answers: "asyncio.Future[CleaningOutcome] | None" = None

    @property
    def is_over(self) -> bool:
        """Whether nobody wants this pass any more; its log may have got another policy (CLN-13)."""
        return self.is_aborted or not self.log.config.compacts

    def run(
        self,
        cleaner: Cleaner,
        throttle: Throttle,
        rests: Rests,
        loop: asyncio.AbstractEventLoop,
        exchange: SegmentExchange,
    ) -> CleaningResult:
        """The work of the thread; one group of segments after the other is exchanged."""

        def account(byte_count: int) -> None:
            throttle.take(byte_count, lambda: self.is_over)
            rests.rest_if_due()
            if self.is_over:
                raise CleaningAbortedError(f"cleaning of {self.plan.topic_partition} was stopped")

        def hand_over(swap: SegmentSwap) -> None:
            removed = _run_on(loop, lambda: exchange.swap_in(self, swap))
            # Not by the loop, which would stand still while the disk works.
            exchange.sync_directory(self.plan.directory)
            _run_on(loop, lambda: exchange.schedule_deletion(self, removed))

        return cleaner.clean(
            self.plan, account=account, hand_over=hand_over, statistics=self.statistics
        )


def _run_on(loop: asyncio.AbstractEventLoop, action: Callable[[], ResultT]) -> ResultT:
    """Have the loop do something, and wait for it; what it raises is raised here."""
    done: ThreadFuture[ResultT] = ThreadFuture()
    loop.call_soon_threadsafe(_run_into, done, action)
    return done.result()


def _run_into(done: "ThreadFuture[ResultT]", action: Callable[[], ResultT]) -> None:
    try:
        result = action()
    except Exception as error:  # noqa: BLE001 - it is the thread's, which would wait for ever
        done.set_exception(error)
    else:
        done.set_result(result)
