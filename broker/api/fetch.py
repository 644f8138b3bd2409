"""Fetch: read batches of several partitions, waiting for them if need be.

Nothing of a record is looked at: a result holds a slice of a segment file, which the connection
sends with ``sendfile`` and then releases. The receiver of a ``FetchResponse`` owns its slices.

A request that finds too little is parked: it watches its partitions and its timer, costs nothing
meanwhile, and is read again, from the start, when it is woken.
"""

import asyncio
from functools import partial
from typing import Final

from seglog.broker.api.cold_reads import ColdReads
from seglog.broker.api.fetch_session_cache import FetchSessionCache
from seglog.broker.api.fetch_sessions import (
    NO_SESSION_ID,
    PARTITIONS_PER_SESSION_MAX,
    SESSIONLESS_EPOCH,
    FetchSessions,
    FinishResponse,
)
from seglog.broker.api.metadata import this_broker
from seglog.broker.api.partition_reads import PartitionReads, isolation_of
from seglog.broker.errors import RequestError
from seglog.broker.partition.deferred_reads import read_pools
from seglog.broker.partition.partition import Partition
from seglog.broker.partition.waiters import FetchWaiter
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import DeferredReadError
from seglog.protocol.api import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError

PARTITIONS_PER_FETCH_MAX: Final = PARTITIONS_PER_SESSION_MAX
"""More would hold up other clients for a second."""


class FetchOperation:
    """Answers fetch requests, those of fetch sessions included."""

    __slots__ = ("_cold_reads", "_reads", "_services", "_sessions")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reads = PartitionReads(services)
        self._cold_reads = ColdReads(
            read_pools(services.logs, services.workers.directories),
            services.counters,
            release_records,
        )
        slots = services.config.max_incremental_fetch_session_cache_slots
        self._sessions = FetchSessions(
            FetchSessionCache(slots, services.counters), services.clock.monotonic_ms
        )

    def handle(
        self, request: FetchRequest, context: RequestContext
    ) -> FetchResponse | Pending[FetchResponse]:
        """Read now, or park the request until there is enough."""
        if len(request.partitions) > PARTITIONS_PER_FETCH_MAX:
            return FetchResponse([], ErrorCode.INVALID_REQUEST)
        finish: FinishResponse | None = None
        if request.session_epoch != SESSIONLESS_EPOCH or request.session_id != NO_SESSION_ID:
            try:
                finish = self._sessions.begin(request)
            except RequestError as error:
                return FetchResponse([], error.code)
        try:
            response, is_enough = self.read(request, context)
        except DeferredReadError as error:
            return self.read_later(request, context, finish, error)
        if is_enough or request.max_wait_ms <= 0:
            response = self.complete(response, finish)
            delayed = self._cold_reads.delay(response)
            return response if delayed is None else Pending(delayed)
        # From here on it is about data that was just read or just written, hence in memory.
        release_records(response)
        parked = _ParkedFetch(self, request, context, finish)
        for entry in request.partitions:
            partition = self._services.partitions.find(entry.topic, entry.partition)
            assert partition is not None, "a partition that was just read without an error"
            parked.watch(partition, entry)
        if parked.is_satisfied:
            # Some bytes are only visible across a segment border; what can be read is the answer.
            parked.close()
            return self.read_now(request, context, finish)
        self._services.counters.parked_fetches += 1
        return Pending(parked.start())

    def read_now(
        self, request: FetchRequest, context: RequestContext, finish: FinishResponse | None
    ) -> FetchResponse | Pending[FetchResponse]:
        """Read, and answer with what there is."""
        try:
            return self.complete(self.read(request, context)[0], finish)
        except DeferredReadError as error:
            return self.read_later(request, context, finish, error)

    def read_later(
        self,
        request: FetchRequest,
        context: RequestContext,
        finish: FinishResponse | None,
        error: DeferredReadError,
    ) -> Pending[FetchResponse]:
        """Answer with what there is once another thread has done what the read needs."""
        work = self._read_later(request, context, finish, error)
        return self._services.begin(work, holds_input=False)

    async def _read_later(
        self,
        request: FetchRequest,
        context: RequestContext,
        finish: FinishResponse | None,
        error: DeferredReadError,
    ) -> FetchResponse:
        read = partial(self.read, request, context)
        try:
            response, _ = await self._services.deferred_reads.read(error, read)
        except SeglogError as failure:
            response = self._reads.refuse_all(request, failure)
        response = self.complete(response, finish)
        delayed = self._cold_reads.delay(response)
        return response if delayed is None else await delayed

    def read(self, request: FetchRequest, context: RequestContext) -> tuple[FetchResponse, bool]:
        """Read all partitions; also whether the answer must not wait for more.

        Limits (FETCH-2): the first partition that has data yields its first batch whole, however
        large; from then on the limits of request, broker and partition hold strictly.

        Raises:
            DeferredReadError: another thread has to do something first; nothing is held.
        """
        remaining = self._limit_of(request)
        results: list[FetchPartitionResult] = []
        total = 0
        has_error = False
        read = self._reads.read
        for entry in request.partitions:
            try:
                result = read(request, entry, min(max(0, entry.max_bytes), remaining), total == 0)
            except DeferredReadError:
                release_records(FetchResponse(results))
                raise
            results.append(result)
            if result.error != ErrorCode.NONE or result.diverging_epoch is not None:
                has_error = True
            elif result.records is not None:
                length = _length_of(result)
                total += length
                remaining = max(0, remaining - length)
        is_enough = has_error or not results or total >= self.wanted_bytes(request)
        response = FetchResponse(results)
        if has_error and any(result.current_leader is not None for result in results):
            response.leaders = [this_broker(self._services, context)]
        return response, is_enough

    def wanted_bytes(self, request: FetchRequest) -> int:
        """How much there must be for an answer; never more than the answer may hold."""
        return min(request.min_bytes, self._limit_of(request))

    def complete(self, response: FetchResponse, finish: FinishResponse | None) -> FetchResponse:
        """Account for a response that is about to be sent, and tell its session."""
        self._count(response)
        if finish is not None:
            try:
                finish(response)
            except RequestError as error:
                release_records(response)
                return FetchResponse([], error.code)
        return response

    def _count(self, response: FetchResponse) -> None:
        find = self._services.partitions.find
        for result in response.partitions:
            partition = find(result.topic, result.partition)
            if partition is None:
                continue
            counters = partition.counters
            counters.fetch_requests += 1
            if result.error != ErrorCode.NONE:
                counters.failed_fetch_requests += 1
            elif result.records is not None:
                counters.bytes_out += _length_of(result)

    def count_parked(self, step: int) -> None:
        """Account for a request that begins to wait (1), or that waits no more (-1)."""
        self._services.counters.waiting_fetches += step

    def count_expired(self) -> None:
        """Account for a parked request whose time was up."""
        self._services.counters.expired_fetches += 1

    def _limit_of(self, request: FetchRequest) -> int:
        return max(0, min(request.max_bytes, self._services.config.fetch_max_bytes))


