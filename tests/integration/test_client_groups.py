"""Consumers in groups against a real broker."""

import re
import threading
import time

import pytest

from seglog.clients import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    CommitFailedError,
    ConfigurationError,
    Consumer,
    FencedInstanceIdError,
    NoCommittedOffsetError,
    OffsetAndMetadata,
    OffsetCommitError,
    OffsetOutOfRangeError,
    Producer,
    RebalanceListener,
    UnknownTopicOrPartitionError,
)
from seglog.clients.errors import InconsistentGroupProtocolError, InvalidSessionTimeoutError
from seglog.clients.testing import running_broker
from seglog.protocol.api import DescribeGroupsRequest
from seglog.protocol.errors import ErrorCode
from support.broker_process import BlockingClient
from support.eventually import eventually
from support.processor_time import in_time

FAST = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6000, "metadata_max_age_ms": 200}
ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture(scope="module")
def broker():
    with running_broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def admin(broker):
    with Admin(broker.address) as client:
        yield client


@pytest.fixture
def topic(request, admin):
    """A topic of its own for every test, with 6 partitions and 60 numbered records."""
    name = re.sub(r"\W", "-", request.node.name)
    admin.create_topic(name, partitions=6)
    return name


@pytest.fixture
def filled(broker, topic):
    fill(broker, topic, range(60))
    return topic


def fill(broker, topic, numbers):
    """Ten records a partition for every 60 numbers."""
    with Producer(broker.address, linger_ms=5) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % 6)


def member(broker, topic, group, **options):
    return Consumer(broker.address, topic, group=group, **{**FAST, **options})


def describe(broker, group):
    with BlockingClient(broker.port) as client:
        (description,) = client.ask(DescribeGroupsRequest([group])).groups
    return description


def read_until(consumers, count, timeout=10.0):
    """Read with all consumers in turn until they have so many records together."""
    records = []
    deadline = time.monotonic() + timeout
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        for consumer in consumers:
            records += consumer.read(timeout=0.05)
    return records


def settle(consumers, counts, timeout=10.0):
    """Read until each consumer has so many partitions; what came meanwhile."""
    records = []
    deadline = time.monotonic() + timeout
    while [len(consumer.assignment) for consumer in consumers] != counts:
        found = [consumer.assignment for consumer in consumers]
        assert time.monotonic() < deadline, found
        for consumer in consumers:
            records += consumer.read(timeout=0.05)
    return records


def numbers(records):
    return sorted(int(record.value) for record in records)


def test_a_fresh_group_gets_its_first_record_within_a_second(broker, filled):
    started = time.monotonic()
    with member(broker, filled, "fresh") as consumer:
        assert len(consumer.read(1, 5)) == 1
    assert in_time(time.monotonic() - started, 1)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_the_partitions_and_read_each_record_once(broker, topic, assignor):
    group = f"share-{assignor}"
    options = {"assignors": [assignor]}
    with member(broker, topic, group, **options) as first:
        settle([first], [6])
        with (
            member(broker, topic, group, **options) as second,
            member(broker, topic, group, **options) as third,
        ):
            consumers = [first, second, third]
            settle(consumers, [2, 2, 2])
            owned = [partition for consumer in consumers for partition in consumer.assignment]
            assert len(set(owned)) == 6
            fill(broker, topic, range(60))
            assert numbers(read_until(consumers, 60)) == list(range(60))
        settle([first], [6])
        fill(broker, topic, range(60, 120))
        assert numbers(read_until([first], 60)) == list(range(60, 120))
    assert describe(broker, group).state == "Empty"


def test_cooperative_members_keep_what_they_need_not_give_up(broker, filled):
    """And what moves is given up by one before another gets it."""
    told = []

    class Listener(RebalanceListener):
        def __init__(self, name):
            self.name = name

        def on_partitions_assigned(self, partitions):
            told.append((self.name, "+", partitions))

        def on_partitions_revoked(self, partitions):
            told.append((self.name, "-", partitions))

    options = {"assignors": ["cooperative-sticky"]}
    with member(broker, filled, "coop", listener=Listener("a"), **options) as first:
        settle([first], [6])
        kept = set(first.assignment)
        with member(broker, filled, "coop", listener=Listener("b"), **options) as second:
            settle([first, second], [3, 3])
            assert set(first.assignment) < kept
            moved = sorted(kept - set(first.assignment))
            while len(told) < 3:
                second.read(timeout=0.05)
            assert told[1] == ("a", "-", moved)
            assert told[2] == ("b", "+", moved)


