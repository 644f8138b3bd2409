"""One pass over one log, from both sides: the loop that owns the log, and the cleaner thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from seglog.broker.cleaning.pacing import Pacer
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import (
    CleaningPlan,
    CleaningResult,
    CleaningStatistics,
    SegmentSwap,
)
from seglog.broker.storage.errors import DiskFullError
from seglog.broker.storage.log.exchange import Exchange
from seglog.broker.storage.log.log import Log
from seglog.protocol.errors import SeglogError

ResultT = TypeVar("ResultT")


class CleaningAbortedError(SeglogError):
    """The pass was to end: its log is deleted, truncated or not compacted any more, or a stop."""


@dataclass(frozen=True, slots=True)
class CleaningOutcome:
    """The outcome of a requested pass; ``error`` is None if it succeeded."""

    size_before: int
    size_after: int
    bytes_read: int
    bytes_written: int
    error: SeglogError | None = None


class ExchangeSteps(NamedTuple):
    """The steps of the loop that put finished segments in the place of their sources.

    Attributes:
        begin: checks that the sources are unchanged, and freezes them; None if none of them is
            left.
        give_up: takes that back, when the new segments are gone.
        end: goes on when all is on disk, and schedules the removal of the sources, not earlier.
    """

    begin: Callable[["CleaningJob", SegmentSwap], Exchange | None]
    give_up: Callable[["CleaningJob", Exchange], None]
    end: Callable[["CleaningJob", Exchange], None]


@dataclass(eq=False)
class CleaningJob:
    """A pass that runs or is about to.

    Attributes:
        is_aborted: set by the loop, looked at by the thread with every chunk (SEG-8).
        statistics: filled by the thread, read by the loop for progress.
        ended: resolved on the loop when the pass is over, however it ended.
        answers: the future of the request for this pass, made before it began.
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
        """Whether the pass is to end; its log may have another policy by now (CLN-13)."""
        return self.is_aborted or not self.log.config.compacts

    def run(
        self,
        cleaner: Cleaner,
        throttle: Throttle,
        pacer: Pacer,
        loop: asyncio.AbstractEventLoop,
        steps: ExchangeSteps,
    ) -> CleaningResult:
        """The work of the thread; one group of segments after the other is exchanged."""

        def account(byte_count: int) -> None:
            throttle.take(byte_count, lambda: self.is_over)
            pacer.pause_if_due()
            if self.is_over:
                raise CleaningAbortedError(f"cleaning of {self.plan.topic_partition} was stopped")

        def hand_over(swap: SegmentSwap) -> None:
            exchange = _run_on(loop, lambda: steps.begin(self, swap))
            if exchange is not None:
                self._exchange(exchange, loop, steps)

        return cleaner.clean(
            self.plan, account=account, hand_over=hand_over, statistics=self.statistics
        )

    def _exchange(
        self, exchange: Exchange, loop: asyncio.AbstractEventLoop, steps: ExchangeSteps
    ) -> None:
        """Wait for the disk between the steps of the loop, which must not stand still for it."""
        try:
            exchange.announce()
        except DiskFullError:
            _run_on(loop, lambda: steps.give_up(self, exchange))
            raise
        for step in exchange.steps():
            _run_on(loop, step)
            exchange.sync()
        _run_on(loop, lambda: steps.end(self, exchange))


def _run_on(loop: asyncio.AbstractEventLoop, action: Callable[[], ResultT]) -> ResultT:
    """Run an action on the loop and wait for it; its errors are raised here."""
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
