"""One pass over one log, from both sides: the loop that owns the log, and the cleaner thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from dataclasses import dataclass, field

from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import (
    CleaningPlan,
    CleaningResult,
    CleaningStatistics,
    SegmentSwap,
)
from seglog.broker.storage.log import Log
from seglog.protocol.errors import SeglogError


class CleaningAbortedError(SeglogError):
    """The pass was asked to end: the log is being deleted or truncated, or the broker stops."""


@dataclass(frozen=True, slots=True)
class CleaningOutcome:
    """How a pass that somebody asked for ended; ``error`` is None where it went well."""

    size_before: int
    size_after: int
    bytes_read: int
    bytes_written: int
    error: SeglogError | None = None


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

    def run(
        self,
        cleaner: Cleaner,
        throttle: Throttle,
        loop: asyncio.AbstractEventLoop,
        swap_in: Callable[["CleaningJob", SegmentSwap], None],
    ) -> CleaningResult:
        """The work of the thread; ``swap_in`` is run on the loop, one group of segments a time."""

        def account(byte_count: int) -> None:
            throttle.take(byte_count)
            if self.is_aborted:
                raise CleaningAbortedError(f"cleaning of {self.plan.topic_partition} was stopped")

        def hand_over(swap: SegmentSwap) -> None:
            done: ThreadFuture[None] = ThreadFuture()
            loop.call_soon_threadsafe(_run_into, done, lambda: swap_in(self, swap))
            done.result()

        return cleaner.clean(
            self.plan, account=account, hand_over=hand_over, statistics=self.statistics
        )


def _run_into(done: "ThreadFuture[None]", action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - it is the thread's, which would wait for ever
        done.set_exception(error)
    else:
        done.set_result(None)
