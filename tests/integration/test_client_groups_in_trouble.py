"""Field cases about groups that take their time: C057, C059, C061, C063; and others' members."""

import logging
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict

import pytest

from seglog.clients import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    BrokerUnreachableError,
    ClientError,
    ClientTimeoutError,
    CommitFailedError,
    Consumer,
    NoCommittedOffsetError,
    Producer,
)
from seglog.clients.testing import running_broker
from support.eventually import eventually
from support.new_threads import new_threads, threads_now
from support.processor_time import in_time

pytestmark = pytest.mark.slow


class Worker(threading.Thread):
    """A member that reads for itself and notes what it got; ``work`` may take its time."""

    def __init__(self, broker, topic, group, work=lambda consumer, records: None, **options):
        super().__init__(daemon=True)
        self.consumer = Consumer(broker.address, topic, group=group, **options)
        self.records = []
        self.errors = []
        self.arrived_at = []
        self._work = work
        self._is_over = threading.Event()
        self.start()

    def run(self):
        while not self._is_over.is_set():
            records = self.consumer.read(20, 0.2)
            self.records += records
            self.arrived_at += [time.monotonic()] * len(records)
            if records:
                try:
                    self._work(self.consumer, records)
                except ClientError as error:
                    self.errors.append(error)

    def stop(self):
        self._is_over.set()
        self.join(60)
        assert not self.is_alive()
        self.consumer.close()

    @property
    def share(self):
        return len(self.consumer.assignment)


VICTIM = """
import sys
from seglog.clients import Consumer
consumer = Consumer(
    sys.argv[1], "topic", group="g", session_timeout_ms=6000, heartbeat_interval_ms=1000
)
for record in consumer:
    pass
"""


def commit(consumer, records):
    consumer.commit()


def fill(broker, topic, count, partitions):
    with Producer(broker.address, linger_ms=5) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def test_offsets_live_as_long_as_their_group():
    """C057: retention 2 s; p0 committed once and quiet for 8 s, p1 every 200 ms."""
    configs = {"offsets.retention.ms": 2000, "offsets.retention.check.interval.ms": 500}
    with running_broker(configs=configs) as broker, Admin(broker.address) as admin:
        admin.create_topic("topic", partitions=2)
        p0, p1 = ("topic", 0), ("topic", 1)
        fill(broker, "topic", 40, 2)
        options = {"group": "g", "heartbeat_interval_ms": 500, "auto_commit": False}

        def offset():
            return admin.list_group_offsets("g", [p0])[p0]

        with Consumer(broker.address, "topic", **options) as consumer:
            eventually(lambda: consumer.read(timeout=0.1) or len(consumer.assignment) == 2)
            consumer.commit({p0: 5})
            deadline = time.monotonic() + 8
            while time.monotonic() < deadline:
                consumer.commit({p1: 3})
                consumer.read(timeout=0.2)
            assert offset().offset == 5
        with Consumer(broker.address, "topic", **options) as consumer:
            eventually(lambda: consumer.read(timeout=0.1) or len(consumer.assignment) == 2)
            assert consumer.committed([p0])[p0].offset == 5
        time.sleep(1)
        assert offset().offset == 5
        time.sleep(4)
        assert admin.list_group_offsets("g", [p0, p1]) == {p0: None, p1: None}
        with (
            Consumer(broker.address, "topic", offset_reset="error", **options) as consumer,
            pytest.raises(NoCommittedOffsetError),
        ):
            consumer.read(timeout=5)
        with Consumer(broker.address, [p0], group="alone", auto_commit=False) as consumer:
            consumer.commit({p0: 5})
            time.sleep(1.2)
            assert consumer.committed([p0])[p0].offset == 5
            eventually(lambda: consumer.committed([p0])[p0] is None, timeout=4)


