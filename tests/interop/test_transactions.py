"""Transactions of every foreign client, read by every other, fenced, timed out and interrupted."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from support.eventually import eventually
from support.foreign.everyone import CLIENTS, open_client
from support.foreign.shape import Sent, UnavailableError
from support.foreign.transactions import (
    FencedError,
    TransactionalProducer,
    open_producer,
)
from support.kafka_groups import committed_offset
from support.wires import KafkaWire, read_records

CONFIGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}
SHORT_TIMEOUT_MS = 1000


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, data_folders: list[Path]
) -> Iterator[RunningBroker]:
    """Looks often for transactions that have taken too long."""
    folder = tmp_path_factory.mktemp("transactions")
    with running_broker(configs=CONFIGS, folder=folder) as running:
        data_folders.append(running.data_directory)
        yield running


@contextmanager
def producing(
    client: Any, transactional_id: str, **options: int
) -> Iterator[TransactionalProducer]:
    producer = open_producer(client, transactional_id, **options)
    try:
        yield producer
    finally:
        producer.close()


def numbered(name: str, what: str, count: int = 3) -> list[bytes]:
    return [b"%s %s %d" % (name.encode(), what.encode(), number) for number in range(count)]


def values_of(client: Any, topic: str, count: int) -> list[bytes | None]:
    """What a client delivers first of a topic when it reads only what is committed."""
    found = client.consume(topic, count, isolation="read_committed")
    return [each.value for each in found[:count]]


def all_values(broker: RunningBroker, topic: str) -> list[bytes | None]:
    with KafkaWire(broker.port) as wire:
        return [each.value for each in read_records(wire, topic)]


@pytest.fixture(scope="module")
def written(broker: RunningBroker, admin: Admin, foreign: Any) -> list[bytes]:
    """Of each client a transaction that is aborted, one that is kept, another that is aborted."""
    admin.create_topic("outcomes", partitions=1)
    kept: list[bytes] = []
    for name in CLIENTS:
        with producing(foreign(name), f"outcomes of {name}") as producer:
            for turn, what in enumerate(("aborted", "committed", "aborted")):
                producer.begin()
                producer.send("outcomes", numbered(name, f"{what} {turn}"))
                producer.commit() if what == "committed" else producer.abort()
        kept += numbered(name, "committed 1")
    foreign(CLIENTS[0]).produce("outcomes", [Sent(None, b"the end")])
    return [*kept, b"the end"]


@pytest.mark.parametrize("name", CLIENTS)
def test_read_committed_hides_aborted_records(
    broker: RunningBroker, foreign: Any, written: list[bytes], name: str
) -> None:
    """TXN-10: at read_committed only what each client has committed, in order; else everything."""
    client = foreign(name)
    assert values_of(client, "outcomes", len(written)) == written
    everything = client.consume("outcomes", len(CLIENTS) * 9 + 1)
    assert [each.value for each in everything] == all_values(broker, "outcomes")


@pytest.mark.parametrize("name", CLIENTS)
def test_a_producer_that_was_replaced_is_fenced(
    broker: RunningBroker, admin: Admin, foreign: Any, name: str
) -> None:
    """The next one with its id, of another client, ends its transaction and fences it."""
    client, other = foreign(name), foreign(CLIENTS[CLIENTS.index(name) - 1])
    topic = f"fenced-{name}"
    admin.create_topic(topic, partitions=1)
    with producing(client, topic) as first:
        first.begin()
        first.send(topic, numbered(name, "replaced"))
        with producing(other, topic) as second:
            with pytest.raises(FencedError):
                first.commit()
            second.begin()
            second.send(topic, [b"the second"])
            second.commit()
    assert values_of(client, topic, 1) == [b"the second"]


@pytest.mark.parametrize("name", CLIENTS)
def test_offsets_of_an_aborted_transaction_do_not_count(
    broker: RunningBroker, admin: Admin, foreign: Any, name: str
) -> None:
    """Read, change, write, commit the position with it: both happen, or neither does."""
    client = foreign(name)
    source, target, group = f"source-{name}", f"target-{name}", f"group of {name}"
    admin.create_topic(source, partitions=1)
    admin.create_topic(target, partitions=1)
    client.produce(source, [Sent(None, each) for each in numbered(name, "input", 10)])
    with producing(client, f"transform {name}") as producer, KafkaWire(broker.port) as wire:
        for start, end, is_kept in ((0, 5, False), (0, 4, True), (4, 10, False), (4, 10, True)):
            read = client.consume(source, end - start, start=start)[: end - start]
            before = committed_offset(wire, group, source)
            producer.begin()
            producer.send(target, [(each.value or b"").upper() for each in read])
            producer.send_offset(group, source, end)
            assert committed_offset(wire, group, source) == before
            if is_kept:
                producer.commit()
            else:
                producer.abort()
            # The end is decided at once; what it does to the partitions follows.
            expected = end if is_kept else before
            eventually(lambda want=expected: committed_offset(wire, group, source) == want)
    expected_values = [each.upper() for each in numbered(name, "input", 10)]
    assert values_of(client, target, 10) == expected_values


@pytest.mark.parametrize("name", CLIENTS)
def test_an_abandoned_transaction_is_aborted(
    broker: RunningBroker, admin: Admin, foreign: Any, name: str
) -> None:
    """The coordinator aborts it when its time is up; its producer learns that, the next goes on."""
    client = foreign(name)
    topic = f"late-{name}"
    admin.create_topic(topic, partitions=1)
    with producing(client, topic, timeout_ms=SHORT_TIMEOUT_MS) as late:
        late.begin()
        late.send(topic, numbered(name, "late"))
        client.produce(topic, [Sent(None, b"behind it")])
        assert values_of(client, topic, 1) == [b"behind it"]
        with pytest.raises(FencedError):
            late.commit()
    with producing(client, topic) as following:
        following.begin()
        following.send(topic, [b"next"])
        following.commit()
    assert values_of(client, topic, 2) == [b"behind it", b"next"]


def test_open_transactions_survive_a_kill_of_the_broker(
    tmp_path: Path, data_folders: list[Path]
) -> None:
    """kill -9 with one transaction of every client open: each goes on with its own, and ends it."""
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(configs=CONFIGS, folder=tmp_path))
        data_folders.append(broker.data_directory)
        producers: dict[str, TransactionalProducer] = {}
        clients: dict[str, Any] = {}
        for name in CLIENTS:
            try:
                clients[name] = open_client(name, broker.address)
            except UnavailableError:
                continue
            stack.callback(clients[name].close)
            producers[name] = stack.enter_context(producing(clients[name], f"killed {name}"))
        with Admin(broker.address) as admin:
            for name in producers:
                admin.create_topic(f"killed-{name}", partitions=1)
        for name, producer in producers.items():
            producer.begin()
            producer.send(f"killed-{name}", numbered(name, "before"))
        broker.kill()
        broker.start()
        for turn, (name, producer) in enumerate(producers.items()):
            producer.send(f"killed-{name}", numbered(name, "after"))
            producer.commit() if turn % 2 == 0 else producer.abort()
            producer.begin()
            producer.send(f"killed-{name}", [b"the end"])
            producer.commit()
        for turn, (name, client) in enumerate(clients.items()):
            kept = [*numbered(name, "before"), *numbered(name, "after")] if turn % 2 == 0 else []
            expected = [*kept, b"the end"]
            assert values_of(client, f"killed-{name}", len(expected)) == expected
