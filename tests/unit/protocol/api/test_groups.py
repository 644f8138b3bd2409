"""Membership, offsets and administration of groups: what old versions say differently."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.schema import NOT_REQUESTED
from support.kafka_messages import read_request, written_response

TOPIC_ID = bytes(range(16))


def read_join(rebalance_timeout_ms: int, version: int) -> api.JoinGroupRequest:
    request: api.JoinGroupRequest = read_request(
        ApiKey.JOIN_GROUP,
        version,
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"m"}],
    )
    return request


def test_old_member_has_no_time_to_rebalance() -> None:
    """Version 0 has one timeout for both."""
    request = read_join(-1, 0)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (6000, 6000)
    assert read_join(9000, 1).rebalance_timeout_ms == 9000
    assert request.protocols == [("range", b"m")]


def test_old_member_is_sent_back_for_a_member_id() -> None:
    """MEMBER_ID_REQUIRED exists from version 4, skip_assignment from version 9 on."""
    for version in range(10):
        request = read_join(1, version)
        assert request.knows_member_id_required == (version >= 4)
        assert request.knows_skip_assignment == (version >= 9)


def test_failed_join_cannot_be_written_in_old_versions() -> None:
    """There is no protocol yet, and null came with version 7."""
    response = api.JoinGroupResponse("m", ErrorCode.MEMBER_ID_REQUIRED, skip_assignment=True)
    for version in range(10):
        message = written_response(ApiKey.JOIN_GROUP, response, version)
        assert message.protocol_name == ("" if version < 7 else None)
        assert message.skip_assignment == (version >= 9)


def test_single_and_batched_coordinators_are_mixed_up() -> None:
    """One key up to version 3, a list from version 4 on."""
    for version in range(4):
        asked = {"key": "g", "key_type": 1} if version else {"key": "g"}
        request = read_request(ApiKey.FIND_COORDINATOR, version, **asked)
        assert request.keys == ["g"]
        assert request.key_type == (
            api.CoordinatorType.TRANSACTION if version else api.CoordinatorType.GROUP
        )
    batch = read_request(ApiKey.FIND_COORDINATOR, 4, key_type=9, coordinator_keys=["a", "b"])
    assert batch == api.FindCoordinatorRequest(["a", "b"], 9)
    response = api.FindCoordinatorResponse(
        [api.Coordinator("g", error=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="wait")]
    )
    for version in range(7):
        message = written_response(ApiKey.FIND_COORDINATOR, response, version)
        error = message.error_code if version < 4 else message.coordinators[0].error_code
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_several_keys_are_refused_in_a_version_that_carries_one() -> None:
    """Versions 0 to 3: the client would wait for the others for ever."""
    codec.encode(api.FindCoordinatorRequest(["a"]), 3)
    with pytest.raises(ProtocolError, match=r"FindCoordinatorRequest\.key "):
        codec.encode(api.FindCoordinatorRequest(["a", "b"]), 3)


def test_leaving_member_of_an_old_client_is_lost() -> None:
    """One member up to version 2, whose error is that of the request."""
    old = read_request(ApiKey.LEAVE_GROUP, 2, group_id="g", member_id="m")
    assert old == api.LeaveGroupRequest("g", [api.LeavingMember("m")])
    response = api.LeaveGroupResponse(
        [api.LeaveGroupResult("m", error=ErrorCode.UNKNOWN_MEMBER_ID)]
    )
    for version in range(6):
        message = written_response(ApiKey.LEAVE_GROUP, response, version)
        assert message.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if version < 3 else 0)
    refused = api.LeaveGroupResponse([], ErrorCode.NOT_COORDINATOR)
    message = written_response(ApiKey.LEAVE_GROUP, refused, 1)
    assert message.error_code == ErrorCode.NOT_COORDINATOR


def test_assignments_of_the_leader_are_lost() -> None:
    """By member."""
    shares = [{"member_id": name, "assignment": name.encode()} for name in ("a", "b")]
    request = read_request(
        ApiKey.SYNC_GROUP,
        5,
        group_id="g",
        generation_id=2,
        member_id="leader",
        assignments=shares,
    )
    assert request.assignments == {"a": b"a", "b": b"b"}
    assert (request.protocol_type, request.protocol_name) == ("", "")


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
        message = written_response(ApiKey.DESCRIBE_GROUPS, response, version)
        group = message.groups[0]
        assert group.group_state == "Dead"
        assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else 0)
        assert group.error_message == ("no such group" if version == 6 else None)
        assert group.authorized_operations == (8 if version >= 3 else NOT_REQUESTED)
