"""Consumer groups: membership, and what tools ask about groups.

The metadata of a member and its assignment are opaque bytes: clients agree on their content.
"""

from enum import IntEnum

from seglog.protocol.declaration.keys import AUTHORIZED_OPERATIONS_NOT_REQUESTED
from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode


class CoordinatorType(IntEnum):
    """What a coordinator is asked for; Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@shape
class FindCoordinatorRequest:
    """Which broker coordinates these groups or transactional ids."""

    keys: list[str]
    key_type: CoordinatorType | int = CoordinatorType.GROUP


@shape
class Coordinator:
    """Where the coordinator of one key is reached on the listener that was asked."""

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@shape
class FindCoordinatorResponse:
    """One coordinator for each key of the request, in its order."""

    coordinators: list[Coordinator]
    throttle_time_ms: int = 0


@shape
class JoinGroupRequest:
    """Join a group, or join again for a rebalance.

    ``protocols`` are (assignor name, subscription) in the order of preference. An old client does
    not know the error MEMBER_ID_REQUIRED (``knows_member_id_required``) or the flag
    ``skip_assignment`` (``knows_skip_assignment``) and is never given them.
    """

    group_id: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    group_instance_id: str | None = None
    reason: str | None = None
    knows_member_id_required: bool = True
    knows_skip_assignment: bool = True


@shape
class JoinedMember:
    """A member and its subscription for the chosen protocol, for the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@shape
class JoinGroupResponse:
    """The new generation; ``members`` is empty for all but the leader."""

    member_id: str
    error: ErrorCode = ErrorCode.NONE
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: list[JoinedMember] = field(default_factory=list)
    throttle_time_ms: int = 0


@shape
class SyncGroupRequest:
    """Fetch the assignment; the leader brings those of all members, by member id."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)


@shape
class SyncGroupResponse:
    """The assignment of the asking member."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    throttle_time_ms: int = 0


@shape
class HeartbeatRequest:
    """A member lives."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@shape
class HeartbeatResponse:
    """Whether the generation is still current."""

    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


@shape
class LeavingMember:
    """A member that leaves; a static one is named by its instance id, with or without member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@shape
class LeaveGroupRequest:
    """Take members out of a group."""

    group_id: str
    members: list[LeavingMember]


@shape
class LeaveGroupResult:
    """What became of one member."""

    member_id: str
    group_instance_id: str | None = None
    error: ErrorCode = ErrorCode.NONE


@shape
class LeaveGroupResponse:
    """One result for each member of the request, or an error for all of it."""

    members: list[LeaveGroupResult]
    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


@shape
class ListGroupsRequest:
    """List the groups in these states and of these types; empty lists match all."""

    states: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)


@shape
class ListedGroup:
    """One group; ``group_type`` is "classic" or "consumer"."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


@shape
class ListGroupsResponse:
    """The groups that this broker coordinates."""

    groups: list[ListedGroup]
    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


@shape
class DescribeGroupsRequest:
    """Describe groups."""

    group_ids: list[str]
    include_authorized_operations: bool = False


@shape
class GroupMemberDescription:
    """One member; the bytes are empty unless the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@shape
class GroupDescription:
    """One group; one that does not exist is "Dead", with the error GROUP_ID_NOT_FOUND."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: list[GroupMemberDescription] = field(default_factory=list)
    authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_REQUESTED


@shape
class DescribeGroupsResponse:
    """One description for each group of the request."""

    groups: list[GroupDescription]
    throttle_time_ms: int = 0


@shape
class DeleteGroupsRequest:
    """Delete groups that have no members."""

    group_ids: list[str]


@shape
class DeleteGroupResult:
    """What became of one group."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@shape
class DeleteGroupsResponse:
    """One result for each group of the request."""

    groups: list[DeleteGroupResult]
    throttle_time_ms: int = 0
