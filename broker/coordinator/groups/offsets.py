"""GroupOffsets: commits of the offsets of groups, plain ones and those in transactions.

Commits are refused partition by partition, and refused ones never stored: negative offsets,
partitions that do not exist, metadata over ``offset.metadata.max.bytes``. An offset beyond the end
of its partition is stored; a consumer that resumes there gets OFFSET_OUT_OF_RANGE.

An offset of a transaction is stored with the producer's id and epoch, and counts when a marker in
the same partition of the internal topic commits it. Between a plain commit and one of a transaction
the later record counts, whenever the transaction ends.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from seglog.broker.coordinator.groups.offset_lookups import OffsetLookups
from seglog.broker.coordinator.groups.records import (
    NO_EXPIRY_MS,
    CommittedOffset,
    offset_record,
)
from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC, OffsetStore
from seglog.broker.coordinator.groups.table import Group, GroupTable
from seglog.broker.coordinator.internal_topics.answers import coordinator_error
from seglog.broker.coordinator.internal_topics.records import Place, split_by_size
from seglog.broker.errors import RequestError
from seglog.broker.requests.admission import TransactionAdmission
from seglog.broker.requests.context import Pending, RequestContext, finished
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResult,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import INT64_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

logger = logging.getLogger(__name__)

_NO_RETENTION_TIME_MS: Final = -1

_Acceptable = tuple[OffsetCommitResult, Place, CommittedOffset]
_Waiting = list[tuple["asyncio.Future[None]", list[OffsetCommitResult]]]

ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class _Order(Generic[ResponseT]):
    """A commit, plain or in a transaction.

    Attributes:
        partitions: what to store.
        check: the group, if the sender may commit for it; raises ``RequestError`` if not.
        respond: makes the response of the results.
        retention_time_ms: how long to keep the offsets, -1 for as long as others.
        transaction: that they are part of.
    """

    partitions: list[OffsetCommitPartition]
    check: Callable[[], Group]
    respond: Callable[[list[OffsetCommitResult]], ResponseT]
    retention_time_ms: int = _NO_RETENTION_TIME_MS
    transaction: TxnOffsetCommitRequest | None = None

    def refused(self, error: ErrorCode) -> ResponseT:
        """The response that refuses every partition."""
        return self.respond(
            [
                OffsetCommitResult(entry.topic, entry.partition, error, entry.topic_id)
                for entry in self.partitions
            ]
        )


class GroupOffsets(OffsetLookups):
    """The offsets of all groups.

    Args:
        services: of the broker.
        table: the groups.
        store: where offsets are stored.
        admission: asked before offsets are stored in a transaction.
    """

    def __init__(
        self,
        services: Services,
        table: GroupTable,
        store: OffsetStore,
        admission: TransactionAdmission,
    ) -> None:
        super().__init__(services, table)
        self._store = store
        self._admission = admission

    # ---- commit

    def commit(
        self, request: OffsetCommitRequest, _context: RequestContext
    ) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
        """Answers OffsetCommit: when the offsets are stored, as durably as records are."""
        return self._carry_out(
            _Order(
                request.partitions,
                partial(self._check, request),
                OffsetCommitResponse,
                request.retention_time_ms,
            )
        )

    def transactional_commit(
        self, request: TxnOffsetCommitRequest, _context: RequestContext
    ) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
        """Answers TxnOffsetCommit: the offsets are stored, and count once the transaction does."""
        return self._carry_out(
            _Order(
                request.partitions,
                partial(self._check_transactional, request),
                TxnOffsetCommitResponse,
                transaction=request,
            )
        )

    def transaction_ended(
        self, partition_number: int, producer_id: int, *, is_commit: bool
    ) -> None:
        """A marker was appended to a partition of the internal topic: decide pending offsets."""
        self._table.decide(partition_number, producer_id, is_commit=is_commit)

    def _carry_out(self, order: _Order[ResponseT]) -> ResponseT | Pending[ResponseT]:
        if self._store.exists:
            return self._commit(order)
        return self._services.begin(self._commit_first(order), holds_input=True)

    async def _commit_first(self, order: _Order[ResponseT]) -> ResponseT:
        """The same where the topic has to be made; unless there is nothing to be stored."""
        try:
            order.check()
            if any(not result.error for result, _, _ in self._judge(order)):
                await self._store.ensure()
        except SeglogError as error:
            return order.refused(coordinator_error(error).code)
        return await finished(self._commit(order))

    def _commit(self, order: _Order[ResponseT]) -> ResponseT | Pending[ResponseT]:
        try:
            group = order.check()
            judged = self._judge(order)
            acceptable = [entry for entry in judged if not entry[0].error]
            if acceptable and order.transaction is not None:
                entered = self._enter(order.transaction)
                if entered is not None:
                    work = self._commit_when_entered(order, entered)
                    return self._services.begin(work, holds_input=False)
        except SeglogError as error:
            return order.refused(coordinator_error(error).code)
        waiting: _Waiting = []
        if acceptable:
            self._write(group, acceptable, order.transaction, waiting)
        results = [result for result, _, _ in judged]
        if not waiting:
            return order.respond(results)
        stored = _when_stored(order.respond, results, waiting)
        return self._services.begin(stored, holds_input=False)

    async def _commit_when_entered(
        self, order: _Order[ResponseT], entered: "asyncio.Future[None]"
    ) -> ResponseT:
        """The same once it is durable that the partition is part of the transaction.

        Written before, a crash could leave offsets that no coordinator knows of.
        """
        try:
            await asyncio.shield(entered)
        except SeglogError as error:
            return order.refused(coordinator_error(error).code)
        return await finished(self._commit(order))

    def _check(self, request: OffsetCommitRequest) -> Group:
        """The group of a commit, a new one if its sender needs no membership.

        Raises:
            RequestError: the sender may not commit.
        """
        group = self._group_of(request)
        group.membership.check_commit(request, self._table.now())
        return group

    def _check_transactional(self, request: TxnOffsetCommitRequest) -> Group:
        """The same for a commit in a transaction."""
        group = self._group_of(request)
        group.membership.check_transactional_commit(request)
        return group

    def _group_of(self, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> Group:
        # A commit outside of any group is as old as groups; in a transaction there never was one.
        is_plain = isinstance(request, OffsetCommitRequest)
        self._table.check(request.group_id, may_be_nameless=is_plain)
        group = self._table.find(request.group_id)
        if group is not None:
            return group
        if request.generation_id >= 0:
            raise RequestError(
                ErrorCode.ILLEGAL_GENERATION, f"there is no group {request.group_id!r}"
            )
        return self._table.new(request.group_id)

    def _enter(self, request: TxnOffsetCommitRequest) -> "asyncio.Future[None] | None":
        """Have the group's partition of the internal topic be part of the transaction.

        Raises:
            SeglogError: it is not, and does not become so.
        """
        place = (OFFSETS_TOPIC, self._store.partition_of(request.group_id))
        return self._admission.admit(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [place],
            may_add=request.may_add,
        )

    def _judge(self, order: _Order[ResponseT]) -> list[_Acceptable]:
        """A result for each partition, and the offset to store where it is no error."""
        now_ms = self._services.clock.time_ms()
        expires_ms = NO_EXPIRY_MS
        if order.retention_time_ms > _NO_RETENTION_TIME_MS:
            expires_ms = min(now_ms + order.retention_time_ms, INT64_MAX)
        judged = []
        for entry in order.partitions:
            result = OffsetCommitResult(entry.topic, entry.partition, topic_id=entry.topic_id)
            topic, topic_id = entry.topic, ZERO_TOPIC_ID
            try:
                topic = self._topic_name(entry.topic, entry.topic_id)
                topic_id = self._check_entry(topic, entry)
            except RequestError as error:
                result.error = error.code
            committed = CommittedOffset(
                entry.offset, entry.leader_epoch, entry.metadata or "", now_ms, expires_ms, topic_id
            )
            judged.append((result, (topic, entry.partition), committed))
        return judged

    def _check_entry(self, topic: str, entry: OffsetCommitPartition) -> bytes:
        """The id of the topic, if the offset may be stored.

        Raises:
            RequestError: it may not.
        """
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
        return known.topic_id

    def _write(
        self,
        group: Group,
        entries: list[_Acceptable],
        transaction: TxnOffsetCommitRequest | None,
        waiting: _Waiting,
    ) -> None:
        """Append offsets, and put them into force or keep them until the transaction ends.

        Entries of a batch that fails get its error.
        """
        producer_id = NO_PRODUCER_ID if transaction is None else transaction.producer_id
        producer_epoch = NO_PRODUCER_EPOCH if transaction is None else transaction.producer_epoch
        remaining = [result for result, _, _ in entries]
        try:
            records = [
                offset_record(group.group_id, place, committed) for _, place, committed in entries
            ]
            position = 0
            for run in split_by_size(records, self._store.batch_bytes_max(group.group_id)):
                base_offset = self._store.partition(group.group_id).log.offsets.log_end
                acknowledgement = self._store.append(
                    group.group_id,
                    run,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    is_bounded=True,
                )
                written = entries[position : position + len(run)]
                position += len(run)
                remaining = remaining[len(run) :]
                offsets = {
                    place: committed._replace(record_offset=base_offset + index)
                    for index, (_, place, committed) in enumerate(written)
                }
                self._table.add(group)
                if transaction is None:
                    group.offsets.update(offsets)
                else:
                    self._table.hold_back(group, producer_id, offsets)
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


async def _when_stored(
    respond: Callable[[list[OffsetCommitResult]], ResponseT],
    results: list[OffsetCommitResult],
    waiting: _Waiting,
) -> ResponseT:
    for acknowledgement, awaiting in waiting:
        try:
            # Others may wait for the same sync.
            await asyncio.shield(acknowledgement)
        except SeglogError as error:
            refusal = coordinator_error(error)
            for result in awaiting:
                result.error = refusal.code
    return respond(results)
