"""Produce requests whose batches are inflated and checked in workers before they are appended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from seglog.broker.api.produce_answer import ProduceAnswer, no_batch
from seglog.broker.api.transactional import Refusals
from seglog.broker.api.validation_memory import ValidationMemory
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.services import Services
from seglog.broker.storage.log.append import PreparedAppend, memory_to_prepare, prepare_append
from seglog.protocol.api import ProducePartition, ProduceRequest, ProduceResponse
from seglog.protocol.errors import ErrorCode, SeglogError

_NO_REFUSALS: Refusals = {}


@dataclass(slots=True)
class Admission:
    """What the coordinator said of the batches of transactions in a request.

    Attributes:
        ask: asks again, for the request that is given.
        refusals: why entries are refused.
        admitted: what has to be waited for before the others are appended, None mostly.
    """

    ask: "Callable[[ProduceRequest], tuple[Refusals, asyncio.Future[None] | None]]"
    refusals: Refusals
    admitted: "asyncio.Future[None] | None"

    async def at_last(self, request: ProduceRequest) -> Refusals:
        """Ask for leave again after a wait, since a transaction may have ended meanwhile.

        Records that reach the disk before their partition is known to be in the transaction would
        stay undecided if the power failed then, so that is waited for; and nothing suspends between
        the last leave and the append, so that no end comes in between.
        """
        while True:
            admitted, self.admitted = self.admitted, None
            if admitted is not None:
                await asyncio.wait([admitted])
                if (failure := admitted.exception()) is not None:
                    # It stays what the next entries of the request are told.
                    self.admitted = admitted
                    error = RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, describe_error(failure)[1])
                    return {id(entry): error for entry in request.partitions}
            more, self.admitted = self.ask(request)
            self.refusals = {**self.refusals, **more}
            if self.admitted is None:
                return self.refusals


class ApartAppends:
    """Validates batches in workers, as many at a time as their memory has room for."""

    __slots__ = ("_memory", "_services")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._memory = ValidationMemory(services.counters)

    async def append(
        self,
        answer: ProduceAnswer,
        entries: Sequence[ProducePartition],
        admission: Admission | None,
    ) -> ProduceResponse:
        """Append the batches of ``entries``, the rest of a request, in their order."""
        for window, size in self._memory.windows(entries, self._memory_of):
            async with self._memory.reserved(size):
                await self._append_window(answer, window, admission)
        finished = answer.finish()
        return await finished if isinstance(finished, asyncio.Future) else finished

    async def _append_window(
        self,
        answer: ProduceAnswer,
        entries: list[ProducePartition],
        admission: Admission | None,
    ) -> None:
        """All validation in workers, then all appends in one turn of the loop."""
        refusals = _NO_REFUSALS if admission is None else admission.refusals
        validations = [self._validate(answer, entry, refusals) for entry in entries]
        # Wait for all of them whatever comes: while one runs, the receive buffer must stay.
        prepared = await asyncio.gather(*validations, return_exceptions=True)
        if admission is not None:
            refusals = await admission.at_last(replace(answer.request, partitions=entries))
        now_ms = self._services.clock.time_ms()
        for entry, outcome in zip(entries, prepared, strict=True):
            try:
                if isinstance(outcome, BaseException):
                    raise outcome
                if id(entry) in refusals:
                    raise refusals[id(entry)]
                # It may have been deleted meanwhile.
                partition = answer.partition_for(entry)
                info = partition.append_prepared(outcome, answer.acks, now_ms)
            except SeglogError as error:
                answer.refuse(entry, error)
                continue
            answer.accept(entry, partition, info)

    async def _validate(
        self, answer: ProduceAnswer, entry: ProducePartition, refusals: Refusals
    ) -> PreparedAppend:
        partition = answer.partition_for(entry)
        records = entry.records
        if records is None:
            raise refusals.get(id(entry)) or no_batch(entry)
        job = partial(prepare_append, records, partition.log.config, self._services.clock.time_ms())
        return await self._services.workers.validation.run(job)

    def _memory_of(self, entry: ProducePartition) -> int:
        """Bytes that validating a batch and keeping it until it is appended may take."""
        partition = self._services.partitions.find(entry.topic, entry.partition)
        if partition is None or entry.records is None:
            return 0
        return memory_to_prepare(entry.records, partition.log.config)
