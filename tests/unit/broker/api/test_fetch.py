"""Fetch, against real logs. Statement ids are those of the behaviour reference."""

import asyncio
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seglog.broker.monitoring.pages import troubles_of
from seglog.broker.requests.context import Pending
from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.log.log import FetchData
from seglog.protocol.api import (
    DescribePartitionsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import iter_batches, read_header
from seglog.protocol.types import IsolationLevel
from support.broker_parts import NOW_MS, BrokerParts, batch_of

FOREVER_MS = 60_000


def sizes_of(response: FetchResponse) -> list[int]:
    return [0 if part.records is None else part.records.length for part in response.partitions]


async def test_data_begins_with_the_batch_that_holds_the_offset(broker: BrokerParts) -> None:
    """READ-3"""
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"a", b"b", b"c"))])
    part = (await broker.fetch([("t", 0, 2)])).partitions[0]
    assert part.high_watermark == part.last_stable_offset == 3
    assert part.log_start_offset == 0
    assert read_header(broker.bytes_of(part)).base_offset == 0
    assert part.aborted_transactions is None


@pytest.mark.parametrize("limit", [1, 100_000])
async def test_first_batch_is_whole_and_nothing_beyond_the_limit_follows(
    broker: BrokerParts, limit: int
) -> None:
    """C036, FETCH-2"""
    await broker.create_topic("t", 2, {"max.message.bytes": "1048576"})
    large = batch_of(bytes(900_000))
    await broker.produce([("t", 0, large)])
    for _ in range(100):
        await broker.produce([("t", 0, batch_of(b"small"))])
    for _ in range(1000):
        await broker.produce([("t", 1, batch_of(bytes(950)))])
    both = [("t", 0, 0), ("t", 1, 0)]
    response = await broker.fetch(both, max_bytes=limit, partition_max_bytes=limit)
    assert sizes_of(response) == [len(large), 0]
    response = await broker.fetch(both[::-1], max_bytes=limit, partition_max_bytes=limit)
    sizes = sizes_of(response)
    assert sizes[1] == 0
    assert sizes[0] <= max(limit, 1100)
    response = await broker.fetch([("t", 0, 1), ("t", 1, 0)], max_bytes=100_000)
    assert sum(sizes_of(response)) <= 100_000


async def test_strict_limits_hold_after_the_first_partition_with_data(broker: BrokerParts) -> None:
    """FETCH-2: empty partitions before it do not use the privilege up."""
    await broker.create_topic("t", 3)
    for partition in (1, 2):
        await broker.produce([("t", partition, batch_of(bytes(5000)))])
    response = await broker.fetch([("t", 0, 0), ("t", 1, 0), ("t", 2, 0)], partition_max_bytes=1000)
    sizes = sizes_of(response)
    assert sizes[0] == 0
    assert sizes[1] > 5000
    assert sizes[2] == 0


@pytest.mark.parametrize("offset", [-1, 4, 99])
async def test_offset_outside_of_the_log_is_answered_at_once_with_its_bounds(
    broker: BrokerParts, offset: int
) -> None:
    """FETCH-6, FETCH-1"""
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"a", b"b", b"c"))])
    part = (await broker.fetch([("t", 0, offset)], max_wait_ms=FOREVER_MS)).partitions[0]
    assert part.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (part.log_start_offset, part.high_watermark) == (0, 3)


async def test_any_error_answers_at_once_and_harms_no_other_partition(broker: BrokerParts) -> None:
    """FETCH-1"""
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"a"))])
    response = await broker.fetch(
        [("ghost", 0, 0), ("t", 0, 0), ("t", 9, 0)], max_wait_ms=FOREVER_MS, min_bytes=10**6
    )
    assert [part.error for part in response.partitions] == [3, 0, 3]
    assert sizes_of(response)[1] > 0
    assert broker.services.catalog.get("ghost") is None


async def test_parked_fetch_is_answered_by_the_append_that_satisfies_it(
    broker: BrokerParts,
) -> None:
    await broker.create_topic("t", 2)
    pending = broker.begin_fetch([("t", 0, 0), ("t", 1, 0)], max_wait_ms=FOREVER_MS)
    assert isinstance(pending, Pending)
    assert not pending.holds_input
    await broker.produce([("t", 1, batch_of(b"hello"))])
    response = await pending.future
    assert sizes_of(response)[0] == 0
    assert broker.values_of(response.partitions[1]) == [b"hello"]
    assert len(broker.partition("t", 0).fetch_waiters) == 0


async def test_min_bytes_count_over_all_partitions(broker: BrokerParts) -> None:
    """FETCH-1, FETCH-5"""
    await broker.create_topic("t", 2)
    size = len(batch_of(bytes(100)))
    pending = broker.begin_fetch(
        [("t", 0, 0), ("t", 1, 0)], max_wait_ms=FOREVER_MS, min_bytes=3 * size
    )
    for partition in (0, 1):
        await broker.produce([("t", partition, batch_of(bytes(100)))])
    await broker.quiet()
    assert not pending.future.done()
    await broker.produce([("t", 0, batch_of(bytes(100)))])
    assert sum(sizes_of(await pending.future)) == 3 * size


