"""TransactionCoordinator: what producers ask of transactions, from their ids to their ends.

All of it runs on the event loop and none of it suspends between looking at a state and changing it:
a record of a transaction is admitted, and the end of the transaction decided, one after the other.
That leaves no room for records that arrive behind the marker of their own transaction.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from seglog.broker.api.context import Pending, RequestContext, ResponseT
from seglog.broker.api.services import Services
from seglog.broker.api.transactional import all_of
from seglog.broker.coordinator.internal_topic import InternalTopic
from seglog.broker.coordinator.offset_store import OFFSETS_TOPIC, coordinator_error
from seglog.broker.coordinator.producer_ids import ProducerIds
from seglog.broker.coordinator.transaction_endings import Acknowledgement, TransactionEndings
from seglog.broker.coordinator.transaction_ownership import initialize
from seglog.broker.coordinator.transaction_state import (
    EPOCH_BUMPING_VERSION,
    PREPARED,
    Claim,
    Place,
    TransactionMetadata,
)
from seglog.broker.coordinator.transaction_steps import (
    add_partitions,
    complete,
    end,
    verify_partition,
)
from seglog.broker.coordinator.transaction_store import TransactionStore
from seglog.broker.coordinator.transaction_table import Transaction, TransactionTable
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.layout import INTERNAL_TOPICS
from seglog.protocol.api import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TransactionPartitions,
    TransactionPartitionsResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_PLAIN_VERSION: Final = 0


class TransactionCoordinator:
    """Answers the requests of transactional producers.

    Args:
        services: of the broker.
        table: of the transactional ids.
        store: of their states.
        offsets: the internal topic that holds the offsets of groups.
        endings: carries out what is decided.
        producer_ids: gives new ones.
    """

    def __init__(
        self,
        services: Services,
        table: TransactionTable,
        store: TransactionStore,
        offsets: InternalTopic,
        endings: TransactionEndings,
        producer_ids: ProducerIds,
    ) -> None:
        self._services = services
        self._table = table
        self._store = store
        self._offsets = offsets
        self._endings = endings
        self._producer_ids = producer_ids

    # ---- becoming the owner

    def init(
        self, request: InitProducerIdRequest, transactional_id: str
    ) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
        """Make a producer the owner of a transactional id; the one before is shut out."""
        limit_ms = self._services.config.transaction_max_timeout_ms
        if not 0 < request.transaction_timeout_ms <= limit_ms:
            return InitProducerIdResponse(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        try:
            self._table.check(transactional_id)
        except RequestError as error:
            return InitProducerIdResponse(error.code)
        if self._store.exists and self._producer_ids.is_stocked:
            return self._init_now(request, transactional_id)
        return self._services.begin(self._init_later(request, transactional_id), holds_input=False)

    async def _init_later(
        self, request: InitProducerIdRequest, transactional_id: str
    ) -> InitProducerIdResponse:
        try:
            await self._store.ensure()
            await self._producer_ids.restock()
        except SeglogError as error:
            describe_error(error)
            return InitProducerIdResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = self._init_now(request, transactional_id)
        return await response.future if isinstance(response, Pending) else response

    def _init_now(
        self, request: InitProducerIdRequest, transactional_id: str
    ) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
        try:
            self._table.check(transactional_id)
            metadata, acknowledged = self._initialize(request, transactional_id)
        except RequestError as error:
            return InitProducerIdResponse(error.code)
        response = InitProducerIdResponse(
            producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
        )
        return self._answer(acknowledged, response, InitProducerIdResponse)

    def _initialize(
        self, request: InitProducerIdRequest, transactional_id: str
    ) -> tuple[TransactionMetadata, Acknowledgement | None]:
        now_ms = self._services.clock.time_ms()
        transaction = self._table.find(transactional_id)
        is_new = transaction is None
        if transaction is None:
            unused = TransactionMetadata(
                transactional_id,
                self._take_id(),
                NO_PRODUCER_EPOCH,
                request.transaction_timeout_ms,
                updated_ms=now_ms,
            )
            transaction = Transaction(unused)
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = Claim(request.producer_id, request.producer_epoch)
        next_metadata = self._next_owner(request, transaction, expected, now_ms)
        if next_metadata.state in PREPARED:
            self._endings.decide(transaction, next_metadata)
            # While the end is being carried out this is refused, and the client asks again.
            next_metadata = self._next_owner(request, transaction, expected, now_ms)
        acknowledged = self._endings.log(transaction, next_metadata)
        if is_new:
            self._table.add(transaction)
        return next_metadata, acknowledged

    def _next_owner(
        self,
        request: InitProducerIdRequest,
        transaction: Transaction,
        expected: Claim | None,
        now_ms: int,
    ) -> TransactionMetadata:
        return initialize(
            transaction.metadata,
            expected,
            timeout_ms=request.transaction_timeout_ms,
            now_ms=now_ms,
            fresh_id=self._fresh_id(transaction.metadata),
        )

    def _fresh_id(self, metadata: TransactionMetadata) -> int:
        return self._take_id() if metadata.is_exhausted else NO_PRODUCER_ID

    def _take_id(self) -> int:
        taken = self._producer_ids.take()
        if taken is None:
            # One request in a thousand; it comes again, and there are ids then.
            raise RequestError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "producer ids are being reserved"
            )
        return taken

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
        response = AddPartitionsToTxnResponse(results)
        return self._answer(
            all_of(waits), response, lambda error: AddPartitionsToTxnResponse(results, error)
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
            return None
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
        response = self._add_offsets_now(request)
        return await response.future if isinstance(response, Pending) else response

    def _add_offsets_now(
        self, request: AddOffsetsToTxnRequest
    ) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
        place = (OFFSETS_TOPIC, self._offsets.partition_of(request.group_id))
        claim = Claim(request.producer_id, request.producer_epoch)
        try:
            acknowledged = self._add(request.transactional_id, claim, [place], _PLAIN_VERSION)
        except RequestError as error:
            return AddOffsetsToTxnResponse(error.code)
        return self._answer(acknowledged, AddOffsetsToTxnResponse(), AddOffsetsToTxnResponse)

    # ---- ending

    def end(
        self, request: EndTxnRequest, _context: RequestContext
    ) -> EndTxnResponse | Pending[EndTxnResponse]:
        """Commit or abort."""
        metadata = self._table.metadata(request.transactional_id)
        is_exhausted = metadata is not None and metadata.is_exhausted
        if request.bumps_epoch and is_exhausted and not self._producer_ids.is_stocked:
            return self._services.begin(self._end_later(request), holds_input=False)
        return self._end_now(request)

    async def _end_later(self, request: EndTxnRequest) -> EndTxnResponse:
        try:
            await self._producer_ids.restock()
        except SeglogError as error:
            describe_error(error)
            return EndTxnResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response = self._end_now(request)
        return await response.future if isinstance(response, Pending) else response

    def _end_now(self, request: EndTxnRequest) -> EndTxnResponse | Pending[EndTxnResponse]:
        try:
            next_owner, acknowledged = self._end(request)
        except RequestError as error:
            return EndTxnResponse(error.code)
        response = EndTxnResponse()
        if request.bumps_epoch:
            response.producer_id, response.producer_epoch = next_owner
        return self._answer(acknowledged, response, EndTxnResponse)

    def _end(self, request: EndTxnRequest) -> tuple[Claim, Acknowledgement | None]:
        self._table.check(request.transactional_id)
        transaction = self._table.find(request.transactional_id)
        current = None if transaction is None else transaction.metadata
        fresh_id = NO_PRODUCER_ID
        if request.bumps_epoch and current is not None and current.is_exhausted:
            fresh_id = self._take_id()
        now_ms = self._services.clock.time_ms()
        decided = end(
            current,
            Claim(request.producer_id, request.producer_epoch),
            commit=request.commit,
            bumps_epoch=request.bumps_epoch,
            now_ms=now_ms,
            fresh_id=fresh_id,
        )
        assert transaction is not None
        if decided is current:
            return decided.owner, None
        acknowledged = self._endings.decide(transaction, decided)
        return complete(decided, now_ms).owner, acknowledged

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
        topic: str,
        partition: int,
        *,
        may_add: bool,
    ) -> Acknowledgement | None:
        """Let records of a transaction into a partition (TXN-11).

        Args:
            transactional_id: of the request.
            producer_id: of the records.
            producer_epoch: of the records.
            topic: where they shall go.
            partition: where they shall go.
            may_add: whether the client leaves it to its records to add the partition.

        Returns:
            What has to be waited for before the records are written, None mostly: then they may be
            written now, before anything else happens.

        Raises:
            RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
                TRANSACTION_ABORTABLE if it was not added, or the coordinator is not available.
        """
        place = (topic, partition)
        return self.admit_all(
            transactional_id, producer_id, producer_epoch, [place], may_add=may_add
        )

    def admit_all(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: Iterable[Place],
        *,
        may_add: bool,
    ) -> Acknowledgement | None:
        """The same for several partitions, with one record for all of them."""
        claim = Claim(producer_id, producer_epoch)
        if may_add:
            return self._add(transactional_id, claim, places, EPOCH_BUMPING_VERSION)
        if self.verifies:
            self._table.check(transactional_id)
            metadata = self._table.metadata(transactional_id)
            for place in places:
                verify_partition(metadata, claim, place)
        return None

    # ---- answering

    def _answer(
        self,
        acknowledged: Acknowledgement | None,
        response: ResponseT,
        refused: Callable[[ErrorCode], ResponseT],
    ) -> ResponseT | Pending[ResponseT]:
        if acknowledged is None:
            return response
        return self._services.begin(_once(acknowledged, response, refused), holds_input=False)


async def _once(
    acknowledged: Acknowledgement, response: ResponseT, refused: Callable[[ErrorCode], ResponseT]
) -> ResponseT:
    await asyncio.wait([acknowledged])
    error = acknowledged.exception()
    if error is None:
        return response
    return refused(coordinator_error(error, too_large=ErrorCode.UNKNOWN_SERVER_ERROR).code)
