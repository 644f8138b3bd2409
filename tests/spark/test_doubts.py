"""What looks like loss on the driver: asked again, and decided before Spark writes anything."""

import socket
from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource")

from seglog.clients.config import parse_addresses
from seglog.clients.session import reaching
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.connection_options import ConnectionOptions
from seglog.clients.spark.planning import DataLossError
from seglog.clients.spark.source_options import read_source_options
from seglog.clients.spark.stream_reader import SeglogStreamReader
from seglog.protocol import api
from seglog.protocol.types import LATEST_TIMESTAMP
from support.fake_broker import FakeBroker, running_fake_broker
from support.fake_logs import fill, numbered


def reader_of(broker: FakeBroker, **options: str) -> SeglogStreamReader:
    given = {"bootstrap.servers": broker.address, "startingOffsets": "earliest"}
    given |= {"subscribe": "topic"} if "subscribePattern" not in options else {}
    given |= {"retryBackoff": "1ms", "retryTimeout": "5s"} | options
    return SeglogStreamReader(read_source_options(given, streaming=True))


def latest(reader: SeglogStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


class Wrong:
    """Answers wrongly so many times: a lower end, no topics, or another id of the topic."""

    def __init__(self, broker: FakeBroker, kind: str, times: int) -> None:
        self.broker, self.kind, self.left = broker, kind, times

    def __call__(self, request: Any) -> Any:
        if self.left <= 0:
            return None
        if self.kind == "lower end" and isinstance(request, api.ListOffsetsRequest):
            if request.partitions[0].timestamp_ms != LATEST_TIMESTAMP:
                return None
            self.left -= 1
            return api.ListOffsetsResponse([api.ListOffsetsResult("topic", 0, offset=3)])
        if self.kind != "lower end" and isinstance(request, api.MetadataRequest):
            self.left -= 1
            answer = self.broker.metadata(request)
            if self.kind == "no topic":
                answer.topics = []
            for topic in answer.topics:
                topic.topic_id = bytes(15) + b"x"
            return answer
        return None


@pytest.mark.parametrize("lenient", ["true", "false"])
@pytest.mark.parametrize("pattern", [{}, {"subscribePattern": "to.*"}])
@pytest.mark.parametrize("kind", ["lower end", "no topic", "other id"])
def test_a_wrong_answer_changes_nothing(kind: str, pattern: dict[str, str], lenient: str) -> None:
    """U33, P11: it was written to the checkpoint, or all was read once more."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, numbered(10))
        reader = reader_of(broker, failOnDataLoss=lenient, **pattern)
        start = latest(reader, reader.initialOffset())
        assert start["topic"] == {"0": 10}
        broker.script = Wrong(broker, kind, 5)
        assert latest(reader, start) is start
        broker.script = Wrong(broker, kind, 5)
        fill(log, numbered(2))
        end = latest(reader, start)
        assert end["topic"] == {"0": 12}
        (split,) = reader.partitions(start, end)
        assert [(each.start, each.end) for each in split.ranges] == [(10, 12)]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("lower end", "lost its end|the log ends before"),
        ("no topic", "topic-0 was being read and does not exist any more"),
        ("other id", "deleted and created again"),
    ],
)
def test_a_loss_is_told_before_an_end_is_written(kind: str, message: str) -> None:
    """U33: no end goes to Spark, so that the next run begins where this one did."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, numbered(10))
        reader = reader_of(broker, retryTimeout="50ms")
        start = latest(reader, reader.initialOffset())
        broker.script = Wrong(broker, kind, 10**9)
        with pytest.raises(DataLossError, match=message):
            latest(reader, start)
        broker.script = lambda _: None
        fill(log, numbered(1))
        assert latest(reader_of(broker), start) == {"topic": {"0": 11}}


def test_a_log_that_ends_earlier_is_not_said_to_be_another_topic() -> None:
    """U33: after a restart nobody knows which of the two it was; while it runs, it is known."""
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, numbered(10))
        reader = reader_of(broker, retryTimeout="50ms")
        latest(reader, reader.initialOffset())
        with pytest.raises(
            DataLossError, match="wanted from offset 50 on, but the log has lost its end, "
        ):
            latest(reader, {"topic": {"0": 50}})
        with pytest.raises(DataLossError, match="it has lost its end, or the topic was deleted"):
            latest(reader_of(broker, retryTimeout="50ms"), {"topic": {"0": 50}})


def test_a_replayed_batch_waits_for_its_topic() -> None:
    with running_fake_broker() as broker:
        (log,) = broker.create("topic")
        fill(log, numbered(10))
        broker.script = Wrong(broker, "no topic", 5)
        (split,) = reader_of(broker).partitions({"topic": {"0": 2}}, {"topic": {"0": 8}})
        assert [(each.start, each.end) for each in split.ranges] == [(2, 8)]


def test_an_address_that_hangs_is_waited_for_once_by_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P7: each task and each commit waited for the first of two addresses."""
    monkeypatch.setattr(reaching, "FIRST_ROUND_S", 0.05)
    with socket.socket() as hung, running_fake_broker() as broker:
        hung.bind(("127.0.0.1", 0))
        hung.listen(50)
        addresses = f"127.0.0.1:{hung.getsockname()[1]},{broker.address}"
        for _ in range(3):
            cluster = Cluster(parse_addresses(addresses), ConnectionOptions())
            assert cluster.ask_any(api.MetadataRequest([])).cluster_id == "fake"
        hung.setblocking(False)
        hung.accept()[0].close()
        with pytest.raises(BlockingIOError):
            hung.accept()


def test_a_thousand_partitions_are_planned_by_a_few_questions() -> None:
    """P6: their number must not be that of requests."""
    with running_fake_broker() as broker:
        for log in broker.create("topic", 1000):
            fill(log, numbered(1))
        reader = reader_of(broker)
        start = reader.initialOffset()
        broker.requests.clear()
        end = latest(reader, start)
        splits = reader.partitions(start, end)
        assert len(broker.requests) <= 4
        assert sum(len(each.ranges) for each in splits) == 1000
