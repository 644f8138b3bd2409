"""AsyncConsumer as an application uses it."""

import asyncio
from datetime import UTC, datetime

import pytest

from seglog.clients import (
    AsyncConsumer,
    BrokerError,
    ClientClosedError,
    ConfigurationError,
    CorruptRecordError,
    Last,
    Offset,
    OffsetOutOfRangeError,
    Timestamp,
    UnknownTopicOrPartitionError,
)
from seglog.protocol.api import (
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.builder import build_batch
from support.fake_broker import SILENCE
from support.fake_logs import fill, numbered

FAST = {"fetch_max_wait_ms": 20, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


def values(records):
    return [record.value for record in records]


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what another task does is waited for
            await asyncio.sleep(0.005)


async def read_all(consumer):
    return [record async for record in consumer]


async def test_reading_to_the_end_of_several_partitions(broker):
    logs = broker.create("topic", 3)
    for number, log in enumerate(logs):
        fill(log, numbered(100, number * 100), batch_records=7)
    async with AsyncConsumer(
        broker.address, "topic", start="earliest", stop_at_end=True
    ) as consumer:
        records = await read_all(consumer)
        assert await read_all(consumer) == []
        assert consumer.assignment == [("topic", 0), ("topic", 1), ("topic", 2)]
    assert sorted(int(value) for value in values(records)) == list(range(300))
    for number in range(3):
        offsets = [record.offset for record in records if record.partition == number]
        assert offsets == list(range(100))


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        (1010, 10),
        (Timestamp(1010), 10),
        (datetime.fromtimestamp(1.010, UTC), 10),
        (Offset(37), 37),
        (Last(5), 45),
        (Last(500), 0),
        (Last(0), None),
        ("latest", None),
        (5_000, None),
    ],
)
async def test_every_start(broker, start, first):
    (log,) = broker.create("topic")
    fill(log, numbered(50), batch_records=8)
    async with AsyncConsumer(broker.address, "topic", start=start, stop_at_end=True) as consumer:
        records = await read_all(consumer)
    assert [record.offset for record in records] == (
        [] if first is None else list(range(first, 50))
    )


async def test_partitions_each_from_their_own_place(broker):
    for log in broker.create("topic", 3):
        fill(log, numbered(10))
    places = {("topic", 0): 8, ("topic", 2): "earliest"}
    async with AsyncConsumer(broker.address, places, stop_at_end=True) as consumer:
        records = await read_all(consumer)
    assert sorted((record.partition, record.offset) for record in records) == (
        [(0, 8), (0, 9)] + [(2, offset) for offset in range(10)]
    )


async def test_the_last_records_are_counted_not_computed(broker):
    """Compaction leaves holes: the last 5 records may lie far before the last 5 offsets."""
    (log,) = broker.create("topic")
    fill(log, numbered(10))
    for base_offset in range(10, 500, 10):
        record = [(1, None, b"%d" % base_offset, ())]
        log.put(build_batch(record, base_offset=base_offset, last_offset_delta=9))
    async with AsyncConsumer(broker.address, "topic", start=Last(5), stop_at_end=True) as consumer:
        assert values(await read_all(consumer)) == [b"450", b"460", b"470", b"480", b"490"]


async def test_until_end_stops_and_goes_on_later_without_a_gap(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(20), batch_records=6)
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        first = [record async for record in consumer.until_end()]
        fill(log, numbered(20, 20), batch_records=20)
        second = [record async for record in consumer.until_end()]
        assert values(first + second) == numbered(40)
        fill(log, numbered(10, 40), batch_records=10)
        async for record in consumer.until_end():
            if record.offset == 43:
                break
        assert values(await consumer.read(3)) == [b"44", b"45", b"46"]


async def test_read_returns_what_is_there_and_waits_only_for_the_first(broker):
    (log,) = broker.create("topic")
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        assert await consumer.read(timeout=0.01) == []
        fill(log, numbered(30))
        broker.appended.set()
        records = await asyncio.wait_for(consumer.read(12, timeout=None), 2)
        assert values(records) == numbered(12)
        records += await asyncio.wait_for(consumer.read(500, timeout=60), 2)
        assert values(records) == numbered(30)


