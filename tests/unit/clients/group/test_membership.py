"""A member and the answers of its coordinator that do not come every day."""

import asyncio

import pytest

from seglog.clients import AsyncAdmin, AsyncConsumer, AsyncProducer, CommitFailedError
from seglog.clients.errors import (
    AuthorizationError,
    ClientError,
    FencedInstanceIdError,
    OffsetCommitError,
    RebalanceInProgressError,
)
from seglog.clients.group.wire import decode_assignment
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from support.fake_broker import HANG_UP
from support.fake_group import FakeGroup

FAST = {
    "group": "g",
    "heartbeat_interval_ms": 60,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "fetch_max_wait_ms": 20,
}
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
MOVED = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
async def group(broker):
    """A group, and a topic with two partitions and four records."""
    broker.create("topic", 2)
    async with AsyncProducer(broker.address) as producer:
        for number in range(4):
            await producer.send("topic", b"%d" % number, partition=number % 2)
    return FakeGroup(broker)


async def read(consumer, count):
    records = []
    async with asyncio.timeout(5):
        while len(records) < count:
            records += await consumer.read(timeout=0.05)
    return sorted(int(record.value) for record in records)


async def until(consumer, condition):
    async with asyncio.timeout(5):
        while not condition():
            await consumer.read(timeout=0.02)


def joins(broker):
    return broker.requests_of(api.JoinGroupRequest)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (api.FindCoordinatorRequest, HANG_UP),
        (api.JoinGroupRequest, HANG_UP),
        (api.SyncGroupRequest, HANG_UP),
        (api.OffsetFetchRequest, HANG_UP),
        (
            api.FindCoordinatorRequest,
            api.FindCoordinatorResponse(
                [api.Coordinator("g", error=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
            ),
        ),
        *((api.JoinGroupRequest, api.JoinGroupResponse("m1", code)) for code in (MOVED, LOADING)),
        *((api.JoinGroupRequest, api.JoinGroupResponse("", code)) for code in (UNKNOWN, REBALANCE)),
        *(
            (api.SyncGroupRequest, api.SyncGroupResponse(code))
            for code in (MOVED, REBALANCE, ILLEGAL, UNKNOWN)
        ),
        *(
            (
                api.OffsetFetchRequest,
                api.OffsetFetchResponse([api.OffsetFetchGroupResult("g", [], code)]),
            )
            for code in (MOVED, LOADING)
        ),
        (
            api.OffsetFetchRequest,
            api.OffsetFetchResponse(
                [
                    api.OffsetFetchGroupResult(
                        "g",
                        [api.OffsetFetchResult("topic", 0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)],
                    )
                ]
            ),
        ),
    ],
)
async def test_what_passes_is_waited_out(broker, group, kind, answer):
    group.refuse(kind, answer, answer)
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        assert await read(consumer, 4) == [0, 1, 2, 3]
    assert not group.refusals[kind]


@pytest.mark.parametrize("code", [UNKNOWN, ILLEGAL])
async def test_a_member_that_was_forgotten_joins_again(broker, group, code):
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        await read(consumer, 4)
        await consumer.commit()
        generation = group.generation
        group.heartbeat = code
        await until(consumer, lambda: group.generation > generation and consumer.assignment)
        assert joins(broker)[-1].member_id == "m1"
        assert (joins(broker)[-2].member_id == "") is (code is UNKNOWN)
        assert await consumer.read(timeout=0.1) == []


async def test_a_coordinator_that_moved_is_looked_for(broker, group):
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        await read(consumer, 4)
        before = len(broker.requests_of(api.FindCoordinatorRequest))
        group.heartbeat = MOVED
        await until(consumer, lambda: len(broker.requests_of(api.FindCoordinatorRequest)) > before)
        group.heartbeat = ErrorCode.NONE
        await consumer.commit()
    assert group.generation == 1


async def test_a_rebalance_of_others_is_taken_part_in(broker, group):
    async with AsyncConsumer(broker.address, "topic", auto_commit=False, **FAST) as consumer:
        assert await read(consumer, 4) == [0, 1, 2, 3]
        await consumer.commit({("topic", 0): 1, ("topic", 1): 2})
        group.heartbeat = REBALANCE
        assert await read(consumer, 1) == [2]
        assert group.generation == 2


