"""What tools ask about transactions: lists, descriptions, and an end by hand."""

import asyncio
import re

from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.services import Services
from seglog.broker.coordinator.transaction_markers import MarkerWriter
from seglog.broker.coordinator.transaction_state import (
    AT_REST,
    Claim,
    TransactionMetadata,
    TransactionState,
)
from seglog.broker.coordinator.transaction_table import TransactionTable
from seglog.broker.errors import RequestError, describe_error
from seglog.protocol.api import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionDescription,
    TransactionEnd,
    TransactionEndPartitionResult,
    TransactionEndResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError

_STATE_NAMES = frozenset(state.value for state in TransactionState)


class ListTransactionsOperation:
    """Answers list-transactions requests."""

    __slots__ = ("_services", "_table")

    def __init__(self, services: Services, table: TransactionTable) -> None:
        self._services = services
        self._table = table

    def handle(
        self, request: ListTransactionsRequest, _context: RequestContext
    ) -> ListTransactionsResponse:
        """The transactional ids that match, by name, and which of the asked states do not exist."""
        unknown = [state for state in request.states if state not in _STATE_NAMES]
        if self._table.is_loading:
            return ListTransactionsResponse([], unknown, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        pattern = None
        if request.transactional_id_pattern:
            try:
                pattern = re.compile(request.transactional_id_pattern)
            except re.error:
                return ListTransactionsResponse([], unknown, ErrorCode.INVALID_REGULAR_EXPRESSION)
        now_ms = self._services.clock.time_ms()
        found = [
            ListedTransaction(each.transactional_id, each.producer_id, each.state.value)
            for each in sorted(
                (each.metadata for each in self._table), key=lambda each: each.transactional_id
            )
            if _matches(each, request, pattern, now_ms)
        ]
        return ListTransactionsResponse(found, unknown)


def _matches(
    metadata: TransactionMetadata,
    request: ListTransactionsRequest,
    pattern: re.Pattern[str] | None,
    now_ms: int,
) -> bool:
    if request.states and metadata.state.value not in request.states:
        return False
    if request.producer_ids and metadata.producer_id not in request.producer_ids:
        return False
    if request.duration_ms >= 0 and (
        metadata.state in AT_REST or now_ms - metadata.started_ms <= request.duration_ms
    ):
        return False
    return pattern is None or pattern.fullmatch(metadata.transactional_id) is not None


class DescribeTransactionsOperation:
    """Answers describe-transactions requests."""

    __slots__ = ("_table",)

    def __init__(self, table: TransactionTable) -> None:
        self._table = table

    def handle(
        self, request: DescribeTransactionsRequest, _context: RequestContext
    ) -> DescribeTransactionsResponse:
        """Describe every transactional id; each has its own result."""
        return DescribeTransactionsResponse(
            [self._describe(each) for each in request.transactional_ids]
        )

    def _describe(self, transactional_id: str) -> TransactionDescription:
        try:
            self._table.check(transactional_id)
        except RequestError as error:
            return TransactionDescription(transactional_id, error.code)
        metadata = self._table.metadata(transactional_id)
        if metadata is None:
            return TransactionDescription(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return TransactionDescription(
            transactional_id,
            ErrorCode.NONE,
            metadata.state.value,
            metadata.timeout_ms,
            metadata.started_ms,
            metadata.producer_id,
            metadata.producer_epoch,
            sorted(metadata.partitions),
        )


class WriteTxnMarkersOperation:
    """Answers write-txn-markers requests: the end of a transaction that hangs.

    Nobody but an administrator sends them here, to end in a partition what no coordinator knows of.
    """

    __slots__ = ("_markers", "_services")

    def __init__(self, services: Services, markers: MarkerWriter) -> None:
        self._services = services
        self._markers = markers

    def handle(
        self, request: WriteTxnMarkersRequest, _context: RequestContext
    ) -> WriteTxnMarkersResponse | Pending[WriteTxnMarkersResponse]:
        """Write every marker; each partition has its own result."""
        waits: dict[asyncio.Future[None], list[TransactionEndPartitionResult]] = {}
        response = WriteTxnMarkersResponse(
            [
                TransactionEndResult(
                    each.producer_id,
                    [self._write(each, place, waits) for place in each.partitions],
                )
                for each in request.ends
            ]
        )
        if not waits:
            return response
        return self._services.begin(_once_written(response, waits), holds_input=False)

    def _write(
        self,
        asked: TransactionEnd,
        place: tuple[str, int],
        waits: "dict[asyncio.Future[None], list[TransactionEndPartitionResult]]",
    ) -> TransactionEndPartitionResult:
        result = TransactionEndPartitionResult(*place)
        try:
            acknowledged = self._markers.write(
                place,
                Claim(asked.producer_id, asked.producer_epoch),
                commit=asked.commit,
                coordinator_epoch=asked.coordinator_epoch,
                transaction_version=asked.transaction_version,
            )
        except SeglogError as error:
            result.error, _ = describe_error(error)
            return result
        if acknowledged is not None:
            waits.setdefault(acknowledged, []).append(result)
        return result


async def _once_written(
    response: WriteTxnMarkersResponse,
    waits: "dict[asyncio.Future[None], list[TransactionEndPartitionResult]]",
) -> WriteTxnMarkersResponse:
    await asyncio.wait(waits)
    for acknowledged, results in waits.items():
        error = acknowledged.exception()
        if error is not None:
            code, _ = describe_error(error)
            for result in results:
                result.error = code
    return response
