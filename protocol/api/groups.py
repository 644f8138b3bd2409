"""Consumer groups: membership, and what tools ask about groups.

The metadata of a member and its assignment are opaque bytes: clients agree on their content.
"""

from enum import IntEnum
from typing import Any, ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    binary,
    boolean,
    error_code,
    int32,
    kafka_only,
    mapping,
    number_of,
    since,
    string,
)
from seglog.protocol.declaration.keys import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ApiKey
from seglog.protocol.declaration.layout import row, variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode

_FIRST_SYNC_WITH_PROTOCOL: Final = 5
_FIRST_WITH_LEAVING_LIST: Final = 3
_NO_REBALANCE_TIMEOUT: Final = -1
_DESCRIBE_ERRORS: Final = {
    # Before, the state "Dead" was all that was said about a group that does not exist.
    ErrorCode.GROUP_ID_NOT_FOUND: (6, ErrorCode.NONE),
}


class CoordinatorType(IntEnum):
    """What a coordinator is asked for; Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def _only_key(request: Any) -> str:
    # Of several keys, all but the first would be lost without a word.
    (key,) = request.keys
    return str(key)


@kafka_order("key", "key_type")
@shape
class FindCoordinatorRequest:
    """Which broker coordinates these groups or transactional ids."""

    keys: list[str] = array("string", "4+", kafka="coordinator_keys", ignorable=True)
    key_type: CoordinatorType | int = number_of(
        CoordinatorType, "int8", "1+", is_open=True, default=CoordinatorType.GROUP
    )
    key: ClassVar = kafka_only(
        string("0-3"),
        take=lambda request, key: request.keys.append(key),
        give=_only_key,
    )


@shape
class Coordinator:
    """Where the coordinator of one key is reached on the listener that was asked."""

    key: str = string("4+", ignorable=True)
    node_id: int = int32("4+", default=-1, absent=0)
    host: str = string("4+", default="")
    port: int = int32("4+", default=-1, absent=0)
    error: ErrorCode = error_code("4+", default=ErrorCode.NONE)
    error_message: str | None = string("4+", nullable="4+", default=None, absent="", ignorable=True)


@kafka_order("throttle_time_ms")
@shape
class FindCoordinatorResponse:
    """One coordinator for each key of the request, in its order."""

    coordinators: list[Coordinator] = array(
        Coordinator,
        "4+",
        answers="keys",
        only="0-3",
        only_layout=variant(
            Coordinator,
            error=error_code("0-3"),
            error_message=string("1-3", nullable="1-3", ignorable=True),
            node_id=int32("0-3"),
            host=string("0-3"),
            port=int32("0-3"),
        ),
    )
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


@kafka_order(
    "group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id"
)
@shape
class JoinGroupRequest:
    """Join a group, or join again for a rebalance.

    ``protocols`` are (assignor name, subscription) in the order of preference. An old client does
    not know the error MEMBER_ID_REQUIRED (``knows_member_id_required``) or the flag
    ``skip_assignment`` (``knows_skip_assignment``) and is never given them.
    """

    group_id: str = string("0+")
    member_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", absent=-1, ignorable=True)
    protocol_type: str = string("0+")
    protocols: list[tuple[str, bytes]] = array(row(name=string("0+"), metadata=binary("0+")), "0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    knows_member_id_required: bool = since("4+", default=True)
    knows_skip_assignment: bool = since("9+", default=True)


@shape
class JoinedMember:
    """A member and its subscription for the chosen protocol, for the leader."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", absent=None, ignorable=True)
    metadata: bytes = binary("0+")


@kafka_order(
    "throttle_time_ms",
    "error",
    "generation_id",
    "protocol_type",
    "protocol_name",
    "leader_id",
    "skip_assignment",
    "member_id",
)
@shape
class JoinGroupResponse:
    """The new generation; ``members`` is empty for all but the leader."""

    member_id: str = string("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+", default=None, absent="", null="")
    leader_id: str = string("0+", kafka="leader", default="")
    skip_assignment: bool = boolean("9+", default=False, ignorable=True)
    members: list[JoinedMember] = array(JoinedMember, "0+", default_factory=list)
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)


@shape
class SyncGroupRequest:
    """Fetch the assignment; the leader brings those of all members, by member id."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: dict[str, bytes] = mapping(
        row(member_id=string("0+"), assignment=binary("0+")), "0+", default_factory=dict
    )


@kafka_order("throttle_time_ms")
@shape
class SyncGroupResponse:
    """The assignment of the asking member."""

    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary("0+", default=b"")
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


@shape
class HeartbeatRequest:
    """A member lives."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@kafka_order("throttle_time_ms")
@shape
class HeartbeatResponse:
    """Whether the generation is still current."""

    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


@shape
class LeavingMember:
    """A member that leaves; a static one is named by its instance id, with or without member id."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@shape
class LeaveGroupRequest:
    """Take members out of a group."""

    group_id: str = string("0+")
    members: list[LeavingMember] = array(
        LeavingMember,
        "3+",
        only="0-2",
        only_layout=variant(LeavingMember, member_id=string("0-2")),
    )


@shape
class LeaveGroupResult:
    """What became of one member."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, absent="")
    error: ErrorCode = error_code("3+", default=ErrorCode.NONE)


