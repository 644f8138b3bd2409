"""Consumer groups of foreign clients: rebalance, static members, commit and resume."""

import time
from collections.abc import Sequence

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from support.eventually import eventually
from support.foreign.everyone import CLIENTS
from support.foreign.shape import Member, Sent
from support.processor_time import in_time

PARTITIONS = 4
FIRST_RECORD_SECONDS = 1.0


def fill(client, topic: str, count: int = 40, start: int = 0) -> None:
    """Put numbered records into all partitions in turn."""
    for partition in range(PARTITIONS):
        numbers = range(start + partition, start + count, PARTITIONS)
        client.produce(topic, [Sent(None, b"%d" % each) for each in numbers], partition=partition)


def numbers_of(*members: Member) -> list[int]:
    return sorted(int(each.value) for member in members for each in member.seen())


def share_everything(members: Sequence[Member]) -> bool:
    """Whether the members have all partitions among them, none twice, and each has one."""
    parts = [member.assigned() for member in members]
    return all(parts) and sorted(each for part in parts for each in part) == [*range(PARTITIONS)]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_fresh_group_reads_at_once_commits_and_resumes(
    broker: RunningBroker, admin: Admin, foreign, name: str
) -> None:
    """The first record of a fresh group comes within a second; the next member goes on there."""
    client = foreign(name)
    topic = f"fresh-{name}"
    admin.create_topic(topic, partitions=PARTITIONS)
    fill(client, topic)
    started = time.monotonic()
    member = client.member(f"group-{name}", topic)
    eventually(member.seen)
    first = time.monotonic() - started
    eventually(lambda: numbers_of(member) == [*range(40)])
    member.commit()
    member.close()
    fill(client, topic, count=20, start=40)
    following = client.member(f"group-{name}", topic)
    eventually(lambda: len(following.seen()) >= 20)
    assert numbers_of(following) == [*range(40, 60)]
    following.close()
    assert in_time(first, FIRST_RECORD_SECONDS), f"{first:.2f} s"


@pytest.mark.parametrize("name", CLIENTS)
def test_members_share_partitions_and_take_over(admin: Admin, foreign, name: str) -> None:
    """A second and third member get their share; what one leaves goes to the others."""
    client = foreign(name)
    topic = f"shared-{name}"
    admin.create_topic(topic, partitions=PARTITIONS)
    members = [client.member(f"sharers-{name}", topic)]
    eventually(lambda: share_everything(members))
    for _ in range(2):
        members.append(client.member(f"sharers-{name}", topic))
        eventually(lambda: share_everything(members), timeout=20)
    fill(client, topic)
    eventually(lambda: numbers_of(*members) == [*range(40)])
    for each in members:
        each.commit()
    leaving = members.pop(0)
    leaving.close()
    eventually(lambda: share_everything(members), timeout=20)
    fill(client, topic, count=40, start=40)
    eventually(lambda: set(numbers_of(*members)) >= {*range(40, 80)})
    for each in members:
        each.close()


@pytest.mark.parametrize("name", [each for each in CLIENTS if each != "kafkajs"])
def test_a_static_member_returns_without_a_rebalance(admin: Admin, foreign, name: str) -> None:
    """Gone and back within its session: it has what it had, and the others notice nothing."""
    client = foreign(name)
    if not client.static_members:
        pytest.skip(f"{name} has no static members")
    topic, group = f"static-{name}", f"statics-{name}"
    admin.create_topic(topic, partitions=PARTITIONS)

    def open_member(number: int) -> Member:
        return client.member(
            group, topic, instance_id=f"{name}-{number}", session_timeout_ms=30_000
        )

    members = [open_member(1), open_member(2)]
    eventually(lambda: share_everything(members), timeout=20)
    before = members[0].assigned()
    joins = members[1].joins()
    members[0].close()
    members[0] = open_member(1)
    eventually(lambda: share_everything(members), timeout=20)
    assert members[0].assigned() == before
    assert members[1].joins() == joins
    fill(client, topic, count=8)
    eventually(lambda: numbers_of(*members) == [*range(8)])
    for each in members:
        each.close()


@pytest.mark.parametrize("name", ["confluent-kafka", "java"])
def test_members_hand_over_only_the_moving_partitions(admin: Admin, foreign, name: str) -> None:
    """The cooperative-sticky assignor: two rebalances, and the first member keeps on reading."""
    strategy = {
        "confluent-kafka": "cooperative-sticky",
        "java": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    }[name]
    client = foreign(name)
    topic = f"sticky-{name}"
    admin.create_topic(topic, partitions=PARTITIONS)
    members = [client.member(f"stickers-{name}", topic, strategy=strategy)]
    eventually(lambda: share_everything(members))
    members.append(client.member(f"stickers-{name}", topic, strategy=strategy))
    eventually(lambda: share_everything(members), timeout=20)
    fill(client, topic)
    eventually(lambda: numbers_of(*members) == [*range(40)])
    for each in members:
        each.close()


def test_members_of_different_clients_share_a_group(admin: Admin, foreign) -> None:
    """All of them speak of the range assignor; who leads decides for the others."""
    topic = "mixed"
    admin.create_topic(topic, partitions=PARTITIONS)
    names = ["confluent-kafka", "kafka-python"]
    members = [foreign(name).member("mixed", topic) for name in names]
    eventually(lambda: share_everything(members), timeout=20)
    fill(foreign("aiokafka"), topic)
    eventually(lambda: numbers_of(*members) == [*range(40)])
    for each in members:
        each.close()
