"""Consumer groups: finding the coordinator, membership, and what tools ask about groups."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    BYTES,
    ERROR,
    INT32,
    NULLABLE_STRING,
    STRING,
    dict_of,
    enum_of,
    list_of,
    tuple_of,
)
from seglog.protocol.native.messages.common_fields import NAMES, OUTCOME, THROTTLE
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

FIND_COORDINATOR_REQUEST: Final = Message(
    api.FindCoordinatorRequest,
    keys=NAMES,
    key_type=enum_of(api.CoordinatorType, open_ended=True),
)
FIND_COORDINATOR_RESPONSE: Final = Message(
    api.FindCoordinatorResponse,
    coordinators=list_of(
        Message(
            api.Coordinator, key=STRING, node_id=INT32, host=STRING, port=INT32, **OUTCOME
        ).field
    ),
    **THROTTLE,
)
JOIN_GROUP_REQUEST: Final = Message(
    api.JoinGroupRequest,
    group_id=STRING,
    member_id=STRING,
    session_timeout_ms=INT32,
    rebalance_timeout_ms=INT32,
    protocol_type=STRING,
    protocols=list_of(tuple_of(STRING, BYTES)),
    group_instance_id=NULLABLE_STRING,
    reason=NULLABLE_STRING,
)
JOIN_GROUP_RESPONSE: Final = Message(
    api.JoinGroupResponse,
    member_id=STRING,
    error=ERROR,
    generation_id=INT32,
    protocol_type=NULLABLE_STRING,
    protocol_name=NULLABLE_STRING,
    leader_id=STRING,
    skip_assignment=BOOLEAN,
    members=list_of(
        Message(
            api.JoinedMember, member_id=STRING, group_instance_id=NULLABLE_STRING, metadata=BYTES
        ).field
    ),
    **THROTTLE,
)
SYNC_GROUP_REQUEST: Final = Message(
    api.SyncGroupRequest,
    group_id=STRING,
    generation_id=INT32,
    member_id=STRING,
    group_instance_id=NULLABLE_STRING,
    protocol_type=NULLABLE_STRING,
    protocol_name=NULLABLE_STRING,
    assignments=dict_of(STRING, BYTES),
)
SYNC_GROUP_RESPONSE: Final = Message(
    api.SyncGroupResponse,
    error=ERROR,
    protocol_type=NULLABLE_STRING,
    protocol_name=NULLABLE_STRING,
    assignment=BYTES,
    **THROTTLE,
)
HEARTBEAT_REQUEST: Final = Message(
    api.HeartbeatRequest,
    group_id=STRING,
    generation_id=INT32,
    member_id=STRING,
    group_instance_id=NULLABLE_STRING,
)
HEARTBEAT_RESPONSE: Final = Message(api.HeartbeatResponse, error=ERROR, **THROTTLE)
LEAVE_GROUP_REQUEST: Final = Message(
    api.LeaveGroupRequest,
    group_id=STRING,
    members=list_of(
        Message(
            api.LeavingMember,
            member_id=STRING,
            group_instance_id=NULLABLE_STRING,
            reason=NULLABLE_STRING,
        ).field
    ),
)
LEAVE_GROUP_RESPONSE: Final = Message(
    api.LeaveGroupResponse,
    members=list_of(
        Message(
            api.LeaveGroupResult, member_id=STRING, group_instance_id=NULLABLE_STRING, error=ERROR
        ).field
    ),
    error=ERROR,
    **THROTTLE,
)
LIST_GROUPS_REQUEST: Final = Message(api.ListGroupsRequest, states=NAMES, types=NAMES)
LIST_GROUPS_RESPONSE: Final = Message(
    api.ListGroupsResponse,
    groups=list_of(
        Message(
            api.ListedGroup, group_id=STRING, protocol_type=STRING, state=STRING, group_type=STRING
        ).field
    ),
    error=ERROR,
    **THROTTLE,
)
DESCRIBE_GROUPS_REQUEST: Final = Message(
    api.DescribeGroupsRequest, group_ids=NAMES, include_authorized_operations=BOOLEAN
)
_MEMBER: Final = Message(
    api.GroupMemberDescription,
    member_id=STRING,
    group_instance_id=NULLABLE_STRING,
    client_id=STRING,
    client_host=STRING,
    metadata=BYTES,
    assignment=BYTES,
)
DESCRIBE_GROUPS_RESPONSE: Final = Message(
    api.DescribeGroupsResponse,
    groups=list_of(
        Message(
            api.GroupDescription,
            group_id=STRING,
            **OUTCOME,
            state=STRING,
            protocol_type=STRING,
            protocol_name=STRING,
            members=list_of(_MEMBER.field),
            authorized_operations=INT32,
        ).field
    ),
    **THROTTLE,
)
DELETE_GROUPS_REQUEST: Final = Message(api.DeleteGroupsRequest, group_ids=NAMES)
DELETE_GROUPS_RESPONSE: Final = Message(
    api.DeleteGroupsResponse,
    groups=list_of(Message(api.DeleteGroupResult, group_id=STRING, **OUTCOME).field),
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_REQUEST, FIND_COORDINATOR_RESPONSE),
    Operation(ApiKey.JOIN_GROUP, JOIN_GROUP_REQUEST, JOIN_GROUP_RESPONSE),
    Operation(ApiKey.HEARTBEAT, HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE),
    Operation(ApiKey.LEAVE_GROUP, LEAVE_GROUP_REQUEST, LEAVE_GROUP_RESPONSE),
    Operation(ApiKey.SYNC_GROUP, SYNC_GROUP_REQUEST, SYNC_GROUP_RESPONSE),
    Operation(ApiKey.DESCRIBE_GROUPS, DESCRIBE_GROUPS_REQUEST, DESCRIBE_GROUPS_RESPONSE),
    Operation(ApiKey.LIST_GROUPS, LIST_GROUPS_REQUEST, LIST_GROUPS_RESPONSE),
    Operation(ApiKey.DELETE_GROUPS, DELETE_GROUPS_REQUEST, DELETE_GROUPS_RESPONSE),
)
