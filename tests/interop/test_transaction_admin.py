"""What others' tools say of transactions that do not end, and how they end them."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.foreign.confluent import ConfluentClient
from support.foreign.programs import run_java
from support.foreign.shape import Sent, UnavailableError
from support.foreign.transactions import FencedError, TransactionalProducer, open_producer
from support.wires import KafkaWire

TOOL = "org.apache.kafka.tools.TransactionsCommand"
UNKNOWN_PRODUCER = 7000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, data_folders: list[Path]
) -> Iterator[RunningBroker]:
    """Without verification anybody may leave a transaction behind that no coordinator knows."""
    folder = tmp_path_factory.mktemp("administered")
    configs = {"transaction.partition.verification.enable": False, "log.retention.ms": -1}
    with running_broker(configs=configs, folder=folder) as running:
        data_folders.append(running.data_directory)
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest, admin: Admin) -> str:
    """One of its own for each test."""
    name: str = request.node.name
    admin.create_topic(name, partitions=1)
    return name


@pytest.fixture
def producer(broker: RunningBroker, topic: str) -> Iterator[TransactionalProducer]:
    """One with a transaction open in the topic, whose name is its id as well."""
    found = open_producer(ConfluentClient(broker.address), topic)
    found.begin()
    found.send(topic, [b"open"])
    yield found
    found.close()


def leave_hanging(broker: RunningBroker, topic: str) -> None:
    """A record of a transaction that no coordinator knows, an hour old; a plain one behind it."""
    batch = build_batch(
        [(time.time_ns() // 1_000_000 - HOUR_MS, None, b"hanging", ())],
        producer_id=UNKNOWN_PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    with KafkaWire(broker.port) as wire:
        assert (
            wire.produce(topic, bytes(batch), transactional_id="unheard-of").error is ErrorCode.NONE
        )
    ConfluentClient(broker.address).produce(topic, [Sent(None, b"behind it")])


def committed(broker: RunningBroker, topic: str) -> list[bytes | None]:
    client = ConfluentClient(broker.address)
    return [each.value for each in client.consume(topic, 1, isolation="read_committed")]


def tool(broker: RunningBroker, *arguments: str) -> list[dict[str, str]]:
    """The table that the tool prints: each line by the names of its columns."""
    try:
        done = run_java(TOOL, "--bootstrap-server", broker.address, *arguments)
    except UnavailableError as error:
        pytest.skip(str(error))
    lines = [line.split() for line in done.stdout.splitlines()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def test_kafka_transactions_lists_and_ends_an_open_transaction(
    broker: RunningBroker, topic: str, producer: TransactionalProducer
) -> None:
    """It is listed, described with its partition and its producer, and ended by force."""
    (listed,) = tool(broker, "list", "--transactional-id-pattern", topic)
    assert listed["TransactionState"] == "Ongoing"
    describe = ("describe", "--transactional-id", topic)
    (described,) = tool(broker, *describe)
    assert described["ProducerId"] == listed["ProducerId"]
    assert described["TopicPartitions"] == f"{topic}-0"
    (active,) = tool(broker, "describe-producers", "--topic", topic, "--partition", "0")
    assert active["CurrentTransactionStartOffset"] == "0"
    tool(broker, "forceTerminateTransaction", "--transactionalId", topic)
    (described,) = tool(broker, *describe)
    assert described["TransactionState"] == "Empty"
    with pytest.raises(FencedError):
        producer.commit()


def test_kafka_transactions_ends_a_hanging_transaction(broker: RunningBroker, topic: str) -> None:
    """Found by its age, and by nobody knowing it; aborted by its place."""
    leave_hanging(broker, topic)
    place = ("--topic", topic, "--partition", "0")
    (found,) = tool(broker, "find-hanging", *place)
    assert (found["ProducerId"], found["StartOffset"]) == (str(UNKNOWN_PRODUCER), "0")
    tool(broker, "abort", *place, "--start-offset", found["StartOffset"])
    assert tool(broker, "find-hanging", *place) == []
    assert committed(broker, topic) == [b"behind it"]


@pytest.fixture
def kafka_python(broker: RunningBroker) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    with closing(KafkaAdminClient(bootstrap_servers=broker.address)) as found:
        yield found


def test_kafka_python_lists_an_open_transaction(
    kafka_python: Any, topic: str, producer: TransactionalProducer
) -> None:
    """Listed by the broker that coordinates it, and described."""
    from kafka import TopicPartition
    from kafka.admin import TransactionState

    listed = {each.transactional_id: each for each in kafka_python.list_transactions()[0]}
    assert listed[topic].state is TransactionState.ONGOING
    described = kafka_python.describe_transactions([topic])[topic]
    assert described.topic_partitions == {TopicPartition(topic, 0)}
    assert producer is not None


def test_kafka_python_ends_a_hanging_transaction(
    broker: RunningBroker, kafka_python: Any, topic: str
) -> None:
    """It finds the producer in the partition, and writes the marker."""
    from kafka import TopicPartition
    from kafka.admin import AbortTransactionSpec

    leave_hanging(broker, topic)
    place = TopicPartition(topic, 0)
    (found,) = kafka_python.describe_producers([place])[place].active_producers
    assert found.current_transaction_start_offset == 0
    kafka_python.abort_transaction(
        AbortTransactionSpec(place, found.producer_id, found.producer_epoch)
    )
    assert committed(broker, topic) == [b"behind it"]
