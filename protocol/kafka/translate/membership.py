"""FindCoordinator, and the classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import find_coordinator
from seglog.protocol.kafka.messages import group_membership as wire
from seglog.protocol.kafka.translate.operation import Operation

_FIRST_WITH_COORDINATOR_LIST: Final = 4
_FIRST_WITH_MEMBER_ID_REQUIRED: Final = 4
_FIRST_SYNC_WITH_PROTOCOL: Final = 5
_FIRST_WITH_NULL_PROTOCOL: Final = 7
_FIRST_WITH_SKIP_ASSIGNMENT: Final = 9
_FIRST_WITH_LEAVING_LIST: Final = 3
_NO_REBALANCE_TIMEOUT: Final = -1
_COORDINATOR_TYPES: Final = {int(kind): kind for kind in api.CoordinatorType}


def read_find_coordinator(
    message: find_coordinator.FindCoordinatorRequest, version: int
) -> api.FindCoordinatorRequest:
    """One key or several, always as a list."""
    keys = message.coordinator_keys if version >= _FIRST_WITH_COORDINATOR_LIST else [message.key]
    return api.FindCoordinatorRequest(
        keys, _COORDINATOR_TYPES.get(message.key_type, message.key_type)
    )


def write_find_coordinator(
    response: api.FindCoordinatorResponse, version: int
) -> find_coordinator.FindCoordinatorResponse:
    """A list, or the only one of it in the old fields."""
    if version >= _FIRST_WITH_COORDINATOR_LIST:
        return find_coordinator.FindCoordinatorResponse(
            throttle_time_ms=response.throttle_time_ms,
            error_code=0,
            error_message="",
            node_id=0,
            host="",
            port=0,
            coordinators=[
                find_coordinator.Coordinator(
                    key=each.key,
                    node_id=each.node_id,
                    host=each.host,
                    port=each.port,
                    error_code=each.error,
                    error_message=each.error_message,
                )
                for each in response.coordinators
            ],
        )
    only = response.coordinators[0]
    return find_coordinator.FindCoordinatorResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=only.error,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
        coordinators=[],
    )


def fail_find_coordinator(
    request: api.FindCoordinatorRequest, error: ErrorCode, message: str | None
) -> api.FindCoordinatorResponse:
    """Refuse every key."""
    return api.FindCoordinatorResponse(
        [api.Coordinator(key, error=error, error_message=message) for key in request.keys]
    )


def read_join(message: wire.JoinGroupRequest, version: int) -> api.JoinGroupRequest:
    """Old clients have one timeout for both purposes."""
    rebalance_timeout_ms = message.rebalance_timeout_ms
    if rebalance_timeout_ms == _NO_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = message.session_timeout_ms
    return api.JoinGroupRequest(
        message.group_id,
        message.member_id,
        message.session_timeout_ms,
        rebalance_timeout_ms,
        message.protocol_type,
        [(each.name, each.metadata) for each in message.protocols],
        message.group_instance_id,
        message.reason,
        knows_member_id_required=version >= _FIRST_WITH_MEMBER_ID_REQUIRED,
        knows_skip_assignment=version >= _FIRST_WITH_SKIP_ASSIGNMENT,
    )


def write_join(response: api.JoinGroupResponse, version: int) -> wire.JoinGroupResponse:
    """Below version 7 an undecided protocol is an empty name."""
    protocol_name = response.protocol_name
    if protocol_name is None and version < _FIRST_WITH_NULL_PROTOCOL:
        protocol_name = ""
    return wire.JoinGroupResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type,
        protocol_name=protocol_name,
        leader=response.leader_id,
        skip_assignment=response.skip_assignment and version >= _FIRST_WITH_SKIP_ASSIGNMENT,
        member_id=response.member_id,
        members=[
            wire.JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata,
            )
            for each in response.members
        ],
    )


def fail_join(
    request: api.JoinGroupRequest, error: ErrorCode, _message: str | None
) -> api.JoinGroupResponse:
    """Refuse the member."""
    return api.JoinGroupResponse(request.member_id, error)


def read_sync(message: wire.SyncGroupRequest, version: int) -> api.SyncGroupRequest:
    """Key the assignments by member; from version 5 on a protocol that is not said is ""."""
    unsaid = "" if version >= _FIRST_SYNC_WITH_PROTOCOL else None
    return api.SyncGroupRequest(
        message.group_id,
        message.generation_id,
        message.member_id,
        message.group_instance_id,
        unsaid if message.protocol_type is None else message.protocol_type,
        unsaid if message.protocol_name is None else message.protocol_name,
        {each.member_id: each.assignment for each in message.assignments},
    )


def write_sync(response: api.SyncGroupResponse, _version: int) -> wire.SyncGroupResponse:
    """The fields as they are."""
    return wire.SyncGroupResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )


def fail_sync(
    _request: api.SyncGroupRequest, error: ErrorCode, _message: str | None
) -> api.SyncGroupResponse:
    """Refuse the member."""
    return api.SyncGroupResponse(error)


def read_heartbeat(message: wire.HeartbeatRequest, _version: int) -> api.HeartbeatRequest:
    """The fields as they are."""
    return api.HeartbeatRequest(
        message.group_id, message.generation_id, message.member_id, message.group_instance_id
    )


def write_heartbeat(response: api.HeartbeatResponse, _version: int) -> wire.HeartbeatResponse:
    """The fields as they are."""
    return wire.HeartbeatResponse(
        throttle_time_ms=response.throttle_time_ms, error_code=response.error
    )


def fail_heartbeat(
    _request: api.HeartbeatRequest, error: ErrorCode, _message: str | None
) -> api.HeartbeatResponse:
    """Refuse the member."""
    return api.HeartbeatResponse(error)


def read_leave(message: wire.LeaveGroupRequest, version: int) -> api.LeaveGroupRequest:
    """One member or several, always as a list."""
    if version < _FIRST_WITH_LEAVING_LIST:
        return api.LeaveGroupRequest(message.group_id, [api.LeavingMember(message.member_id)])
    return api.LeaveGroupRequest(
        message.group_id,
        [
            api.LeavingMember(each.member_id, each.group_instance_id, each.reason)
            for each in message.members
        ],
    )


def write_leave(response: api.LeaveGroupResponse, version: int) -> wire.LeaveGroupResponse:
    """Below version 3 the error of the only member is that of the request."""
    if version < _FIRST_WITH_LEAVING_LIST:
        error = response.error
        if not error and response.members:
            error = response.members[0].error
        return wire.LeaveGroupResponse(
            throttle_time_ms=response.throttle_time_ms, error_code=error, members=[]
        )
    return wire.LeaveGroupResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        members=[
            wire.MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=each.error,
            )
            for each in response.members
        ],
    )


def fail_leave(
    _request: api.LeaveGroupRequest, error: ErrorCode, _message: str | None
) -> api.LeaveGroupResponse:
    """Refuse the request."""
    return api.LeaveGroupResponse([], error)


OPERATIONS: Final = (
    Operation(
        ApiKey.FIND_COORDINATOR,
        find_coordinator.FindCoordinatorRequest,
        find_coordinator.FindCoordinatorResponse,
        read_find_coordinator,
        write_find_coordinator,
        fail_find_coordinator,
    ),
    Operation(
        ApiKey.JOIN_GROUP,
        wire.JoinGroupRequest,
        wire.JoinGroupResponse,
        read_join,
        write_join,
        fail_join,
    ),
    Operation(
        ApiKey.SYNC_GROUP,
        wire.SyncGroupRequest,
        wire.SyncGroupResponse,
        read_sync,
        write_sync,
        fail_sync,
    ),
    Operation(
        ApiKey.HEARTBEAT,
        wire.HeartbeatRequest,
        wire.HeartbeatResponse,
        read_heartbeat,
        write_heartbeat,
        fail_heartbeat,
    ),
    Operation(
        ApiKey.LEAVE_GROUP,
        wire.LeaveGroupRequest,
        wire.LeaveGroupResponse,
        read_leave,
        write_leave,
        fail_leave,
    ),
)
