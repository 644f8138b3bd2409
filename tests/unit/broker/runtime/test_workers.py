import asyncio
import os
import sys
import threading

import pytest

from seglog.broker.runtime.broker_workers import Workers
from seglog.broker.runtime.workers import WorkerPool, run_parallel
from support.new_threads import new_threads, threads_now


async def pool_of(threads: int) -> WorkerPool:
    return WorkerPool("test", threads, asyncio.get_running_loop())


async def test_result_arrives_on_the_loop_and_the_job_runs_elsewhere() -> None:
    pool = await pool_of(1)
    loop_thread = threading.get_ident()
    assert await pool.run(threading.get_ident) != loop_thread
    assert await pool.stop(1)


async def test_error_of_a_job_reaches_its_caller_and_the_pool_goes_on() -> None:
    pool = await pool_of(1)

    def fail() -> None:
        raise OSError(5, "bad disk")

    with pytest.raises(OSError, match="bad disk"):
        await pool.run(fail)
    assert await pool.run(lambda: 7) == 7
    assert await pool.stop(1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux")
async def test_pool_for_work_in_bulk_has_ordinary_threads() -> None:
    pool = WorkerPool("test", 1, asyncio.get_running_loop(), in_bulk=True)
    assert await pool.run(lambda: os.sched_getscheduler(0)) == os.SCHED_BATCH
    assert await pool.stop(1)


async def test_pool_never_runs_more_jobs_at_once_than_it_has_threads() -> None:
    pool = await pool_of(2)
    lock, running, greatest = threading.Lock(), 0, 0
    gate = threading.Event()

    def job() -> None:
        nonlocal running, greatest
        with lock:
            running += 1
            greatest = max(greatest, running)
            if running == 2:
                gate.set()
        assert gate.wait(5)
        with lock:
            running -= 1

    await asyncio.gather(*(pool.run(job) for _ in range(20)))
    assert greatest == 2
    assert await pool.stop(1)


async def test_idle_pool_has_no_threads() -> None:
    """An idle daemon stays small."""
    before = threads_now()
    workers = Workers(asyncio.get_running_loop())
    assert new_threads(before) == []
    assert await workers.stop(1)


async def test_cancelled_job_that_has_not_begun_never_runs() -> None:
    pool = await pool_of(1)
    gate, ran = threading.Event(), []
    first = pool.run(gate.wait)
    second = pool.run(lambda: ran.append(2))
    second.cancel()
    gate.set()
    await first
    assert await pool.run(lambda: 3) == 3
    assert ran == []
    assert await pool.stop(1)


async def test_stop_waits_for_accepted_jobs_and_refuses_new_ones() -> None:
    pool = await pool_of(1)
    gate, done = threading.Event(), []
    pool.run(gate.wait)
    pool.run(lambda: done.append(1))
    stopping = asyncio.ensure_future(pool.stop(5))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="stopped"):
        pool.run(lambda: None)
    gate.set()
    assert await stopping
    assert done == [1]


async def test_stop_gives_a_hanging_job_up_at_the_deadline() -> None:
    """A sync that hangs on a dying disk must not keep the process alive."""
    pool = await pool_of(1)
    gate = threading.Event()
    hanging = pool.run(gate.wait)
    assert not await pool.stop(0.01)
    assert hanging.cancelled()
    gate.set()


async def test_resized_pool_uses_the_new_number_of_threads() -> None:
    pool = await pool_of(1)
    await pool.run(lambda: None)
    pool.resize(3)
    barrier = threading.Barrier(3)
    await asyncio.gather(*(pool.run(lambda: barrier.wait(5)) for _ in range(3)))
    pool.resize(1)
    assert await pool.run(lambda: 1) == 1
    assert await pool.stop(1)
    with pytest.raises(ValueError, match="at least one"):
        pool.resize(0)


def test_parallel_run_keeps_the_order_of_its_jobs() -> None:
    assert run_parallel([lambda n=n: n * n for n in range(50)], threads=4) == [
        n * n for n in range(50)
    ]
    assert run_parallel([], threads=4) == []


def test_parallel_run_finishes_all_jobs_before_it_reports_a_failure() -> None:
    """REC-18: one bad log must not leave another half loaded."""
    done = []

    def fail() -> None:
        raise OSError("bad log")

    with pytest.raises(OSError, match="bad log"):
        run_parallel([fail, lambda: done.append(1), lambda: done.append(2)], threads=2)
    assert sorted(done) == [1, 2]
