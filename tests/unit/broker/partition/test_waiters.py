import asyncio
from collections.abc import Callable

import pytest

from seglog.broker.partition.waiters import FetchWaiter, FetchWaiters, OffsetWaiters


class FakePartition:
    """Bytes that are there, and who waits for more of them."""

    def __init__(self) -> None:
        self.available = 0
        self.counted = 0
        self.waiters = FetchWaiters()

    def count_available(self) -> int:
        self.counted += 1
        return self.available

    def append(self, count: int) -> None:
        self.available += count
        self.waiters.recount()


def waiter_on(
    min_bytes: int, on_ready: Callable[[], None], *partitions: FakePartition
) -> FetchWaiter:
    waiter = FetchWaiter(min_bytes, on_ready)
    for partition in partitions:
        waiter.watch(partition.waiters, partition.count_available)
    return waiter


def test_bytes_of_all_partitions_count_together() -> None:
    """FETCH-1: min bytes are about the request, not about one partition."""
    first, second, ready = FakePartition(), FakePartition(), []
    waiter_on(100, lambda: ready.append(1), first, second)
    first.append(60)
    assert ready == []
    second.append(40)
    assert ready == [1]


def test_waiter_is_called_once_and_leaves_all_its_partitions() -> None:
    first, second, ready = FakePartition(), FakePartition(), []
    waiter_on(1, lambda: ready.append(1), first, second)
    first.append(1)
    second.append(1)
    assert ready == [1]
    assert len(first.waiters) == len(second.waiters) == 0


def test_append_recounts_only_the_partition_it_went_to() -> None:
    """A request over many partitions must not cost all of them at each append."""
    partitions = [FakePartition() for _ in range(50)]
    waiter_on(1000, lambda: None, *partitions)
    before = [partition.counted for partition in partitions]
    partitions[7].append(10)
    after = [partition.counted for partition in partitions]
    assert [new - old for new, old in zip(after, before, strict=True)] == [
        int(number == 7) for number in range(50)
    ]


def test_fewer_bytes_after_a_truncation_are_subtracted() -> None:
    first, second, ready = FakePartition(), FakePartition(), []
    waiter_on(100, lambda: ready.append(1), first, second)
    first.append(90)
    first.append(-90)
    second.append(50)
    assert ready == []
    first.append(50)
    assert ready == [1]


def test_enough_bytes_at_the_start_are_noticed_without_an_append() -> None:
    partition = FakePartition()
    partition.available = 10
    assert waiter_on(10, lambda: None, partition).is_satisfied
    assert not waiter_on(11, lambda: None, partition).is_satisfied


def test_wake_all_reaches_everyone_whatever_they_wait_for() -> None:
    partition, ready = FakePartition(), []
    for number in range(3):
        waiter_on(10**9, lambda number=number: ready.append(number), partition)
    partition.waiters.wake_all()
    assert ready == [0, 1, 2]
    assert len(partition.waiters) == 0


def test_closed_waiter_is_never_called() -> None:
    partition, ready = FakePartition(), []
    waiter = waiter_on(1, lambda: ready.append(1), partition)
    waiter.close()
    waiter.close()
    partition.append(5)
    waiter.wake()
    assert ready == []


async def test_offset_waiters_are_resolved_in_the_order_of_their_offsets() -> None:
    waiters, done = OffsetWaiters(), []
    for offset in (30, 10, 20, 10):
        waiters.wait_for(offset).add_done_callback(lambda _, offset=offset: done.append(offset))
    waiters.advance(9)
    assert len(waiters) == 4
    waiters.advance(20)
    assert len(waiters) == 1
    waiters.advance(100)
    await asyncio.sleep(0)
    assert done == [10, 10, 20, 30]


async def test_failed_offset_waiters_hear_the_error_and_cancelled_ones_do_not_disturb() -> None:
    waiters = OffsetWaiters()
    kept, cancelled = waiters.wait_for(5), waiters.wait_for(5)
    cancelled.cancel()
    waiters.fail(OSError("offline"))
    with pytest.raises(OSError, match="offline"):
        await kept
    assert len(waiters) == 0
    gone = waiters.wait_for(5)
    gone.cancel()
    waiters.advance(5)
    assert len(waiters) == 0
