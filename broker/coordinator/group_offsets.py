"""GroupOffsets: commits, lookups and deletion of the offsets of groups.

What is refused is refused partition by partition and never stored: negative offsets, partitions
that do not exist, metadata over ``offset.metadata.max.bytes``. An offset beyond the end of its
partition is stored as it is; whoever resumes there is told that it is out of range.
"""

import asyncio
import logging
from typing import Final

from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.services import Services
from seglog.broker.coordinator.group_records import (
    NO_EXPIRY_MS,
    CommittedOffset,
    Place,
    StoredRecord,
    offset_record,
    split_by_size,
)
from seglog.broker.coordinator.group_state import GroupState
from seglog.broker.coordinator.groups import Group, GroupTable
from seglog.broker.coordinator.members import CONSUMER_PROTOCOL_TYPE
from seglog.broker.coordinator.offset_store import OffsetStore, coordinator_error
from seglog.broker.errors import RequestError
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResult,
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
from seglog.protocol.types import INT64_MAX

logger = logging.getLogger(__name__)

_NO_RETENTION_TIME_MS: Final = -1

_Acceptable = tuple[OffsetCommitResult, Place, CommittedOffset]
_Waiting = list[tuple["asyncio.Future[None]", list[OffsetCommitResult]]]


class GroupOffsets:
    """The offsets of all groups.

    Args:
        services: of the broker.
        table: the groups.
        store: where offsets are stored.
    """

    def __init__(self, services: Services, table: GroupTable, store: OffsetStore) -> None:
        self._services = services
        self._table = table
        self._store = store

    # ---- commit

    def commit(
        self, request: OffsetCommitRequest, _context: RequestContext
    ) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
        """Answers OffsetCommit: when the offsets are stored, as durably as records are."""
        if self._store.exists:
            return self._commit(request)
        return self._services.begin(self._commit_first(request), holds_input=True)

    async def _commit_first(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """The same where the topic has to be made; unless there is nothing to be stored."""
        try:
            self._check(request)
            if any(not result.error for result, _, _ in self._judge(request)):
                await self._store.ensure()
        except SeglogError as error:
            refusal = coordinator_error(error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
            return _refuse_commit(request, refusal.code)
        response = self._commit(request)
        return await response.future if isinstance(response, Pending) else response

    def _commit(
        self, request: OffsetCommitRequest
    ) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
        try:
            group = self._check(request)
        except RequestError as error:
            return _refuse_commit(request, error.code)
        judged = self._judge(request)
        acceptable = [entry for entry in judged if not entry[0].error]
        waiting: _Waiting = []
        if acceptable:
            self._write(group, acceptable, waiting)
        response = OffsetCommitResponse([result for result, _, _ in judged])
        if not waiting:
            return response
        return self._services.begin(_when_stored(response, waiting), holds_input=False)

    def _check(self, request: OffsetCommitRequest) -> Group:
        """The group of a commit, a new one if its sender needs no membership.

        Raises:
            RequestError: the sender may not commit.
        """
        self._table.check(request.group_id, may_be_nameless=True)
        group = self._table.find(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise RequestError(
                    ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id!r}"
                )
            return self._table.new(request.group_id)
        group.membership.check_commit(request, self._table.now())
        return group

    def _judge(self, request: OffsetCommitRequest) -> list[_Acceptable]:
        """A result for each partition, and what is to be stored where that is no error."""
        now_ms = self._services.clock.time_ms()
        expires_ms = NO_EXPIRY_MS
        if request.retention_time_ms > _NO_RETENTION_TIME_MS:
            expires_ms = min(now_ms + request.retention_time_ms, INT64_MAX)
        judged = []
        for entry in request.partitions:
            result = OffsetCommitResult(entry.topic, entry.partition, topic_id=entry.topic_id)
            committed = CommittedOffset(
                entry.offset, entry.leader_epoch, entry.metadata or "", now_ms, expires_ms
            )
            topic = entry.topic
            try:
                topic = self._topic_name(entry.topic, entry.topic_id)
                self._check_entry(topic, entry)
            except RequestError as error:
                result.error = error.code
            judged.append((result, (topic, entry.partition), committed))
        return judged

    def _check_entry(self, topic: str, entry: OffsetCommitPartition) -> None:
        known = self._services.catalog.get(topic)
        if known is None or not 0 <= entry.partition < known.partition_count:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {topic}-{entry.partition}",
            )
        if entry.offset < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {entry.offset} is negative")
        limit = self._services.config.offset_metadata_max_bytes
        if entry.metadata and len(entry.metadata.encode()) > limit:
            raise RequestError(
                ErrorCode.OFFSET_METADATA_TOO_LARGE,
                f"offset.metadata.max.bytes is {limit}",
            )

    def _write(self, group: Group, entries: list[_Acceptable], waiting: _Waiting) -> None:
        """Append offsets and put them into force; entries of a batch that fails get its error."""
        pairs: list[tuple[StoredRecord, _Acceptable]] = []
        remaining = [result for result, _, _ in entries]
        try:
            pairs = [
                (offset_record(group.group_id, place, committed), (result, place, committed))
                for result, place, committed in entries
            ]
            max_bytes = self._store.batch_bytes_max(group.group_id)
            position = 0
            for run in split_by_size((record for record, _ in pairs), max_bytes):
                acknowledgement = self._store.append(group.group_id, run)
                written = [entry for _, entry in pairs[position : position + len(run)]]
                position += len(run)
                remaining = remaining[len(run) :]
                self._table.add(group)
                for _, place, committed in written:
                    group.offsets[place] = committed
                self._table.counters.commits += len(written)
                if acknowledgement is not None:
                    waiting.append((acknowledgement, [result for result, _, _ in written]))
        except SeglogError as error:
            refusal = coordinator_error(error, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            logger.warning(
                "event=offsets-not-stored group=%r offsets=%d error=%s",
                group.group_id,
                len(remaining),
                error,
            )
            for result in remaining:
                result.error = refusal.code

    def _topic_name(self, name: str, topic_id: bytes) -> str:
        """The name of a topic that may be given by its id only.

        Raises:
            RequestError: no topic has the id.
        """
        if name or topic_id == ZERO_TOPIC_ID:
            return name
        return self._services.partitions.topic_name(topic_id)

    # ---- fetch

    def fetch(self, request: OffsetFetchRequest, _context: RequestContext) -> OffsetFetchResponse:
        """Answers OffsetFetch: -1 for what was never committed, no error for an unknown group.

        There are no transactions that could hold an offset back, so every one is stable.
        """
        return OffsetFetchResponse([self._fetch(asked) for asked in request.groups])

    def _fetch(self, asked: OffsetFetchGroup) -> OffsetFetchGroupResult:
        try:
            self._table.check(asked.group_id, may_be_nameless=True)
        except RequestError as error:
            partitions = [_no_offset(entry, error.code) for entry in asked.partitions or ()]
            return OffsetFetchGroupResult(asked.group_id, partitions, error.code)
        group = self._table.find(asked.group_id)
        offsets = {} if group is None else group.offsets
        if asked.partitions is None:
            return OffsetFetchGroupResult(
                asked.group_id,
                [
                    _offset_result(topic, number, offsets[topic, number], self._topic_id(topic))
                    for topic, number in sorted(offsets)
                ],
            )
        results = []
        for entry in asked.partitions:
            try:
                topic = self._topic_name(entry.topic, entry.topic_id)
            except RequestError as error:
                results.append(_no_offset(entry, error.code))
                continue
            committed = offsets.get((topic, entry.partition))
            if committed is None:
                results.append(_no_offset(entry, ErrorCode.NONE))
            else:
                results.append(
                    _offset_result(entry.topic, entry.partition, committed, entry.topic_id)
                )
        return OffsetFetchGroupResult(asked.group_id, results)

    def _topic_id(self, name: str) -> bytes:
        topic = self._services.catalog.get(name)
        return ZERO_TOPIC_ID if topic is None else topic.topic_id

    # ---- delete

    def delete(
        self, request: OffsetDeleteRequest, _context: RequestContext
    ) -> OffsetDeleteResponse:
        """Answers OffsetDelete: only what no member reads may go."""
        results = [OffsetDeleteResult(*place) for place in request.partitions]
        try:
            self._table.check(request.group_id, may_be_nameless=True)
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
            elif place in group.offsets:
                doomed.append(place)
        try:
            self._table.forget_offsets(group, doomed)
        except SeglogError as error:
            # Said to be gone, they would be back after a restart.
            refusal = coordinator_error(error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
            return OffsetDeleteResponse([], refusal.code)
        self._table.counters.deleted_offsets += len(doomed)
        return OffsetDeleteResponse(results)

    def _topics_in_use(self, group: Group) -> frozenset[str] | None:
        """The topics that members read; None if it may be any.

        Raises:
            RequestError: its members are no consumers, so nobody can know.
        """
        membership = group.membership
        if membership.state is GroupState.EMPTY:
            return frozenset()
        if membership.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP, f"group {group.group_id!r} has members")
        return membership.subscribed_topics()


def _no_offset(entry: OffsetFetchPartition, error: ErrorCode) -> OffsetFetchResult:
    return OffsetFetchResult(entry.topic, entry.partition, error=error, topic_id=entry.topic_id)


def _offset_result(
    topic: str, partition: int, committed: CommittedOffset, topic_id: bytes
) -> OffsetFetchResult:
    return OffsetFetchResult(
        topic,
        partition,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        topic_id=topic_id,
    )


def _refuse_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        [
            OffsetCommitResult(entry.topic, entry.partition, error, entry.topic_id)
            for entry in request.partitions
        ]
    )


async def _when_stored(response: OffsetCommitResponse, waiting: _Waiting) -> OffsetCommitResponse:
    for acknowledgement, results in waiting:
        try:
            # Others may wait for the same sync.
            await asyncio.shield(acknowledgement)
        except SeglogError as error:
            refusal = coordinator_error(error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR)
            for result in results:
                result.error = refusal.code
    return response