async def test_a_reader_hears_of_new_records_without_delay(broker):
    (log,) = broker.create("topic")
    async with AsyncConsumer(broker.address, "topic", fetch_max_wait_ms=10_000) as consumer:
        reading = asyncio.create_task(consumer.read(1, timeout=None))
        await asyncio.sleep(0.02)
        fill(log, [b"news"])
        broker.appended.set()
        assert values(await asyncio.wait_for(reading, 1)) == [b"news"]


async def test_seek_and_position(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(50), batch_records=10)
    partition = ("topic", 0)
    async with AsyncConsumer(
        broker.address, "topic", start="earliest", fetch_max_wait_ms=10_000
    ) as consumer:
        assert await consumer.position(partition) == 0
        await consumer.read(3)
        assert await consumer.position(partition) == 3
        await consumer.seek(partition, 25)
        assert await consumer.position(partition) == 25
        assert values(await consumer.read(2)) == [b"25", b"26"]
        await consumer.seek(partition, "latest")
        assert await consumer.position(partition) == 50
        # A fetch waits at the end for 10 seconds now: that must not hold up what follows.
        await asyncio.sleep(0.02)
        await consumer.seek(partition, Timestamp(1040))
        assert values(await asyncio.wait_for(consumer.read(1), 1)) == [b"40"]
        with pytest.raises(ConfigurationError, match="not read by this consumer"):
            await consumer.seek(("topic", 1), 0)


async def test_seeking_inside_a_loop(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(20), batch_records=20)
    seen = []
    async with AsyncConsumer(broker.address, "topic", start="earliest") as consumer:
        async for record in consumer:
            seen.append(record.offset)
            if seen == [0, 1, 2]:
                await consumer.seek(("topic", 0), 18)
            if record.offset == 19:
                break
    assert seen == [0, 1, 2, 18, 19]


async def test_offsets_by_time_are_none_where_there_is_no_record(broker):
    """C005: never the end offset."""
    (log,) = broker.create("topic")
    for offset, timestamp_ms in enumerate((2, 4, 6, 8)):
        fill(log, [b"%d" % offset], timestamp_ms=timestamp_ms)
    async with AsyncConsumer(broker.address, "topic") as consumer:
        found = [
            (await consumer.offsets_for_times({("topic", 0): time_ms}))["topic", 0]
            for time_ms in range(10)
        ]
        assert [answer and answer.offset for answer in found] == [0, 0, 0, 1, 1, 2, 2, 3, 3, None]
        assert found[3].timestamp_ms == 4
        assert await consumer.beginning_offsets() == {("topic", 0): 0}
        assert await consumer.end_offsets([("topic", 0)]) == {("topic", 0): 4}


async def test_a_hole_at_the_end_of_a_segment_is_passed_over(broker):
    """C022: offsets 80 to 99 are gone; a reader at 85 gets offset 100 next."""
    (log,) = broker.create("topic")
    fill(log, numbered(80))
    for offset in range(100, 200):
        log.put(build_batch([(1, None, b"%d" % offset, ())], base_offset=offset))
    async with AsyncConsumer(broker.address, {("topic", 0): 85}, stop_at_end=True) as consumer:
        records = await asyncio.wait_for(read_all(consumer), 1)
    assert [record.offset for record in records] == list(range(100, 200))


async def test_reading_to_the_end_of_a_topic_that_is_deleted_waits_for_ever(broker):
    """What was fetched is read, then the error comes, each time."""
    (log,) = broker.create("topic")
    fill(log, [bytes(1000)] * 20)
    options = FAST | {"prefetch_bytes": 1000, "partition_fetch_bytes": 1000}
    async with AsyncConsumer(
        broker.address, "topic", start="earliest", stop_at_end=True, **options
    ) as consumer:
        read = await consumer.read(2)
        del broker.topics["topic"]
        for _ in range(2):
            with pytest.raises(UnknownTopicOrPartitionError, match=r"topic-0.*deleted.* of 20"):
                await asyncio.wait_for(_read_into(read, consumer), 5)
    assert [record.offset for record in read] == list(range(len(read)))
    assert 2 <= len(read) < 20


