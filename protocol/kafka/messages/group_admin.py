"""ListGroups, DescribeGroups and DeleteGroups."""

from seglog.protocol.kafka.schema import (
    NOT_REQUESTED,
    Message,
    Struct,
    array,
    binary,
    boolean,
    int16,
    int32,
    string,
)


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """Asks for the groups that this broker coordinates; empty filters match all."""

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


class ListedGroup(Struct):
    """One group."""

    group_id: str = string("0+")
    protocol_type: str = string("0+")
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    """The groups."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[ListedGroup] = array(ListedGroup, "0+")


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """Asks for the members of groups."""

    groups: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    """One member with its subscription and assignment."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", default=None, nullable="4+", ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")


class DescribedGroup(Struct):
    """One group."""

    error_code: int = int16("0+")
    error_message: str | None = string("6+", default=None, nullable="6+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=NOT_REQUESTED)


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    """One description a group."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class DeleteGroupsRequest(Message, api_key=42, versions="0-3", flexible="2+"):
    """Deletes groups that have no members."""

    groups_names: list[str] = array("string", "0+")


class DeletableGroupResult(Struct):
    """What became of one group."""

    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", default=None, nullable="3+", ignorable=True)


class DeleteGroupsResponse(Message, api_key=42, versions="0-3", flexible="2+"):
    """One result a group."""

    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