async def test_min_bytes_above_max_bytes_does_not_wait_for_ever(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(bytes(5000)))])
    response = await broker.fetch(
        [("t", 0, 0)], max_wait_ms=FOREVER_MS, min_bytes=10**6, max_bytes=1000
    )
    assert sizes_of(response)[0] > 5000


async def test_wait_ends_after_max_wait_with_what_is_there(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"a"))])
    response = await broker.fetch([("t", 0, 0)], max_wait_ms=5, min_bytes=10**6)
    assert broker.values_of(response.partitions[0]) == [b"a"]
    assert broker.services.counters.expired_fetches == 1
    assert len(broker.partition("t", 0).fetch_waiters) == 0


async def test_cancelled_fetch_leaves_nothing_behind(broker: BrokerParts) -> None:
    """A client that goes away while it waits."""
    await broker.create_topic("t")
    pending = broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS)
    assert len(broker.partition("t", 0).fetch_waiters) == 1
    pending.future.cancel()
    await broker.quiet()
    assert len(broker.partition("t", 0).fetch_waiters) == 0
    await broker.produce([("t", 0, batch_of(b"a"))])


async def test_deleting_the_topic_wakes_its_readers(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    pending = broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS)
    await broker.delete_topic("t")
    response = await pending.future
    assert response.partitions[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_deleting_records_wakes_readers_below_the_new_start(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"a")), ("t", 0, batch_of(b"b"))])
    pending = broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS, min_bytes=10**6)
    await broker.delete_records("t", 0, 2)
    response = await pending.future
    assert response.partitions[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert response.partitions[0].log_start_offset == 2


async def test_data_behind_a_roll_counts_although_a_read_ends_at_the_segment(
    broker: BrokerParts,
) -> None:
    """FETCH-4: otherwise the reader of a sealed segment's end waits for bytes it has."""
    await broker.create_topic("t", 1, {"segment.bytes": "1000"})
    size = len(batch_of(bytes(600)))
    for _ in range(2):
        await broker.produce([("t", 0, batch_of(bytes(600)))])
    response = await broker.fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS, min_bytes=2 * size)
    assert sizes_of(response) == [size]


@pytest.mark.parametrize("partition_max_bytes", [1, 1_048_576])
async def test_reader_in_a_hole_at_the_end_of_a_segment_is_led_across_it(
    broker: BrokerParts, partition_max_bytes: int
) -> None:
    """C022: offsets 80 to 99 were compacted away, 100 begins the next segment."""
    await broker.create_topic("t")
    partition = broker.partition("t", 0)
    for _ in range(8):
        await broker.produce([("t", 0, batch_of(*[b"x"] * 10))])
    partition.log.roll(NOW_MS)
    follow = bytearray(batch_of(*[b"x"] * 10))
    struct.pack_into(">q", follow, 0, 100)
    partition.log.append_as_follower(memoryview(follow), now_ms=NOW_MS, leader_epoch=0)
    partition.log.set_high_watermark(110)
    for _ in range(9):
        await broker.produce([("t", 0, batch_of(*[b"x"] * 10))])
    for offset in range(200):
        response = await broker.fetch(
            [("t", 0, offset)], max_wait_ms=FOREVER_MS, partition_max_bytes=partition_max_bytes
        )
        batches = list(iter_batches(broker.bytes_of(response.partitions[0])))
        assert batches[0].header.last_offset >= offset


async def test_leader_epochs_are_checked(broker: BrokerParts) -> None:
    """FETCH-7"""
    await broker.create_topic("t")
    broker.partition("t", 0).leader_epoch = 3
    for epoch, code in ((-1, 0), (3, 0), (2, 74), (4, 75)):
        entry = FetchPartition("t", 0, 0, 1000, current_leader_epoch=epoch)
        response = await broker.ask(FetchRequest(0, 1, 1000, [entry]))
        assert response.partitions[0].error == code
        # KIP-951: who is behind the times is told the leader; who is ahead knows better than we.
        is_told = code == ErrorCode.FENCED_LEADER_EPOCH
        node_id = broker.services.node_id
        assert response.partitions[0].current_leader == ((node_id, 3) if is_told else None)
        addresses = [(each.node_id, each.host, each.port) for each in response.leaders]
        assert addresses == ([(node_id, "broker.example", 19092)] if is_told else [])


async def test_diverging_epoch_is_told_without_data(broker: BrokerParts) -> None:
    """FETCH-9"""
    await broker.create_topic("t")
    partition = broker.partition("t", 0)
    await broker.produce([("t", 0, batch_of(b"a"))])
    partition.leader_epoch = 5
    await broker.produce([("t", 0, batch_of(b"b"))])
    entry = FetchPartition("t", 0, 2, 1000, last_fetched_epoch=3)
    response = await broker.ask(FetchRequest(FOREVER_MS, 1, 1000, [entry]))
    part = response.partitions[0]
    assert part.error == ErrorCode.NONE
    assert part.diverging_epoch == (0, 1)
    assert part.records is None
    entry = FetchPartition("t", 0, 1, 1000, last_fetched_epoch=0)
    response = await broker.ask(FetchRequest(0, 1, 1000, [entry]))
    assert response.partitions[0].diverging_epoch is None
    assert broker.values_of(response.partitions[0]) == [b"b"]


