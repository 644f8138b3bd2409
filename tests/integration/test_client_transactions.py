"""Transactional producers, and the tools around them, against a real broker: C052, C055."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seglog.clients import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    CommitFailedError,
    ConfigurationError,
    Consumer,
    OffsetCommitError,
    Producer,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
)
from seglog.clients.errors import BrokerError, RecordTooLargeError, TransactionalIdNotFoundError
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from support.eventually import eventually

FAST = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    configs = {"auto.create.topics.enable": False, "transaction.max.timeout.ms": 5000, **FAST}
    with running_broker(configs=configs) as running:
        yield running


@pytest.fixture
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.address) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest, admin: Admin) -> str:
    """A topic of its own for every test, which is its transactional id as well."""
    topic: str = request.node.name.replace("[", "-").replace("]", "")[-200:]
    admin.create_topic(topic, partitions=2)
    return topic


def make_producer(broker: RunningBroker, name: str, **options: Any) -> Producer:
    options = {"transaction_timeout_ms": 5000, "max_block_ms": 10_000, **options}
    return Producer(broker.address, transactional_id=name, **options)


def read(broker: RunningBroker, topic: str, isolation: Any = "read_committed") -> list[bytes]:
    options = {"start": "earliest", "stop_at_end": True, "isolation": isolation}
    with Consumer(broker.address, topic, **options) as consumer:
        return sorted(record.value or b"" for record in consumer)


def test_half_of_a_transaction_is_seen(broker: RunningBroker, name: str, admin: Admin) -> None:
    """Nothing of it before its end, then all or none, in every partition and the offsets too."""
    everything = [b"%d" % number for number in range(10)]
    with make_producer(broker, name) as producer:
        with producer.transaction():
            for number, value in enumerate(everything):
                producer.send(name, value, partition=number % 2)
            producer.send_offsets_to_transaction({(name, 0): 5}, f"{name}-group")
            producer.flush()
            assert read(broker, name) == []
            assert read(broker, name, "read_uncommitted") == everything
        assert read(broker, name) == everything
        with contextlib.suppress(KeyError), producer.transaction():
            producer.send(name, b"aborted", partition=0)
            producer.send_offsets_to_transaction({(name, 0): 6}, f"{name}-group")
            raise KeyError
        assert read(broker, name) == everything
        with producer.transaction():
            producer.send(name, b"after", partition=0)
        with producer.transaction():
            """Nothing is sent in it."""
    assert read(broker, name) == [*everything, b"after"]
    (offset,) = admin.list_group_offsets(f"{name}-group").values()
    assert offset is not None
    assert offset.offset == 5


def test_steps_are_taken_out_of_turn(broker: RunningBroker, name: str) -> None:
    with Producer(broker.address) as plain, pytest.raises(TransactionStateError):
        plain.begin_transaction()
    with pytest.raises(ConfigurationError, match="acks"):
        Producer(broker.address, transactional_id="t", acks=1)
    with make_producer(broker, name) as producer:
        steps: list[Callable[[], Any]] = [
            lambda: producer.send(name, b"x"),
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send_offsets_to_transaction({(name, 0): 1}, "g"),
        ]
        for step in steps:
            with pytest.raises(TransactionStateError, match="no transaction is open"):
                step()
        producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="a transaction is open"):
            producer.begin_transaction()
        producer.abort_transaction()


def test_a_successor_leaves_its_predecessor_alive(broker: RunningBroker, name: str) -> None:
    """It ends what was left open, and the other one is told plainly, whatever it does."""
    with make_producer(broker, name) as first, make_producer(broker, f"{name}-2") as bystander:
        first.begin_transaction()
        first.send(name, b"left open").result(10)
        with make_producer(broker, name) as second:
            with second.transaction():
                second.send(name, b"second")
            assert read(broker, name) == [b"second"]
            with pytest.raises(ProducerFencedError, match="another producer has taken it over"):
                first.commit_transaction()
            for step in (first.begin_transaction, first.abort_transaction):
                with pytest.raises(ProducerFencedError):
                    step()
            with pytest.raises(ProducerFencedError):
                first.send(name, b"late")
            with second.transaction():
                second.send(name, b"again")
        with bystander.transaction():
            bystander.send(name, b"bystander")
    assert read(broker, name) == [b"again", b"bystander", b"second"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_send_after_the_timeout_ends_the_producer(
    broker: RunningBroker, name: str, admin: Admin, is_replaced: bool
) -> None:
    """It fails the transaction only; but one that has a successor learns of that by the abort."""
    timeout_ms = 5000 if is_replaced else 300
    with make_producer(broker, name, transaction_timeout_ms=timeout_ms) as producer:
        producer.begin_transaction()
        producer.send(name, b"early", partition=0).result(10)
        if is_replaced:
            make_producer(broker, name).close()
        eventually(lambda: not admin.open_transactions([name]))
        refused = producer.send(name, b"late", partition=1).exception(10)
        assert isinstance(refused, BrokerError)
        assert refused.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert not isinstance(refused, ProducerFencedError)
        with pytest.raises(TransactionAbortedError):
            producer.commit_transaction()
        if is_replaced:
            with pytest.raises(ProducerFencedError):
                producer.abort_transaction()
            return
        producer.abort_transaction()
        # With so short a timeout the next may meet the same fate: then the one behind it.
        eventually(lambda: is_committed(producer, name))
    assert read(broker, name) == [b"in time"]


def is_committed(producer: Producer, name: str) -> bool:
    try:
        with producer.transaction():
            producer.send(name, b"in time", partition=1)
    except TransactionAbortedError:
        return False
    return True


def test_a_commit_leaves_out_what_was_refused(broker: RunningBroker, name: str) -> None:
    """One refused record fails the transaction; it can be aborted, and the next one is whole."""
    with make_producer(broker, name, max_request_bytes=4_000_000) as producer:
        producer.begin_transaction()
        producer.send(name, b"fine", partition=0).result(10)
        refused = producer.send(name, b"x" * 2_000_000, partition=1)
        with pytest.raises(TransactionAbortedError) as caught:
            producer.commit_transaction()
        assert isinstance(caught.value.__cause__, RecordTooLargeError)
        assert isinstance(refused.exception(10), RecordTooLargeError)
        with pytest.raises(TransactionAbortedError, match="can only be aborted"):
            producer.send(name, b"more")
        producer.abort_transaction()
        with producer.transaction():
            producer.send(name, b"next", partition=1)
        with pytest.raises(TransactionAbortedError), producer.transaction():
            producer.send(name, b"x" * 2_000_000, partition=1)
        with producer.transaction():
            producer.send(name, b"last", partition=1)
    assert read(broker, name) == [b"last", b"next"]


@pytest.mark.slow
def test_a_dead_producer_holds_its_readers_up(
    broker: RunningBroker, name: str, admin: Admin
) -> None:
    """C052 with its numbers but for the clock: 900000 refused, 3 aborted in time, 10+10 read."""
    with pytest.raises(BrokerError, match=r"transaction\.max\.timeout\.ms") as caught:
        make_producer(broker, name, transaction_timeout_ms=900_000)
    assert caught.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    dead = make_producer(broker, name, transaction_timeout_ms=1000)
    try:
        dead.begin_transaction()
        dead.send_many(name, [(None, b"dead", None)] * 3, partition=0).result(10)
        with make_producer(broker, f"{name}-2") as other, Producer(broker.address) as plain:
            for number in range(10):
                with other.transaction():
                    other.send(name, b"t%d" % number, partition=0)
                plain.send(name, b"p%d" % number, partition=0)
            plain.flush()
        assert read(broker, name) == []
        (open_one,) = admin.open_transactions([(name, 0)])
        assert (open_one.start_offset, open_one.transactional_id) == (0, name)
        broker.kill()
        broker.start()
        eventually(lambda: len(read(broker, name)) == 20, 10)
        assert b"dead" not in read(broker, name)
        with pytest.raises(TransactionAbortedError, match="transaction_timeout_ms=1000"):
            dead.commit_transaction()
        dead.abort_transaction()
        with dead.transaction():
            dead.send(name, b"alive", partition=0)
        assert len(read(broker, name)) == 21
    finally:
        dead.close(0)


def test_offsets_of_a_consumer_that_was_replaced_are_committed(
    broker: RunningBroker, name: str
) -> None:
    """A consumer of chosen partitions may; one whose generation has passed may not."""
    group = f"{name}-group"
    options: Any = {"group": group, "auto_commit": False, "start": "earliest"}
    with make_producer(broker, name) as producer:
        with producer.transaction():
            producer.send(name, b"in", partition=0)
        with Consumer(broker.address, [(name, 0)], **options) as chosen:
            assert len(chosen.read(1, 10)) == 1
            with producer.transaction():
                producer.send_offsets_to_transaction(chosen.positions(), chosen)
            assert {each.offset for each in chosen.committed().values() if each} == {1}
        with Consumer(broker.address, name, **options) as member:
            member.read(1, 0.5)
            stale = member.group_metadata()
            assert stale.generation > 0
            with producer.transaction():
                producer.send_offsets_to_transaction({(name, 1): 0}, member)
        with Consumer(broker.address, name, **options) as member:
            member.read(1, 0.5)
            producer.begin_transaction()
            with pytest.raises(CommitFailedError):
                producer.send_offsets_to_transaction({(name, 0): 9}, stale)
            with pytest.raises(TransactionAbortedError):
                producer.commit_transaction()
            producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(OffsetCommitError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            producer.send_offsets_to_transaction({("ghost", 0): 1}, group)
        producer.abort_transaction()


async def test_the_ends_of_the_two_isolation_levels_are_mixed_up(
    broker: RunningBroker, name: str, admin: Admin
) -> None:
    """C055 with its numbers: stamps T to T+19, ends 10 and 20, then 21."""
    base_ms = 1_700_000_000_000

    async def ask(isolation: Any) -> list[int | None]:
        async with AsyncConsumer(broker.address, [(name, 0)], isolation=isolation) as consumer:
            answers: list[int | None] = [(await consumer.end_offsets())[name, 0]]  # type: ignore[index]
            for step in (5, 12, 17):
                found = await consumer.offsets_for_times({(name, 0): base_ms + step})
                answers += [None if each is None else each.offset for each in found.values()]
            return answers

    plain_options: Any = {"linger_ms": 0}
    async with (
        AsyncProducer(broker.address, **plain_options) as plain,
        AsyncProducer(broker.address, transactional_id=name, transaction_timeout_ms=5000) as tx,
    ):
        for step in range(10):
            stamp = base_ms + step
            await plain.send_and_wait(name, b"a", partition=0, timestamp_ms=stamp)
        await tx.begin_transaction()
        for step in range(10, 15):
            await tx.send_and_wait(name, b"b", partition=0, timestamp_ms=base_ms + step)
        for step in range(15, 20):
            stamp = base_ms + step
            await plain.send_and_wait(name, b"c", partition=0, timestamp_ms=stamp)
        assert await ask("read_committed") == [10, 5, None, None]
        assert await ask("read_uncommitted") == [20, 5, 12, 17]
        await tx.commit_transaction()
        assert await ask("read_committed") == [21, 5, 12, 17]
        assert await ask("read_uncommitted") == [21, 5, 12, 17]


async def test_the_async_client_differs(broker: RunningBroker, name: str) -> None:
    """Many transactions one after the other, aborted ones among them, cancelled ones too."""
    expected = []
    async with AsyncProducer(
        broker.address, transactional_id=name, transaction_timeout_ms=5000, batch_bytes=200
    ) as producer:
        for number in range(20):
            try:
                async with producer.transaction():
                    for part in range(10):
                        await producer.send(name, b"%02d-%d" % (number, part))
                    if number % 3 == 1:
                        raise KeyError
                    if number % 3 == 2:
                        asyncio.current_task().cancel()  # type: ignore[union-attr]
                        await asyncio.sleep(0)
                expected += [b"%02d-%d" % (number, part) for part in range(10)]
            except KeyError:
                continue
            except asyncio.CancelledError:
                asyncio.current_task().uncancel()  # type: ignore[union-attr]
    found = await asyncio.to_thread(read, broker, name)
    assert found == expected


def test_tools_do_not_see_transactions(broker: RunningBroker, name: str, admin: Admin) -> None:
    with pytest.raises(TransactionalIdNotFoundError):
        admin.describe_transactions(["nobody"])
    with pytest.raises(TransactionalIdNotFoundError):
        admin.abort_transactions(["nobody"])
    producer = make_producer(broker, name)
    try:
        producer.begin_transaction()
        producer.send(name, b"x", partition=1).result(10)
        (listed,) = admin.list_transactions(pattern=name)
        assert (listed.transactional_id, listed.state) == (name, "Ongoing")
        assert not admin.list_transactions(states=["Empty"], pattern=name)
        info = admin.describe_transactions([name])[name]
        assert (info.state, info.timeout_ms, info.partitions) == ("Ongoing", 5000, ((name, 1),))
        assert info.started_ms > 0
        group = f"{name}-group"
        producer.send_offsets_to_transaction({(name, 0): 0}, group)
        assert admin.list_group_offsets(group, [(name, 0)]) == {(name, 0): None}
        (found,) = admin.open_transactions([name])
        assert (found.partition, found.transactional_id) == ((name, 1), name)
        admin.abort_transactions([name])
        eventually(lambda: not admin.open_transactions([name]), 10)
        assert admin.describe_transactions([name])[name].started_ms == -1
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
    finally:
        producer.close(0)


COPY = """
import os, sys
from seglog.clients import Consumer, Producer