async def _read_into(read, consumer):
    while records := await consumer.read():
        read += records


async def test_a_batch_larger_than_every_limit_is_read(broker):
    """C036: and no offset is asked for more than twice."""
    first, second = broker.create("topic", 2)
    fill(first, [bytes(900_000)])
    fill(first, numbered(100))
    fill(second, [bytes(1000)] * 1000)
    async with AsyncConsumer(
        broker.address,
        "topic",
        start="earliest",
        stop_at_end=True,
        fetch_max_bytes=1024,
        partition_fetch_bytes=1,
        fetch_max_wait_ms=0,
    ) as consumer:
        assert len(await read_all(consumer)) == 1101
    asked = [
        (item.partition, item.fetch_offset)
        for request in broker.requests_of(FetchRequest)
        for item in request.partitions
    ]
    assert max(asked.count(each) for each in set(asked) if each[1] < 100) <= 2


async def test_what_is_fetched_ahead_is_bounded(broker):
    (log,) = broker.create("topic")
    fill(log, [bytes(10_000)] * 100)
    async with AsyncConsumer(
        broker.address,
        "topic",
        start="earliest",
        prefetch_bytes=50_000,
        partition_fetch_bytes=20_000,
    ) as consumer:
        await consumer.read(1)
        for _ in range(20):
            await asyncio.sleep(0.005)
        sent = [
            item.fetch_offset
            for request in broker.requests_of(FetchRequest)
            for item in request.partitions
        ]
        assert max(sent) <= 10
        assert len(await consumer.read(99)) == 99


@pytest.mark.parametrize(("policy", "next_value"), [("earliest", b"10"), ("latest", None)])
async def test_a_position_that_is_gone_is_left_as_the_policy_says(broker, policy, next_value):
    (log,) = broker.create("topic")
    fill(log, numbered(20))
    log.log_start_offset = 10
    async with AsyncConsumer(
        broker.address, {("topic", 0): 5}, offset_reset=policy, **FAST
    ) as consumer:
        records = await consumer.read(1, 0.2)
        if next_value is not None:
            assert values(records) == [next_value]
        else:
            assert records == []
            assert await consumer.position(("topic", 0)) == 20


async def test_a_position_that_is_gone_is_an_error_if_wanted_until_the_reader_moves(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(20))
    log.log_start_offset = 10
    async with AsyncConsumer(
        broker.address, {("topic", 0): 5}, offset_reset="error", **FAST
    ) as consumer:
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="topic-0: offset 5") as caught:
                await consumer.read(timeout=2)
            error = caught.value
            assert (error.partition, error.offset) == (("topic", 0), 5)
            assert (error.log_start_offset, error.end_offset) == (10, 20)
        await consumer.seek(("topic", 0), error.log_start_offset)
        assert values(await consumer.read(1)) == [b"10"]


@pytest.mark.parametrize(("policy", "expected"), [("earliest", numbered(3)), ("latest", [])])
async def test_reading_to_the_end_from_beyond_it_finds_nothing(broker, policy, expected):
    """The offset is not there: the topic was made anew, or somebody has miscounted."""
    (log,) = broker.create("topic")
    fill(log, numbered(3))
    options = {"offset_reset": policy, "stop_at_end": True, **FAST}
    async with AsyncConsumer(broker.address, {("topic", 0): 99}, **options) as consumer:
        assert values(await asyncio.wait_for(read_all(consumer), 5)) == expected
    options["offset_reset"] = "error"
    async with AsyncConsumer(broker.address, {("topic", 0): 99}, **options) as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="offset 99 is out of range, there are 0"):
            await asyncio.wait_for(read_all(consumer), 5)
    async with AsyncConsumer(broker.address, {("topic", 0): 3}, **options) as consumer:
        assert await asyncio.wait_for(read_all(consumer), 5) == []


