"""ListOffsets, against real logs."""

import asyncio
import random
import threading

import pytest

from seglog.broker.requests.context import Pending
from seglog.broker.storage.segment import batch_search
from seglog.broker.storage.segment.batch_search import SEARCHED_INLINE_BYTES_MAX
from seglog.protocol.api import ListOffsetsPartition, ListOffsetsRequest
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.records.search import find_timestamp
from seglog.protocol.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    IsolationLevel,
)
from support.broker_parts import CONTEXT, NOW_MS, BrokerParts, batch_of


async def ask(
    broker: BrokerParts,
    *timestamps_ms: int,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> list[int]:
    offsets = []
    for timestamp_ms in timestamps_ms:
        request = ListOffsetsRequest([ListOffsetsPartition("t", 0, timestamp_ms)], isolation)
        (result,) = (await broker.ask(request)).partitions
        assert result.error == ErrorCode.NONE
        if result.offset == -1:
            assert result.timestamp_ms == -1
        offsets.append(result.offset)
    return offsets


async def test_lookup_between_two_stamps_gives_the_later_record(broker: BrokerParts) -> None:
    """C005"""
    await broker.create_topic("t", 1, {"retention.ms": "-1"})
    await broker.produce([("t", 0, batch_of(*[b"x"] * 4, timestamp_ms=[2, 4, 6, 8]))])
    assert await ask(broker, *range(10)) == [0, 0, 0, 1, 1, 2, 2, 3, 3, -1]
    assert await ask(broker, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP) == [0, 4, 3]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_lookup_is_exact_to_the_record(broker: BrokerParts, codec: Codec) -> None:
    """C005"""
    await broker.create_topic("t", 1, {"segment.bytes": "100000"})
    start = NOW_MS - 1_000_000
    for first in range(0, 10_000, 100):
        stamps = [start + 10 * (first + index) for index in range(100)]
        await broker.produce(
            [("t", 0, batch_of(*[bytes(100)] * 100, timestamp_ms=stamps, codec=codec))]
        )
    generator = random.Random(5)
    for index in generator.sample(range(10_000), 200):
        after = index + 1 if index < 9_999 else -1
        stamp = start + 10 * index
        assert await ask(broker, stamp, stamp - 1, stamp + 1) == [index, index, after]


async def test_isolation_decides_what_is_found(broker: BrokerParts) -> None:
    """C055, LIST-7"""
    await broker.create_topic("t")
    start = NOW_MS - 1000
    producer = {"producer_id": 1, "producer_epoch": 0}

    def stamps(first: int, count: int) -> list[int]:
        return [start + first + index for index in range(count)]

    await broker.produce([("t", 0, batch_of(*[b"p"] * 10, timestamp_ms=stamps(0, 10)))])
    await broker.produce(
        [
            (
                "t",
                0,
                batch_of(
                    *[b"t"] * 5,
                    timestamp_ms=stamps(10, 5),
                    base_sequence=0,
                    is_transactional=True,
                    **producer,
                ),
            )
        ]
    )
    await broker.produce([("t", 0, batch_of(*[b"q"] * 5, timestamp_ms=stamps(15, 5)))])
    questions = (LATEST_TIMESTAMP, start + 5, start + 12, start + 17)
    committed = IsolationLevel.READ_COMMITTED
    assert await ask(broker, *questions, isolation=committed) == [10, 5, -1, -1]
    assert await ask(broker, *questions) == [20, 5, 12, 17]
    marker = build_marker(ControlType.COMMIT, coordinator_epoch=0, timestamp_ms=start, **producer)
    broker.append_marker("t", 0, marker)
    for isolation in IsolationLevel:
        assert await ask(broker, *questions, isolation=isolation) == [21, 5, 12, 17]


async def test_partition_that_is_named_twice_is_refused_and_others_are_not(
    broker: BrokerParts,
) -> None:
    """LIST-9"""
    await broker.create_topic("t", 2)
    entries = [ListOffsetsPartition("t", number, LATEST_TIMESTAMP) for number in (0, 1, 0)]
    response = await broker.ask(ListOffsetsRequest(entries))
    assert [result.error for result in response.partitions] == [42, 0, 42]


async def test_unknown_partitions_and_stale_epochs_are_refused(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    entries = [
        ListOffsetsPartition("ghost", 0, LATEST_TIMESTAMP),
        ListOffsetsPartition("t", 1, LATEST_TIMESTAMP),
        ListOffsetsPartition("t", 0, LATEST_TIMESTAMP, current_leader_epoch=9),
    ]
    response = await broker.ask(ListOffsetsRequest(entries))
    assert [result.error for result in response.partitions] == [3, 3, 75]
    assert broker.services.catalog.get("ghost") is None


async def test_lookups_in_many_partitions_are_done_in_one_turn_of_the_loop(
    broker: BrokerParts,
) -> None:
    """C072: each may decompress a megabyte; ends are known without a look."""
    await broker.create_topic("t", 40)
    batch = batch_of(*[b"x"] * 3, timestamp_ms=[NOW_MS, NOW_MS + 1, NOW_MS + 2], codec=Codec.GZIP)
    await broker.produce([("t", number, batch) for number in range(40)])
    entries = [
        ListOffsetsPartition("t", number, NOW_MS + 1 if number % 2 else LATEST_TIMESTAMP)
        for number in range(40)
    ]
    answer = broker.handlers.handle(ListOffsetsRequest(entries), CONTEXT)
    assert isinstance(answer, Pending)
    turns = 0
    while not answer.future.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 4
    results = (await answer.future).partitions
    assert [(each.partition, each.offset) for each in results] == [
        (number, 1 if number % 2 else 3) for number in range(40)
    ]
    ends = [entry for entry in entries if entry.timestamp_ms == LATEST_TIMESTAMP]
    assert not isinstance(broker.handlers.handle(ListOffsetsRequest(ends), CONTEXT), Pending)


async def test_first_lookup_after_a_start_reads_the_time_indexes_in_a_worker(
    broker: BrokerParts,
) -> None:
    """S10: opening them takes a third of a second of the loop for 3,000 segments."""
    await broker.create_topic("t", 1, {"retention.ms": "-1"})
    for number in range(30):
        await broker.produce([("t", 0, batch_of(b"x", timestamp_ms=NOW_MS + number))])
        broker.partition("t", 0).roll(NOW_MS)
    broker = await broker.restart()
    request = ListOffsetsRequest([ListOffsetsPartition("t", 0, NOW_MS + 12)])
    answer = broker.handlers.handle(request, CONTEXT)
    assert isinstance(answer, Pending)
    (result,) = (await answer.future).partitions
    assert (result.error, result.offset) == (ErrorCode.NONE, 12)
    assert not isinstance(broker.handlers.handle(request, CONTEXT), Pending)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
async def test_a_batch_that_inflates_to_much_is_searched_in_a_worker(
    broker: BrokerParts, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U17: five lookups by time took the loop 0.15 s each."""
    await broker.create_topic("t", 1, {"message.timestamp.after.max.ms": "99999999"})
    stamps = [NOW_MS + 10 * number for number in range(300)]
    await broker.produce(
        [("t", 0, batch_of(*[bytes(5000)] * 300, timestamp_ms=stamps, codec=codec))]
    )
    threads = []

    def noted(*arguments: object, **options: int) -> object:
        if options["max_decompressed_bytes"] > SEARCHED_INLINE_BYTES_MAX:
            threads.append(threading.current_thread().name)
        return find_timestamp(*arguments, **options)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(batch_search, "find_timestamp", noted)
    request = ListOffsetsRequest([ListOffsetsPartition("t", 0, NOW_MS + 2_001)])
    assert isinstance(broker.handlers.handle(request, CONTEXT), Pending)
    assert await ask(broker, NOW_MS, NOW_MS + 1, NOW_MS + 2_990, NOW_MS + 2_991) == [0, 1, 299, -1]
    assert threads
    assert all(name.startswith("reads") for name in threads)


async def test_the_greatest_time_above_the_log_start_of_a_large_batch_is_found(
    broker: BrokerParts,
) -> None:
    """LIST-8: the records that are left of a batch are looked at without an object for each."""
    await broker.create_topic("t", 1, {"message.timestamp.after.max.ms": "99999999"})
    stamps = [NOW_MS + (5000 if number < 10 else number) for number in range(300)]
    await broker.produce(
        [("t", 0, batch_of(*[bytes(5000)] * 300, timestamp_ms=stamps, codec=Codec.ZSTD))]
    )
    assert await ask(broker, MAX_TIMESTAMP) == [0]
    await broker.delete_records("t", 0, 20)
    assert await ask(broker, MAX_TIMESTAMP) == [299]


async def test_a_lookup_in_a_batch_beyond_the_bound_is_refused(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(bytes(500_000), codec=Codec.ZSTD))])
    broker = await broker.restart({"max.decompressed.message.bytes": "400000"})
    request = ListOffsetsRequest([ListOffsetsPartition("t", 0, NOW_MS)])
    (result,) = (await broker.ask(request)).partitions
    assert result.error == ErrorCode.MESSAGE_TOO_LARGE
    assert "400000" in (result.error_message or "")
