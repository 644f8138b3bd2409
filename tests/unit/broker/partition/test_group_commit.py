import asyncio
import threading
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.partition.group_commit import GroupCommit
from seglog.broker.runtime.workers import WorkerPool, WorkersStoppedError
from seglog.broker.storage.errors import FileError, MissingFileError, NoDescriptorError


class Ticket(NamedTuple):
    """A sync of everything below an offset, run while the test allows it."""

    log: "SlowLog"
    end: int
    continues_to: int | None = None

    def run(self) -> None:
        self.log.syncs_begun.append(self.end)
        self.log.loop.call_soon_threadsafe(self.log.first_sync.set)
        assert self.log.gate.wait(5)
        if self.log.error is not None:
            raise self.log.error

    def give_up(self) -> bool:
        self.log.given_up.append(self.end)
        return True


class SlowLog:
    """Counts records; its syncs wait for a gate and may fail."""

    def __init__(self) -> None:
        self.end = 0
        self.recovery_point = 0
        self.part = 1000
        self.gate = threading.Event()
        self.loop = asyncio.get_running_loop()
        self.first_sync = asyncio.Event()
        self.error: Exception | None = None
        self.syncs_begun: list[int] = []
        self.given_up: list[int] = []

    def begin_flush(self, upto: int | None = None) -> Ticket:
        wanted = self.end if upto is None else upto
        end = min(wanted, self.recovery_point + self.part)
        return Ticket(self, end, wanted if end < wanted else None)

    def finish_flush(self, ticket: Ticket) -> bool:
        if self.error is None and ticket.end not in self.given_up:
            self.recovery_point = max(self.recovery_point, ticket.end)
        return self.error is None


class Setup(NamedTuple):
    log: SlowLog
    commit: GroupCommit
    pool: WorkerPool
    failures: list[BaseException]
    counters: BrokerCounters


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    pool = WorkerPool("sync", 1, asyncio.get_running_loop())
    log, failures, counters = SlowLog(), [], BrokerCounters()
    commit = GroupCommit(log, pool, lambda: None, failures.append, counters)
    yield Setup(log, commit, pool, failures, counters)
    log.gate.set()
    assert await pool.stop(5)


async def test_appends_of_one_turn_of_the_loop_share_one_sync(setup: Setup) -> None:
    setup.log.gate.set()
    futures = []
    for _ in range(100):
        setup.log.end += 1
        futures.append(setup.commit.flush())
    await asyncio.gather(*futures)
    assert setup.log.syncs_begun == [100]
    assert setup.log.recovery_point == 100


async def test_append_during_a_sync_joins_the_next_one(setup: Setup) -> None:
    """A sync that has begun may have missed the bytes; its end must not acknowledge them."""
    setup.log.end = 1
    first = setup.commit.flush()
    await setup.log.first_sync.wait()
    setup.log.end = 2
    second = setup.commit.flush()
    setup.log.end = 3
    third = setup.commit.flush()
    setup.log.gate.set()
    await first
    assert not second.done()
    await asyncio.gather(second, third)
    assert setup.log.syncs_begun == [1, 3]
    assert setup.counters.flushes == 2


async def test_flush_of_rolled_segments_leaves_the_active_one_alone(setup: Setup) -> None:
    """ROLL-10"""
    setup.log.gate.set()
    setup.log.end = 70
    await setup.commit.flush_below(50)
    assert setup.log.recovery_point == 50
    await asyncio.gather(setup.commit.flush_below(60), setup.commit.flush())
    assert setup.log.syncs_begun == [50, 70]


async def test_failed_sync_fails_all_who_wait_and_is_never_repeated(setup: Setup) -> None:
    """A second sync after a failed one may report success for pages that are gone."""
    setup.log.error = FileError("sync", "x.log", "Input/output error")
    setup.log.end = 1
    first = setup.commit.flush()
    await setup.log.first_sync.wait()
    setup.log.end = 2
    second = setup.commit.flush()
    setup.log.gate.set()
    for future in (first, second):
        with pytest.raises(FileError, match="Input/output"):
            await future
    setup.log.error = None
    with pytest.raises(FileError):
        await setup.commit.flush()
    assert setup.log.syncs_begun == [1]
    assert setup.log.recovery_point == 0
    assert len(setup.failures) == 1


async def test_lack_of_descriptors_ends_all_syncs(setup: Setup) -> None:
    """C032: nothing was synced and nothing is lost; the next attempt counts."""
    setup.log.end = 5
    setup.log.gate.set()
    setup.log.error = NoDescriptorError("open", "0.log", "Too many open files")
    with pytest.raises(NoDescriptorError):
        await setup.commit.flush()
    setup.log.error = None
    await setup.commit.flush()
    assert setup.log.recovery_point == 5
    assert setup.failures == []


@pytest.mark.parametrize(
    ("error", "is_loud"),
    [
        (MissingFileError("open", "leader-epoch-checkpoint", "No such file"), False),
        (FileError("sync", "0.log", "Input/output error"), True),
    ],
)
async def test_disk_that_fails_under_a_deletion_is_not_told_from_a_renamed_folder(
    setup: Setup, error: FileError, is_loud: bool, caplog: pytest.LogCaptureFixture
) -> None:
    setup.log.error = error
    waiting = setup.commit.commit()
    await setup.log.first_sync.wait()
    deleted = LookupError("there is no such topic")
    setup.commit.close(deleted)
    setup.log.gate.set()
    with pytest.raises((FileError, LookupError)) as caught:
        await waiting
    assert caught.value is (error if is_loud else deleted)
    assert setup.failures == [error] * is_loud
    assert setup.counters.flush_failures == is_loud
    assert ("flush-failed" in caplog.text) == is_loud


async def test_failed_background_flush_needs_nobody_to_look_at_it(setup: Setup) -> None:
    """An exception that was never retrieved would be reported as a bug of ours."""
    setup.log.error = FileError("sync", "x.log", "Input/output error")
    setup.log.gate.set()
    flushed = asyncio.Event()
    setup.commit.flush_below(1).add_done_callback(lambda _: flushed.set())
    await flushed.wait()
    assert setup.commit._running is None


async def test_ticket_that_a_stopped_pool_refuses_is_given_up(setup: Setup) -> None:
    """S14: what a ticket holds is let go when nobody will run it."""
    setup.log.gate.set()
    setup.log.end = 1
    await setup.commit.flush()
    await setup.pool.stop(5)
    setup.log.end = 2
    with pytest.raises(WorkersStoppedError):
        await setup.commit.flush()
    assert setup.log.given_up == [2]
    assert setup.log.recovery_point == 1
    assert setup.failures == []


async def test_flush_in_parts_is_answered_after_the_last_one(setup: Setup) -> None:
    """S6: many segments take several tickets; those who ask meanwhile wait for the next flush."""
    setup.log.part = 10
    setup.log.end = 25
    first = setup.commit.flush()
    await setup.log.first_sync.wait()
    setup.log.end = 26
    second = setup.commit.flush()
    setup.log.gate.set()
    await first
    assert setup.log.recovery_point == 25
    await second
    assert setup.log.syncs_begun == [10, 20, 25, 26]
    assert setup.counters.flushes == 2
