"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the classic group protocol."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    binary,
    boolean,
    int16,
    int32,
    string,
)


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member can work with."""

    name: str = string("0+")
    metadata: bytes = binary("0+")


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """Joins a group, or joins it again for a rebalance."""

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", default=None, nullable="5+")
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", default=None, nullable="8+", ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member and its subscription; only the leader is told."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    metadata: bytes = binary("0+")


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """The new generation."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", default=None, nullable="7+", ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")


class SyncGroupRequestAssignment(Struct):
    """What the leader gives to one member."""

    member_id: str = string("0+")
    assignment: bytes = binary("0+")


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """Fetches the assignment; the leader's request carries all of them."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    protocol_type: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """The assignment of the asking member."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", default=None, nullable="5+", ignorable=True)
    assignment: bytes = binary("0+")


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """Says that a member lives."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """Whether the generation is still current."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    reason: str | None = string("5+", default=None, nullable="5+", ignorable=True)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """Takes members out of a group: one up to version 2, several from version 3 on."""

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    """What became of one member."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    """One result a member."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[MemberResponse] = array(MemberResponse, "3+")