class _ParkedFetch:
    """A fetch that waits: woken by its partitions, by its timer, or by a connection that closes."""

    __slots__ = (
        "_context", "_finish", "_future", "_isolation", "_operation", "_request", "_timer",
        "_waiter",
    )  # fmt: skip

    def __init__(
        self,
        operation: FetchOperation,
        request: FetchRequest,
        context: RequestContext,
        finish: FinishResponse | None,
    ) -> None:
        self._operation = operation
        self._context = context
        self._request = request
        self._finish = finish
        self._isolation = isolation_of(request)
        self._future: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._waiter = FetchWaiter(operation.wanted_bytes(request), self._ready)

    @property
    def is_satisfied(self) -> bool:
        """Whether enough is there already."""
        return self._waiter.is_satisfied

    def watch(self, partition: Partition, entry: FetchPartition) -> None:
        """Wait for one partition of the request."""
        available = partial(
            partition.available_bytes, entry.fetch_offset, max(0, entry.max_bytes), self._isolation
        )
        self._waiter.watch(partition.fetch_waiters, available)

    def start(self) -> "asyncio.Future[FetchResponse]":
        """Start the clock; the future of the answer. Cancelling it frees the request."""
        self._operation.count_parked(1)
        self._future.add_done_callback(self._done)
        self._timer = self._future.get_loop().call_later(
            self._request.max_wait_ms / 1000, self._expired
        )
        return self._future

    def close(self) -> None:
        """Wait no more."""
        self._waiter.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ready(self) -> None:
        # Not now: the append that woke us is in the middle of its work, and its producer's answer
        # should not wait for ours.
        self._future.get_loop().call_soon(self._answer)

    def _expired(self) -> None:
        self._operation.count_expired()
        self._answer()

    def _answer(self) -> None:
        self.close()
        if self._future.done():
            return
        answer = self._operation.read_now(self._request, self._context, self._finish)
        if isinstance(answer, Pending):
            answer.future.add_done_callback(self._deliver)
        else:
            self._future.set_result(answer)

    def _deliver(self, answer: "asyncio.Future[FetchResponse]") -> None:
        if self._future.done():
            if not answer.cancelled() and answer.exception() is None:
                release_records(answer.result())
        elif answer.cancelled():
            self._future.cancel()
        elif (error := answer.exception()) is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(answer.result())

    def _done(self, future: "asyncio.Future[FetchResponse]") -> None:
        self._operation.count_parked(-1)
        if future.cancelled():
            self.close()


def release_records(response: FetchResponse) -> None:
    """Let go of the segment files that a response holds and that will not be sent."""
    for result in response.partitions:
        release = getattr(result.records, "release", None)
        if release is not None:
            release()
        result.records = None


def _length_of(result: FetchPartitionResult) -> int:
    records = result.records
    if records is None:
        return 0
    return records.nbytes if isinstance(records, memoryview) else records.length
