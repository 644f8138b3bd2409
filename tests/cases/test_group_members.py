"""Next to C057, C059 and C060: members that are late, doubled, fenced or interrupted."""

from collections.abc import Iterator

import pytest

from seglog.clients import Admin, Producer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from support.eventually import eventually
from support.raw_group import RawMember, commit, committed
from support.wires import KafkaWire

NONE = ErrorCode.NONE
PLACE = ("kept", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """Its own, since it is killed and started again."""
    configs = {"offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0}
    with running_broker(configs=configs) as running:
        with Admin(running.address) as admin, Producer(running.address) as producer:
            admin.create_topic("kept", partitions=1)
            producer.send_many("kept", [(None, b"x", None)] * 10)
        yield running


def loaded(broker: RunningBroker, group: str) -> None:
    """Wait until a broker that was just started knows its groups."""
    with KafkaWire(broker.port) as wire:

        def is_answered() -> bool:
            try:
                committed(wire, group)
            except AssertionError:
                return False
            return True

        eventually(is_answered)


def newcomer(broker: RunningBroker, group: str) -> RawMember:
    """A member that has its id and waits for its generation."""
    member = RawMember(broker.port, group)
    answer = member.ask_join()
    assert answer.error == ErrorCode.MEMBER_ID_REQUIRED
    member.member_id = answer.member_id
    member.send_join()
    return member


def test_members_commit_their_work_across_a_rebalance(broker: RunningBroker) -> None:
    """A member commits for its generation until the next one begins, then after its assignment."""
    first = RawMember(broker.port, "busy")
    first.join()
    second = newcomer(broker, "busy")
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    assert first.commit({PLACE: 3}) == {PLACE: NONE}
    answer = first.ask_join()
    first.take(answer)
    second.take(second.joined())
    assert first.commit({PLACE: 4}) == {PLACE: ErrorCode.REBALANCE_IN_PROGRESS}
    old = commit(first.wire, "busy", {PLACE: 4}, first.generation - 1, first.member_id)
    assert old == {PLACE: ErrorCode.ILLEGAL_GENERATION}
    assert committed(first.wire, "busy") == {PLACE: 3}
    leader, other = (first, second) if answer.members else (second, first)
    assert leader is first
    assert leader.sync(answer) == NONE
    assert other.sync() == NONE
    assert other.commit({PLACE: 5}) == {PLACE: NONE}
    for member in (first, second):
        assert member.leave() == NONE
        member.close()


def test_the_process_that_was_replaced_is_fenced(broker: RunningBroker) -> None:
    """A static member returns under a new id; whatever the old process says is fenced."""
    old = RawMember(broker.port, "twins", group_instance_id="one")
    old.join()
    assert old.commit({PLACE: 1}) == {PLACE: NONE}
    new = RawMember(broker.port, "twins", group_instance_id="one")
    answer = new.ask_join()
    new.take(answer)
    assert (new.generation, answer.skip_assignment) == (old.generation, False)
    assert new.member_id != old.member_id
    assert old.heartbeat() == old.sync() == ErrorCode.FENCED_INSTANCE_ID
    assert old.ask_join().error == ErrorCode.FENCED_INSTANCE_ID
    assert old.commit({PLACE: 2}) == {PLACE: ErrorCode.FENCED_INSTANCE_ID}
    assert old.leave() == ErrorCode.FENCED_INSTANCE_ID
    # Without its instance id it is nobody.
    old.instance_id = None
    assert old.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert old.commit({PLACE: 2}) == {PLACE: ErrorCode.UNKNOWN_MEMBER_ID}
    assert new.sync(answer) == new.heartbeat() == NONE
    assert committed(new.wire, "twins") == {PLACE: 1}
    assert new.commit({PLACE: 3}) == {PLACE: NONE}
    # Another instance id than the one under which it joined is not its own.
    new.instance_id = "other"
    assert new.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    new.instance_id = "one"
    assert new.leave() == NONE
    for member in (old, new):
        member.close()


def test_unknown_members_and_groups_are_refused(broker: RunningBroker) -> None:
    """Heartbeat, sync and leave of members and groups that there are not."""
    stranger = RawMember(broker.port, "nowhere")
    stranger.member_id, stranger.generation = "nobody", 5
    for group in ("nowhere", "owned"):
        stranger.group = group
        assert stranger.heartbeat() == stranger.sync() == ErrorCode.UNKNOWN_MEMBER_ID
        assert stranger.leave() == ErrorCode.UNKNOWN_MEMBER_ID
        assert stranger.ask_join().error == ErrorCode.UNKNOWN_MEMBER_ID
        if group == "nowhere":
            with KafkaWire(broker.port) as wire:
                assert committed(wire, group) == {}
            owner = RawMember(broker.port, "owned")
            owner.join()
    assert owner.heartbeat() == NONE
    owner.leave()
    stranger.group = ""
    assert stranger.heartbeat() == ErrorCode.INVALID_GROUP_ID
    for member in (owner, stranger):
        member.close()


@pytest.mark.slow
def test_a_group_survives_a_restart_in_the_middle_of_a_rebalance(broker: RunningBroker) -> None:
    """Killed while one waits for the other: the generation before is still there, and goes on."""
    first = RawMember(broker.port, "halfway")
    first.join()
    assert first.commit({PLACE: 7}) == {PLACE: NONE}
    second = newcomer(broker, "halfway")
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    broker.kill()
    broker.start()
    loaded(broker, "halfway")
    for member in (first, second):
        member.close()
        member.wire = KafkaWire(broker.port, timeout=30)
    # The newcomer never was in a stored generation: it is told, and joins anew.
    assert first.heartbeat() == NONE
    assert first.commit({PLACE: 8}) == {PLACE: NONE}
    assert second.ask_join().error == ErrorCode.UNKNOWN_MEMBER_ID
    second.close()
    second = newcomer(broker, "halfway")
    eventually(lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    answer = first.ask_join()
    first.take(answer)
    second.take(second.joined())
    assert first.generation == second.generation == 2
    # Killed again, between the two phases: the answers to the joins were given, nothing is stored.
    broker.kill()
    broker.start()
    loaded(broker, "halfway")
    for member in (first, second):
        member.close()
        member.wire = KafkaWire(broker.port, timeout=30)
    assert first.sync(answer) == ErrorCode.ILLEGAL_GENERATION
    assert second.sync() == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(first.wire, "halfway") == {PLACE: 8}
    second.member_id = ""
    first.send_join()
    first.take(first.joined())
    assert first.generation == 2
    for member in (first, second):
        member.close()


@pytest.mark.slow
def test_a_static_member_returns_after_a_restart_of_both(broker: RunningBroker) -> None:
    """Broker and member are killed; the member finds its place without a rebalance."""
    member = RawMember(broker.port, "lasting", group_instance_id="one")
    other = RawMember(broker.port, "lasting", group_instance_id="two")
    member.join()
    other.send_join()
    eventually(lambda: member.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS)
    answer = member.ask_join()
    member.take(answer)
    other.take(other.joined())
    assert member.sync(answer) == other.sync() == NONE
    broker.kill()
    broker.start()
    loaded(broker, "lasting")
    for each in (member, other):
        each.close()
        each.wire = KafkaWire(broker.port, timeout=30)
    reborn = RawMember(broker.port, "lasting", group_instance_id="two")
    reborn.take(reborn.ask_join())
    assert reborn.generation == other.generation
    assert reborn.sync() == reborn.heartbeat() == member.heartbeat() == NONE
    assert other.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    # And the new id is what is stored.
    broker.kill()
    broker.start()
    loaded(broker, "lasting")
    reborn.close()
    reborn.wire = KafkaWire(broker.port)
    assert reborn.heartbeat() == NONE
    for each in (member, other, reborn):
        each.close()


def test_offsets_of_a_deleted_topic_do_not_come_back(broker: RunningBroker) -> None:
    """Deleted and made again, also across a kill, with a member that holds on to the old one."""
    with Admin(broker.address) as admin:
        admin.create_topic("again", partitions=2)
        member = RawMember(broker.port, "reader")
        member.join()
        place, other = ("again", 0), ("again", 1)
        assert member.commit({place: 5, other: 6, PLACE: 1})[place] == NONE
        admin.delete_topic("again")
        assert member.commit({place: 6}) == {place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert committed(member.wire, "reader") == {PLACE: 1}
        admin.create_topic("again", partitions=1)
    assert committed(member.wire, "reader") == {PLACE: 1}
    broker.kill()
    broker.start()
    loaded(broker, "reader")
    with KafkaWire(broker.port) as wire:
        assert committed(wire, "reader") == {PLACE: 1}
    member.close()


def test_a_group_with_members_is_not_deleted(broker: RunningBroker) -> None:
    """DeleteGroups and OffsetDelete while members are there, and afterwards."""
    member = RawMember(broker.port, "working")
    member.join()
    member.commit({PLACE: 1})
    with KafkaWire(broker.port) as wire:

        def deletion() -> list[int]:
            request = api.DeleteGroupsRequest(["working", "ghost"])
            answer = wire.ask(request, 2, api.DeleteGroupsResponse)
            return [each.error for each in answer.groups]

        def offset_deletion() -> tuple[int, list[int]]:
            request = api.OffsetDeleteRequest("working", [("kept", 0)])
            answer = wire.ask(request, 0, api.OffsetDeleteResponse)
            return answer.error, [each.error for each in answer.partitions]

        assert deletion() == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        # What it subscribed to nobody can read, so it may be everything.
        assert offset_deletion() == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
        assert committed(wire, "working") == {PLACE: 1}
        assert member.heartbeat() == NONE
        assert member.leave() == NONE
        assert offset_deletion() == (0, [0])
        assert committed(wire, "working") == {}
        assert deletion() == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert deletion() == [ErrorCode.GROUP_ID_NOT_FOUND] * 2
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    member.close()