def test_members_go_on_where_the_group_has_committed(broker, filled):
    with member(broker, filled, "resume", auto_commit=False) as consumer:
        first = read_until([consumer], 25)[:25]
        positions = {}
        for record in first:
            positions[record.topic, record.partition] = record.offset + 1
        consumer.commit(
            {place: OffsetAndMetadata(offset, "half way") for place, offset in positions.items()}
        )
        committed = consumer.committed()
        assert {place: each.offset for place, each in committed.items() if each} == positions
        assert {each.metadata for each in committed.values() if each} == {"half way"}
    with member(broker, filled, "resume", auto_commit=False) as consumer:
        rest = read_until([consumer], 35)
    assert numbers([*first, *rest]) == list(range(60))
    with member(broker, filled, "resume", auto_commit=False) as consumer:
        again = read_until([consumer], 35)
        consumer.commit()
    assert numbers(again) == numbers(rest)
    with member(broker, filled, "resume", stop_at_end=True) as consumer:
        assert list(consumer) == []


def test_positions_are_committed_on_the_way_and_at_the_end(broker, filled):
    with member(broker, filled, "auto", auto_commit_interval_ms=50) as consumer:
        records = read_until([consumer], 60)
        eventually(
            lambda: consumer.read(timeout=0.05) or consumer.committed(),
            until=lambda committed: {each.offset for each in committed.values()} == {10},
        )
        fill(broker, filled, range(60, 66))
        records += read_until([consumer], 6)
    with member(broker, filled, "auto", stop_at_end=True) as consumer:
        assert {each.offset for each in consumer.committed().values()} <= {11}
        assert list(consumer) == []
    assert numbers(records) == list(range(66))


