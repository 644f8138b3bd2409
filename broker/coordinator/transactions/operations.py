"""What tools ask about transactions: lists, descriptions, and an end by hand."""

import asyncio
from typing import Final

from seglog.broker.coordinator.transactions.markers import MarkerWriter
from seglog.broker.coordinator.transactions.name_pattern import NamePattern, PatternError
from seglog.broker.coordinator.transactions.state import (
    AT_REST,
    Claim,
    TransactionMetadata,
    TransactionState,
)
from seglog.broker.coordinator.transactions.table import TransactionTable
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
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
_SLICE: Final = 5_000
"""After so many looks of a character at a place of a pattern others get their turn: some ms."""


class ListTransactionsOperation:
    """Answers list-transactions requests."""

    __slots__ = ("_services", "_table")

    def __init__(self, services: Services, table: TransactionTable) -> None:
        self._services = services
        self._table = table

    def handle(
        self, request: ListTransactionsRequest, _context: RequestContext
    ) -> ListTransactionsResponse | Pending[ListTransactionsResponse]:
        """The transactional ids that match, by name, and which of the asked states do not exist."""
        unknown = [state for state in request.states if state not in _STATE_NAMES]
        if self._table.is_loading:
            return ListTransactionsResponse([], unknown, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        now_ms = self._services.clock.time_ms()
        found = [
            ListedTransaction(each.transactional_id, each.producer_id, each.state.value)
            for each in sorted(
                (each.metadata for each in self._table), key=lambda each: each.transactional_id
            )
            if _matches(each, request, now_ms)
        ]
        if not request.transactional_id_pattern:
            return ListTransactionsResponse(found, unknown)
        try:
            pattern = NamePattern(request.transactional_id_pattern)
        except PatternError:
            return ListTransactionsResponse([], unknown, ErrorCode.INVALID_REGULAR_EXPRESSION)
        return self._services.begin(_with_names(pattern, found, unknown), holds_input=False)


def _matches(metadata: TransactionMetadata, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.states and metadata.state.value not in request.states:
        return False
    if request.producer_ids and metadata.producer_id not in request.producer_ids:
        return False
    return request.duration_ms < 0 or (
        metadata.state not in AT_REST and now_ms - metadata.started_ms > request.duration_ms
    )


async def _with_names(
    pattern: NamePattern, listed: list[ListedTransaction], unknown: list[str]
) -> ListTransactionsResponse:
    """The response with those whose names match; names and pattern may be as long as they like."""
    found = []
    until_rest = _SLICE
    for each in listed:
        state = pattern.start
        for character in each.transactional_id:
            state = pattern.step(state, character)
            until_rest -= 1 + len(state)
            if until_rest < 0:
                await asyncio.sleep(0)
                until_rest = _SLICE
        if pattern.accepts(state):
            found.append(each)
    return ListTransactionsResponse(found, unknown)


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
            [self._describe(each) for each in dict.fromkeys(request.transactional_ids)]
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

    Only an administrator sends them here, to end a transaction in a partition that no coordinator
    knows.
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