async def test_readers_of_decided_records_are_thrown_back_from_their_place(broker):
    """An open transaction may begin before the offset that others have committed."""
    (log,) = broker.create("topic")
    fill(log, numbered(5))

    def undecided(request):
        if isinstance(request, ListOffsetsRequest):
            return ListOffsetsResponse([ListOffsetsResult("topic", 0, offset=2)])
        return None

    broker.script = undecided
    options = {"isolation": "read_committed", "stop_at_end": True, **FAST}
    async with AsyncConsumer(broker.address, {("topic", 0): 4}, **options) as consumer:
        assert await asyncio.wait_for(read_all(consumer), 5) == []
        assert await consumer.position(("topic", 0)) == 4


async def test_damage_is_told_again_until_the_reader_moves(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(3))
    damaged = bytearray(build_batch([(1, None, b"3", ())], base_offset=3))
    damaged[-1] ^= 1
    log.put(damaged)
    fill(log, numbered(3, 4))
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        assert values(await consumer.read(10, 2)) == numbered(3)
        for _ in range(2):
            with pytest.raises(CorruptRecordError) as caught:
                await consumer.read(10, 2)
        await consumer.seek(("topic", 0), caught.value.offset + 1)
        assert values(await consumer.read(10, 2)) == numbered(3, 4)


