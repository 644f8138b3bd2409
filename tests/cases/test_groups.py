"""Field cases about consumer groups, over the Kafka dialect and with foreign clients."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.errors import ClientError
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from support.eventually import eventually
from support.foreign.confluent import ConfluentClient
from support.foreign.with_kafka_python import KafkaPythonClient
from support.processor_time import in_time
from support.raw_group import RawMember, commit, committed
from support.wires import KafkaWire

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FORGETFUL = {
    "offsets.retention.ms": 2000,
    "offsets.retention.check.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "log.initial.task.delay.ms": 100,
}


# ---- C057


@pytest.mark.slow
def test_offsets_live_while_their_group_does() -> None:
    """C057: p0 committed once, p1 every 200 ms, 8 s; then 2 s after the last member both go."""
    with running_broker(configs=FORGETFUL) as broker, KafkaWire(broker.port) as wire:
        with Admin(broker.address) as admin:
            admin.create_topic("quiet", partitions=2)
        both = {("quiet", 0): 5, ("quiet", 1): 0}
        member = RawMember(broker.port, "living")
        member.join()
        assert member.commit({("quiet", 0): 5}) == {("quiet", 0): 0}
        started, count = time.monotonic(), 0
        while time.monotonic() - started < 8:
            count += 1
            assert member.commit({("quiet", 1): count}) == {("quiet", 1): 0}
            assert member.heartbeat() == ErrorCode.NONE
            both[("quiet", 1)] = count
            time.sleep(0.2)
        assert committed(wire, "living") == both
        # The member comes back at once, under another id, and goes on where it was.
        member.leave()
        member.close()
        again = RawMember(broker.port, "living")
        again.join()
        assert committed(wire, "living") == both
        again.leave()
        again.close()
        left_at = time.monotonic()
        time.sleep(1)
        assert committed(wire, "living") == both
        time.sleep(max(0.0, left_at + 5 - time.monotonic()))
        assert committed(wire, "living") == {}
        with pytest.raises(ClientError, match=r"(?i)committed|offset"):
            read_with_policy_none(broker.address, "living")


def read_with_policy_none(address: str, group: str) -> None:
    with Consumer(address, ["quiet"], group=group, offset_reset="error") as consumer:
        consumer.read(timeout=10)


@pytest.mark.slow
def test_offsets_of_a_committer_without_membership_age_from_the_last_commit() -> None:
    """C057: the stand-alone committer; a restart of the broker does not start the count anew."""
    with running_broker(configs=FORGETFUL) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("quiet", partitions=2)
        with KafkaWire(broker.port) as wire:
            for offset in range(15):
                assert commit(wire, "alone", {("quiet", 0): offset, ("quiet", 1): 1})
                time.sleep(0.2)
            assert committed(wire, "alone") == {("quiet", 0): 14, ("quiet", 1): 1}
        last = time.monotonic()
        broker.kill()
        broker.start()
        with KafkaWire(broker.port) as wire:
            assert eventually_loaded(wire, "alone") == {("quiet", 0): 14, ("quiet", 1): 1}
            eventually(lambda: committed(wire, "alone") == {}, timeout=6)
        waited = time.monotonic() - last
        assert waited > 1.5
        assert in_time(waited, 6)


def eventually_loaded(wire: KafkaWire, group: str) -> dict[Any, int]:
    def ask() -> dict[Any, int] | None:
        try:
            return committed(wire, group)
        except AssertionError:
            return None  # the coordinator reads its log

    return eventually(ask, until=lambda found: found is not None) or {}


# ---- C059


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_slow_member_is_put_out_once_and_comes_back(tmp_path: Path) -> None:
    """C059: sleeps of 5 s cause nothing, one of 20 s costs the partitions once; one is killed.

    M1 is librdkafka, M2 kafka-python, M3 the bundled client, the killed one librdkafka.
    """
    configs = {"group.initial.rebalance.delay.ms": 0}
    with running_broker(configs=configs) as broker, Admin(broker.address) as admin:
        admin.create_topic("work", partitions=6)
        with Producer(broker.address) as producer:
            for number in range(600):
                producer.send("work", b"%d" % number, partition=number % 6)
        first = ConfluentClient(broker.address).member("slow", "work", session_timeout_ms=6000)
        eventually(first.assigned)
        second = KafkaPythonClient(broker.address).member("slow", "work", session_timeout_ms=6000)
        eventually(second.assigned)
        with Consumer(
            broker.address, ["work"], group="slow", start="earliest", auto_commit=False,
            assignors=("range",), session_timeout_ms=6000, max_poll_interval_ms=10_000,
        ) as third:  # fmt: skip
            wait_for_shares(third, first, second)
            joins = first.joins(), second.joins()
            for _ in range(2):
                third.read(10, timeout=5)
                time.sleep(5)
                third.commit()
            assert (first.joins(), second.joins()) == joins, "a rebalance that nobody needed"
            third.read(10, timeout=5)
            time.sleep(20)
            assert first.assigned() | second.assigned() == {*range(6)}
            assert (first.joins(), second.joins()) == (joins[0] + 1, joins[1] + 1)
            with pytest.raises(ClientError):
                third.commit()
            woke = time.monotonic()
            wait_for_shares(third, first, second)
            assert in_time(time.monotonic() - woke, 15)
            check_death_of_a_member(broker, third, first, second)
        first.close()
        second.close()


def wait_for_shares(third: Consumer, *others: Any, parts: int = 2) -> None:
    """Read with the bundled member until all three have their share of six partitions."""

    def is_shared() -> bool:
        third.read(10, timeout=0.1)
        mine = {each.partition for each in third.assignment}
        shares = [mine, *(each.assigned() for each in others)]
        return sorted(p for share in shares for p in share) == [*range(6)] and all(
            len(share) == parts for share in shares
        )

    eventually(is_shared, timeout=15)


def check_death_of_a_member(broker: RunningBroker, third: Consumer, *others: Any) -> None:
    """A fourth member joins, is killed without a word, and the others take over in time."""
    program = Path(__file__).parents[1] / "support/foreign/lone_member.py"
    command = [sys.executable, str(program), broker.address, "slow", "work"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fourth:
        assert fourth.stdout is not None

        def three_have_less() -> bool:
            third.read(10, timeout=0.1)
            mine = len(third.assignment)
            return mine + sum(len(each.assigned()) for each in others) < 6

        eventually(three_have_less, timeout=15)
        fourth.kill()
    wait_for_shares(third, *others)


# ---- C060


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker(configs={"group.initial.rebalance.delay.ms": 0}) as running:
        with Admin(running.address) as admin, Producer(running.address) as producer:
            admin.create_topic("ten", partitions=2)
            for number in range(10):
                producer.send("ten", b"%d" % number, partition=0)
        yield running


@pytest.mark.parametrize("is_member", [False, True])
def test_commits_that_make_no_sense_are_refused_one_by_one(
    broker: RunningBroker, is_member: bool
) -> None:
    """C060: each code belongs to its partition, and what was refused reads back as none."""
    group = f"odd-{is_member}"
    member = RawMember(broker.port, group)
    if is_member:
        member.join()
    place, other, missing = ("ten", 0), ("ten", 1), ("ten", 7)
    wire = member.wire
    refused = member.commit({place: -1, other: 1, missing: 3, ("ghost", 0): 3})
    assert refused[other] == ErrorCode.NONE
    assert refused[place] not in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert refused[missing] == refused["ghost", 0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert committed(wire, group) == {other: 1}
    for offset in (10, 11, 2**63 - 1):
        assert member.commit({place: offset}) == {place: ErrorCode.NONE}
        assert committed(wire, group)[place] == offset
    for offset in (-2, -(2**63)):
        assert member.commit({place: offset})[place] != ErrorCode.NONE
    mixed = member.commit({place: (4, "m" * 4097), other: (2, "m" * 4096)})
    assert mixed == {place: ErrorCode.OFFSET_METADATA_TOO_LARGE, other: ErrorCode.NONE}
    assert ErrorCode.OFFSET_METADATA_TOO_LARGE == 12
    assert committed(wire, group, require_stable=True) == {place: 2**63 - 1, other: 2}
    # Characters are not bytes.
    assert member.commit({place: (4, "ö" * 2049)})[place] == 12
    assert member.commit({place: (4, "ö" * 2048)})[place] == 0
    if is_member:
        assert member.heartbeat() == ErrorCode.NONE
        member.leave()
    member.close()


@pytest.mark.parametrize("offset", [11, 2**63 - 1])
def test_a_group_that_resumes_beyond_the_end_gets_out_of_range(
    broker: RunningBroker, offset: int
) -> None:
    """C060: out of range and the reset policy, not silence: librdkafka, kafka-python and raw."""
    group = f"beyond-{offset}"
    with KafkaWire(broker.port) as wire:
        assert commit(wire, group, {("ten", 0): offset}) == {("ten", 0): 0}
        assert wire.fetch("ten", offset).error == ErrorCode.OFFSET_OUT_OF_RANGE
    member = ConfluentClient(broker.address).member(group, "ten")
    eventually(lambda: len(member.seen()) == 10, timeout=15)
    member.close()
    again = KafkaPythonClient(broker.address).member(group, "ten")
    eventually(lambda: len(again.seen()) == 10, timeout=15)
    again.close()


@pytest.mark.parametrize("timeout_ms", [2**31 - 1, 2**31 - 2])
def test_huge_timeouts_do_not_wrap(broker: RunningBroker, timeout_ms: int) -> None:
    """C060: a session of 24.8 days is refused by name or lasts; a rebalance timeout lasts."""
    member = RawMember(
        broker.port, f"huge-{timeout_ms}", session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=timeout_ms,
    )  # fmt: skip
    answer = member.ask_join()
    assert answer.error in (
        ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.MEMBER_ID_REQUIRED,
    )  # fmt: skip
    member.close()
    patient = RawMember(
        broker.port, f"patient-{timeout_ms}", session_timeout_ms=1_800_000,
        rebalance_timeout_ms=timeout_ms,
    )  # fmt: skip
    patient.join()
    time.sleep(0.3)
    assert patient.heartbeat() == ErrorCode.NONE
    patient.leave()
    patient.close()


@pytest.mark.parametrize("timeout_ms", [0, -1, 1, 5999, 1_800_001])
def test_session_timeouts_outside_their_bounds_are_refused(
    broker: RunningBroker, timeout_ms: int
) -> None:
    """Next to C060: INVALID_SESSION_TIMEOUT; group.min and group.max.session.timeout.ms."""
    member = RawMember(broker.port, "bounds", session_timeout_ms=timeout_ms)
    assert member.ask_join().error == ErrorCode.INVALID_SESSION_TIMEOUT == 26
    member.close()


def test_strangers_cannot_commit_for_a_living_group(broker: RunningBroker) -> None:
    """Next to C060: no member, a wrong member, a wrong generation; the group goes on."""
    member = RawMember(broker.port, "owned")
    member.join()
    place = ("ten", 0)
    with KafkaWire(broker.port) as wire:
        assert commit(wire, "owned", {place: 1})[place] == ErrorCode.UNKNOWN_MEMBER_ID
        wrong = commit(wire, "owned", {place: 1}, member.generation, "nobody")
        assert wrong[place] == ErrorCode.UNKNOWN_MEMBER_ID
        old = commit(wire, "owned", {place: 1}, member.generation - 1, member.member_id)
        assert old[place] == ErrorCode.ILLEGAL_GENERATION
        unknown = commit(wire, "no such group", {place: 1}, 3, "nobody")
        assert unknown[place] in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
        assert committed(wire, "owned") == {}
    assert member.heartbeat() == ErrorCode.NONE
    assert member.commit({place: 1}) == {place: 0}
    member.leave()
    member.close()