def test_a_slow_member_is_removed_once_and_comes_back():
    """C059: 600 records, session 6 s, max poll interval 10 s; sleeps of 5 s and then of 20 s."""
    options = {
        "session_timeout_ms": 6000,
        "max_poll_interval_ms": 10_000,
        "heartbeat_interval_ms": 1000,
        "auto_commit": False,
    }
    pause_s = [5.0]
    late = threading.Event()

    def slow(consumer, records):
        pause = pause_s[0]
        time.sleep(pause)
        if pause > 10:
            pause_s[0] = 0.0
            late.set()
        consumer.commit()

    with running_broker() as broker, Admin(broker.address) as admin:
        admin.create_topic("topic", partitions=6)
        first = Worker(broker, "topic", "g", commit, **options)
        second = Worker(broker, "topic", "g", commit, **options)
        third = Worker(broker, "topic", "g", slow, **options)
        members = [first, second, third]
        eventually(lambda: [each.share for each in members] == [2, 2, 2])

        def ids():
            return {each.member_id for each in admin.describe_groups(["g"])["g"].members}

        before = ids()
        fill(broker, "topic", 240, 6)
        eventually(lambda: sum(len(each.records) for each in members) >= 200, 30)
        time.sleep(5)
        assert ids() == before  # Sleeps of 5 s are allowed.
        assert third.errors == []
        eventually(lambda: sum(len(each.records) for each in members) == 240, 60)
        pause_s[0] = 20.0
        time.sleep(5)  # So that the last short pause is over.
        given = len(third.records)
        fill(broker, "topic", 360, 6)
        eventually(lambda: len(third.records) > given)
        blocked_at = time.monotonic()
        eventually(lambda: (first.share, second.share) == (3, 3), 15)
        blocked = time.monotonic() - blocked_at
        assert blocked > 9
        assert in_time(blocked, 15)
        assert late.wait(30)
        came_back_at = time.monotonic()
        eventually(lambda: [each.share for each in members] == [2, 2, 2], 15)
        assert in_time(time.monotonic() - came_back_at, 15)
        (error,) = third.errors
        assert isinstance(error, CommitFailedError)
        assert "max_poll_interval_ms=10000" in str(error)
        eventually(
            lambda: len({(r.partition, r.offset) for w in members for r in w.records}) == 600
        )
        # One member dies without leaving: its session decides.
        second.stop()
        victim = subprocess.Popen([sys.executable, "-c", VICTIM, broker.address])
        eventually(lambda: [first.share, third.share] == [2, 2])
        victim.kill()
        victim.wait()
        eventually(lambda: [first.share, third.share] == [3, 3], 15)
        copies = Counter((r.partition, r.offset) for each in members for r in each.records)
        assert len(copies) == 600
        # Twice only what the slow one had not committed when its partitions moved.
        assert sum(copies.values()) - 600 <= 20
        for each in (first, third):
            each.stop()


@pytest.mark.parametrize("ending", ["kill", "pause"])
def test_nothing_hangs_when_the_broker_is_gone_for_good(ending):
    """C061: request timeout 2 s, delivery timeout 4 s; every close within 6 s."""
    with running_broker() as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("topic")
        threads = threads_now()
        options = {"request_timeout_ms": 2000}
        producer = Producer(broker.address, delivery_timeout_ms=4000, **options)
        consumer = Consumer(broker.address, "topic", group="g", **options)
        admin = Admin(broker.address, **options)
        eventually(lambda: consumer.read(timeout=0.1) or consumer.assignment)
        producer.send("topic", b"known").result(5)
        consumer.read(timeout=5)
        getattr(broker, ending)()
        started = time.monotonic()
        futures = [producer.send("topic", b"%d" % n) for n in range(100)]
        for future in futures:
            assert isinstance(future.exception(6), ClientTimeoutError)
        assert in_time(time.monotonic() - started, 5)
        for client, arguments in ((producer, (5,)), (consumer, (5,)), (admin, ())):
            started = time.monotonic()
            client.close(*arguments)
            assert in_time(time.monotonic() - started, 6)
        eventually(lambda: not new_threads(threads))
        if ending == "pause":
            broker.resume()
        else:
            with pytest.raises(BrokerUnreachableError, match=broker.address):
                Consumer(broker.address, "topic", group="g", connect_timeout_ms=500)


async def test_async_clients_end_as_soon_without_a_broker(caplog):
    """C061: the same on one loop; no task is left and nothing is complained about."""
    import asyncio

    loop = asyncio.get_running_loop()
    complaints = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    with running_broker() as broker:
        async with AsyncAdmin(broker.address) as admin:
            await admin.create_topic("topic")
        options = {"request_timeout_ms": 2000}
        tasks = asyncio.all_tasks()
        consumer = await AsyncConsumer(broker.address, "topic", group="g", **options).start()
        producer = await AsyncProducer(broker.address, delivery_timeout_ms=4000, **options).start()
        while not consumer.assignment:
            await consumer.read(timeout=0.05)
        broker.kill()
        reading = asyncio.create_task(consumer.read(timeout=None))
        sending = asyncio.create_task(producer.send_and_wait("topic", b"x"))
        await asyncio.sleep(0.1)
        sending.cancel()
        started = loop.time()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert in_time(loop.time() - started, 0.5)
        started = loop.time()
        await consumer.close(5)
        assert in_time(loop.time() - started, 6)
        with pytest.raises(ClientError):
            await reading
        started = loop.time()
        await producer.close(5)
        assert in_time(loop.time() - started, 6)
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() - tasks == set()
    assert complaints == []
    lines = [record for record in caplog.records if record.name == "seglog.clients"]
    assert len(lines) <= 10


