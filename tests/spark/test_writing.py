"""How the sink gets its batches stored, with a broker in memory that answers as a test wants."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from seglog.clients import ClientError
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.connection_options import ConnectionOptions
from seglog.clients.spark.sink_options import SinkColumns, read_sink_options
from seglog.clients.spark.writers import RowWriter
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import RecordBatch
from support.fake_broker import HANG_UP, FakeBroker, running_fake_broker

PARTITIONS = 60
HASTY = {"retryBackoff": "10ms", "retryTimeout": "400ms"}


def rows(count: int = 10) -> Iterator[pa.RecordBatch]:
    for first in range(count):
        values = [b"%d" % (first * PARTITIONS + each) for each in range(PARTITIONS)]
        yield pa.record_batch(
            {
                "value": pa.array(values, pa.binary()),
                "partition": pa.array(range(PARTITIONS), pa.int32()),
            }
        )


def write(broker: FakeBroker, batches: int = 10, **options: str) -> int:
    given = {"bootstrap.servers": broker.address, "topic": "topic"} | options
    columns = SinkColumns(0, None, None, 1, None, None)
    return RowWriter(read_sink_options(given), columns).write(rows(batches), None).rows


def stored(broker: FakeBroker) -> list[list[int]]:
    return [
        [int(record.value or b"") for batch in log.batches for record in batch.records()]
        for log in broker.topics["topic"]
    ]


EXPECTED = [[first * PARTITIONS + each for first in range(10)] for each in range(PARTITIONS)]


def test_one_cut_connection_costs_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3: it cost a pause and a request for each partition."""
    pauses: list[float] = []
    pause = Waiter.pause_until

    def count_and_pause(waiter: Waiter, at_s: float) -> bool:
        pauses.append(at_s)
        return pause(waiter, at_s)

    monkeypatch.setattr(Waiter, "pause_until", count_and_pause)

    with running_fake_broker() as broker:
        broker.create("topic", PARTITIONS)

        def cut_the_fourth(request: Any) -> Any:
            is_fourth = len(broker.requests_of(api.ProduceRequest)) == 4
            return HANG_UP if is_fourth and isinstance(request, api.ProduceRequest) else None

        broker.script = cut_the_fourth
        assert write(broker, retryBackoff="10ms") == 10 * PARTITIONS
        assert stored(broker) == EXPECTED
        assert len(broker.requests_of(api.ProduceRequest)) <= 10 + 5
        assert len(pauses) <= 2


def test_a_write_lives_as_long_as_it_gets_on() -> None:
    """P3: one partition a request, so that all of them take longer than the time for retries."""

    def script(request: Any) -> Any:
        if not isinstance(request, api.ProduceRequest):
            return None
        turn = len(broker.requests_of(api.ProduceRequest)) % len(request.partitions)
        answer = broker._produce(api.ProduceRequest(-1, 0, [request.partitions[turn]]))
        refused = [
            api.ProducePartitionResult(each.topic, each.partition, ErrorCode.REQUEST_TIMED_OUT)
            for each in request.partitions
        ]
        refused[turn] = answer.partitions[0]
        return api.ProduceResponse(refused)

    with running_fake_broker() as broker:
        broker.create("topic", PARTITIONS)
        broker.script = script
        assert write(broker, 1, **HASTY) == PARTITIONS
        assert stored(broker) == [[number] for number in range(PARTITIONS)]


def test_a_write_that_gets_nowhere_ends_and_says_why() -> None:
    def script(request: Any) -> Any:
        return HANG_UP if isinstance(request, api.ProduceRequest) else None

    with running_fake_broker() as broker:
        broker.create("topic", PARTITIONS)
        broker.script = script
        with pytest.raises(
            ClientError, match=r"(?s)topic-0.* and 50 more: no batch was.*200 ms: .*retryTimeout"
        ):
            write(broker, retryBackoff="5ms", retryTimeout="200ms")


def test_time_for_retries_begins_anew_with_progress() -> None:
    now_s = [0.0]
    waiter = Waiter(
        ConnectionOptions(retry_timeout_ms=1000, retry_backoff_ms=1), clock=lambda: now_s[0]
    )
    now_s[0] = 0.9
    assert waiter.pause()
    waiter.got_on()
    now_s[0] = 1.8
    assert waiter.pause()
    waiter.no_longer_than(0.1)
    now_s[0] = 1.95
    assert not waiter.pause()


def test_topics_are_created_where_a_producer_would() -> None:
    """U34: the broker's setting decides."""
    with running_fake_broker() as broker:
        with pytest.raises(ClientError, match="topic does not exist"):
            write(broker, retryTimeout="50ms")
        broker.auto_create_partitions = PARTITIONS
        assert write(broker) == 10 * PARTITIONS
        assert stored(broker) == EXPECTED


def refused(request: api.ProduceRequest, code: ErrorCode) -> api.ProduceResponse:
    return api.ProduceResponse(
        [
            api.ProducePartitionResult(each.topic, each.partition, code)
            for each in request.partitions
        ]
    )


def test_without_numbers_the_order_is_kept_when_requests_fail() -> None:
    """Several of a partition were under way: those behind a failed one were stored before it."""
    with running_fake_broker() as broker:
        broker.create("topic", PARTITIONS)

        def script(request: Any) -> Any:
            turn = len(broker.requests_of(api.ProduceRequest))
            if isinstance(request, api.ProduceRequest) and turn % 3 == 1:
                return refused(request, ErrorCode.NOT_ENOUGH_REPLICAS)
            return None

        broker.script = script
        assert write(broker, acks="1", retryBackoff="5ms") == 10 * PARTITIONS
        assert stored(broker) == EXPECTED


def test_a_batch_that_the_broker_finds_too_large_is_divided() -> None:
    """It failed the task, and with it the query, for good."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")

        def script(request: Any) -> Any:
            if isinstance(request, api.ProduceRequest):
                (item,) = request.partitions
                assert item.records is not None
                if RecordBatch(item.records).header.record_count > 20:
                    return refused(request, ErrorCode.MESSAGE_TOO_LARGE)
            return None

        broker.script = script
        values = pa.record_batch({"value": pa.array([b"%d" % n for n in range(100)], pa.binary())})
        given = {"bootstrap.servers": broker.address, "topic": "topic"}
        writer = RowWriter(read_sink_options(given), SinkColumns(0, *[None] * 5))
        assert writer.write(iter([values, values]), None).rows == 200
        assert stored(broker) == [[*range(100)] * 2]
        assert {batch.header.record_count for batch in log.batches} <= {12, 13}


def test_a_broker_that_has_forgotten_the_producer_gets_new_numbers() -> None:
    """Its snapshot was lost: the batch failed with UNKNOWN_PRODUCER_ID for good."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        asked: list[int] = []

        def script(request: Any) -> Any:
            if not isinstance(request, api.ProduceRequest):
                return None
            (item,) = request.partitions
            assert item.records is not None
            asked.append(RecordBatch(item.records).header.producer_epoch)
            if len(asked) == 2:
                return refused(request, ErrorCode.UNKNOWN_PRODUCER_ID)
            return None

        broker.script = script
        values = pa.record_batch({"value": pa.array([b"%d" % n for n in range(10)], pa.binary())})
        given = {"bootstrap.servers": broker.address, "topic": "topic", "retryBackoff": "5ms"}
        writer = RowWriter(read_sink_options(given), SinkColumns(0, *[None] * 5))
        assert writer.write(iter([values] * 4), None).rows == 40
        assert stored(broker) == [[*range(10)] * 4]
        assert {batch.header.producer_epoch for batch in log.batches} == {0, 1}