@pytest.mark.parametrize(
    ("kind", "answer", "error"),
    [
        (
            api.JoinGroupRequest,
            api.JoinGroupResponse("", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            AuthorizationError,
        ),
        (
            api.HeartbeatRequest,
            api.HeartbeatResponse(ErrorCode.FENCED_INSTANCE_ID),
            FencedInstanceIdError,
        ),
        (api.SyncGroupRequest, api.SyncGroupResponse(assignment=b"\x00\x00\xff"), ClientError),
    ],
)
async def test_what_does_not_pass_is_raised_where_the_application_reads(
    broker, group, kind, answer, error
):
    group.refuse(kind, answer)
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        with pytest.raises(error):
            await until(consumer, lambda: False)
        with pytest.raises(error):
            await consumer.read(timeout=0.05)
        with pytest.raises(error):
            await consumer.commit({("topic", 0): 1})


@pytest.mark.parametrize("code", [REBALANCE, LOADING, MOVED])
async def test_a_commit_during_a_rebalance_is_tried_again(broker, group, code):
    async with AsyncConsumer(broker.address, "topic", auto_commit=False, **FAST) as consumer:
        await read(consumer, 4)
        refusal = api.OffsetCommitResponse(
            [api.OffsetCommitResult("topic", number, code) for number in range(2)]
        )
        group.refuse(api.OffsetCommitRequest, refusal, HANG_UP, refusal)
        await consumer.commit()
        assert group.offsets["topic", 1].offset == 2
        group.refuse(api.OffsetCommitRequest, *[refusal] * 500)
        if code is REBALANCE:
            with pytest.raises(RebalanceInProgressError):
                await consumer.commit(timeout=0.05)


@pytest.mark.parametrize("code", [UNKNOWN, ILLEGAL])
async def test_a_commit_that_comes_too_late_says_why_and_makes_the_member_join_again(
    broker, group, code
):
    async with AsyncConsumer(broker.address, "topic", auto_commit=False, **FAST) as consumer:
        await read(consumer, 4)
        refusal = api.OffsetCommitResponse([api.OffsetCommitResult("topic", 0, code)])
        group.refuse(api.OffsetCommitRequest, refusal)
        with pytest.raises(CommitFailedError, match=code.name):
            await consumer.commit({("topic", 0): 1})
        await until(consumer, lambda: group.generation == 2 and consumer.assignment)
        await consumer.commit({("topic", 0): 1})


async def test_an_answer_that_leaves_partitions_out_is_an_error(broker, group):
    async with AsyncConsumer(broker.address, "topic", auto_commit=False, **FAST) as consumer:
        await read(consumer, 4)
        group.refuse(api.OffsetCommitRequest, api.OffsetCommitResponse([]))
        with pytest.raises(ClientError, match="no answer about"):
            await consumer.commit()


async def test_a_member_with_unreadable_wishes_gets_nothing(broker, group):
    """And does not keep the others from reading."""
    group.others = [api.JoinedMember("odd", None, b"\xff")]
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        assert await read(consumer, 4) == [0, 1, 2, 3]
    assert decode_assignment(group.given_to_others["odd"]) == []


async def test_a_dynamic_member_says_goodbye_and_a_static_one_does_not(broker, group):
    async with AsyncConsumer(broker.address, "topic", **FAST) as consumer:
        await read(consumer, 4)
    (goodbye,) = broker.requests_of(api.LeaveGroupRequest)
    assert [each.member_id for each in goodbye.members] == ["m1"]
    async with AsyncConsumer(broker.address, "topic", group_instance_id="i", **FAST) as consumer:
        await until(consumer, lambda: len(consumer.assignment) == 2)
    assert len(broker.requests_of(api.LeaveGroupRequest)) == 1


async def test_a_quiet_application_keeps_its_membership_while_it_waits(broker, group):
    """Waiting for records is no idleness, however long none come."""
    options = {**FAST, "max_poll_interval_ms": 200}
    async with AsyncConsumer(broker.address, "topic", start="latest", **options) as consumer:
        await consumer.read(timeout=0.7)
        assert group.generation == 1
        await asyncio.sleep(0.5)
        await until(consumer, lambda: group.generation == 2)
    assert len(broker.requests_of(api.LeaveGroupRequest)) == 2


async def test_only_changed_offsets_are_committed_by_themselves(broker, group):
    options = {**FAST, "auto_commit_interval_ms": 20}
    async with AsyncConsumer(broker.address, "topic", **options) as consumer:
        await read(consumer, 4)
        await until(consumer, lambda: len(group.commits) > 0)
        before = len(group.commits)
        await asyncio.sleep(0.1)
        await consumer.read(timeout=0.05)
        assert len(group.commits) <= before + 1
    stored = {place: each.offset for place, each in group.offsets.items()}
    assert stored == {("topic", 0): 2, ("topic", 1): 2}
    assert {request.generation_id for request in group.commits} == {1}


async def test_the_record_under_work_is_not_committed_by_itself(broker, group):
    """Records that come singly are done with when the next one is asked for."""
    options = {**FAST, "auto_commit_interval_ms": 20}
    async with AsyncConsumer(broker.address, "topic", **options) as consumer:
        given = []
        async for record in consumer:
            await asyncio.sleep(0.08)
            for place, stored in group.offsets.items():
                assert stored.offset <= sum(each.partition == place[1] for each in given)
            given.append(record)
            if len(given) == 4:
                break


async def test_tools_speak_of_groups_with_odd_members(broker, group):
    description = api.GroupDescription(
        "g",
        state="Stable",
        protocol_type="consumer",
        protocol_name="range",
        members=[api.GroupMemberDescription("m", None, "c", "/h", b"\xff\xff", b"\x01")],
    )
    broker.script = lambda request: (
        api.DescribeGroupsResponse([description])
        if isinstance(request, api.DescribeGroupsRequest)
        else group.answer(request)
    )
    async with AsyncAdmin(broker.address) as admin:
        (member,) = (await admin.describe_groups(["g"]))["g"].members
        assert (member.client_id, member.topics, member.partitions) == ("c", frozenset(), ())
        refusal = api.OffsetCommitResponse(
            [
                api.OffsetCommitResult("topic", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
                api.OffsetCommitResult("topic", 1),
            ]
        )
        group.refuse(api.OffsetCommitRequest, refusal)
        with pytest.raises(OffsetCommitError, match="1 of 2"):
            await admin.alter_group_offsets("g", {("topic", 0): 1, ("topic", 1): 1})
