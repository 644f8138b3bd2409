"""A pass from both sides: what the thread of the cleaner does, and what the loop."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from seglog.broker.cleaning.jobs import CleaningJob, SegmentExchange
from seglog.broker.cleaning.rests import Rests
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import CleaningPlan, CleaningResult, SegmentSwap
from seglog.broker.storage.errors import FileError
from seglog.broker.storage.log import Log
from seglog.broker.storage.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.types import TopicPartition

LOG = TopicPartition("t", 0)
PLAN = CleaningPlan(LOG, "/data/t-0", [], 0, 0, 0, [], {}, 0, 1, 1, 1, 0)
SOURCE = cast("LogSegment", object())


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


async def run_job(steps: list[tuple[str, bool]], sync_error: Exception | None) -> CleaningResult:
    """Run a pass; ``steps`` gets each step of the exchange, and whether the loop took it."""
    loop = asyncio.get_running_loop()
    loop_thread = threading.get_ident()

    def note(step: str) -> None:
        steps.append((step, threading.get_ident() == loop_thread))

    def swap_in(_job: CleaningJob, _swap: SegmentSwap) -> list[LogSegment]:
        note("rename")
        return [SOURCE]

    def sync_directory(path: str) -> None:
        note(f"sync {path}")
        if sync_error is not None:
            raise sync_error

    def schedule_deletion(_job: CleaningJob, removed: list[LogSegment]) -> None:
        assert removed == [SOURCE]
        note("delete")

    log = SimpleNamespace(config=LogConfig(cleanup_policy=frozenset({"compact"})))
    job = CleaningJob(cast("Log", log), PLAN, loop.create_future())
    throttle = Throttle(1e9, lambda: 0.0, lambda _seconds: None)
    rests = Rests(Traffic(), lambda: 0, lambda _seconds: None)
    exchange = SegmentExchange(swap_in, sync_directory, schedule_deletion)
    cleaner = cast("Cleaner", OneSwap())
    return await asyncio.to_thread(job.run, cleaner, throttle, rests, loop, exchange)


async def test_the_loop_waits_for_the_disk_when_segments_are_exchanged() -> None:
    """Every request waited for the sync of the folder, once for each group of segments."""
    steps: list[tuple[str, bool]] = []
    result = await asyncio.wait_for(run_job(steps, None), 10)
    assert result.end_offset == 1
    assert steps == [("rename", True), ("sync /data/t-0", False), ("delete", True)]


async def test_sources_are_removed_although_the_names_of_the_new_ones_are_not_on_disk() -> None:
    """SEG-6: a power cut would leave neither."""
    steps: list[tuple[str, bool]] = []
    with pytest.raises(FileError):
        await asyncio.wait_for(run_job(steps, FileError("sync", "/data/t-0", "I/O error")), 10)
    assert [step for step, _ in steps] == ["rename", "sync /data/t-0"]
