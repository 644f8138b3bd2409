"""What a task does to read its split, with a broker in memory that answers as a test wants."""

import time
import tracemalloc
from typing import Any

import pytest

from seglog.clients.spark import arrow_batches
from seglog.clients.spark.arrow_batches import BatchAssembler
from seglog.clients.spark.planning import DataLossError
from seglog.clients.spark.range_reader import read_splits
from seglog.clients.spark.source_options import SourceOptions, read_source_options
from seglog.clients.spark.splits import OffsetRange, RangeSplit
from seglog.protocol import api
from seglog.protocol.compression import Codec
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import TopicPartition
from support.fake_broker import HANG_UP, FakeBroker, running_fake_broker
from support.fake_logs import fill, numbered
from support.processor_time import in_time

MIB = 2**20


def options_of(broker: FakeBroker, **options: Any) -> SourceOptions:
    given = {"bootstrap.servers": broker.address, "subscribe": "topic", "retryBackoff": "1ms"}
    given |= {name: str(value) for name, value in options.items()}
    return read_source_options(given, streaming=False)


def split_of(broker: FakeBroker) -> RangeSplit:
    logs = broker.topics["topic"]
    topic_id = broker.topic_ids["topic"]
    return RangeSplit(
        tuple(
            OffsetRange(
                TopicPartition("topic", number), log.log_start_offset, log.next_offset, topic_id
            )
            for number, log in enumerate(logs)
        )
    )


def pairs(batch: Any) -> list[tuple[int, int]]:
    return list(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))


def rows(broker: FakeBroker, **options: Any) -> list[tuple[int, int]]:
    return [
        pair
        for batch in read_splits(options_of(broker, **options), split_of(broker))
        for pair in pairs(batch)
    ]


def test_all_ranges_of_one_leader_are_read_by_a_few_requests_into_one_batch() -> None:
    """P6: 300 partitions of two records each, where every request may take 5 ms."""
    with running_fake_broker() as broker:
        for log in broker.create("topic", 300):
            fill(log, numbered(2))
        batches = list(read_splits(options_of(broker), split_of(broker)))
        found = [pair for batch in batches for pair in pairs(batch)]
        assert found == [(number, offset) for number in range(300) for offset in range(2)]
        assert len(broker.requests_of(api.FetchRequest)) <= 2
        assert len(batches) == 1


def test_ranges_that_do_not_fit_into_one_answer_are_read_in_turn() -> None:
    with running_fake_broker() as broker:
        expected = []
        for number, log in enumerate(broker.create("topic", 7)):
            fill(log, [bytes(300)] * (1 + 40 * number), batch_records=3)
            expected += [(number, offset) for offset in range(1 + 40 * number)]
        assert sorted(rows(broker, fetchBytes=4000)) == expected
        assert sorted(rows(broker, fetchBytes=1, batchRows=7)) == expected


def test_one_partition_twice_in_a_split_is_read_whole() -> None:
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, numbered(100), batch_records=10)
        topic_id = broker.topic_ids["topic"]
        split = RangeSplit(
            tuple(
                OffsetRange(TopicPartition("topic", 0), start, end, topic_id)
                for start, end in ((0, 35), (35, 100))
            )
        )
        found = [
            offset
            for batch in read_splits(options_of(broker), split)
            for offset in batch["offset"].to_pylist()
        ]
        assert found == list(range(100))


@pytest.mark.parametrize("lost", ["empty", "lower end"])
def test_an_answer_that_looks_like_loss_is_asked_again(lost: str) -> None:
    """Twenty answers without records: everything else is waited for as long."""
    left = [20]

    def script(request: Any) -> Any:
        if not isinstance(request, api.FetchRequest) or not left[0]:
            return None
        left[0] -= 1
        code = api.FetchPartitionResult("topic", 0).error
        if lost == "lower end":
            code = type(code).OFFSET_OUT_OF_RANGE
        return api.FetchResponse(
            [api.FetchPartitionResult("topic", 0, code, high_watermark=0, log_start_offset=0)]
        )

    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, numbered(10))
        broker.script = script
        assert rows(broker) == [(0, offset) for offset in range(10)]
        left[0] = 10**9
        with pytest.raises(DataLossError, match=r"topic-0: offsets 0 to 9 .* ends at 0"):
            rows(broker, retryTimeout="100ms")
        assert rows(broker, retryTimeout="100ms", failOnDataLoss="false") == []