class Ticker(threading.Thread):
    """Sends numbered records, 50 a second, until it is stopped."""

    def __init__(self, broker, topic, partitions):
        super().__init__(daemon=True)
        self._producer = Producer(broker.address)
        self._topic, self._partitions = topic, partitions
        self._is_over = threading.Event()
        self.futures = []
        self.start()

    def run(self):
        while not self._is_over.wait(0.02):
            number = len(self.futures)
            self.futures.append(
                self._producer.send(
                    self._topic, b"%d" % number, partition=number % self._partitions
                )
            )

    def stop(self):
        self._is_over.set()
        self.join()
        self._producer.close()


def check_that_consumers_come_back(broker, restart, caplog, allowed_lines):
    """Run a group of two, a lone consumer and a producer over a restart of the broker."""
    with Admin(broker.address) as admin:
        admin.create_topic("topic", partitions=6)
    ticker = Ticker(broker, "topic", 6)
    members = [
        Worker(broker, "topic", "g", auto_commit_interval_ms=500, heartbeat_interval_ms=500)
        for _ in range(2)
    ]
    alone = Worker(broker, [("topic", n) for n in range(6)], None, start="earliest")
    eventually(lambda: [each.share for each in members] == [3, 3])
    time.sleep(1)
    caplog.clear()
    restart()
    up_at = time.monotonic()
    counts = [len(each.records) for each in (*members, alone)]
    for each, count in zip((*members, alone), counts, strict=True):
        eventually(lambda each=each, count=count: len(each.records) > count, 10)
    assert in_time(time.monotonic() - up_at, 10)
    lines = [record for record in caplog.records if record.name == "seglog.clients"]
    assert len(lines) <= allowed_lines, [record.getMessage() for record in lines]
    time.sleep(1)
    ticker.stop()
    total = len(ticker.futures)
    assert all(future.exception(0) is None for future in ticker.futures)
    eventually(lambda: len(alone.records) == total)
    assert sorted(int(record.value) for record in alone.records) == list(range(total))
    eventually(lambda: len({r.value for each in members for r in each.records}) == total)
    copies = sum(len(each.records) for each in members) - total
    # Twice only what was not committed: half a second before the restart, and the end of a round.
    assert copies <= 100
    for each in (*members, alone):
        each.stop()


@pytest.mark.parametrize(
    ("ending", "pause_s"),
    [("stop", 1), ("stop", 30), ("kill", 5), ("kill", 10), ("stop", 90)],
)
@pytest.mark.timeout(300)
def test_all_clients_go_on_after_a_restart(ending, pause_s, caplog):
    """C063: clean stops with 1, 30 and 90 s of pause, kill -9 with 5 s.

    An address that is bound 10 s late is the same to a client as a broker that is away so long.
    """
    caplog.set_level(logging.WARNING, "seglog.clients")
    with running_broker() as broker:

        def restart():
            getattr(broker, ending)()
            time.sleep(pause_s)
            broker.start()

        check_that_consumers_come_back(broker, restart, caplog, 4 * 20 * (1 + pause_s // 60))


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_of_other_clients_share_a_group_with_ours(assignor):
    """aiokafka, kafka-python and librdkafka; whoever leads, each record is read once."""
    confluent = pytest.importorskip("confluent_kafka")
    kafka = pytest.importorskip("kafka")
    strategies = {"range": "RangePartitionAssignor", "roundrobin": "RoundRobinPartitionAssignor"}
    from kafka.coordinator.assignors import range as ranges
    from kafka.coordinator.assignors import roundrobin

    strategy = getattr(ranges if assignor == "range" else roundrobin, strategies[assignor])
    with running_broker() as broker, Admin(broker.address) as admin:
        admin.create_topic("topic", partitions=6)
        values = defaultdict(list)
        rdkafka = confluent.Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "g",
                "partition.assignment.strategy": assignor,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 200,
            }
        )
        rdkafka.subscribe(["topic"])
        python = kafka.KafkaConsumer(
            "topic",
            bootstrap_servers=broker.address,
            group_id="g",
            partition_assignment_strategy=[strategy],
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )
        ours = Consumer(
            broker.address, "topic", group="g", assignors=[assignor], heartbeat_interval_ms=200
        )

        def poll():
            message = rdkafka.poll(0.05)
            if message is not None and message.error() is None:
                values["rdkafka"].append(message.value())
            for records in python.poll(50).values():
                values["python"] += [record.value for record in records]
            values["ours"] += [record.value for record in ours.read(timeout=0.05)]

        def shares():
            poll()
            return [len(rdkafka.assignment()), len(python.assignment()), len(ours.assignment)]

        eventually(shares, 30, until=lambda found: found == [2, 2, 2])
        fill(broker, "topic", 60, 6)
        eventually(lambda: poll() or sum(map(len, values.values())) >= 60, 20)
        read = sorted(int(value) for each in values.values() for value in each)
        assert read == list(range(60))
        assert {len(each) for each in values.values()} == {20}
        assert admin.describe_groups(["g"])["g"].assignor == assignor
        rdkafka.close()
        python.close()
        eventually(lambda: ours.read(timeout=0.05) or len(ours.assignment) == 6, 20)
        ours.close()
