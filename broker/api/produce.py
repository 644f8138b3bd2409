"""Produce: append one batch to each of some partitions.

The batches are views of the connection's receive buffer and are written from there. Small ones are
validated on the spot. A large compressed one is decompressed and checked in a worker while the
connection keeps its buffer (``Pending.holds_input``), so that nobody else's latency pays for it.

One bad partition never harms the others: each has its own result, and nothing of a refused batch is
on disk. Batches of transactions have to be let in by the coordinator first: ``transactional``.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from seglog.broker.api.acknowledgements import Waiting, when_acknowledged
from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.services import Services
from seglog.broker.api.transactional import Refusals, admit_batches
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.partition.partition import Partition
from seglog.broker.storage.append import AppendInfo, PreparedAppend, prepare_append
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode, RecordError, SeglogError
from seglog.protocol.records.batch import HEADER_BYTES, TRANSACTIONAL_BIT
from seglog.protocol.types import Acks

INLINE_COMPRESSED_BYTES_MAX: Final = 16 * 1024
"""A compressed batch up to this size is validated on the loop, which costs less than a thread hop.

So small a bomb inflates to the bound of a batch within some 30 ms."""

_ATTRIBUTES_LOW_BYTE: Final = 22
_CODEC_MASK: Final = 0x07
_ADMIN_CLIENT_ID: Final = "__admin_client"
_NONE_REFUSED: Final[Mapping[int, SeglogError]] = MappingProxyType({})

Admit: TypeAlias = Callable[[], tuple[Refusals, asyncio.Future[None] | None]]


class ProduceOperation:
    """Answers produce requests.

    With ``acks=0`` the response is made like any other; the connection drops it, and closes if it
    holds an error, which is the only way to tell the client.
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: ProduceRequest, context: RequestContext
    ) -> ProduceResponse | Pending[ProduceResponse]:
        """Append what was sent, in the order of the request."""
        acks = request.acks
        if acks not in (-1, 0, 1):
            return _refuse_acks(request)
        entries = request.partitions
        is_special = False
        for entry in entries:
            records = entry.records
            if records is not None and (
                records.nbytes > INLINE_COMPRESSED_BYTES_MAX
                or records.nbytes < HEADER_BYTES
                or records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
            ):
                is_special = True
        refusals: Refusals = _NONE_REFUSED
        if is_special:
            pending, refusals = self._look_closely(request, context)
            if pending is not None:
                return pending
        now_ms = self._services.clock.time_ms()
        results: list[ProducePartitionResult] = []
        waiting: Waiting = []
        for entry in entries:
            try:
                partition = self._partition_for(entry, context)
                if entry.records is None:
                    raise refusals.get(id(entry)) or _no_batch(entry)
                info = partition.append(entry.records, acks, now_ms)
            except SeglogError as error:
                results.append(self._refused(entry, acks, error))
                continue
            self._accepted(entry, partition, info, acks, results, waiting)
        response = ProduceResponse(results)
        return Pending(self._await_all(response, waiting, request)) if waiting else response

    def _look_closely(
        self, request: ProduceRequest, context: RequestContext
    ) -> tuple[Pending[ProduceResponse] | None, Refusals]:
        """Have large batches validated in a worker, and those of transactions let in.

        Returns:
            The answer if it takes a while; otherwise what is refused, to append the rest now.
        """
        is_costly = is_transactional = False
        for entry in request.partitions:
            records = entry.records
            if records is None or records.nbytes < HEADER_BYTES:
                continue
            is_costly |= self._is_costly(entry, records)
            is_transactional |= bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT)
        admission = self._services.admission
        refusals: Refusals = _NONE_REFUSED
        admitted, admit = None, None
        if is_transactional and admission is not None:
            admit = partial(
                admit_batches, admission, request, lambda entry: self._partition_for(entry, context)
            )
            refusals, admitted = admit()
        if is_costly or admitted is not None:
            work = self._validate_apart(request, context, refusals, admitted, admit)
            return self._services.begin(work, holds_input=True), refusals
        return None, refusals

    def _is_costly(self, entry: ProducePartition, records: memoryview) -> bool:
        """Whether a batch is better validated in a worker: it is decompressed or recompressed."""
        if records.nbytes <= INLINE_COMPRESSED_BYTES_MAX:
            return False
        if records[_ATTRIBUTES_LOW_BYTE] & _CODEC_MASK:
            return True
        partition = self._services.partitions.find(entry.topic, entry.partition)
        return partition is not None and partition.log.config.compression_type not in (
            "producer",
            "uncompressed",
        )

    async def _validate_apart(
        self,
        request: ProduceRequest,
        context: RequestContext,
        refusals: Refusals,
        admitted: "asyncio.Future[None] | None",
        admit: Admit | None,
    ) -> ProduceResponse:
        """The same with all validation in workers, then all appends in the order of the request."""
        validations = [
            self._begin_validation(entry, context, refusals) for entry in request.partitions
        ]
        # Wait for all of them whatever comes: while one runs, the receive buffer must stay.
        prepared = await asyncio.gather(*validations, return_exceptions=True)
        if admit is not None:
            refusals = await _admitted_at_last(request, refusals, admitted, admit)
        acks = request.acks
        now_ms = self._services.clock.time_ms()
        results: list[ProducePartitionResult] = []
        waiting: Waiting = []
        for entry, outcome in zip(request.partitions, prepared, strict=True):
            try:
                if isinstance(outcome, BaseException):
                    raise outcome
                if id(entry) in refusals:
                    raise refusals[id(entry)]
                # It may have been deleted meanwhile.
                partition = self._partition_for(entry, context)
                info = partition.append_prepared(outcome, acks, now_ms)
            except SeglogError as error:
                results.append(self._refused(entry, acks, error))
                continue
            self._accepted(entry, partition, info, acks, results, waiting)
        response = ProduceResponse(results)
        return await self._await_all(response, waiting, request) if waiting else response

    def _await_all(
        self, response: ProduceResponse, waiting: Waiting, request: ProduceRequest
    ) -> "asyncio.Future[ProduceResponse]":
        """The response once everything it promises is true; counted among those that wait."""
        answer = when_acknowledged(response, waiting, request)
        self._services.counters.waiting_produces += 1
        answer.add_done_callback(self._waits_no_more)
        return answer

    def _waits_no_more(self, _answer: "asyncio.Future[ProduceResponse]") -> None:
        self._services.counters.waiting_produces -= 1

    async def _begin_validation(
        self, entry: ProducePartition, context: RequestContext, refusals: Refusals
    ) -> PreparedAppend:
        partition = self._partition_for(entry, context)
        records = entry.records
        if records is None:
            raise refusals.get(id(entry)) or _no_batch(entry)
        job = partial(prepare_append, records, partition.log.config, self._services.clock.time_ms())
        return await self._services.workers.validation.run(job)

    def _partition_for(self, entry: ProducePartition, context: RequestContext) -> Partition:
        """Find where to append.

        Raises:
            RequestError: there is no such partition, or a client must not write to it.
        """
        if entry.topic_id != ZERO_TOPIC_ID:
            # Each time: the name may be that of another topic by now.
            entry.topic = self._services.partitions.topic_name(entry.topic_id)
        partition = self._services.partitions.get(entry.topic, entry.partition)
        if partition.is_internal and context.client_id != _ADMIN_CLIENT_ID:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{entry.topic} is internal: clients cannot write to it",
            )
        return partition

    def _accepted(
        self,
        entry: ProducePartition,
        partition: Partition,
        info: AppendInfo,
        acks: int,
        results: list[ProducePartitionResult],
        waiting: Waiting,
    ) -> None:
        result = ProducePartitionResult(
            entry.topic,
            entry.partition,
            ErrorCode.NONE,
            info.first_offset,
            info.log_append_time_ms,
            info.log_start_offset,
            (),
            None,
            entry.topic_id,
        )
        results.append(result)
        partition.counters.produce_requests += 1
        acknowledged = partition.acknowledgement(info, acks)
        if acknowledged is not None and acks != Acks.NONE:
            waiting.append((result, acknowledged))

    def _refused(
        self, entry: ProducePartition, acks: int, error: SeglogError
    ) -> ProducePartitionResult:
        code, message = describe_error(error)
        record_errors: Sequence[tuple[int, str]] = ()
        if isinstance(error, RecordError):
            record_errors = error.record_errors
        partition = self._services.partitions.find(entry.topic, entry.partition)
        if partition is not None:
            counters = partition.counters
            counters.produce_requests += 1
            counters.failed_produce_requests += 1
            if entry.records is not None:
                counters.bytes_rejected += entry.records.nbytes
            if isinstance(error, RecordError):
                counters.invalid_records += 1
        if acks == Acks.NONE:
            self._services.counters.unacknowledged_failures += 1
        return ProducePartitionResult(
            entry.topic,
            entry.partition,
            code,
            record_errors=record_errors,
            error_message=message,
            topic_id=entry.topic_id,
        )