address, name, dies_after = sys.argv[1], sys.argv[2], int(sys.argv[3])
with (
    Producer(address, transactional_id=name, transaction_timeout_ms=5000) as producer,
    Consumer(
        address,
        [(name, 0)],
        start="earliest",
        group=f"{name}-copy",
        auto_commit=False,
        isolation="read_committed",
    ) as consumer,
):
    copied = 0
    while records := consumer.read(7, 1.0):
        with producer.transaction():
            for record in records:
                producer.send(name, record.value, partition=1)
            copied += len(records)
            if copied >= dies_after:
                producer.flush()
                os._exit(9)
            producer.send_offsets_to_transaction(consumer.positions(), consumer)
"""


@pytest.mark.slow
def test_a_copy_that_was_killed_in_the_middle_repeats_or_skips_records(
    broker: RunningBroker, name: str
) -> None:
    """Consume, produce, commit both; killed three times, resumed: each record once."""
    values = [b"%03d" % number for number in range(100)]
    with Producer(broker.address) as plain:
        plain.send_many(name, [(None, value, None) for value in values], partition=0)
    for dies_after, status in ((10, 9), (30, 9), (20, 9), (1000, 0)):
        command = [sys.executable, "-c", COPY, broker.address, name, str(dies_after)]
        ended = subprocess.run(command, timeout=60, check=False)
        assert ended.returncode == status
    options: Any = {"start": "earliest", "stop_at_end": True}
    with Consumer(broker.address, [(name, 1)], isolation="read_committed", **options) as consumer:
        assert [record.value for record in consumer] == values
    with Consumer(broker.address, [(name, 1)], **options) as consumer:
        assert len(list(consumer)) > len(values)
