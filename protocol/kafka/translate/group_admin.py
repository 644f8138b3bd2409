"""ListGroups, DescribeGroups and DeleteGroups."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import group_admin as wire
from seglog.protocol.kafka.schema import NOT_REQUESTED
from seglog.protocol.kafka.translate.operation import Operation, older_error

_FIRST_WITH_OPERATIONS: Final = 3
_FIRST_WITH_MESSAGE: Final = 6
_DESCRIBE_ERROR_LADDER: Final = {
    # Before, the state "Dead" was all that was said about a group that does not exist.
    ErrorCode.GROUP_ID_NOT_FOUND: (6, ErrorCode.NONE),
}


def read_list(message: wire.ListGroupsRequest, _version: int) -> api.ListGroupsRequest:
    """The filters as they are."""
    return api.ListGroupsRequest(message.states_filter, message.types_filter)


def write_list(response: api.ListGroupsResponse, _version: int) -> wire.ListGroupsResponse:
    """State and type are dropped where the version has no room for them."""
    return wire.ListGroupsResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        groups=[
            wire.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in response.groups
        ],
    )


def fail_list(
    _request: api.ListGroupsRequest, error: ErrorCode, _message: str | None
) -> api.ListGroupsResponse:
    """Refuse the request."""
    return api.ListGroupsResponse([], error)


def read_describe(message: wire.DescribeGroupsRequest, _version: int) -> api.DescribeGroupsRequest:
    """The fields as they are."""
    return api.DescribeGroupsRequest(message.groups, message.include_authorized_operations)


def write_describe(
    response: api.DescribeGroupsResponse, version: int
) -> wire.DescribeGroupsResponse:
    """One description a group."""
    return wire.DescribeGroupsResponse(
        throttle_time_ms=response.throttle_time_ms,
        groups=[_write_group(group, version) for group in response.groups],
    )


def _write_group(group: api.GroupDescription, version: int) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        error_code=older_error(group.error, version, _DESCRIBE_ERROR_LADDER),
        error_message=group.error_message if version >= _FIRST_WITH_MESSAGE else None,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            wire.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=(
            group.authorized_operations if version >= _FIRST_WITH_OPERATIONS else NOT_REQUESTED
        ),
    )


def fail_describe(
    request: api.DescribeGroupsRequest, error: ErrorCode, message: str | None
) -> api.DescribeGroupsResponse:
    """Refuse every group."""
    return api.DescribeGroupsResponse(
        [api.GroupDescription(group_id, error, message) for group_id in request.group_ids]
    )


def read_delete(message: wire.DeleteGroupsRequest, _version: int) -> api.DeleteGroupsRequest:
    """The names as they are."""
    return api.DeleteGroupsRequest(message.groups_names)


def write_delete(response: api.DeleteGroupsResponse, _version: int) -> wire.DeleteGroupsResponse:
    """One result a group."""
    return wire.DeleteGroupsResponse(
        throttle_time_ms=response.throttle_time_ms,
        results=[
            wire.DeletableGroupResult(
                group_id=group.group_id,
                error_code=group.error,
                error_message=group.error_message,
            )
            for group in response.groups
        ],
    )


def fail_delete(
    request: api.DeleteGroupsRequest, error: ErrorCode, message: str | None
) -> api.DeleteGroupsResponse:
    """Refuse every group."""
    return api.DeleteGroupsResponse(
        [api.DeleteGroupResult(group_id, error, message) for group_id in request.group_ids]
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.LIST_GROUPS,
        wire.ListGroupsRequest,
        wire.ListGroupsResponse,
        read_list,
        write_list,
        fail_list,
    ),
    Operation(
        ApiKey.DESCRIBE_GROUPS,
        wire.DescribeGroupsRequest,
        wire.DescribeGroupsResponse,
        read_describe,
        write_describe,
        fail_describe,
    ),
    Operation(
        ApiKey.DELETE_GROUPS,
        wire.DeleteGroupsRequest,
        wire.DeleteGroupsResponse,
        read_delete,
        write_delete,
        fail_delete,
    ),
)
