"""What the streaming source answers Spark on the driver, asked directly; the broker is real."""

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from seglog.clients import Admin, ConfigurationError, UnknownTopicOrPartitionError
from seglog.clients.spark.planning import DataLossError, Planner
from seglog.clients.spark.source_options import read_source_options
from seglog.clients.testing import RunningBroker
from support.spark_queries import fill

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
)

from seglog.clients.spark import stream_reader
from seglog.clients.spark.driver_reads import DriverReadingReader
from seglog.clients.spark.stream_reader import SeglogStreamReader

MakeReader = Callable[..., SeglogStreamReader]


@pytest.fixture
def reader_of(broker: RunningBroker) -> MakeReader:
    def make(topic: str, **options: Any) -> SeglogStreamReader:
        given = {"bootstrap.servers": broker.address, "retryTimeout": "500ms"}
        if not {"subscribePattern", "assign"} & set(options):
            given["subscribe"] = topic
        given.update((name, str(value)) for name, value in options.items())
        return SeglogStreamReader(read_source_options(given, streaming=True))

    return make


def latest(reader: SeglogStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def read(
    reader: SeglogStreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int]]:
    """(partition, offset) of what the tasks of a batch would read; each has a pickled copy."""
    copy = pickle.loads(pickle.dumps(reader))
    splits = [pickle.loads(pickle.dumps(split)) for split in reader.partitions(start, end)]
    return sorted(
        pair
        for split in splits
        for batch in copy.read(split)
        for pair in zip(
            batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
        )
    )