def test_a_read_goes_on_after_cut_connections() -> None:
    def script(request: Any) -> Any:
        cuts[0] -= 1
        return HANG_UP if cuts[0] > 0 and cuts[0] % 2 else None

    cuts = [8]
    with running_fake_broker() as broker:
        for log in broker.create("topic", 3):
            fill(log, [bytes(1000)] * 50)
        broker.script = script
        assert sorted(rows(broker, fetchBytes=5000)) == [
            (p, o) for p in range(3) for o in range(50)
        ]


def test_a_read_that_ends_early_asks_for_nothing_more() -> None:
    """P10: neither a new connection nor time."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, [bytes(1000)] * 3000)
        batches = read_splits(
            options_of(broker, fetchBytes=20_000, batchBytes=10_000), split_of(broker)
        )
        assert next(batches).num_rows
        started_s = time.monotonic()
        batches.close()
        assert in_time(time.monotonic() - started_s, 0.4)
        assert broker.connection_count == 1


def test_a_read_that_ends_early_does_not_wait_for_a_broker_that_is_away() -> None:
    """P10: it took the whole time for retries."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, [bytes(1000)] * 3000)
        batches = read_splits(
            options_of(broker, fetchBytes=20_000, batchBytes=10_000, retryBackoff="2s"),
            split_of(broker),
        )
        assert next(batches).num_rows
        broker.run(broker.stop())
        started_s = time.monotonic()
        batches.close()
        assert in_time(time.monotonic() - started_s, 1.5)


@pytest.mark.parametrize("record_bytes", [5 * MIB, 50_000])
def test_memory_of_a_task_does_not_grow_with_the_ratio_of_compression(record_bytes: int) -> None:
    """P8: 8 batches of 40 MiB, about 1000:1, come in one answer."""
    count = 40 * MIB // (record_bytes + 8)
    batch = build_batch([(5, None, bytes(record_bytes), ())] * count, codec=Codec.GZIP)
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        for _ in range(8):
            log.append(batch)
        split, options = split_of(broker), options_of(broker, columns="value")
        tracemalloc.start()
        try:
            sizes = [(each.num_rows, each.nbytes) for each in read_splits(options, split)]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sum(found for found, _ in sizes) == 8 * count
        assert max(size for _, size in sizes) < 22 * MIB
        assert peak < 125 * MIB  # 320 MiB are inflated in all.


@pytest.mark.parametrize("cut", [1, 5, 50, 500])
def test_a_large_batch_that_is_not_well_formed_is_told(
    monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """The decoder sees what is wrong, also if it comes to light where a piece would be cut off."""
    monkeypatch.setattr(arrow_batches, "PIECE_BYTES", 300)
    whole = build_batch([(5, b"key", bytes(200), ())] * 20)
    assembler = BatchAssembler(TopicPartition("topic", 0), ("key", "value"), 1000, 300)
    with pytest.raises(RecordError):
        list(assembler.add([RecordBatch(whole[:-cut])], 0, 100))


@pytest.mark.parametrize("batch_bytes", [1, 100, 5000, 10**6])
def test_pieces_of_a_batch_have_all_its_records(
    monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    monkeypatch.setattr(arrow_batches, "PIECE_BYTES", batch_bytes)
    values = [bytes([number % 251]) * (number * 7 % 400) for number in range(300)]
    batch = RecordBatch(
        build_batch([(number, None, value, ()) for number, value in enumerate(values)])
    )
    assembler = BatchAssembler(TopicPartition("topic", 0), ("offset", "value"), 10_000, batch_bytes)
    found = [*assembler.add([batch], 3, 297), *assembler.finish()]
    assert [value for each in found for value in each["value"].to_pylist()] == values[3:297]
    assert [value for each in found for value in each["offset"].to_pylist()] == [*range(3, 297)]
