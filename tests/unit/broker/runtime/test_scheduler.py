import asyncio
import logging

import pytest

from seglog.broker.runtime.scheduler import AsyncioScheduler
from support.fake_clock import FakeClock, ManualScheduler


class Probe:
    """Counts its runs and says when a number of them is reached."""

    def __init__(self, wanted: int = 1) -> None:
        self.runs = 0
        self.wanted = wanted
        self.reached = asyncio.Event()

    def __call__(self) -> None:
        self.runs += 1
        if self.runs >= self.wanted:
            self.reached.set()


def new_scheduler() -> AsyncioScheduler:
    return AsyncioScheduler(asyncio.get_running_loop())


async def test_periodic_task_runs_again_and_again_until_the_stop() -> None:
    scheduler, probe = new_scheduler(), Probe(3)
    scheduler.schedule("kafka-log-retention", probe, 0, 1)
    await probe.reached.wait()
    assert await scheduler.stop(1)
    assert scheduler.task_names == []


async def test_task_without_period_runs_once_and_is_forgotten() -> None:
    scheduler, probe = new_scheduler(), Probe()
    scheduler.schedule("delete-file", probe, 0)
    await probe.reached.wait()
    await asyncio.sleep(0)
    assert scheduler.task_names == []
    assert await scheduler.stop(1)
    assert probe.runs == 1


async def test_failing_task_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    scheduler, probe = new_scheduler(), Probe(2)

    async def fail() -> None:
        probe()
        raise OSError("disk on fire")

    with caplog.at_level(logging.ERROR):
        scheduler.schedule("kafka-log-flusher", fail, 0, 1)
        await probe.reached.wait()
        await asyncio.sleep(0)
    assert await scheduler.stop(1)
    assert "task=kafka-log-flusher" in caplog.text
    assert "disk on fire" in caplog.text


async def test_task_never_overlaps_itself() -> None:
    scheduler, gate = new_scheduler(), asyncio.Event()
    running, greatest = 0, 0

    async def slow() -> None:
        nonlocal running, greatest
        running += 1
        greatest = max(greatest, running)
        await gate.wait()
        running -= 1

    other = Probe(5)
    scheduler.schedule("slow", slow, 0, 1)
    scheduler.schedule("other", other, 0, 1)
    await other.reached.wait()
    gate.set()
    assert await scheduler.stop(1)
    assert greatest == 1


async def test_stop_waits_for_a_run_that_has_begun() -> None:
    scheduler, begun, gate, done = new_scheduler(), asyncio.Event(), asyncio.Event(), []

    async def checkpoint() -> None:
        begun.set()
        await gate.wait()
        done.append(1)

    scheduler.schedule("kafka-recovery-point-checkpoint", checkpoint, 0, 1000)
    await begun.wait()
    stopping = asyncio.ensure_future(scheduler.stop(5))
    await asyncio.sleep(0)
    gate.set()
    assert await stopping
    assert done == [1]


async def test_stop_cancels_a_run_at_the_deadline() -> None:
    scheduler, begun = new_scheduler(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    scheduler.schedule("hang", hang, 0, 1)
    await begun.wait()
    assert not await scheduler.stop(0.01)
    with pytest.raises(RuntimeError, match="stopped"):
        scheduler.schedule("late", lambda: None, 0)


async def test_new_period_waits_for_the_end_of_the_old_one() -> None:
    scheduler, probe = new_scheduler(), Probe(3)
    task = scheduler.schedule("log-cleaner", probe, 3_600_000, 3_600_000)
    task.set_period(1)
    await probe.reached.wait()
    with pytest.raises(ValueError, match="log-cleaner"):
        task.set_period(0)
    assert await scheduler.stop(1)


async def test_longer_period_puts_off_the_run_that_is_due() -> None:
    scheduler, probe = new_scheduler(), Probe(1)
    scheduler.schedule("log-cleaner", probe, 0, 1).set_period(3_600_000)
    await probe.reached.wait()
    await asyncio.sleep(0)
    assert scheduler.task_names == ["log-cleaner"]
    assert await scheduler.stop(1)
    assert probe.runs == 1


async def test_cancelled_task_runs_no_more() -> None:
    scheduler, probe, other = new_scheduler(), Probe(), Probe(3)
    scheduler.schedule("x", probe, 0, 1).cancel()
    scheduler.schedule("other", other, 0, 1)
    await other.reached.wait()
    assert probe.runs == 0
    assert await scheduler.stop(1)


@pytest.mark.parametrize(("delay_ms", "period_ms"), [(-1, 1), (0, 0)])
async def test_times_that_make_no_sense_are_refused(delay_ms: int, period_ms: int) -> None:
    with pytest.raises(ValueError, match="task 'x'"):
        new_scheduler().schedule("x", lambda: None, delay_ms, period_ms)


async def test_manual_scheduler_runs_tasks_at_their_time_in_order() -> None:
    clock = FakeClock()
    scheduler = ManualScheduler(clock)
    log: list[tuple[str, int]] = []
    start = clock.monotonic_ms()
    scheduler.schedule("a", lambda: log.append(("a", clock.monotonic_ms() - start)), 100, 100)
    scheduler.schedule("b", lambda: log.append(("b", clock.monotonic_ms() - start)), 250)
    await scheduler.advance(99)
    assert log == []
    await scheduler.advance(201)
    assert log == [("a", 100), ("a", 200), ("b", 250), ("a", 300)]
    assert scheduler.task_names == ["a"]
