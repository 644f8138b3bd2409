"""Groups through requests: who waits, what is stored, deadlines, restarts (C059, C063)."""

import asyncio
from pathlib import Path

import pytest

from seglog.broker.coordinator.groups.coordinator import GROUP_TIMER, client_host
from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC
from seglog.broker.coordinator.internal_topics.topic import partition_of_key
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.protocol.api import (
    CreatePartitionsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    NewPartitions,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from seglog.protocol.errors import ErrorCode
from support.broker_parts import CONTEXT
from support.failing_disk import FailingDisk
from support.group_broker import GroupBroker, join_request, subscription


async def test_a_group_of_one_needs_more_than_four_requests(broker: GroupBroker) -> None:
    """The first record of a fresh group has to arrive within a second."""
    joined = await broker.only_member()
    assert (joined.generation_id, joined.leader_id) == (1, joined.member_id)
    description = await broker.describe()
    assert (description.state, description.protocol_name) == ("Stable", "range")
    (member,) = description.members
    assert (member.client_id, member.client_host) == ("test-client", "/127.0.0.1")
    assert (member.metadata, member.assignment) == (subscription("t"), b"all")


async def test_two_members_never_come_together(broker: GroupBroker) -> None:
    first = await broker.only_member()
    second_id, second_joining = await broker.begin_join()
    assert await broker.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    first = await broker.ask(join_request(first.member_id))
    second = await second_joining
    assert first.generation_id == second.generation_id == 2
    assert [each.member_id for each in first.members] == [first.member_id, second_id]
    follower = asyncio.ensure_future(broker.sync(second))
    await asyncio.sleep(0)
    assert not follower.done()
    synced = await broker.sync(first, {first.member_id: b"1", second_id: b"2"})
    assert (synced.assignment, (await follower).assignment) == (b"1", b"2")


async def test_a_group_may_be_larger_than_a_message_of_a_client(broker: GroupBroker) -> None:
    """U6: 40 members with 30 KB each are more than max.message.bytes, and rebalanced for ever."""
    joined = await broker.only_member(metadata=subscription("t") + bytes(1_000_000))
    assignment = bytes(2_000_000)
    rejoined = await broker.ask(join_request(joined.member_id, metadata=subscription("u")))
    synced = await broker.sync(rejoined, {joined.member_id: assignment})
    assert (synced.error, synced.assignment) == (ErrorCode.NONE, assignment)
    broker = await broker.restarted(clean=True)
    assert (await broker.describe()).members[0].assignment == assignment


async def test_a_restart_costs_a_rebalance(broker: GroupBroker) -> None:
    """C063: after a stop or a kill the members go on in the generation that they know."""
    joined = await broker.only_member()
    for clean in (True, False):
        broker = await broker.restarted(clean=clean)
        assert await broker.heartbeat(joined) is ErrorCode.NONE
        synced = await broker.sync(joined)
        assert synced.assignment == b"all"
        assert (await broker.describe()).members[0].client_host == "/127.0.0.1"
    await broker.advance(10_000)
    assert (await broker.describe()).state == "Empty"
    broker = await broker.restarted()
    assert (await broker.describe()).state == "Empty"
    assert (await broker.only_member()).generation_id == 3
    await broker.stop()


async def test_a_member_that_died_with_the_broker_lives_for_ever(broker: GroupBroker) -> None:
    """The session of a restored member runs from the start on."""
    await broker.only_member(session_ms=6000)
    broker = await broker.restarted(clean=False)
    await broker.advance(5999)
    assert (await broker.describe()).state == "Stable"
    await broker.advance(1)
    assert (await broker.describe()).state == "Empty"
    await broker.stop()


async def test_a_group_is_answered_before_it_was_read(tmp_path: Path, broker: GroupBroker) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS: clients retry, and find what was stored."""
    joined = await broker.only_member()
    await broker.commit({("t", 0): 5}, member=joined)
    await broker.stop()
    broker = await GroupBroker.start(tmp_path, log_dir=broker.parts.log_dir)
    handle = broker.parts.handlers.handle
    heartbeat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    commit = OffsetCommitRequest("g", [OffsetCommitPartition("t", 0, 1)])
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    # Nothing below gives the loader a turn.
    # Clients do not expect the truth in these two; aiokafka's consumer ends over it.
    assert handle(heartbeat, CONTEXT).error is ErrorCode.NONE
    sync = SyncGroupRequest("g", joined.generation_id, joined.member_id)
    assert handle(sync, CONTEXT).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert handle(commit, CONTEXT).partitions[0].error is loading
    assert handle(OffsetFetchRequest([OffsetFetchGroup("g")]), CONTEXT).groups[0].error is loading
    assert handle(join_request(), CONTEXT).error is loading
    assert handle(ListGroupsRequest(), CONTEXT).error is loading
    assert handle(DescribeGroupsRequest(["g"]), CONTEXT).groups[0].error is loading
    assert handle(DeleteGroupsRequest(["g"]), CONTEXT).groups[0].error is loading
    # A group whose partition has no records does not have to wait.
    other = next(f"g{n}" for n in range(9) if partition_of_key(f"g{n}", 4) != 3)
    assert partition_of_key("g", 4) == 3
    described = handle(DescribeGroupsRequest([other]), CONTEXT).groups[0]
    assert described.error is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.coordination.groups.loaded()
    assert await broker.heartbeat(joined) is ErrorCode.NONE
    assert await broker.committed() == {("t", 0): 5}
    await broker.stop()


async def test_a_session_outside_of_the_bounds_is_accepted(broker: GroupBroker) -> None:
    for session_ms in (9, 1_800_001, 0, -1, 2**31 - 1):
        answer = await broker.ask(join_request(session_ms=session_ms))
        assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert not len(broker.coordination.groups)


@pytest.mark.parametrize("group", ["", "g" * 40_000])
async def test_a_group_has_no_name_or_one_that_no_record_can_hold(
    broker: GroupBroker, group: str
) -> None:
    for request in (
        join_request(group=group),
        SyncGroupRequest(group, 1, "m"),
        HeartbeatRequest(group, 1, "m"),
        LeaveGroupRequest(group, [LeavingMember("m")]),
    ):
        assert (await broker.ask(request)).error is ErrorCode.INVALID_GROUP_ID


async def test_a_refused_join_leaves_a_group_behind(broker: GroupBroker) -> None:
    assert (await broker.ask(join_request("m-1"))).error is ErrorCode.UNKNOWN_MEMBER_ID
    refused = await broker.ask(join_request(protocols=[]))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not len(broker.coordination.groups)


async def test_clients_that_never_join_fill_the_memory(broker: GroupBroker) -> None:
    """An id that was given out and never used goes, and the group of nobody with it."""
    for number in range(5):
        await broker.new_member_id(f"g{number}")
    await broker.advance(10_000)
    assert not len(broker.coordination.groups)
    assert not broker.scheduler.tasks(GROUP_TIMER)


async def test_a_group_has_many_timers(broker: GroupBroker) -> None:
    joined = await broker.only_member()
    for _ in range(10):
        await broker.advance(1000)
        assert await broker.heartbeat(joined) is ErrorCode.NONE
    assert len(broker.scheduler.tasks(GROUP_TIMER)) == 1


async def test_a_client_that_hung_up_is_waited_for(broker: GroupBroker) -> None:
    """Its join is no longer answered; if it does not come back its session ends it."""
    first = await broker.only_member(session_ms=6000)
    _, joining = await broker.begin_join(session_ms=6000)
    joining.cancel()
    await asyncio.sleep(0)
    again = broker.begin(join_request(first.member_id, session_ms=6000))
    await broker.advance(5999)
    assert not again.done()
    await broker.advance(1)
    answer = again.result()
    assert [each.member_id for each in answer.members] == [first.member_id]


async def test_leaving_waits_for_the_others(broker: GroupBroker) -> None:
    """LeaveGroup answers at once, each member with its own result; below version 3 the only one."""
    joined = await broker.only_member()
    assert await broker.leave("stranger", joined.member_id) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert await broker.leave("m", group="unknown") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (await broker.describe()).state == "Empty"


async def test_a_group_with_members_is_deleted(broker: GroupBroker) -> None:
    """NON_EMPTY_GROUP; an empty one goes with its offsets, also after a restart."""
    joined = await broker.only_member()
    await broker.commit({("t", 0): 5}, member=joined)

    async def delete(*groups: str) -> list[ErrorCode]:
        response = await broker.ask(DeleteGroupsRequest(list(groups)))
        return [result.error for result in response.groups]

    assert await delete("g", "h") == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    await broker.leave(joined.member_id)
    assert await delete("g") == [ErrorCode.NONE]
    assert await broker.committed() == {}
    broker = await broker.restarted(clean=False)
    assert (await broker.describe()).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert await broker.committed() == {}
    await broker.stop()


async def test_who_waits_keeps_the_broker_from_stopping(broker: GroupBroker) -> None:
    """Before connections are closed everyone who waits is answered, and nobody may wait again."""
    joined = await broker.only_member()
    _, joining = await broker.begin_join()
    broker.coordination.send_away()
    assert joining.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = await broker.ask(join_request(joined.member_id))
    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await broker.commit({("t", 0): 4}, member=joined) == [ErrorCode.NONE]
    broker = await broker.restarted()
    assert await broker.committed() == {("t", 0): 4}
    assert (await broker.describe()).state == "Stable"
    await broker.stop()


async def test_assignments_are_given_out_although_the_disk_is_full(tmp_path: Path) -> None:
    """The members are told to try again, and do so in peace once there is room."""
    disk = FailingDisk()
    broker = await GroupBroker.start(tmp_path, file_system=OsFileSystem(disk))
    await broker.parts.create_topic("t", 1)
    await broker.only_member("other")
    _, joining = await broker.begin_join()
    joined = await joining
    disk.full.add(OFFSETS_TOPIC)
    synced = await broker.sync(joined, {joined.member_id: b"x"})
    assert synced.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await broker.commit({("t", 0): 4}, group="h") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert await broker.committed(group="h") == {}
    disk.full.clear()
    again = await broker.ask(join_request(joined.member_id))
    assert (await broker.sync(again, {joined.member_id: b"x"})).assignment == b"x"
    await broker.stop()


async def test_the_internal_topic_is_made_before_anybody_needs_it(tmp_path: Path) -> None:
    """The start has to be quick, and what only asks must not create it."""
    broker = await GroupBroker.start(tmp_path, {"offsets.topic.num.partitions": "7"})
    catalog = broker.parts.services.catalog
    await broker.committed()
    await broker.committed([("t", 0)])
    await broker.describe()
    await broker.commit({("unknown", 0): 1})
    assert catalog.get(OFFSETS_TOPIC) is None
    await broker.parts.create_topic("t", 1)
    await broker.commit({("t", 0): 1})
    topic = catalog.get(OFFSETS_TOPIC)
    assert topic is not None
    assert topic.partition_count == 7
    assert topic.configs["cleanup.policy"] == "compact"
    await broker.stop()


async def test_groups_lose_their_offsets_with_the_internal_topic(broker: GroupBroker) -> None:
    """C043: it cannot be deleted, so members and offsets stay."""
    joined = await broker.only_member()
    await broker.commit({("t", 0): 5}, member=joined)
    (result,) = (await broker.ask(DeleteTopicsRequest([OFFSETS_TOPIC]))).topics
    assert result.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await broker.heartbeat(joined) is ErrorCode.NONE
    assert await broker.committed() == {("t", 0): 5}


async def test_groups_are_not_found_again_after_the_internal_topic_grew(
    broker: GroupBroker,
) -> None:
    """The number of its partitions decides where a group is stored, so it must not change."""
    await broker.commit({("t", 0): 5})
    (result,) = (
        await broker.ask(CreatePartitionsRequest([NewPartitions(OFFSETS_TOPIC, 9)]))
    ).topics
    assert result.error is ErrorCode.POLICY_VIOLATION
    topic = broker.parts.services.catalog.get(OFFSETS_TOPIC)
    assert topic is not None
    assert topic.partition_count == 4


def test_the_address_of_a_client_has_another_form_than_kafka_gives_it() -> None:
    assert client_host("127.0.0.1:50000") == "/127.0.0.1"
    assert client_host("[::1]:50000") == "/::1"
    assert client_host("") == "/"


async def test_a_member_gets_a_name_that_fits_into_no_field(broker: GroupBroker) -> None:
    """An id begins with the client's own words, which may be as long as a string can be."""
    talkative = CONTEXT._replace(client_id="c" * 1000)
    for options in ({}, {"instance": "i" * 32_767}):
        request = join_request(group="long", **options)
        joined = await broker.ask(request, talkative)
        assert len(joined.member_id.encode()) < 32_767
        await broker.leave(joined.member_id, group="long")
