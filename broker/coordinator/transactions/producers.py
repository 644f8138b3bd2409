"""Producer ids, and the producers that partitions remember."""

from seglog.broker.coordinator.transactions.coordinator import TransactionCoordinator
from seglog.broker.coordinator.transactions.producer_ids import ProducerIds
from seglog.broker.errors import describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResult,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class InitProducerIdOperation:
    """Answers init-producer-id requests; those with a transactional id are the coordinator's."""

    __slots__ = ("_producer_ids", "_services", "_transactions")

    def __init__(
        self, services: Services, producer_ids: ProducerIds, transactions: TransactionCoordinator
    ) -> None:
        self._services = services
        self._producer_ids = producer_ids
        self._transactions = transactions

    def handle(
        self, request: InitProducerIdRequest, _context: RequestContext
    ) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
        """A new id with epoch 0; an idempotent producer counts its epochs on its own."""
        has_id = request.producer_id != NO_PRODUCER_ID
        if request.transactional_id == "" or has_id != (
            request.producer_epoch != NO_PRODUCER_EPOCH
        ):
            return InitProducerIdResponse(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is not None:
            return self._transactions.init(request, request.transactional_id)
        taken = self._producer_ids.take()
        if taken is not None:
            return InitProducerIdResponse(producer_id=taken, producer_epoch=0)
        return self._services.begin(self._reserve(), holds_input=False)

    async def _reserve(self) -> InitProducerIdResponse:
        try:
            taken = await self._producer_ids.take_or_reserve()
        except SeglogError as error:
            describe_error(error)
            return InitProducerIdResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return InitProducerIdResponse(producer_id=taken, producer_epoch=0)


class DescribeProducersOperation:
    """Answers describe-producers requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribeProducersRequest, _context: RequestContext
    ) -> DescribeProducersResponse:
        """What each partition remembers of its producers, by id."""
        return DescribeProducersResponse(
            [self._describe(*place) for place in dict.fromkeys(request.partitions)]
        )

    def _describe(self, topic: str, number: int) -> DescribeProducersResult:
        try:
            partition = self._services.partitions.get(topic, number)
        except SeglogError as error:
            code, message = describe_error(error)
            return DescribeProducersResult(topic, number, code, message)
        producers = [
            ActiveProducer(
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                -1 if entry.open_transaction_offset is None else entry.open_transaction_offset,
            )
            for entry in partition.log.producer_state
        ]
        producers.sort(key=lambda producer: producer.producer_id)
        return DescribeProducersResult(topic, number, producers=producers)