def test_the_record_at_which_an_application_fails_is_read_again(broker, filled):
    """At least once: a record counts as done when the next one is asked for."""
    done = []

    def work():
        with member(broker, filled, "fails") as consumer:
            for record in consumer:
                if len(done) == 5:
                    raise ZeroDivisionError
                done.append(record)

    with pytest.raises(ZeroDivisionError):
        work()
    with member(broker, filled, "fails", stop_at_end=True) as consumer:
        rest = list(consumer)
    assert numbers([*done, *rest]) == list(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_reader_that_is_called_in_the_middle_of_a_batch_misses_nothing(broker, topic, assignor):
    """Commits every few ms, and a rebalance at every tenth record."""
    with Producer(broker.address) as producer:
        for number in range(6):
            items = [(None, b"%d" % n) for n in range(number, 600, 6)]
            producer.send_many(topic, items, partition=number).result(10)
    options = {"assignors": [assignor], "auto_commit_interval_ms": 2}
    read = []
    with member(broker, topic, f"called-{assignor}", **options) as consumer:
        for record in consumer:
            read.append(record)
            if len(read) % 10 == 0:
                twin = consumer._twin
                twin._loop.call_soon_threadsafe(twin.group._membership.rebalance, "a test")
            if len({each.value for each in read}) == 600:
                break
    assert len(read) == 600
    for number in range(6):
        offsets = [each.offset for each in read if each.partition == number]
        assert offsets == list(range(100))


def test_without_an_offset_the_reset_policy_decides(broker, filled):
    with member(broker, filled, "reset-1", offset_reset="earliest", stop_at_end=True) as consumer:
        assert len(list(consumer)) == 60
    with member(broker, filled, "reset-2", offset_reset="latest") as consumer:
        settle([consumer], [6])
        fill(broker, filled, range(60, 66))
        assert numbers(read_until([consumer], 6)) == list(range(60, 66))
    with member(broker, filled, "reset-3", start="latest", stop_at_end=True) as consumer:
        assert list(consumer) == []
    with member(broker, filled, "reset-4", offset_reset="error") as consumer:
        with pytest.raises(NoCommittedOffsetError, match="reset-4") as caught:
            consumer.read(timeout=5)
        with pytest.raises(NoCommittedOffsetError, match="reset-4"):
            consumer.position(consumer.assignment[0])
        for partition in consumer.assignment:
            consumer.seek(partition, 9)
        records = []
        deadline = time.monotonic() + 5
        while len(records) < 12 and time.monotonic() < deadline:
            try:
                records += consumer.read(timeout=0.1)
            except NoCommittedOffsetError:
                continue  # What was found before the seek.
        assert numbers(records) == list(range(54, 66))
    assert caught.value.group == "reset-4"


def test_commits_that_make_no_sense_are_refused_one_by_one(broker, admin):
    """C060: -1, unknown partitions and metadata of 4097 bytes; beyond the end is stored."""
    admin.create_topic("c060", partitions=2)
    with Producer(broker.address) as producer:
        producer.send_many("c060", [(None, b"x")] * 10, partition=0).result(10)
    p0, p1, p7 = ("c060", 0), ("c060", 1), ("c060", 7)
    options = {"group": "c060", "auto_commit": False}
    with Consumer(broker.address, [p0, p1], **options) as consumer:
        with pytest.raises(OffsetCommitError, match="OFFSET_OUT_OF_RANGE") as caught:
            consumer.commit({p0: -1, p1: 0})
        assert list(caught.value.errors) == [p0]
        assert consumer.committed([p0, p1]) == {p0: None, p1: OffsetAndMetadata(0)}
        with pytest.raises(OffsetCommitError) as caught:
            consumer.commit({p7: 1})
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert consumer.committed([p7]) == {p7: None}
        with pytest.raises(OffsetCommitError) as caught:
            consumer.commit(
                {p0: OffsetAndMetadata(3, "x" * 4097), p1: OffsetAndMetadata(4, "fine")}
            )
        assert {place: each.code for place, each in caught.value.errors.items()} == {
            p0: ErrorCode.OFFSET_METADATA_TOO_LARGE
        }
        assert consumer.committed([p0, p1]) == {p0: None, p1: OffsetAndMetadata(4, "fine")}
        for offset in (10, 11, 2**63 - 1):
            consumer.commit({p0: offset})
            assert consumer.committed([p0])[p0].offset == offset
        with pytest.raises(ConfigurationError):
            consumer.commit({p0: 2**63})
        consumer.commit({p0: 11})
    with (
        Consumer(broker.address, [p0], offset_reset="error", **options) as consumer,
        pytest.raises(OffsetOutOfRangeError) as caught,
    ):
        consumer.read(timeout=5)
    assert (caught.value.offset, caught.value.end_offset) == (11, 10)
    with Consumer(broker.address, [p0], offset_reset="earliest", **options) as consumer:
        assert len(read_until([consumer], 10)) == 10


def test_huge_timeouts_are_not_small_ones(broker, filled):
    """C060: 2147483647 ms."""
    with (
        pytest.raises(InvalidSessionTimeoutError),
        member(broker, filled, "huge", session_timeout_ms=2147483647) as consumer,
    ):
        consumer.read(timeout=5)
    with member(broker, filled, "huge", max_poll_interval_ms=2147483647) as consumer:
        assert len(read_until([consumer], 60)) == 60
        with member(broker, filled, "huge", max_poll_interval_ms=2147483647) as second:
            settle([consumer, second], [3, 3])


def test_chosen_partitions_use_the_groups_offsets_without_membership(broker, filled):
    places = [(filled, number) for number in range(6)]
    with Consumer(broker.address, places, group="alone", stop_at_end=True) as consumer:
        assert len(list(consumer)) == 60
    with Consumer(broker.address, places, group="alone", stop_at_end=True) as consumer:
        assert list(consumer) == []
    with Consumer(
        broker.address, dict.fromkeys(places, 8), group="alone", stop_at_end=True
    ) as consumer:
        assert len(list(consumer)) == 12
    assert describe(broker, "alone").state == "Empty"
    with member(broker, filled, "alone") as other:
        settle([other], [6])
        with (
            Consumer(broker.address, places, group="alone", auto_commit=False) as consumer,
            pytest.raises(CommitFailedError, match="has members"),
        ):
            consumer.commit({places[0]: 1})


def test_a_static_member_comes_back_and_nobody_else_notices(broker, filled):
    told = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            told.append(partitions)

    with member(broker, filled, "static", group_instance_id="other", listener=Listener()) as other:
        back = member(broker, filled, "static", group_instance_id="back")
        settle([other, back], [3, 3])
        owned = back.assignment
        fill(broker, filled, range(60, 72))
        read_until([other, back], 12)
        rebalances = len(told)
        for _ in range(2):
            back.close()
            back = member(broker, filled, "static", group_instance_id="back")
            settle([back], [3])
            assert back.assignment == owned
            other.read(timeout=0.3)
        assert len(told) == rebalances
        assert back.read(timeout=0.1) == []  # All was committed when it was closed.
        back.close()
    assert len(describe(broker, "static").members) == 2


def test_the_second_of_two_with_one_name_puts_the_first_out(broker, filled):
    with member(broker, filled, "fenced", group_instance_id="me") as first:
        settle([first], [6])
        with member(broker, filled, "fenced", group_instance_id="me") as second:
            settle([second], [6])
            with pytest.raises(
                FencedInstanceIdError, match=r"fenced: .* the same group_instance_id"
            ):
                eventually(lambda: first.read(timeout=0.1), until=lambda _: False)
            with pytest.raises(FencedInstanceIdError):
                first.commit({(filled, 0): 1})
            fill(broker, filled, range(60, 66))
            assert len(read_until([second], 6)) >= 6


def test_a_late_commit_is_refused_and_the_member_joins_again(broker, filled):
    """C059 in short: the application took longer than max_poll_interval_ms."""
    told = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions):
            told.append("revoked")

        def on_partitions_lost(self, partitions):
            told.append("lost")

    options = {"max_poll_interval_ms": 500, "auto_commit": False}
    with (
        member(broker, filled, "late", listener=Listener(), **options) as slow,
        member(broker, filled, "late", auto_commit=False) as other,
    ):
        settle([slow, other], [3, 3])
        before = told.count("revoked")
        settle([other], [6])
        with pytest.raises(CommitFailedError, match="max_poll_interval_ms=500"):
            slow.commit()
        with pytest.raises(CommitFailedError):
            slow.commit({(filled, 0): 1})
        settle([slow, other], [3, 3])
        slow.commit()
        assert told.count("lost") == 1
        assert told.count("revoked") == before


