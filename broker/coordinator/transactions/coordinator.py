"""TransactionCoordinator: makes producers the owners of transactional ids, and ends transactions.

All of it runs on the event loop and none of it suspends between looking at a state and changing it:
a record of a transaction is admitted, and the end of the transaction decided, one after the other.
That leaves no room for records that arrive behind the marker of their own transaction.
"""

from seglog.broker.coordinator.internal_topics.answers import answer_when_stored
from seglog.broker.coordinator.transactions.endings import Acknowledgement, TransactionEndings
from seglog.broker.coordinator.transactions.ownership import initialize
from seglog.broker.coordinator.transactions.producer_ids import ProducerIds
from seglog.broker.coordinator.transactions.state import PREPARED, Claim, TransactionMetadata
from seglog.broker.coordinator.transactions.store import TransactionStore
from seglog.broker.coordinator.transactions.table import Transaction, TransactionTable
from seglog.broker.coordinator.transactions.transitions import complete, end
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext, finished
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class TransactionCoordinator:
    """Answers the requests of transactional producers.

    Args:
        services: of the broker.
        table: of the transactional ids.
        store: of their states.
        endings: carries out decisions.
        producer_ids: gives new ones.
    """

    def __init__(
        self,
        services: Services,
        table: TransactionTable,
        store: TransactionStore,
        endings: TransactionEndings,
        producer_ids: ProducerIds,
    ) -> None:
        self._services = services
        self._table = table
        self._store = store
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
        return await finished(self._init_now(request, transactional_id))

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
        return answer_when_stored(self._services, acknowledged, response, InitProducerIdResponse)

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
        return await finished(self._end_now(request))

    def _end_now(self, request: EndTxnRequest) -> EndTxnResponse | Pending[EndTxnResponse]:
        try:
            next_owner, acknowledged = self._end(request)
        except RequestError as error:
            return EndTxnResponse(error.code)
        response = EndTxnResponse()
        if request.bumps_epoch:
            response.producer_id, response.producer_epoch = next_owner
        return answer_when_stored(self._services, acknowledged, response, EndTxnResponse)

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
