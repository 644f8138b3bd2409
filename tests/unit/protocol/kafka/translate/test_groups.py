"""Membership, offsets and administration of groups: what old versions say differently."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages import find_coordinator
from seglog.protocol.kafka.messages import group_membership as wire
from seglog.protocol.kafka.schema import NOT_REQUESTED
from seglog.protocol.kafka.translate import group_admin, membership
from support.kafka_messages import read_request, written_response

TOPIC_ID = bytes(range(16))


def join_request(rebalance_timeout_ms: int) -> wire.JoinGroupRequest:
    return wire.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id="",
        protocol_type="consumer",
        protocols=[wire.JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


def test_old_member_has_no_time_to_rebalance() -> None:
    """Version 0 has one timeout for both."""
    request = membership.read_join(join_request(-1), 0)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (6000, 6000)
    assert membership.read_join(join_request(9000), 1).rebalance_timeout_ms == 9000
    assert request.protocols == [("range", b"m")]


def test_old_member_is_sent_back_for_a_member_id() -> None:
    """MEMBER_ID_REQUIRED exists from version 4, skip_assignment from version 9 on."""
    for version in range(10):
        request = membership.read_join(join_request(1), version)
        assert request.knows_member_id_required == (version >= 4)
        assert request.knows_skip_assignment == (version >= 9)


def test_failed_join_cannot_be_written_in_old_versions() -> None:
    """There is no protocol yet, and null came with version 7."""
    response = api.JoinGroupResponse("m", ErrorCode.MEMBER_ID_REQUIRED, skip_assignment=True)
    for version in range(10):
        message = membership.write_join(response, version)
        codec.encode(message, version)
        assert message.protocol_name == ("" if version < 7 else None)
        assert message.skip_assignment == (version >= 9)


def test_single_and_batched_coordinators_are_mixed_up() -> None:
    """One key up to version 3, a list from version 4 on."""
    for version in range(4):
        single = find_coordinator.FindCoordinatorRequest(
            key="g", key_type=min(version, 1), coordinator_keys=[]
        )
        request = membership.read_find_coordinator(single, version)
        assert request.keys == ["g"]
        assert request.key_type == (
            api.CoordinatorType.TRANSACTION if version else api.CoordinatorType.GROUP
        )
    batch = find_coordinator.FindCoordinatorRequest(key="", key_type=9, coordinator_keys=["a", "b"])
    assert membership.read_find_coordinator(batch, 4) == api.FindCoordinatorRequest(["a", "b"], 9)
    response = api.FindCoordinatorResponse(
        [api.Coordinator("g", error=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="wait")]
    )
    for version in range(7):
        message = membership.write_find_coordinator(response, version)
        codec.encode(message, version)
        error = message.error_code if version < 4 else message.coordinators[0].error_code
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_leaving_member_of_an_old_client_is_lost() -> None:
    """One member up to version 2, whose error is that of the request."""
    old = wire.LeaveGroupRequest(group_id="g", member_id="m", members=[])
    assert membership.read_leave(old, 2) == api.LeaveGroupRequest("g", [api.LeavingMember("m")])
    response = api.LeaveGroupResponse(
        [api.LeaveGroupResult("m", error=ErrorCode.UNKNOWN_MEMBER_ID)]
    )
    for version in range(6):
        message = membership.write_leave(response, version)
        codec.encode(message, version)
        assert message.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if version < 3 else 0)
    refused = api.LeaveGroupResponse([], ErrorCode.NOT_COORDINATOR)
    assert membership.write_leave(refused, 1).error_code == ErrorCode.NOT_COORDINATOR


def test_assignments_of_the_leader_are_lost() -> None:
    """By member."""
    message = wire.SyncGroupRequest(
        group_id="g",
        generation_id=2,
        member_id="leader",
        assignments=[
            wire.SyncGroupRequestAssignment(member_id=name, assignment=name.encode())
            for name in ("a", "b")
        ],
    )
    assert membership.read_sync(message, 5).assignments == {"a": b"a", "b": b"b"}


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, 8, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.GROUP_ID_NOT_FOUND, 9, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.STALE_MEMBER_EPOCH, 8, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.UNKNOWN_TOPIC_ID, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_committing_client_gets_an_error_it_does_not_know(
    error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    """The errors that came with versions 9 and 10."""
    response = api.OffsetCommitResponse([api.OffsetCommitResult("t", 0, error)])
    message = written_response(ApiKey.OFFSET_COMMIT, response, version)
    assert message.topics[0].partitions[0].error_code == expected


def test_all_offsets_become_no_offsets() -> None:
    """Null topics, in both forms of the request."""
    old = read_request(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None)
    assert old.groups == [api.OffsetFetchGroup("g", None)]
    none = read_request(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[])
    assert none.groups == [api.OffsetFetchGroup("g", [])]
    topic = {"topic_id": TOPIC_ID, "partition_indexes": [1, 2]}
    new = read_request(
        ApiKey.OFFSET_FETCH,
        10,
        groups=[
            {"group_id": "g", "topics": None},
            {"group_id": "h", "member_id": "m", "member_epoch": 4, "topics": [topic]},
        ],
        require_stable=True,
    )
    partitions = [api.OffsetFetchPartition("", index, TOPIC_ID) for index in (1, 2)]
    assert new == api.OffsetFetchRequest(
        [api.OffsetFetchGroup("g", None), api.OffsetFetchGroup("h", partitions, "m", 4)], True
    )


def test_error_of_a_group_is_lost_in_version_1() -> None:
    """It has no place but the partitions."""
    group = api.OffsetFetchGroupResult(
        "g", [api.OffsetFetchResult("t", 3)], ErrorCode.NOT_COORDINATOR
    )
    response = api.OffsetFetchResponse([group])
    for version in range(1, 11):
        message = written_response(ApiKey.OFFSET_FETCH, response, version)
        if version >= 8:
            assert message.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            partition = message.topics[0].partitions[0]
            assert partition.error_code == (ErrorCode.NOT_COORDINATOR if version == 1 else 0)
            assert message.error_code == (0 if version == 1 else ErrorCode.NOT_COORDINATOR)


def test_unknown_group_is_an_error_for_old_tools() -> None:
    """Version 6 has an error and a message, before there is only the state "Dead"."""
    response = api.DescribeGroupsResponse(
        [
            api.GroupDescription(
                "g", ErrorCode.GROUP_ID_NOT_FOUND, "no such group", "Dead", authorized_operations=8
            )
        ]
    )
    for version in range(7):
        message = group_admin.write_describe(response, version)
        codec.encode(message, version)
        group = message.groups[0]
        assert group.group_state == "Dead"
        assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else 0)
        assert group.error_message == ("no such group" if version == 6 else None)
        assert group.authorized_operations == (8 if version >= 3 else NOT_REQUESTED)