@kafka_order("throttle_time_ms", "error")
@shape
class LeaveGroupResponse:
    """One result for each member of the request, or an error for all of it."""

    members: list[LeaveGroupResult] = array(LeaveGroupResult, "3+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


@shape
class ListGroupsRequest:
    """List the groups in these states and of these types; empty lists match all."""

    states: list[str] = array("string", "4+", kafka="states_filter", default_factory=list)
    types: list[str] = array("string", "5+", kafka="types_filter", default_factory=list)


@shape
class ListedGroup:
    """One group; ``group_type`` is "classic" or "consumer"."""

    group_id: str = string("0+")
    protocol_type: str = string("0+")
    state: str = string("4+", kafka="group_state", ignorable=True)
    group_type: str = string("5+", default="classic", absent="", ignorable=True)


@kafka_order("throttle_time_ms", "error")
@shape
class ListGroupsResponse:
    """The groups that this broker coordinates."""

    groups: list[ListedGroup] = array(ListedGroup, "0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


@shape
class DescribeGroupsRequest:
    """Describe groups."""

    group_ids: list[str] = array("string", "0+", kafka="groups")
    include_authorized_operations: bool = boolean("3+", default=False)


@shape
class GroupMemberDescription:
    """One member; the bytes are empty unless the group is stable."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", absent=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    metadata: bytes = binary("0+", kafka="member_metadata", default=b"")
    assignment: bytes = binary("0+", kafka="member_assignment", default=b"")


@kafka_order("error", "error_message")
@shape
class GroupDescription:
    """One group; one that does not exist is "Dead", with the error GROUP_ID_NOT_FOUND."""

    group_id: str = string("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_DESCRIBE_ERRORS)
    error_message: str | None = string("6+", nullable="6+", default=None, ignorable=True)
    state: str = string("0+", kafka="group_state", default="")
    protocol_type: str = string("0+", default="")
    protocol_name: str = string("0+", kafka="protocol_data", default="")
    members: list[GroupMemberDescription] = array(
        GroupMemberDescription, "0+", default_factory=list
    )
    authorized_operations: int = int32(
        "3+", default=AUTHORIZED_OPERATIONS_NOT_REQUESTED, ignorable=True
    )


@kafka_order("throttle_time_ms")
@shape
class DescribeGroupsResponse:
    """One description for each group of the request."""

    groups: list[GroupDescription] = array(GroupDescription, "0+", answers="group_ids")
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)


@shape
class DeleteGroupsRequest:
    """Delete groups that have no members."""

    group_ids: list[str] = array("string", "0+", kafka="groups_names")


@shape
class DeleteGroupResult:
    """What became of one group."""

    group_id: str = string("0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@kafka_order("throttle_time_ms")
@shape
class DeleteGroupsResponse:
    """One result for each group of the request."""

    groups: list[DeleteGroupResult] = array(
        DeleteGroupResult, "0+", kafka="results", answers="group_ids"
    )
    throttle_time_ms: int = int32("0+", default=0)


def _finish_join(request: JoinGroupRequest, _version: int) -> None:
    """Old clients have one timeout for both purposes."""
    if request.rebalance_timeout_ms == _NO_REBALANCE_TIMEOUT:
        request.rebalance_timeout_ms = request.session_timeout_ms


def _finish_sync(request: SyncGroupRequest, version: int) -> None:
    """From version 5 on a protocol that is not said is ""."""
    if version >= _FIRST_SYNC_WITH_PROTOCOL:
        request.protocol_type = request.protocol_type or ""
        request.protocol_name = request.protocol_name or ""


def _start_leave(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Below version 3 the error of the only member is that of the request."""
    if version >= _FIRST_WITH_LEAVING_LIST:
        return response
    error = response.error
    if not error and response.members:
        error = response.members[0].error
    return LeaveGroupResponse([], error, response.throttle_time_ms)


OPERATIONS: Final = (
    Operation(
        ApiKey.FIND_COORDINATOR,
        FindCoordinatorRequest,
        FindCoordinatorResponse,
        versions="0-6",
        flexible="3+",
    ),
    Operation(
        ApiKey.JOIN_GROUP,
        JoinGroupRequest,
        JoinGroupResponse,
        versions="0-9",
        flexible="6+",
        finish_request=_finish_join,
    ),
    Operation(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, versions="0-4", flexible="4+"),
    Operation(
        ApiKey.LEAVE_GROUP,
        LeaveGroupRequest,
        LeaveGroupResponse,
        versions="0-5",
        flexible="4+",
        start_response=_start_leave,
    ),
    Operation(
        ApiKey.SYNC_GROUP,
        SyncGroupRequest,
        SyncGroupResponse,
        versions="0-5",
        flexible="4+",
        finish_request=_finish_sync,
    ),
    Operation(
        ApiKey.DESCRIBE_GROUPS,
        DescribeGroupsRequest,
        DescribeGroupsResponse,
        versions="0-6",
        flexible="5+",
    ),
    Operation(
        ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse, versions="0-5", flexible="3+"
    ),
    Operation(
        ApiKey.DELETE_GROUPS,
        DeleteGroupsRequest,
        DeleteGroupsResponse,
        versions="0-3",
        flexible="2+",
    ),
)
