"""What tools ask about groups: lists, descriptions, deletion."""

import asyncio
from typing import Final, TypeAlias

from seglog.broker.coordinator.groups.coordinator import GroupCoordinator
from seglog.broker.coordinator.groups.group import ClassicGroup
from seglog.broker.coordinator.groups.state import GroupState
from seglog.broker.coordinator.groups.table import GroupTable
from seglog.broker.coordinator.internal_topics.answers import coordinator_error
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.permissions import ALL_GROUP_OPERATIONS
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    DeleteGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupDescription,
    GroupMemberDescription,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError

GROUP_TYPE: Final = "classic"
_SLICE: Final = 100
"""After so many deletions others get their turn: some 5 ms."""

_Deletions: TypeAlias = list[tuple[DeleteGroupResult, asyncio.Future[None]]]
"""Results that wait until their groups are gone for good."""


class ListGroupsOperation:
    """Answers list-groups requests."""

    __slots__ = ("_table",)

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def handle(self, request: ListGroupsRequest, _context: RequestContext) -> ListGroupsResponse:
        """The groups that match, by name; while they are being read, those that are known."""
        states = {state.lower() for state in request.states}
        types = {group_type.lower() for group_type in request.types}
        groups = []
        if not types or GROUP_TYPE in types:
            for group in self._table:
                membership = group.membership
                if not states or membership.state.lower() in states:
                    groups.append(
                        ListedGroup(
                            group.group_id,
                            membership.protocol_type or "",
                            membership.state.value,
                            GROUP_TYPE,
                        )
                    )
        error = ErrorCode.NONE
        if self._table.is_loading:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ListGroupsResponse(sorted(groups, key=lambda group: group.group_id), error)


class DescribeGroupsOperation:
    """Answers describe-groups requests."""

    __slots__ = ("_table",)

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def handle(
        self, request: DescribeGroupsRequest, _context: RequestContext
    ) -> DescribeGroupsResponse:
        """Describe every group, once however often it is named; a missing one is "Dead"."""
        operations = AUTHORIZED_OPERATIONS_NOT_REQUESTED
        if request.include_authorized_operations:
            operations = ALL_GROUP_OPERATIONS
        return DescribeGroupsResponse(
            [self._describe(each, operations) for each in dict.fromkeys(request.group_ids)]
        )

    def _describe(self, group_id: str, operations: int) -> GroupDescription:
        try:
            self._table.check(group_id, may_be_nameless=True)
            group = self._table.get(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        except RequestError as error:
            state = ""
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                state = GroupState.DEAD.value
            return GroupDescription(
                group_id, error.code, error.message, state, authorized_operations=operations
            )
        membership = group.membership
        is_stable = membership.state is GroupState.STABLE
        return GroupDescription(
            group_id,
            state=membership.state.value,
            protocol_type=membership.protocol_type or "",
            protocol_name=(membership.protocol_name or "") if is_stable else "",
            members=_describe_members(membership, is_stable=is_stable),
            authorized_operations=operations,
        )


def _describe_members(membership: ClassicGroup, *, is_stable: bool) -> list[GroupMemberDescription]:
    """What a member wants and has is only told of a stable group: before it is on the move."""
    return [
        GroupMemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(membership.protocol_name) if is_stable else b"",
            member.assignment if is_stable else b"",
        )
        for member in membership.members
    ]


class DeleteGroupsOperation:
    """Answers delete-groups requests."""

    __slots__ = ("_coordinator", "_services")

    def __init__(self, services: Services, coordinator: GroupCoordinator) -> None:
        self._services = services
        self._coordinator = coordinator

    def handle(
        self, request: DeleteGroupsRequest, _context: RequestContext
    ) -> DeleteGroupsResponse | Pending[DeleteGroupsResponse]:
        """Delete every group that has no members; each has its own result.

        The answer waits for the disk where commits do.
        """
        response = DeleteGroupsResponse([])
        waiting: _Deletions = []
        # Named twice, as for Kafka's brokers, it is deleted once: the second result would say
        # that there is no such group.
        group_ids = list(dict.fromkeys(request.group_ids))
        self._delete(group_ids[:_SLICE], response, waiting)
        rest = group_ids[_SLICE:]
        if not (rest or waiting):
            return response
        return self._services.begin(self._finish(rest, response, waiting), holds_input=False)

    async def _finish(
        self, rest: list[str], response: DeleteGroupsResponse, waiting: "_Deletions"
    ) -> DeleteGroupsResponse:
        for start in range(0, len(rest), _SLICE):
            await asyncio.sleep(0)
            self._delete(rest[start : start + _SLICE], response, waiting)
        return await _when_deleted(response, waiting)

    def _delete(
        self, group_ids: list[str], response: DeleteGroupsResponse, waiting: "_Deletions"
    ) -> None:
        for group_id in group_ids:
            result = DeleteGroupResult(group_id)
            response.groups.append(result)
            try:
                acknowledgement = self._coordinator.delete(group_id)
            except SeglogError as error:
                result.error, result.error_message = describe_error(error)
                continue
            if acknowledgement is not None:
                waiting.append((result, acknowledgement))


async def _when_deleted(
    response: DeleteGroupsResponse, waiting: "_Deletions"
) -> DeleteGroupsResponse:
    for result, acknowledgement in waiting:
        try:
            # Others may wait for the same sync.
            await asyncio.shield(acknowledgement)
        except SeglogError as error:
            refusal = coordinator_error(error)
            result.error, result.error_message = refusal.code, refusal.message
    return response
