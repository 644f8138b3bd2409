"""ListOffsets: the first offset at or after a time, and the special ones."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.log.log import FetchIsolation
from seglog.protocol.api import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, IsolationLevel

logger = logging.getLogger(__name__)

_CONSUMER_REPLICA_ID = -1
_ENDS: Final = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
"""Offsets that are known without a look at any batch."""
_SLICE: Final = 5
"""After so many lookups by time others get their turn: each may have to decompress a batch."""


class ListOffsetsOperation:
    """Answers list-offsets requests.

    "Not found" is offset -1 and timestamp -1 without an error. What a reader of the asked isolation
    may not see yet is not found either (LIST-7).
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: ListOffsetsRequest, _context: RequestContext
    ) -> ListOffsetsResponse | Pending[ListOffsetsResponse]:
        """Look every partition up; each has its own result."""
        isolation = FetchIsolation.HIGH_WATERMARK
        if request.replica_id != _CONSUMER_REPLICA_ID:
            isolation = FetchIsolation.LOG_END
        elif request.isolation_level == IsolationLevel.READ_COMMITTED:
            isolation = FetchIsolation.TXN_COMMITTED
        repeated = _repeated_names(request.partitions)
        look_up = partial(self._look_up, isolation=isolation, repeated=repeated)
        by_time = sum(entry.timestamp_ms not in _ENDS for entry in request.partitions)
        if by_time <= _SLICE:
            try:
                return ListOffsetsResponse([look_up(entry) for entry in request.partitions])
            except DeferredReadError as error:
                logger.debug("event=lookup-deferred reason=%s", error)
        return self._services.begin(self._in_slices(look_up, request), holds_input=False)

    def _look_up(
        self,
        entry: ListOffsetsPartition,
        isolation: FetchIsolation,
        repeated: set[tuple[str, int]],
    ) -> ListOffsetsResult:
        try:
            if (entry.topic, entry.partition) in repeated:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"{entry.topic}-{entry.partition} is named more than once",
                )
            partition = self._services.partitions.get(entry.topic, entry.partition)
            partition.check_epoch(entry.current_leader_epoch)
            found = partition.log.offset_for_timestamp(entry.timestamp_ms, isolation=isolation)
        except DeferredReadError:
            raise
        except SeglogError as error:
            return _refused(entry, error)
        if found is None:
            return ListOffsetsResult(entry.topic, entry.partition)
        return ListOffsetsResult(
            entry.topic,
            entry.partition,
            ErrorCode.NONE,
            found.timestamp_ms,
            found.offset,
            found.leader_epoch,
        )

    async def _in_slices(
        self,
        look_up: Callable[[ListOffsetsPartition], ListOffsetsResult],
        request: ListOffsetsRequest,
    ) -> ListOffsetsResponse:
        """The same in turns, with the work between them that lookups need."""
        results = []
        until_rest = _SLICE
        for entry in request.partitions:
            results.append(await self._look_up_deferred(look_up, entry))
            until_rest -= entry.timestamp_ms not in _ENDS
            if until_rest == 0:
                await asyncio.sleep(0)
                until_rest = _SLICE
        return ListOffsetsResponse(results)

    async def _look_up_deferred(
        self,
        look_up: Callable[[ListOffsetsPartition], ListOffsetsResult],
        entry: ListOffsetsPartition,
    ) -> ListOffsetsResult:
        try:
            return look_up(entry)
        except DeferredReadError as error:
            needed = error
        try:
            return await self._services.deferred_reads.read(needed, partial(look_up, entry))
        except SeglogError as error:
            return _refused(entry, error)


def _refused(entry: ListOffsetsPartition, error: SeglogError) -> ListOffsetsResult:
    code, message = describe_error(error)
    return ListOffsetsResult(entry.topic, entry.partition, code, error_message=message)


def _repeated_names(entries: list[ListOffsetsPartition]) -> set[tuple[str, int]]:
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for entry in entries:
        name = (entry.topic, entry.partition)
        (repeated if name in seen else seen).add(name)
    return repeated
