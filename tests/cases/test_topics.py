"""Field cases about topics: names that meet in files or metrics, and topics that nobody wanted."""

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.errors import ClientError
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.eventually import eventually
from support.kafka_groups import committed_offset
from support.real_broker import free_port, metric, scrape
from support.wires import WIRES, KafkaWire, open_wire

MESSAGES_IN = "kafka_server_brokertopicmetrics_messagesin_total"
SHORT = {"log.segment.delete.delay.ms": 200, "auto.create.topics.enable": True}


@contextmanager
def broker_with_metrics(**configs: Any) -> Iterator[tuple[RunningBroker, int]]:
    """A fresh broker and the port of its metrics."""
    port = free_port()
    settings = {**SHORT, "metrics.listener": f"127.0.0.1:{port}", **configs}
    with running_broker(configs=settings) as broker:
        yield broker, port


def create(wire: KafkaWire, name: str, partitions: int = 1) -> tuple[int, str | None]:
    """Create a topic over the Kafka dialect: the code and its reason."""
    request = api.CreateTopicsRequest([api.NewTopic(name, partitions, 1)], 10_000)
    (result,) = wire.ask(request, 5, api.CreateTopicsResponse).topics
    return result.error, result.error_message


def topic_folders(broker: RunningBroker) -> set[str]:
    return {path.name for path in broker.data_directory.iterdir() if path.is_dir()}


def one_batch() -> bytes:
    return bytes(build_batch([(time.time_ns() // 1_000_000, None, b"v", ())]))


# ---- C043

ILLEGAL = ["", ".", "..", "a/b", "../x", "a b", "a\0b", "n" * 250, "ä", "a\n", "a:b", "a\\b", "*"]


@pytest.mark.slow
def test_names_that_could_meet_stay_apart() -> None:
    """C043: a.b and a_b, a-1 beside a with 12 partitions, A beside a, 249 letters."""
    names = {"a.b": 1, "a-b": 1, "a": 12, "a-1": 2, "A": 1, "a-1-1": 1, "n" * 249: 1, "a.": 1}
    with broker_with_metrics() as (broker, port), KafkaWire(broker.port) as wire:
        for name, partitions in names.items():
            assert create(wire, name, partitions) == (0, None), name
        code, reason = create(wire, "a_b")
        if code == 0:
            names["a_b"] = 1
        else:
            assert code == ErrorCode.INVALID_TOPIC_EXCEPTION == 17
            assert "a.b" in (reason or "")
            assert "a_b-0" not in topic_folders(broker)
        for name, partitions in names.items():
            for number in range(10):
                partition = number % partitions
                assert wire.produce(name, one_batch(), partition=partition).error == 0
        text = scrape(port)
        for name, partitions in names.items():
            ends = [wire.find(name, -1, partition=each).offset for each in range(partitions)]
            assert sum(ends) == 10, name
            assert metric(text, MESSAGES_IN, topic=name) == 10
        folders = [f"{name}-{each}" for name, count in names.items() for each in range(count)]
        assert len(set(folders)) == len(folders)
        assert set(folders) <= topic_folders(broker)
        assert broker.stop() == 0
        broker.start()
        with KafkaWire(broker.port) as again:
            for name, partitions in names.items():
                ends = [again.find(name, -1, partition=each).offset for each in range(partitions)]
                assert sum(ends) == 10, name


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker(configs=SHORT) as running:
        yield running


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_names_leave_nothing(broker: RunningBroker, name: str) -> None:
    """C043: code 17 with a reason, nothing on disk, in each way that could create a topic."""
    before = topic_folders(broker)
    with KafkaWire(broker.port) as wire:
        code, reason = create(wire, name)
        assert code == ErrorCode.INVALID_TOPIC_EXCEPTION == 17
        assert reason
        (found,) = ask_metadata(wire, [name], allow=True)
        assert found[1] == 17
        assert wire.produce(name, one_batch()).error in (17, 3)
    with Admin(broker.address) as admin, pytest.raises(Exception, match=r"(?i)topic|name"):
        admin.create_topic(name, partitions=1)
    assert topic_folders(broker) == before


def test_clients_cannot_create_or_write_internal_topics(broker: RunningBroker) -> None:
    """C043: ``__consumer_offsets`` cannot be created, written or taken by a client."""
    with KafkaWire(broker.port) as wire:
        code, reason = create(wire, "__consumer_offsets")
        assert code in (17, 36)
        assert reason
        assert wire.produce("__consumer_offsets", one_batch()).error in (17, 3)
        assert committed_offset(wire, "some", "thing") == -1


# ---- C045


def ask_metadata(
    wire: KafkaWire, names: list[str] | None, *, allow: bool
) -> list[tuple[str | None, int]]:
    """Names and codes in the answer to Metadata."""
    request = api.MetadataRequest(names, allow_auto_topic_creation=allow)
    answer = wire.ask(request, 9, api.MetadataResponse)
    return [(each.name, each.error) for each in answer.topics]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_only_a_named_question_with_the_flag_creates(is_enabled: bool) -> None:
    """C045: everything else about "ghost" answers 3 and creates nothing."""
    with (
        broker_with_metrics(**{"auto.create.topics.enable": is_enabled}) as (broker, _),
        KafkaWire(broker.port) as wire,
    ):
        assert ask_metadata(wire, ["ghost"], allow=False) == [("ghost", 3)]
        assert ask_metadata(wire, None, allow=True) == []
        assert ask_metadata(wire, [], allow=True) == []
        assert wire.find("ghost", -1).error == 3
        assert wire.fetch("ghost", 0).error == 3
        assert wire.delete_before("ghost", 0)[0] == 3
        assert committed_offset(wire, "haunted", "ghost") == -1
        for dialect in WIRES:
            with open_wire(dialect, broker.port) as other:
                assert other.find("ghost", -2).error == 3
                assert other.fetch("ghost", 0).error == 3
                assert other.produce("ghost", one_batch()).error == 3
        assert "ghost-0" not in topic_folders(broker)
        ((name, code),) = ask_metadata(wire, ["ghost"], allow=True)
        assert name == "ghost"
        assert code in ((0, 3, 5) if is_enabled else (3,))
        if is_enabled:
            eventually(lambda: ask_metadata(wire, ["ghost"], allow=False) == [("ghost", 0)])
        assert ("ghost-0" in topic_folders(broker)) == is_enabled


@pytest.mark.slow
def test_a_deleted_topic_stays_deleted_while_it_is_only_asked_about() -> None:
    """C045: a consumer, a monitor and an idle producer ask for 10 s; only a send creates it."""
    with broker_with_metrics() as (broker, _), Admin(broker.address) as admin:
        admin.create_topic("gone", partitions=1)
        with (
            Producer(broker.address, metadata_max_age_ms=300) as producer,
            Consumer(broker.address, ["gone"], start="earliest", metadata_max_age_ms=300) as reader,
            KafkaWire(broker.port) as monitor,
        ):
            producer.send("gone", b"v").result(10)
            assert len(reader.read(timeout=10)) == 1
            admin.delete_topic("gone")
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                assert ask_metadata(monitor, ["gone"], allow=False) == [("gone", 3)]
                assert ask_metadata(monitor, None, allow=True) == []
                with contextlib.suppress(ClientError):
                    assert reader.read(timeout=0.2) == []
                assert monitor.fetch("gone", 0).error == 3
            assert not {name for name in topic_folders(broker) if name.startswith("gone-")}
            producer.send("gone", b"back").result(10)
            assert ask_metadata(monitor, ["gone"], allow=False) == [("gone", 0)]
            assert monitor.find("gone", -1).offset == 1