async def _admitted_at_last(
    request: ProduceRequest,
    refusals: Refusals,
    admitted: "asyncio.Future[None] | None",
    admit: Admit,
) -> Refusals:
    """Ask for leave again after a wait, since a transaction may have ended meanwhile.

    Records that reach the disk before their partition is known to be in the transaction would stay
    undecided if the power failed then, so that is waited for; and nothing suspends between the last
    leave and the append, so that no end comes in between.
    """
    while True:
        if admitted is not None:
            await asyncio.wait([admitted])
            if (failure := admitted.exception()) is not None:
                error = RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, describe_error(failure)[1])
                return {id(entry): error for entry in request.partitions}
        more, admitted = admit()
        refusals = {**refusals, **more}
        if admitted is None:
            return refusals


def _no_batch(entry: ProducePartition) -> RecordError:
    return RecordError(
        ErrorCode.INVALID_RECORD,
        f"nothing was sent for {entry.topic}-{entry.partition}; one batch is needed",
    )


def _refuse_acks(request: ProduceRequest) -> ProduceResponse:
    message = f"acks={request.acks}: allowed are 0, 1 and -1"
    return ProduceResponse(
        [
            ProducePartitionResult(
                entry.topic,
                entry.partition,
                ErrorCode.INVALID_REQUIRED_ACKS,
                error_message=message,
                topic_id=entry.topic_id,
            )
            for entry in request.partitions
        ]
    )
