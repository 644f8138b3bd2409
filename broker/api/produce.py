"""Produce: append one batch to each of some partitions.

The batches are views of the connection's receive buffer and are written from there. Small ones are
validated on the spot. What inflates or is compressed anew to more than a little is checked in
a worker while the connection keeps its buffer (``Pending.holds_input``), so that no other client's
latency pays for it: ``produce_apart``.

One bad partition never harms the others: each has its own result, and nothing of a refused batch is
on disk. Batches of transactions have to be let in by the coordinator first: ``transactional``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from seglog.broker.api.produce_answer import ProduceAnswer, no_batch
from seglog.broker.api.produce_apart import Admission, ApartAppends
from seglog.broker.api.transactional import Refusals, admit_batches
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.log.append import (
    STORED_AS_SENT,
    AppendInfo,
    NeedsWorkerError,
    prepare_append,
)
from seglog.protocol.api import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.records.batch import CODEC_MASK, HEADER_BYTES, TRANSACTIONAL_BIT

INLINE_COMPRESSED_BYTES_MAX: Final = 16 * 1024
"""A larger compressed batch goes to a worker without a try: few of them inflate to little."""

INLINE_INFLATED_BYTES_MAX: Final = 256 * 1024
"""So much of one request is inflated and checked on the loop, within about a millisecond.

It costs less than a thread hop. A batch does not show in its size what it inflates to: the codec's
frame says it, or inflating stops there, and a worker begins anew."""

_ATTRIBUTES_LOW_BYTE: Final = 22
_NONE_REFUSED: Final[Mapping[int, SeglogError]] = MappingProxyType({})


class ProduceOperation:
    """Answers produce requests.

    With ``acks=0`` the response is made like any other; the connection drops it, and closes if it
    holds an error, which is the only way to tell the client.
    """

    __slots__ = ("_apart", "_services")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._apart = ApartAppends(services)

    def handle(
        self, request: ProduceRequest, context: RequestContext
    ) -> ProduceResponse | Pending[ProduceResponse]:
        """Append the batches in the order of the request."""
        if request.acks not in (-1, 0, 1):
            return _refuse_acks(request)
        entries = request.partitions
        answer = ProduceAnswer(self._services, request, context)
        admission: Admission | None = None
        if any(map(_is_special, entries)):
            is_costly, admission = self._look_closely(answer)
            if is_costly or (admission is not None and admission.admitted is not None):
                return self._go_on_apart(answer, entries, admission)
        refusals: Refusals = _NONE_REFUSED if admission is None else admission.refusals
        now_ms = self._services.clock.time_ms()
        inline_bytes_left = INLINE_INFLATED_BYTES_MAX
        for entry in entries:
            try:
                partition = answer.partition_for(entry)
                if entry.records is None:
                    raise refusals.get(id(entry)) or no_batch(entry)
                if _may_take_long(entry.records, partition):
                    info, used = _append_bounded(
                        entry.records, partition, answer.acks, now_ms, inline_bytes_left
                    )
                    inline_bytes_left -= used
                else:
                    info = partition.append(entry.records, answer.acks, now_ms)
            except NeedsWorkerError:
                return self._go_on_apart(answer, entries[answer.outcomes :], admission)
            except SeglogError as error:
                answer.refuse(entry, error)
                continue
            answer.accept(entry, partition, info)
        finished = answer.finish()
        return Pending(finished) if isinstance(finished, asyncio.Future) else finished

    def _go_on_apart(
        self,
        answer: ProduceAnswer,
        entries: Sequence[ProducePartition],
        admission: Admission | None,
    ) -> Pending[ProduceResponse]:
        """Have the rest of a request validated in workers."""
        work = self._apart.append(answer, entries, admission)
        return self._services.begin(work, holds_input=True)

    def _look_closely(self, answer: ProduceAnswer) -> tuple[bool, Admission | None]:
        """Ask for leave for batches of transactions, and tell whether a worker is needed."""
        request = answer.request
        is_costly = is_transactional = False
        for entry in request.partitions:
            records = entry.records
            if records is None or records.nbytes < HEADER_BYTES:
                continue
            is_costly |= self._is_costly(entry, records)
            is_transactional |= bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT)
        if not is_transactional or self._services.admission is None:
            return is_costly, None
        ask = partial(admit_batches, self._services.admission, find=answer.partition_for)
        return is_costly, Admission(ask, *ask(request))

    def _is_costly(self, entry: ProducePartition, records: memoryview) -> bool:
        """Whether a worker is needed for certain: much is decompressed or recompressed."""
        if records.nbytes <= INLINE_COMPRESSED_BYTES_MAX:
            return False
        if records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
            return True
        partition = self._services.partitions.find(entry.topic, entry.partition)
        return partition is not None and (
            partition.log.config.compression_type not in STORED_AS_SENT
        )


def _is_special(entry: ProducePartition) -> bool:
    """Whether a batch needs a closer look before anything of its request is appended."""
    records = entry.records
    return records is not None and (
        records.nbytes > INLINE_COMPRESSED_BYTES_MAX
        or records.nbytes < HEADER_BYTES
        or bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT)
    )


def _may_take_long(records: memoryview, partition: Partition) -> bool:
    """Whether what a batch costs is unknown, or more than its bytes: it is (re)compressed."""
    return records.nbytes >= HEADER_BYTES and (
        bool(records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK)
        or partition.log.config.compression_type not in STORED_AS_SENT
    )


def _append_bounded(
    records: memoryview, partition: Partition, acks: int, now_ms: int, inline_bytes_max: int
) -> tuple[AppendInfo, int]:
    """Append a batch, if inflating and checking it is quick.

    Returns:
        The result of the append, and how many bytes were inflated or compressed for it.

    Raises:
        NeedsWorkerError: it is not; nothing was done.
        SeglogError: as ``Partition.append``.
    """
    prepared = prepare_append(
        records, partition.log.config, now_ms, inline_bytes_max=inline_bytes_max
    )
    return partition.append_prepared(prepared, acks, now_ms), prepared.worked_bytes


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
