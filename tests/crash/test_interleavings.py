"""The order in which loop and workers go on, chosen by a seed; and what the seeds can find."""

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from seglog.broker.runtime.workers import WorkerPool
from support.interleaving import DeadlockError, Interleaving, OrderedLoop
from support.page_cache import OrderedCalls
from support.scheduled_life import ScheduleError, run_schedule
from support.schedules import failures_of


class FlaggedFile:
    """A file that knows by a flag whether there is something to sync: the fault to be found."""

    def __init__(self, calls: OrderedCalls, path: str) -> None:
        calls.create(path, 0)
        self.calls, self.path, self.size = calls, path, 0
        self.descriptor = calls.open(path)
        self.inode = os.fstat(self.descriptor).st_ino
        self._has_unsynced_bytes = False

    def append(self, data: bytes) -> None:
        self._has_unsynced_bytes = True
        self.size += self.calls.write(self.path, self.descriptor, data, self.size)

    def sync(self) -> None:
        if self._has_unsynced_bytes:
            self._has_unsynced_bytes = False
            self.calls.sync(self.path, self.descriptor)


class MeasuredFile(FlaggedFile):
    """The same with positions."""

    synced = 0

    def sync(self) -> None:
        size = self.size
        if self.synced < size:
            self.calls.sync(self.path, self.descriptor)
            self.synced = size


async def acknowledge(file: FlaggedFile, pool: WorkerPool) -> None:
    """Two producers of three records each, whose answers wait for a sync."""

    async def produce() -> None:
        for _ in range(3):
            start = file.size
            file.append(b"record")
            end = file.size
            await pool.run(file.sync)
            assert file.calls.cache.is_on_disk(file.inode, start, end), (start, end)

    await asyncio.gather(produce(), produce())
    assert await pool.stop(1)


def lost_answers(kind: Callable[[OrderedCalls, str], FlaggedFile], folder: Path) -> list[int]:
    """The seeds of 200 under which an answer was given for bytes that are on no disk."""
    found = []
    for seed in range(200):
        with Interleaving(seed) as order:
            loop = order.new_loop()
            file = kind(OrderedCalls(order, folder), str(folder / str(seed)))
            try:
                loop.run_until_complete(acknowledge(file, WorkerPool("sync", 2, loop)))
            except AssertionError:
                found.append(seed)
            finally:
                os.close(file.descriptor)
                finish(loop)
    return found


def finish(loop: OrderedLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.close()


def test_flag_that_is_cleared_before_the_sync_is_found(tmp_path: Path) -> None:
    assert lost_answers(FlaggedFile, tmp_path)


def test_position_of_the_last_sync_is_not_accused(tmp_path: Path) -> None:
    assert lost_answers(MeasuredFile, tmp_path) == []


@pytest.mark.parametrize("seed", [0, 1, 2, 6, 7])
def test_seed_replays_exactly(tmp_path: Path, seed: int) -> None:
    """Another run of a seed does the same at every point, or fails with the same words."""

    def told(folder: Path) -> str:
        folder.mkdir()
        try:
            return "\n".join(run_schedule(seed, folder).trace)
        except ScheduleError as error:
            return str(error)

    first, again = told(tmp_path / "first"), told(tmp_path / "again")
    assert first == again
    assert first.count("\n") > 100


def test_seeds_choose_different_orders(tmp_path: Path) -> None:
    traces = set()
    for seed in range(20):
        with Interleaving(seed) as order:
            loop = order.new_loop()
            pool = WorkerPool("jobs", 2, loop)
            jobs = [partial(order.point, str(number)) for number in range(3)]
            loop.run_until_complete(run_all(pool, jobs))
            loop.close()
            traces.add(tuple(order.trace))
    assert len(traces) > 10


async def run_all(pool: WorkerPool, jobs: list[Callable[[], None]]) -> None:
    await asyncio.gather(*(pool.run(job) for job in jobs))
    assert await pool.stop(1)


def test_time_passes_only_while_everybody_waits() -> None:
    with Interleaving(0) as order:
        loop = order.new_loop()
        moments = []

        async def watch() -> None:
            loop.call_later(3600, moments.append, "hour")
            pool = WorkerPool("jobs", 1, loop)
            await pool.run(partial(order.point, "work"))
            moments.append(f"worked at {loop.time():.0f}")
            await asyncio.sleep(7200)
            moments.append(f"slept until {loop.time():.0f}")
            assert await pool.stop(1)

        loop.run_until_complete(watch())
        loop.close()
    assert moments == ["worked at 0", "hour", "slept until 7200"]


def test_everybody_waiting_for_ever_is_an_error() -> None:
    with Interleaving(0) as order:
        loop = order.new_loop()
        pool = WorkerPool("jobs", 1, loop)

        async def ask() -> None:
            await pool.run(lambda: order.wait(lambda: False, "wait for nothing"))

        with pytest.raises(DeadlockError, match="loop, jobs-1"):
            loop.run_until_complete(ask())
        finish_without_waiting(loop)


def finish_without_waiting(loop: OrderedLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()


FAST, SLOW = 50, 2000
"""Schedules of `make check`, and of all tests; ``make schedules`` tries any number."""
CHUNK = 50


def chunks(first: int, end: int) -> list[range]:
    return [range(seed, min(seed + CHUNK, end)) for seed in range(first, end, CHUNK)]


def check_schedules(seeds: range, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)  # failing disks are part of it
    failures = failures_of(seeds)
    assert not failures, "\n".join(text for _, text in failures[:3])


@pytest.mark.parametrize("seeds", chunks(0, FAST), ids=str)
def test_schedule_breaks_a_promise(seeds: range, caplog: pytest.LogCaptureFixture) -> None:
    """INV-1, INV-3, FLUSH-3, FLUSH-6: appends, housekeeping, cleanings, stops, hanging syncs."""
    check_schedules(seeds, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", chunks(FAST, SLOW), ids=str)
def test_one_of_many_schedules_breaks_a_promise(
    seeds: range, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, many times more."""
    check_schedules(seeds, caplog)
