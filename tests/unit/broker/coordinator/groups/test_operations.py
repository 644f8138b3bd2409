"""Finding coordinators, and what tools ask about groups."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from seglog.broker.requests.permissions import ALL_GROUP_OPERATIONS
from seglog.protocol.api import (
    CoordinatorType,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    OffsetFetchGroup,
    OffsetFetchPartition,
    OffsetFetchRequest,
)
from seglog.protocol.errors import ErrorCode
from support.group_broker import GroupBroker


@pytest.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    """One stable group "g", one of offsets only, "o", and one that lost its member, "e"."""
    broker = await GroupBroker.start(tmp_path)
    await broker.parts.create_topic("t", 1)
    await broker.commit({("t", 0): 1}, group="o")
    gone = await broker.only_member("e")
    await broker.leave(gone.member_id, group="e")
    await broker.only_member("g")
    yield broker
    await broker.stop()


async def listed(broker: GroupBroker, **filters: list[str]) -> list[str]:
    response = await broker.ask(ListGroupsRequest(**filters))
    assert response.error is ErrorCode.NONE
    return [group.group_id for group in response.groups]


@pytest.mark.parametrize("kind", [CoordinatorType.GROUP, CoordinatorType.TRANSACTION])
async def test_the_coordinator_is_elsewhere(groups: GroupBroker, kind: CoordinatorType) -> None:
    """Every key is here, where the listener that was asked is reached."""
    response = await groups.ask(FindCoordinatorRequest(["a", "b"], kind))
    assert [(each.key, each.host, each.port) for each in response.coordinators] == [
        ("a", "broker.example", 19092),
        ("b", "broker.example", 19092),
    ]


@pytest.mark.parametrize("kind", [CoordinatorType.SHARE, 7])
async def test_a_coordinator_is_named_that_there_is_not(groups: GroupBroker, kind: int) -> None:
    response = await groups.ask(FindCoordinatorRequest(["a"], kind))
    assert response.coordinators[0].error is ErrorCode.INVALID_REQUEST
    assert response.coordinators[0].node_id == -1


async def test_a_filter_of_groups_is_ignored(groups: GroupBroker) -> None:
    """States and types, whatever their case; unknown ones match nothing."""
    assert await listed(groups) == ["e", "g", "o"]
    assert await listed(groups, states=["stable"]) == ["g"]
    assert await listed(groups, states=["Empty", "Stable"]) == ["e", "g", "o"]
    assert await listed(groups, states=["Bogus"]) == []
    assert await listed(groups, types=["Classic"]) == ["e", "g", "o"]
    assert await listed(groups, types=["consumer"]) == []
    response = await groups.ask(ListGroupsRequest())
    assert [(each.protocol_type, each.state, each.group_type) for each in response.groups] == [
        ("consumer", "Empty", "classic"),
        ("consumer", "Stable", "classic"),
        ("", "Empty", "classic"),
    ]


async def test_an_unknown_group_is_described_as_empty(groups: GroupBroker) -> None:
    request = DescribeGroupsRequest(["nobody", "o"], include_authorized_operations=True)
    unknown, known = (await groups.ask(request)).groups
    assert (unknown.error, unknown.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert unknown.error_message
    assert (known.error, known.state) == (ErrorCode.NONE, "Empty")
    assert known.authorized_operations == ALL_GROUP_OPERATIONS == 0b101001000


async def test_assignments_of_a_moving_group_are_shown(groups: GroupBroker) -> None:
    """Between two generations nobody can say who has what."""
    stable = await groups.describe("g")
    assert (stable.protocol_name, stable.members[0].assignment) == ("range", b"all")
    await groups.begin_join("g")
    moving = await groups.describe("g")
    assert (moving.state, moving.protocol_name) == ("PreparingRebalance", "")
    assert [member.assignment for member in moving.members] == [b"", b""]


async def test_a_group_named_again_and_again_is_described_as_often(groups: GroupBroker) -> None:
    """C034: members and offsets of large groups are many times larger than the name."""
    described = await groups.ask(DescribeGroupsRequest(["g", "o", "g"] * 1000))
    assert [each.group_id for each in described.groups] == ["g", "o"]
    one = OffsetFetchGroup("o", [OffsetFetchPartition("t", 0)])
    asked = [one, *(OffsetFetchGroup(name) for name in ["o", "g"] * 1000)]
    fetched = (await groups.ask(OffsetFetchRequest(asked))).groups
    assert [(each.group_id, len(each.partitions)) for each in fetched] == [
        ("o", 1),
        ("o", 1),
        ("g", 0),
    ]


async def test_a_group_that_is_named_twice_is_deleted_once(groups: GroupBroker) -> None:
    (deleted,) = (await groups.ask(DeleteGroupsRequest(["o", "o"]))).groups
    assert (deleted.group_id, deleted.error) == ("o", ErrorCode.NONE)
    assert "o" not in await listed(groups)


async def test_many_groups_go_in_one_turn_of_the_loop(groups: GroupBroker) -> None:
    """Each is a write: the heartbeats of others come in between, and nothing is forgotten."""
    names = [f"n{number:03}" for number in range(250)]
    for name in names:
        await groups.commit({("t", 0): 1}, group=name)
    deletion = groups.begin(DeleteGroupsRequest([*names, "nobody"]))
    assert not deletion.done()
    assert await listed(groups) == ["e", "g", *names[100:], "o"]
    *deleted, unknown = (await deletion).groups
    assert [each.group_id for each in deleted] == names
    assert {each.error for each in deleted} == {ErrorCode.NONE}
    assert unknown.error is ErrorCode.GROUP_ID_NOT_FOUND
    for name in names:
        await groups.commit({("t", 0): 1}, group=name)
    await groups.parts.delete_topic("t")
    assert await listed(groups) == ["e", "g", *names, "o"]
    asked = [OffsetFetchGroup(name) for name in names]
    fetched = (await groups.ask(OffsetFetchRequest(asked))).groups
    assert not any(each.partitions for each in fetched)