def offsets(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


def test_nothing_new_runs_an_empty_batch(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    """Spark compares offsets as text: the very start must come back."""
    topic = new_topic(12)
    fill(broker.address, topic, range(10))
    reader = reader_of(topic, startingOffsets="earliest", failOnDataLoss="false")
    end = latest(reader, reader.initialOffset())
    written = json.loads(json.dumps(end))
    assert json.dumps(latest(reader, written)) == json.dumps(written)
    assert reader.partitions(written, written) == []


def test_offsets_are_not_those_of_sparks_kafka_source(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    fill(broker.address, topic, range(10), partition=1)
    reader = reader_of(topic, startingOffsets="earliest")
    assert reader.initialOffset() == {topic: {"0": 0, "1": 0}}
    assert latest(reader, reader.initialOffset()) == {topic: {"0": 0, "1": 10}}
    assert reader.reportLatestOffset() == {topic: {"0": 0, "1": 10}}


def test_a_replayed_first_batch_begins_where_the_head_is_now(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    """``initialOffset`` is asked twice, and afresh when batch 0 is replayed after a crash."""
    topic = new_topic()
    fill(broker.address, topic, range(10))
    reader = reader_of(topic, startingOffsets="latest")
    initial = reader.initialOffset()
    fill(broker.address, topic, range(10, 25))
    assert reader.initialOffset() == initial
    end = json.loads(json.dumps(latest(reader, initial)))
    fill(broker.address, topic, range(25, 40))
    again = reader_of(topic, startingOffsets="latest")
    assert read(again, again.initialOffset(), end) == offsets(0, 10, 25)
    assert read(again, end, latest(again, end)) == offsets(0, 25, 40)


def test_an_empty_first_batch_is_replayed_with_rows(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    reader = reader_of(topic)
    end = latest(reader, reader.initialOffset())
    fill(broker.address, topic, range(5))
    again = reader_of(topic)
    assert read(again, again.initialOffset(), end) == []
    assert read(again, end, latest(again, end)) == offsets(0, 10, 15)


def test_available_now_runs_after_what_is_written_meanwhile(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    reader = reader_of(topic, startingOffsets="earliest", maxOffsetsPerTrigger=4)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    seen = []
    for _ in range(10):
        end = latest(reader, start)
        if end == start:
            break
        seen += read(reader, start, end)
        start = end
        fill(broker.address, topic, range(3))
        if len(seen) == 4:
            admin.create_partitions(topic, 2)
    assert seen == offsets(0, 0, 10)


def test_available_now_replays_a_batch_of_fewer_partitions(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    reader = reader_of(topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = latest(reader, start)
    admin.create_partitions(topic, 2)
    fill(broker.address, topic, range(3), partition=1)
    again = reader_of(topic, startingOffsets="earliest")
    again.prepareForTriggerAvailableNow()
    assert read(again, start, end) == offsets(0, 0, 10)
    following = latest(again, end)
    assert read(again, end, following) == offsets(1, 0, 3)
    assert latest(again, following) is following


def test_a_new_partition_or_topic_is_not_noticed(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    reader = reader_of(topic, subscribePattern=f"{topic}.*")
    start = latest(reader, reader.initialOffset())
    admin.create_partitions(topic, 2)
    admin.create_topic(f"{topic}-b", partitions=1)
    fill(broker.address, topic, range(4), partition=1)
    fill(broker.address, f"{topic}-b", range(2))
    end = latest(reader, start)
    assert read(reader, start, end) == [(0, 0), (0, 1), *offsets(1, 0, 4)]


def test_a_minimum_is_not_waited_for_or_waited_for_for_ever(
    broker: RunningBroker,
    reader_of: MakeReader,
    new_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C068: minOffsetsPerTrigger=50 with maxTriggerDelay=2s."""
    now_s = [1000.0]
    monkeypatch.setattr(stream_reader.time, "monotonic", lambda: now_s[0])
    topic = new_topic()
    reader = reader_of(topic, minOffsetsPerTrigger=50, maxTriggerDelay="2s")
    assert isinstance(reader.getDefaultReadLimit(), ReadMinRows)
    start = latest(reader, reader.initialOffset())
    fill(broker.address, topic, range(49))
    now_s[0] += 1.9
    assert latest(reader, start) is start
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 49}}
    now_s[0] += 2.1
    end = latest(reader, start)
    assert end == {topic: {"0": 49}}
    fill(broker.address, topic, range(50))
    now_s[0] += 0.1
    assert latest(reader, end) == {topic: {"0": 99}}


def test_a_limit_holds_although_everything_is_asked_for(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    """Trigger.Once asks without a limit."""
    topic = new_topic()
    fill(broker.address, topic, range(100))
    reader = reader_of(topic, startingOffsets="earliest", maxOffsetsPerTrigger=10)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == {topic: {"0": 10}}
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 100}}


def test_a_limit_in_bytes_is_without_effect(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(1000))
    reader = reader_of(topic, startingOffsets="earliest", maxBytesPerTrigger=2000)
    end = latest(reader, reader.initialOffset())
    assert 20 < end[topic]["0"] < 500


def test_deleted_records_are_skipped_without_a_word(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(1000))
    admin.delete_records({(topic, 0): 500})
    reader = reader_of(topic)
    for ask in (latest, lambda reader, start: reader.partitions(start, {topic: {"0": 1000}})):
        with pytest.raises(DataLossError, match=f"{topic}-0: offsets 100 to 499 .* are 500 and"):
            ask(reader, {topic: {"0": 100}})


def test_a_limit_below_what_was_deleted_reads_nothing_batch_by_batch(
    admin: Admin,
    broker: RunningBroker,
    reader_of: MakeReader,
    new_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(1000))
    admin.delete_records({(topic, 0): 500})
    reader = reader_of(topic, failOnDataLoss="false", maxOffsetsPerTrigger=300)
    start: dict[str, Any] = {topic: {"0": 100}}
    seen = []
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        while (end := latest(reader, start)) is not start:
            seen.append(read(reader, start, end))
            start = end
    assert seen == [offsets(0, 500, 800), offsets(0, 800, 1000)]
    assert len(caplog.records) == 1


def test_what_is_deleted_between_planning_and_reading_is_read_twice_or_hangs(
    admin: Admin,
    broker: RunningBroker,
    reader_of: MakeReader,
    new_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C064, the race: 500 to 1100 are planned, then all below 800 is deleted."""
    topic = new_topic()
    fill(broker.address, topic, range(1100))
    admin.delete_records({(topic, 0): 500})
    lenient, strict = reader_of(topic, failOnDataLoss="false"), reader_of(topic)
    (split,) = strict.partitions({topic: {"0": 500}}, {topic: {"0": 1100}})
    admin.delete_records({(topic, 0): 800})
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        found = [each for batch in lenient.read(split) for each in batch["offset"].to_pylist()]
    assert found == list(range(800, 1100))
    assert len(caplog.records) == 1
    with pytest.raises(DataLossError, match=r"500 to 799 .* available are 800"):
        list(strict.read(split))


def test_a_recreated_topic_is_read_from_the_middle(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    """C064, the third: the checkpoint says 1100, the topic was recreated with 20 records."""
    topic = new_topic()
    start: dict[str, Any] = {topic: {"0": 1100}}
    fill(broker.address, topic, range(20))
    with pytest.raises(DataLossError, match=f"{topic}-0: wanted from offset 1100"):
        latest(reader_of(topic), start)
    reader = reader_of(topic, failOnDataLoss="false")
    end = latest(reader, start)
    assert read(reader, start, end) == offsets(0, 0, 20)
    assert latest(reader, end) is end
    fill(broker.address, topic, range(5))
    assert read(reader, end, latest(reader, end)) == offsets(0, 20, 25)


def test_a_recreated_topic_that_has_grown_beyond_the_old_one_is_not_noticed(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    lenient = reader_of(topic, startingOffsets="earliest", failOnDataLoss="false")
    strict = reader_of(topic, startingOffsets="earliest")
    start = latest(lenient, lenient.initialOffset())
    plain = latest(strict, strict.initialOffset())
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=1)
    fill(broker.address, topic, range(30))
    with pytest.raises(DataLossError, match="created again"):
        latest(strict, plain)
    for reader in (lenient, reader_of(topic, failOnDataLoss="false")):
        end = latest(reader, start)
        assert read(reader, start, end) == offsets(0, 0, 30)


def test_a_log_that_lost_its_end_is_read_again_from_the_start(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    """Not the same as a recreated topic: the id says so."""
    topic = new_topic()
    fill(broker.address, topic, range(10))
    reader = reader_of(topic, startingOffsets="earliest", failOnDataLoss="false")
    end = latest(reader, reader.initialOffset())
    beyond = {**end, topic: {"0": 50}}
    following = latest(reader, beyond)
    assert following[topic] == {"0": 10}
    assert read(reader, beyond, following) == []


def test_partitions_that_are_gone_are_dropped_without_a_word(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    start = {topic: {"0": 5, "7": 3}}
    with pytest.raises(DataLossError, match=f"{topic}-7"):
        latest(reader_of(topic), start)
    reader = reader_of(topic, failOnDataLoss="false")
    end = latest(reader, start)
    assert end[topic] == {"0": 10}
    assert read(reader, start, end) == offsets(0, 5, 10)


def test_a_topic_that_does_not_exist_is_an_empty_one(reader_of: MakeReader) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        reader_of("no-such-topic").initialOffset()
    assert reader_of("", subscribePattern="no-such.*").initialOffset() == {"@first": True}


def test_a_start_by_time_misses_partitions_or_takes_unknown_ones(
    broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    """C069: stamps T..T+99 in p0, p1 empty, p2 older than T."""
    from seglog.clients import Producer

    begin = 1_700_000_000_000
    topic = new_topic(3)
    with Producer(broker.address) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=begin + number)
            producer.send(topic, b"%d" % number, partition=2, timestamp_ms=begin - 1000 + number)
    by_time = json.dumps({topic: dict.fromkeys("012", begin + 50)})
    for options in (
        {"startingTimestamp": begin + 50},
        {"startingOffsetsByTimestamp": by_time},
    ):
        with pytest.raises(ConfigurationError, match=f"{topic}-1, {topic}-2"):
            reader_of(topic, **options).initialOffset()
        reader = reader_of(topic, startingOffsetsByTimestampStrategy="latest", **options)
        initial = reader.initialOffset()
        assert initial[topic] == {"0": 50, "1": 0, "2": 100}
        end = latest(reader, initial)
        assert read(reader, initial, end) == offsets(0, 50, 100)
    fill(broker.address, topic, range(3), partition=1)
    assert read(reader, end, latest(reader, end)) == offsets(1, 0, 3)
    for offsets_map, named in (
        ({"0": 0, "2": 0}, f"{topic}-1"),
        ({"0": 0, "1": 0, "2": 0, "9": 0}, f"{topic}-9"),
    ):
        with pytest.raises(ConfigurationError, match=named):
            reader_of(topic, startingOffsets=json.dumps({topic: offsets_map})).initialOffset()
    special = json.dumps({topic: {"0": -1, "1": -2, "2": 40}})
    assert reader_of(topic, startingOffsets=special).initialOffset()[topic] == {
        "0": 100,
        "1": 0,
        "2": 40,
    }


def test_holes_left_by_compaction_are_data_loss(
    admin: Admin, broker: RunningBroker, reader_of: MakeReader, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
    fill(broker.address, topic, [number % 10 for number in range(1000)])
    fill(broker.address, topic, range(100, 105))
    admin.roll(topic)
    admin.clean(topic, wait=True)
    reader = reader_of(topic, startingOffsets="earliest", maxRecordsPerPartition=50)
    start = reader.initialOffset()
    found = read(reader, start, latest(reader, start))
    assert found == offsets(0, 990, 1005)


def test_what_was_just_written_is_not_seen(
    broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """``processAllAvailable`` ends when an answer has nothing new: it may not be an old one."""
    topic = new_topic()
    given = {"bootstrap.servers": broker.address, "subscribe": topic}
    reader = SeglogStreamReader(read_source_options(given, streaming=True))
    start = latest(reader, reader.initialOffset())
    for number in range(1, 20):
        assert latest(reader, start)[topic] == {"0": number - 1}
        fill(broker.address, topic, [number])
        assert latest(reader, start)[topic] == {"0": number}


def test_a_round_of_questions_asks_the_broker_twice(
    broker: RunningBroker, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle query asks for the latest offsets, and then reports them, every 10 ms."""
    topic = new_topic()
    given = {"bootstrap.servers": broker.address, "subscribe": topic}
    reader = SeglogStreamReader(read_source_options(given, streaming=True))
    start = latest(reader, reader.initialOffset())
    asked = []
    real = Planner.latest
    monkeypatch.setattr(
        Planner, "latest", lambda planner, which: asked.append(1) or real(planner, which)
    )
    for _ in range(3):
        latest(reader, start)
        reader.reportLatestOffset()
    assert len(asked) == 3


def test_a_small_batch_waits_for_a_task_or_is_read_by_both(
    broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """Spark's runner asks for records if the reader is a wrapper, just after ``partitions``."""
    topic = new_topic(2)
    fill(broker.address, topic, range(10))
    fill(broker.address, topic, range(5), partition=1)
    given = {"bootstrap.servers": broker.address, "subscribe": topic, "startingOffsets": "earliest"}
    for limit, is_offered in (("15", True), ("14", False), ("0", False)):
        options = read_source_options(given | {"driverRecords": limit}, streaming=True)
        reader: Any = DriverReadingReader(options)
        start = reader.initialOffset()
        end = latest(reader, start)
        splits = reader.partitions(start, end)
        assert isinstance(reader, _SimpleStreamReaderWrapper) is is_offered
        if is_offered:
            batches = list(reader.getCache(start, end))
            found = [value for batch in batches for value in batch.column("offset").to_pylist()]
            assert found == [*range(10), *range(5)]
        assert type(reader) is DriverReadingReader
        assert len(splits) == 1  # Tasks read it where Spark has dropped the records.
        assert reader.partitions(end, end) == []
        assert type(reader) is DriverReadingReader


def test_large_records_go_through_the_driver(
    broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """Not more of them than the first megabyte, once; fewer of the same are read there again."""
    from seglog.clients import Producer

    topic = new_topic()
    with Producer(broker.address) as producer:
        producer.send_many(topic, ((None, bytes(100_000)) for _ in range(100)), partition=0)
    given = {"bootstrap.servers": broker.address, "subscribe": topic, "fetchBytes": "200000"}
    given["batchBytes"] = "200000"
    options = read_source_options(given, streaming=True)
    reader: Any = DriverReadingReader(options)
    asked = []
    for end in (100, 100, 5):
        reader.partitions({topic: {"0": 0}}, {topic: {"0": end}})
        asked.append(isinstance(reader, _SimpleStreamReaderWrapper))
    assert asked == [False, False, True]
    assert sum(batch.num_rows for batch in reader.getCache({}, {})) == 5


def test_an_idle_query_asks_a_hundred_times_a_second_or_answers_late(
    broker: RunningBroker, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again at once after each answer in vain, it waits at the broker; records end that."""
    topic = new_topic(2)
    given = {"bootstrap.servers": broker.address, "subscribe": topic}
    reader = SeglogStreamReader(read_source_options(given, streaming=True))
    waits = []
    real = Planner.wait_for_records

    def wait(planner: Planner, ends: Any, timeout_ms: int) -> None:
        waits.append(timeout_ms)
        if len(waits) == 3:
            fill(broker.address, topic, [1], partition=1)
            timeout_ms = 60_000  # It would be noticed.
        real(planner, ends, timeout_ms)

    monkeypatch.setattr(Planner, "wait_for_records", wait)
    start = latest(reader, reader.initialOffset())
    answers = 0
    while latest(reader, start) is start:
        answers += 1
    assert (answers, len(waits)) == (12, 3)
    end = latest(reader, start)
    assert end == {topic: {"0": 0, "1": 1}}
    assert latest(reader, end) is end
    assert len(waits) == 3