@pytest.mark.parametrize("kind", ["a zeroed page", "a flipped bit"])
async def test_good_records_of_an_answer_with_damage_are_read_first(broker, kind):
    """U3: none of them was, and the error named the first offset of the answer."""
    (log,) = broker.create("topic")
    for first in range(0, 100, 10):
        log.put(
            build_batch(
                [(1, None, b"%02d" % (first + n), ()) for n in range(10)], base_offset=first
            )
        )
    whole = b"".join(bytes(batch.view) for batch in log.batches)
    size = len(log.batches[0].view)
    damaged = bytearray(whole)
    if kind == "a zeroed page":
        damaged[4 * size : 5 * size] = bytes(size)
    else:
        damaged[4 * size + 30] ^= 1

    def with_damage(request):
        if not isinstance(request, FetchRequest):
            return None
        offset = request.partitions[0].fetch_offset
        records = memoryview(bytes(damaged[offset // 10 * size :]))
        return FetchResponse(
            partitions=[
                FetchPartitionResult(
                    "topic", 0, ErrorCode.NONE, high_watermark=100, records=records
                )
            ]
        )

    broker.script = with_damage
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        assert values(await consumer.read(100, 2)) == [b"%02d" % n for n in range(40)]
        with pytest.raises(CorruptRecordError) as caught:
            await consumer.read(100, 2)
        assert (caught.value.offset, caught.value.next_offset) == (40, 50)
        await consumer.seek(("topic", 0), caught.value.next_offset)
        assert values(await consumer.read(50, 2)) == [b"%02d" % n for n in range(50, 100)]


async def test_damage_that_the_broker_tells_of_is_raised(broker):
    """CORRUPT_MESSAGE of what lies on a disk does not pass: a reader would wait for ever."""
    (log,) = broker.create("topic")
    fill(log, numbered(3))

    def damaged(request):
        if not isinstance(request, FetchRequest) or request.partitions[0].fetch_offset != 3:
            return None
        result = FetchPartitionResult(
            "topic", 0, ErrorCode.CORRUPT_MESSAGE, error_message="records go on at offset 500"
        )
        return FetchResponse(partitions=[result])

    broker.script = damaged
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        assert values(await consumer.read(3, 2)) == numbered(3)
        with pytest.raises(CorruptRecordError, match="records go on at offset 500") as caught:
            await consumer.read(3, 2)
        assert caught.value.offset == 3


async def test_partitions_that_are_added_are_read_from_their_first_record(broker):
    """Also by a reader that began at the end: it would lose what came before it noticed."""
    logs = broker.create("topic", 1)
    async with AsyncConsumer(broker.address, "topic", metadata_max_age_ms=20, **FAST) as consumer:
        logs.append(type(logs[0])())
        fill(logs[1], numbered(3))
        assert values(await consumer.read(3, 5)) == numbered(3)
        assert consumer.assignment == [("topic", 0), ("topic", 1)]


async def test_a_deleted_topic_is_waited_for_and_read_when_it_is_back(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(3))
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        assert len(await consumer.read(3, 2)) == 3
        del broker.topics["topic"]
        broker.appended.set()
        assert await consumer.read(timeout=0.1) == []
        (log,) = broker.create("topic")
        fill(log, [b"new"])
        assert values(await consumer.read(1, 5)) == [b"new"]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_a_topic_made_anew_is_read_as_the_policy_says(broker, policy):
    """C063: the old position exists in it, so that a reader would pass over what is before it."""
    old = broker.create("topic", 3)
    fill(old[0], numbered(3))
    options = {"metadata_max_age_ms": 20, "offset_reset": policy, **FAST}
    async with AsyncConsumer(broker.address, "topic", start="earliest", **options) as consumer:
        assert values(await consumer.read(3, 2)) == numbered(3)
        new = broker.create("topic", 2)
        fill(new[0], [b"new %d" % number for number in range(5)])
        await until(lambda: consumer.assignment == [("topic", 0), ("topic", 1)])
        state = consumer._started().state_of(("topic", 1))
        # "latest" is behind a record that is there before the position is taken.
        await until(lambda: state.generation > 0 and state.place is None)
        fill(new[1], [b"last"])
        broker.appended.set()
        read = []
        while b"last" not in read:
            read += values(await consumer.read(10, 1))
        expected = [b"new %d" % number for number in range(5)] if policy == "earliest" else []
        assert sorted({*read} - {b"last", b"new 3", b"new 4"}) == expected[:3]
        assert await consumer.position(("topic", 0)) == 5


async def test_what_was_fetched_of_an_old_topic_comes_before_the_new_one(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(6))
    options = {"metadata_max_age_ms": 20, **FAST}
    async with AsyncConsumer(broker.address, "topic", start="earliest", **options) as consumer:
        assert values(await consumer.read(2, 2)) == numbered(2)
        (log,) = broker.create("topic")
        fill(log, [b"new"])
        await until(lambda: consumer._started().state_of(("topic", 0)).is_of_old_topic)
        assert values(await consumer.read(4, 2)) == numbered(4, 2)
        assert values(await consumer.read(1, 2)) == [b"new"]


async def test_a_topic_made_anew_is_an_error_if_wanted_and_the_end_of_reading_to_the_end(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(6))
    options = {"start": "earliest", "metadata_max_age_ms": 20, **FAST}
    async with (
        AsyncConsumer(broker.address, "topic", offset_reset="error", **options) as strict,
        AsyncConsumer(
            broker.address, "topic", stop_at_end=True, prefetch_bytes=1, **options
        ) as other,
    ):
        assert len(await strict.read(6, 2)) == 6
        assert len(await other.read(1, 2)) == 1
        fill(broker.create("topic")[0], [b"new"])
        with pytest.raises(OffsetOutOfRangeError, match="deleted and made anew, offset 6"):
            await strict.read(1, 5)
        await strict.seek(("topic", 0), "earliest")
        assert values(await strict.read(1, 5)) == [b"new"]
        assert b"new" not in values(await asyncio.wait_for(read_all(other), 5))


async def test_what_does_not_exist_is_refused_at_the_start(broker):
    broker.create("topic", 2)
    for topics in ("nowhere", [("topic", 2)], {("topic", 2): 5}, ["topic", "nowhere"]):
        consumer = AsyncConsumer(broker.address, topics, **FAST)
        with pytest.raises(UnknownTopicOrPartitionError):
            await asyncio.wait_for(consumer.start(), 3)
        await consumer.close()


async def test_a_start_that_failed_is_not_made_up_for_by_the_next(broker):
    """Trying again until the topic is there, or after a time limit, is how programs begin."""
    consumer = AsyncConsumer(broker.address, "topic", start="earliest", **FAST)
    try:
        with pytest.raises(UnknownTopicOrPartitionError):
            await consumer.start()
        (log,) = broker.create("topic")
        fill(log, numbered(3))
        broker.script = lambda request: SILENCE if isinstance(request, ListOffsetsRequest) else None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.start(), 0.05)
        broker.script = lambda _: None
        await consumer.start()
        await consumer.start()
        assert values(await asyncio.wait_for(consumer.read(3, 5), 5)) == numbered(3)
    finally:
        await consumer.close()


async def test_a_refusal_that_does_not_pass_reaches_the_reader(broker):
    broker.create("topic")

    def refuse(request):
        if not isinstance(request, FetchRequest):
            return None
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return FetchResponse([FetchPartitionResult("topic", 0, denied)])

    broker.script = refuse
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.read()
        broker.script = lambda _: None
        fill(broker.topics["topic"][0], [b"allowed"])
        assert values(await consumer.read(1, 2)) == [b"allowed"]


async def test_an_answer_that_brings_nothing_new_is_not_asked_for_in_a_circle(broker):
    """A broker that keeps answering with an earlier batch must not make us spin."""
    (log,) = broker.create("topic")
    fill(log, numbered(5))
    stale = memoryview(bytes(log.batches[0].view))
    broker.script = lambda request: (
        FetchResponse([FetchPartitionResult("topic", 0, high_watermark=5, records=stale)])
        if isinstance(request, FetchRequest)
        else None
    )
    async with AsyncConsumer(
        broker.address, {("topic", 0): 3}, retry_backoff_ms=50, retry_backoff_max_ms=50
    ) as consumer:
        assert await consumer.read(timeout=0.2) == []
    assert len(broker.requests_of(FetchRequest)) <= 7


async def test_pausing_a_partition_leaves_the_others_flowing(broker):
    first, second = broker.create("topic", 2)
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        consumer.pause([("topic", 0)])
        await asyncio.sleep(0.05)
        fill(first, [b"held"])
        fill(second, [b"flows"])
        broker.appended.set()
        assert values(await consumer.read(2, 0.2)) == [b"flows"]
        consumer.resume([("topic", 0)])
        assert values(await consumer.read(1, 2)) == [b"held"]


async def test_what_is_paused_comes_out_of_the_buffer(broker):
    """Kafka's clients hold back what they have fetched of a paused partition; so do we."""
    first, second = broker.create("topic", 2)
    fill(first, numbered(10), batch_records=5)
    fill(second, numbered(10, 100), batch_records=5)
    seen = []
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        async with asyncio.timeout(5):
            async for record in consumer:
                seen.append(record)
                if len(seen) == 2:
                    paused = record
                    consumer.pause([(paused.topic, paused.partition)])
                if len(seen) == 2 + 10:
                    break
        assert {record.partition for record in seen[2:]} == {1 - paused.partition}
        assert await consumer.position((paused.topic, paused.partition)) == paused.offset + 1
        # The partition that is behind is paused: nothing to wait for.
        assert await asyncio.wait_for(consumer.seek(("topic", 1 - paused.partition), 5), 5) is None
        assert len(await asyncio.wait_for(consumer.read(500, None), 5)) == 5
        consumer.resume([(paused.topic, paused.partition)])
        rest = await consumer.read(8, 5)
    assert [record.offset for record in rest] == list(range(2, 10))


async def test_a_partition_that_was_paused_at_once_has_no_position(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(3))
    async with AsyncConsumer(broker.address, "topic", start="latest", **FAST) as consumer:
        consumer.pause([("topic", 0)])
        async with asyncio.timeout(5):
            await consumer.seek(("topic", 0), "earliest")
            assert await consumer.position(("topic", 0)) == 0
            assert await consumer.read(3, 0.05) == []


def _promise_more(broker):
    """Let the broker say that there are more records than it gives."""

    def promise(request):
        if not isinstance(request, FetchRequest):
            return None
        response = broker.read(request)
        for result in response.partitions:
            result.high_watermark += 100
        return response

    return promise


async def test_a_read_that_is_cancelled_loses_what_it_has(broker):
    """`wait_for(consumer.read(), ...)`: what was taken for it would be passed over for ever."""
    (log,) = broker.create("topic")
    fill(log, numbered(5))
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        broker.script = _promise_more(broker)
        reading = asyncio.ensure_future(consumer.read(500, None))
        await until(lambda: consumer.positions()["topic", 0].offset == 5)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert consumer.positions()["topic", 0].offset == 0
        # The next one takes what there is: were it broken off each time, nothing would be read.
        assert values(await asyncio.wait_for(consumer.read(500, None), 5)) == numbered(5)
        assert consumer.positions()["topic", 0].offset == 5


async def test_a_partition_that_moves_before_it_is_asked_for_is_asked_for_twice(broker):
    """Its second answer, of what was read already, held it up for the pause after a failure."""
    (log,) = broker.create("topic")
    fill(log, numbered(3))
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        place = [("topic", 0)]
        consumer.pause(place)
        await asyncio.sleep(0)
        consumer.resume(place)
        await asyncio.sleep(0)
        consumer.pause(place)
        consumer.resume(place)
        assert values(await asyncio.wait_for(consumer.read(3, 5), 5)) == numbered(3)
        state = consumer._partitions.state_of(("topic", 0))
        assert state.failures == 0


async def test_a_wait_that_is_cancelled_is_the_end_of_an_iterator(broker):
    (log,) = broker.create("topic")
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        records = aiter(consumer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(records), 0.02)
        fill(log, [b"late"])
        broker.appended.set()
        assert (await asyncio.wait_for(anext(records), 5)).value == b"late"


async def test_subscribing_anew_forgets_the_old(broker):
    (old,) = broker.create("old")
    (new,) = broker.create("new")
    fill(old, numbered(10))
    fill(new, numbered(5, 100))
    async with AsyncConsumer(broker.address, "old", start="earliest", **FAST) as consumer:
        await consumer.read(2)
        await consumer.subscribe("new", "earliest")
        assert values(await consumer.read(5, 2)) == numbered(5, 100)
        assert consumer.assignment == [("new", 0)]


async def test_every_partition_gets_its_turn(broker):
    """A large backlog in one partition must not starve the others: answers are limited."""
    logs = broker.create("topic", 4)
    for number, log in enumerate(logs):
        fill(log, [b"%d" % number + bytes(1000)] * 50)
    async with AsyncConsumer(
        broker.address,
        "topic",
        start="earliest",
        fetch_max_bytes=5_000,
        partition_fetch_bytes=5_000,
    ) as consumer:
        records = await consumer.read(40)
    assert {record.partition for record in records} == {0, 1, 2, 3}


async def test_where_to_begin_is_found_out_again_when_that_fails(broker):
    (log,) = broker.create("topic")
    fill(log, numbered(3))
    refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE]

    def refuse(request):
        if not isinstance(request, ListOffsetsRequest) or not refusals:
            return None
        return ListOffsetsResponse([ListOffsetsResult("topic", 0, refusals.pop())])

    broker.script = refuse
    async with AsyncConsumer(broker.address, "topic", start="earliest", **FAST) as consumer:
        assert values(await consumer.read(3)) == numbered(3)


@pytest.mark.parametrize("count", [0, -1, 1.5, None])
async def test_a_read_of_nothing_looks_like_the_end(broker, count):
    broker.create("topic")
    async with AsyncConsumer(broker.address, "topic") as consumer:
        with pytest.raises(ConfigurationError, match="max_records"):
            await consumer.read(count)


async def test_a_consumer_that_was_not_started_or_is_closed_says_so(broker):
    broker.create("topic")
    consumer = AsyncConsumer(broker.address, "topic")
    with pytest.raises(ClientClosedError, match="not started"):
        await consumer.read()
    await consumer.start()
    await consumer.close()
    await consumer.close()
    with pytest.raises(ClientClosedError, match="closed"):
        await consumer.read()