def test_work_that_takes_long_but_not_too_long_causes_no_rebalance(broker, filled):
    """C059 in short: heartbeats go on while the application is blocked."""
    with member(broker, filled, "busy", max_poll_interval_ms=60_000) as consumer:
        read_until([consumer], 60)
        with BlockingClient(broker.port) as client:
            (before,) = client.ask(DescribeGroupsRequest(["busy"])).groups
        time.sleep(1)
        consumer.commit()
        (now,) = [describe(broker, "busy")]
        assert [each.member_id for each in now.members] == [
            each.member_id for each in before.members
        ]


def test_the_listener_may_use_the_consumer_in_the_thread_that_reads(broker, filled):
    threads = []
    done = {}

    class Listener(RebalanceListener):
        consumer = None

        def on_partitions_assigned(self, partitions):
            threads.append(threading.current_thread())
            for partition in partitions:
                self.consumer.seek(partition, 5)

        def on_partitions_revoked(self, partitions):
            threads.append(threading.current_thread())
            self.consumer.commit(dict.fromkeys(partitions, 7))
            done.update(self.consumer.committed(partitions))

    listener = Listener()
    consumer = member(broker, filled, "callbacks", auto_commit=False, listener=listener)
    with consumer:
        listener.consumer = consumer
        assert {record.offset for record in read_until([consumer], 30)} == {5, 6, 7, 8, 9}
        with member(broker, filled, "callbacks") as second:
            settle([consumer, second], [3, 3])
    assert len(done) == 6
    assert set(threads) == {threading.current_thread()}


def test_what_a_listener_raises_comes_out_where_the_application_reads(broker, filled):
    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            raise ZeroDivisionError

    with member(broker, filled, "raises", listener=Listener()) as consumer:
        with pytest.raises(ZeroDivisionError):
            consumer.read(timeout=5)
        assert len(read_until([consumer], 60)) == 60


