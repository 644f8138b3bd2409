"""TransactionAdditions: what becomes part of a transaction, and what may be written in one.

Partitions and groups are added to transactions, and records are let in where that was done. None of
it suspends between looking at a state and changing it: see ``TransactionCoordinator``.
"""

from collections.abc import Iterable
from typing import Final

from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC
from seglog.broker.coordinator.internal_topics.answers import answer_when_stored
from seglog.broker.coordinator.internal_topics.records import Place
from seglog.broker.coordinator.internal_topics.topic import InternalTopic
from seglog.broker.coordinator.transactions.endings import Acknowledgement, TransactionEndings
from seglog.broker.coordinator.transactions.state import EPOCH_BUMPING_VERSION, Claim
from seglog.broker.coordinator.transactions.table import TransactionTable
from seglog.broker.coordinator.transactions.transitions import add_partitions, verify_partition
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.admission import all_of
from seglog.broker.requests.context import Pending, RequestContext, finished
from seglog.broker.requests.services import Services
from seglog.broker.storage.files.layout import INTERNAL_TOPICS
from seglog.protocol.api import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    TransactionPartitions,
    TransactionPartitionsResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError

_PLAIN_VERSION: Final = 0


class TransactionAdditions:
    """Adds to transactions, and lets records of them in.

    Args:
        services: of the broker.
        table: of the transactional ids.
        offsets: the internal topic that holds the offsets of groups.
        endings: logs additions.
    """

    def __init__(
        self,
        services: Services,
        table: TransactionTable,
        offsets: InternalTopic,
        endings: TransactionEndings,
    ) -> None:
        self._services = services
        self._table = table
        self._offsets = offsets
        self._endings = endings

    # ---- adding

    def add_partitions(
        self, request: AddPartitionsToTxnRequest, _context: RequestContext
    ) -> AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]:
        """Make partitions part of transactions, or tell whether they are."""
        waits: list[Acknowledgement] = []
        results = []
        for each in request.transactions:
            answer = self._verified if each.verify_only else self._added
            errors = answer(each, waits)
            results.append(
                TransactionPartitionsResult(
                    each.transactional_id,
                    [
                        AddPartitionsToTxnResult(topic, partition, error)
                        for (topic, partition), error in zip(each.partitions, errors, strict=True)
                    ],
                )
            )
        return answer_when_stored(
            self._services,
            all_of(waits),
            AddPartitionsToTxnResponse(results),
            lambda error: AddPartitionsToTxnResponse(results, error),
        )

    def _verified(
        self, asked: TransactionPartitions, _waits: list[Acknowledgement]
    ) -> list[ErrorCode]:
        errors = []
        claim = Claim(asked.producer_id, asked.producer_epoch)
        for place in asked.partitions:
            try:
                self._table.check(asked.transactional_id)
                metadata = self._table.metadata(asked.transactional_id)
                verify_partition(metadata, claim, place)
                errors.append(ErrorCode.NONE)
            except RequestError as error:
                errors.append(error.code)
        return errors

    def _added(self, asked: TransactionPartitions, waits: list[Acknowledgement]) -> list[ErrorCode]:
        errors = [self._why_not(place) for place in asked.partitions]
        if any(errors):
            return [error or ErrorCode.OPERATION_NOT_ATTEMPTED for error in errors]
        claim = Claim(asked.producer_id, asked.producer_epoch)
        try:
            acknowledged = self._add(
                asked.transactional_id, claim, asked.partitions, _PLAIN_VERSION
            )
        except RequestError as error:
            return [error.code] * len(errors)
        if acknowledged is not None:
            waits.append(acknowledged)
        return errors

    def _why_not(self, place: Place) -> ErrorCode:
        """What speaks against adding a partition: it has to be there for the marker."""
        if place[0] in INTERNAL_TOPICS:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        try:
            self._services.partitions.get(*place)
        except RequestError as error:
            return error.code
        return ErrorCode.NONE

    def _add(
        self, transactional_id: str, claim: Claim, places: Iterable[Place], client_version: int
    ) -> Acknowledgement | None:
        self._table.check(transactional_id)
        transaction = self._table.find(transactional_id)
        added = add_partitions(
            None if transaction is None else transaction.metadata,
            claim,
            frozenset(places),
            now_ms=self._services.clock.time_ms(),
            client_version=client_version,
        )
        assert transaction is not None
        if added is transaction.metadata:
            # It may have been added by a request that still waits for the disk.
            return transaction.not_durable
        return self._endings.log(transaction, added)

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, _context: RequestContext
    ) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
        """Make the offsets of a group part of a transaction."""
        if not request.group_id:
            return AddOffsetsToTxnResponse(ErrorCode.INVALID_GROUP_ID)
        if self._offsets.exists:
            return self._add_offsets_now(request)
        return self._services.begin(self._add_offsets_later(request), holds_input=False)

    async def _add_offsets_later(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        try:
            await self._offsets.ensure()
        except SeglogError as error:
            describe_error(error)
            return AddOffsetsToTxnResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await finished(self._add_offsets_now(request))

    def _add_offsets_now(
        self, request: AddOffsetsToTxnRequest
    ) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
        place = (OFFSETS_TOPIC, self._offsets.partition_of(request.group_id))
        claim = Claim(request.producer_id, request.producer_epoch)
        try:
            acknowledged = self._add(request.transactional_id, claim, [place], _PLAIN_VERSION)
        except RequestError as error:
            return AddOffsetsToTxnResponse(error.code)
        return answer_when_stored(
            self._services, acknowledged, AddOffsetsToTxnResponse(), AddOffsetsToTxnResponse
        )

    # ---- letting records in

    @property
    def verifies(self) -> bool:
        """Whether records are let in only where their partition was added."""
        return self._services.config.transaction_partition_verification_enable

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: Iterable[Place],
        *,
        may_add: bool,
    ) -> Acknowledgement | None:
        """Let records in (TXN-11); see ``TransactionAdmission.admit``."""
        claim = Claim(producer_id, producer_epoch)
        if may_add:
            return self._add(transactional_id, claim, places, EPOCH_BUMPING_VERSION)
        if self.verifies:
            self._table.check(transactional_id)
            metadata = self._table.metadata(transactional_id)
            for place in places:
                verify_partition(metadata, claim, place)
        return None
