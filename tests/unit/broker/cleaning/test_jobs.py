"""A pass from both sides: what the thread of the cleaner does, and what the loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from seglog.broker.cleaning.jobs import CleaningJob, ExchangeSteps
from seglog.broker.cleaning.pacing import Pacer
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import CleaningPlan, CleaningResult, SegmentSwap
from seglog.broker.storage.errors import DiskFullError, FileError
from seglog.broker.storage.log.exchange import Exchange
from seglog.broker.storage.log.log import Log
from seglog.config.log_config import LogConfig
from seglog.protocol.types import TopicPartition

LOG = TopicPartition("t", 0)
PLAN = CleaningPlan(LOG, "/data/t-0", [], 0, 0, 0, [], {}, 0, 1, 1, 1, 0)


class OneSwap:
    """A cleaner whose pass makes one group of segments."""

    def clean(
        self,
        _plan: CleaningPlan,
        *,
        account: Callable[[int], None],
        hand_over: Callable[[SegmentSwap], None],
        statistics: Any,
    ) -> CleaningResult:
        account(1)
        hand_over(SegmentSwap(LOG, (0,), (0,)))
        return CleaningResult(1, statistics)


class NotedExchange:
    """Two steps for the loop; each of them and the work between is noted, and where it was done."""

    def __init__(self, announce_error: Exception | None, sync_error: Exception | None) -> None:
        self.noted: list[tuple[str, bool]] = []
        self._loop_thread = threading.get_ident()
        self._announce_error = announce_error
        self._sync_error = sync_error

    def note(self, step: str) -> None:
        self.noted.append((step, threading.get_ident() == self._loop_thread))

    def announce(self) -> None:
        self.note("announce")
        if self._announce_error is not None:
            raise self._announce_error

    def steps(self) -> Iterator[Callable[[], None]]:
        yield partial(self.note, "put in")
        yield partial(self.note, "name")

    def sync(self) -> None:
        self.note("sync")
        if self._sync_error is not None:
            raise self._sync_error


async def run_job(exchange: NotedExchange) -> CleaningResult:
    """Run a pass that makes one exchange."""
    loop = asyncio.get_running_loop()

    def begin(_job: CleaningJob, _swap: SegmentSwap) -> Exchange:
        exchange.note("begin")
        return cast("Exchange", exchange)

    def give_up(_job: CleaningJob, _exchange: Exchange) -> None:
        exchange.note("give up")

    def end(_job: CleaningJob, _exchange: Exchange) -> None:
        exchange.note("end")

    steps = ExchangeSteps(begin, give_up, end)
    log = SimpleNamespace(config=LogConfig(cleanup_policy=frozenset({"compact"})))
    job = CleaningJob(cast("Log", log), PLAN, loop.create_future())
    throttle = Throttle(1e9, lambda: 0.0, lambda _seconds: None)
    pacer = Pacer(Traffic(), lambda: 0, lambda _seconds: None)
    cleaner = cast("Cleaner", OneSwap())
    return await asyncio.to_thread(job.run, cleaner, throttle, pacer, loop, steps)


async def test_the_loop_waits_for_the_disk_when_segments_are_exchanged() -> None:
    """Every request waited for the sync of the folder, once for each group of segments."""
    exchange = NotedExchange(None, None)
    result = await asyncio.wait_for(run_job(exchange), 10)
    assert result.end_offset == 1
    assert exchange.noted == [
        ("begin", True),
        ("announce", False),
        ("put in", True),
        ("sync", False),
        ("name", True),
        ("sync", False),
        ("end", True),
    ]


async def test_sources_are_removed_although_the_names_of_the_new_ones_are_not_on_disk() -> None:
    """SEG-6: a power cut would leave neither."""
    exchange = NotedExchange(None, FileError("sync", "/data/t-0", "I/O error"))
    with pytest.raises(FileError):
        await asyncio.wait_for(run_job(exchange), 10)
    assert [step for step, _ in exchange.noted] == ["begin", "announce", "put in", "sync"]


async def test_a_log_goes_on_after_an_exchange_that_found_no_room() -> None:
    """Its sources stood still meanwhile: nothing could be deleted to make room."""
    exchange = NotedExchange(DiskFullError("rename", "0.log.cleaned", "No space left"), None)
    with pytest.raises(DiskFullError):
        await asyncio.wait_for(run_job(exchange), 10)
    assert exchange.noted[-1] == ("give up", True)
    assert len(exchange.noted) == 3