def test_nothing_in_an_added_partition_is_lost_though_reading_begins_at_the_end(
    broker, admin, topic
):
    """Producers know it first: what they send until the group divides it anew is read too."""
    pattern = re.compile(re.escape(topic) + r"(-\d)?")
    # Metadata is never renewed by itself, so that records are surely there before its members.
    slow = {"offset_reset": "latest", "metadata_max_age_ms": 1500}
    with (
        member(broker, topic, "late", **slow) as named,
        member(broker, pattern, "late pattern", **slow) as matching,
        Producer(broker.address) as producer,
    ):
        settle([named, matching], [6, 6])
        admin.create_partitions(topic, 8)
        admin.create_topic(f"{topic}-1")
        producer.send(topic, b"1", partition=7).result(10)
        producer.send(f"{topic}-1", b"2", partition=0).result(10)
        assert numbers(read_until([named], 1)) == [1]
        assert numbers(read_until([matching], 2)) == [1, 2]


def test_added_partitions_and_topics_that_match_are_read(broker, admin, topic):
    pattern = re.compile(re.escape(topic) + r"(-\d)?")
    with member(broker, topic, "named") as named, member(broker, pattern, "pattern") as matching:
        settle([named, matching], [6, 6])
        admin.create_partitions(topic, 8)
        settle([named, matching], [8, 8])
        admin.create_topic(f"{topic}-2", partitions=2)
        admin.create_topic(f"{topic}-other", partitions=2)
        settle([named, matching], [8, 10])
        with Producer(broker.address) as producer:
            producer.send(f"{topic}-2", b"1", partition=1).result(10)
        assert numbers(read_until([matching], 1)) == [1]
        admin.delete_topic(f"{topic}-2")
        settle([named, matching], [8, 8])


def test_another_subscription_is_another_membership(broker, admin, filled):
    admin.create_topic(f"{filled}-b", partitions=2)
    with member(broker, filled, "subscribe") as consumer:
        read_until([consumer], 60)
        consumer.subscribe(f"{filled}-b")
        settle([consumer], [2])
        assert consumer.committed([(filled, 0)])[filled, 0].offset == 10
        consumer.subscribe([filled])
        settle([consumer], [6])
        assert consumer.read(timeout=0.1) == []


def test_reading_to_the_present_end_works_in_a_group_too(broker, filled):
    with member(broker, filled, "until-end") as consumer:
        settle_until_end = list(consumer.until_end())
        assert numbers(settle_until_end) == list(range(60))
        fill(broker, filled, range(60, 66))
        assert numbers(consumer.until_end()) == list(range(60, 66))
        fill(broker, filled, range(66, 72))
        assert numbers(read_until([consumer], 6)) == list(range(66, 72))


def test_what_cannot_work_is_told(broker, filled):
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        member(broker, "nowhere", "errors")
    with pytest.raises(ConfigurationError, match="group"):
        Consumer(broker.address, re.compile("x"))
    with (
        Consumer(broker.address, filled) as consumer,
        pytest.raises(ConfigurationError, match="has no group"),
    ):
        consumer.commit()
    with member(broker, filled, "errors", assignors=["range"]) as first:
        read = settle([first], [6])
        with (
            member(broker, filled, "errors", assignors=["roundrobin"]) as second,
            pytest.raises(InconsistentGroupProtocolError),
        ):
            second.read(timeout=5)
        fill(broker, filled, range(60, 66))
        read += read_until([first], 66 - len(read))
        assert numbers(read) == list(range(66))


async def test_the_async_consumer_does_the_same(broker, filled):
    told = []

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions):
            told.append(len(partitions))

    options = {"group": "async", **FAST}
    async with AsyncConsumer(broker.address, filled, listener=Listener(), **options) as consumer:
        read = []
        async for record in consumer:
            read.append(record)
            if len(read) == 30:
                break
        await consumer.commit()
        async with (
            AsyncConsumer(broker.address, filled, **options) as second,
            AsyncProducer(broker.address) as producer,
        ):
            for _ in range(200):
                read += await consumer.read(timeout=0.02)
                read += await second.read(timeout=0.02)
                if len(second.assignment) == 3 and len(consumer.assignment) == 3:
                    break
            await producer.send_and_wait(filled, b"60", partition=5)
            while len(read) < 61:
                read += await consumer.read(timeout=0.02)
                read += await second.read(timeout=0.02)
        assert numbers(read) == list(range(61))
    assert told[0] == 6
    assert told[-1] == 3
