"""OffsetLookups: committed offsets, and their deletion on request."""

import asyncio

from seglog.broker.coordinator.groups.members import CONSUMER_PROTOCOL_TYPE
from seglog.broker.coordinator.groups.records import CommittedOffset
from seglog.broker.coordinator.groups.state import GroupState
from seglog.broker.coordinator.groups.table import Group, GroupTable
from seglog.broker.coordinator.internal_topics.answers import coordinator_error
from seglog.broker.errors import RequestError
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResult,
    OffsetFetchGroup,
    OffsetFetchGroupResult,
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError


class OffsetLookups:
    """Lookups of the offsets of groups.

    Args:
        services: of the broker.
        table: the groups.
    """

    def __init__(self, services: Services, table: GroupTable) -> None:
        self._services = services
        self._table = table

    # ---- fetch

    def fetch(self, request: OffsetFetchRequest, _context: RequestContext) -> OffsetFetchResponse:
        """Answers OffsetFetch: -1 without a commit, no error for an unknown group.

        Offsets of an open transaction are not visible. A client that requires stable offsets is
        told to ask again where one is about to be replaced.
        """
        # Everything of a group is told once, however often it is asked for.
        whole: dict[str, OffsetFetchGroup] = {}
        for asked in request.groups:
            if asked.partitions is None:
                whole.setdefault(asked.group_id, asked)
        return OffsetFetchResponse(
            [
                self._fetch(asked, request.require_stable)
                for asked in request.groups
                if asked.partitions is not None or whole[asked.group_id] is asked
            ]
        )

    def _fetch(self, asked: OffsetFetchGroup, require_stable: bool) -> OffsetFetchGroupResult:
        try:
            self._table.check(asked.group_id, may_be_nameless=True)
        except RequestError as error:
            partitions = [_no_offset(entry, error.code) for entry in asked.partitions or ()]
            return OffsetFetchGroupResult(asked.group_id, partitions, error.code)
        group = self._table.find(asked.group_id)
        offsets = {} if group is None else group.offsets
        undecided = set() if group is None or not require_stable else group.pending.places()
        results: list[OffsetFetchResult] = []
        if asked.partitions is None:
            for place in sorted(offsets):
                entry = OffsetFetchPartition(*place, self._topic_id(place[0]))
                results.append(
                    _no_offset(entry, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                    if place in undecided
                    else _offset_result(entry, offsets[place])
                )
            return OffsetFetchGroupResult(asked.group_id, results)
        for entry in asked.partitions:
            try:
                topic = self._topic_name(entry.topic, entry.topic_id)
            except RequestError as error:
                results.append(_no_offset(entry, error.code))
                continue
            committed = offsets.get((topic, entry.partition))
            if (topic, entry.partition) in undecided:
                results.append(_no_offset(entry, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif committed is None:
                results.append(_no_offset(entry, ErrorCode.NONE))
            else:
                results.append(_offset_result(entry, committed))
        return OffsetFetchGroupResult(asked.group_id, results)

    # ---- delete

    def delete(
        self, request: OffsetDeleteRequest, _context: RequestContext
    ) -> OffsetDeleteResponse | Pending[OffsetDeleteResponse]:
        """Answers OffsetDelete: only what no member reads may go, as durably as it was stored."""
        results = [OffsetDeleteResult(*place) for place in request.partitions]
        try:
            self._table.check(request.group_id)
            group = self._table.get(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
            in_use = self._topics_in_use(group)
        except RequestError as error:
            return OffsetDeleteResponse([], error.code)
        doomed = []
        for result in results:
            place = (result.topic, result.partition)
            topic = self._services.catalog.get(result.topic)
            if topic is None or not 0 <= result.partition < topic.partition_count:
                result.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif in_use is None or result.topic in in_use:
                result.error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif place in group.offsets or place in group.pending:
                doomed.append(place)
        try:
            acknowledgement = self._table.forget_offsets(group, doomed)
        except SeglogError as error:
            # Said to be gone, they would be back after a restart.
            refusal = coordinator_error(error)
            return OffsetDeleteResponse([], refusal.code)
        self._table.counters.deleted_offsets += len(doomed)
        if acknowledgement is None:
            return OffsetDeleteResponse(results)
        return self._services.begin(_when_forgotten(results, acknowledgement), holds_input=False)

    def _topics_in_use(self, group: Group) -> frozenset[str] | None:
        """The topics that members read; None if it may be any.

        Raises:
            RequestError: its members are no consumers, so their topics are unknown.
        """
        membership = group.membership
        if membership.state is GroupState.EMPTY:
            return frozenset()
        if membership.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id!r} has members")
        return membership.subscribed_topics()

    # ---- names

    def _topic_name(self, name: str, topic_id: bytes) -> str:
        """The name of a topic that may be given by its id only.

        Raises:
            RequestError: no topic has the id.
        """
        if name or topic_id == ZERO_TOPIC_ID:
            return name
        return self._services.partitions.topic_name(topic_id)

    def _topic_id(self, name: str) -> bytes:
        topic = self._services.catalog.get(name)
        return ZERO_TOPIC_ID if topic is None else topic.topic_id


def _no_offset(entry: OffsetFetchPartition, error: ErrorCode) -> OffsetFetchResult:
    return OffsetFetchResult(entry.topic, entry.partition, error=error, topic_id=entry.topic_id)


def _offset_result(entry: OffsetFetchPartition, committed: CommittedOffset) -> OffsetFetchResult:
    return OffsetFetchResult(
        entry.topic,
        entry.partition,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        topic_id=entry.topic_id,
    )


async def _when_forgotten(
    results: list[OffsetDeleteResult], acknowledgement: "asyncio.Future[None]"
) -> OffsetDeleteResponse:
    try:
        # Others may wait for the same sync.
        await asyncio.shield(acknowledgement)
    except SeglogError as error:
        refusal = coordinator_error(error)
        return OffsetDeleteResponse([], refusal.code)
    return OffsetDeleteResponse(results)