async def test_topic_ids_are_resolved_and_compared(broker: BrokerParts) -> None:
    """FETCH-11"""
    topic_id = await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"a"))])
    other = bytes(15) + b"\x07"
    for name, identifier, code in (
        ("", topic_id, 0),
        ("t", topic_id, 0),
        ("", other, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", other, ErrorCode.INCONSISTENT_TOPIC_ID),
    ):
        entry = FetchPartition(name, 0, 0, 1000, topic_id=identifier)
        response = await broker.ask(FetchRequest(0, 1, 1000, [entry]))
        assert response.partitions[0].error == code
        assert response.partitions[0].topic_id == identifier
        broker.values_of(response.partitions[0])


async def test_read_committed_stops_at_the_open_transaction(broker: BrokerParts) -> None:
    """READ-2, and the emptied log of C055."""
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"plain"))])
    open_transaction = batch_of(
        b"undecided", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    await broker.produce([("t", 0, open_transaction)])
    committed = IsolationLevel.READ_COMMITTED
    part = (await broker.fetch([("t", 0, 0)], isolation=committed)).partitions[0]
    assert broker.values_of(part) == [b"plain"]
    assert (part.last_stable_offset, part.high_watermark) == (1, 2)
    assert part.aborted_transactions == []
    await broker.delete_records("t", 0, 1)
    part = (await broker.fetch([("t", 0, 1)], isolation=committed)).partitions[0]
    assert (part.error, part.records) == (0, None)


async def test_bytes_and_requests_are_counted_once_per_answer(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    pending = broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS)
    await broker.produce([("t", 0, batch_of(b"a"))])
    (size,) = sizes_of(await pending.future)
    counters = broker.services.counters.topic("t")
    assert (counters.fetch_requests, counters.bytes_out) == (1, size)
    assert broker.services.counters.parked_fetches == 1


async def test_many_parked_fetches_are_answered_in_one_turn(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    parked = [broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS) for _ in range(500)]
    await broker.produce([("t", 0, batch_of(b"a"))])
    responses = await asyncio.gather(*(each.future for each in parked))
    assert {tuple(sizes_of(response)) for response in responses} == {(len(batch_of(b"a")),)}


def clear_batch(path: Path, number: int, *, batches: int) -> int:
    """Put zeros in the place of one of some batches of the same size; returns that size."""
    data = bytearray(path.read_bytes())
    size = len(data) // batches
    data[number * size : (number + 1) * size] = bytes(size)
    path.write_bytes(data)
    return size


async def test_damaged_batch_is_answered_counted_and_shown(broker: BrokerParts) -> None:
    """U3 (a): KAFKA_STORAGE_ERROR, which clients take for passing, had them wait for ever."""
    await broker.create_topic("t", 1, {"index.interval.bytes": "200"})
    for number in range(10):
        await broker.produce([("t", 0, batch_of(b"value%d" % number))])
    broker = await broker.restart()
    log = broker.log("t", 0)
    size = clear_batch(Path(log.segments.active.log.path), 6, batches=10)
    whole = (await broker.fetch([("t", 0, 0)])).partitions[0]
    assert len(broker.bytes_of(whole)) == 6 * size
    refused = (await broker.fetch([("t", 0, 6)])).partitions[0]
    assert refused.error == ErrorCode.CORRUPT_MESSAGE
    assert refused.error_message is not None
    assert "go on at offset 7" in refused.error_message
    following = (await broker.fetch([("t", 0, 7)])).partitions[0]
    assert read_header(broker.bytes_of(following)).base_offset == 7
    assert broker.services.counters.damaged_reads == 1
    (trouble,) = troubles_of(broker.services)
    assert trouble.startswith("partitions with damaged records: 1; t-0: ")
    (described,) = (await broker.ask(DescribePartitionsRequest(["t"]))).partitions
    assert described.damage is not None
    assert "go on at offset 7" in described.damage


async def test_parked_fetch_is_answered_after_the_work_that_its_read_needs(
    broker: BrokerParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_topic("t")
    parked = broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS)
    assert isinstance(parked, Pending)
    log = broker.log("t", 0)
    read, done = log.read, threading.Event()

    def read_after_work(*args: Any, **options: Any) -> FetchData:
        if not done.is_set():
            raise DeferredReadError(
                log.segments.active.log.path, "it has to be looked through", work
            )
        return read(*args, **options)

    def work() -> Callable[[], None]:
        assert threading.current_thread() is not threading.main_thread()
        return done.set

    monkeypatch.setattr(log, "read", read_after_work)
    await broker.produce([("t", 0, batch_of(b"value"))])
    result = (await parked.future).partitions[0]
    assert result.error == ErrorCode.NONE
    assert len(broker.bytes_of(result)) > 0
