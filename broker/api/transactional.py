"""Batches of transactions in a produce request: permission and the coordinator's admission.

A batch that continues a transaction which its producer has open in the partition needs no
permission. The first one of a transaction needs the coordinator's (TXN-11): it knows whether the
transaction is still open, so that nothing is appended behind the marker that ended it.
"""

import asyncio
import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from seglog.broker.errors import RequestError
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.admission import TransactionAdmission, all_of
from seglog.protocol.api import ProducePartition, ProduceRequest
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.records.batch import HEADER_BYTES, TRANSACTIONAL_BIT

_ATTRIBUTES_LOW_BYTE: Final = 22
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_POSITION: Final = 43
_NOT_NOW: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Refusals: TypeAlias = Mapping[int, SeglogError]
"""Why an entry of a request is refused, by the entry's ``id()``."""


def admit_batches(
    admission: TransactionAdmission,
    request: ProduceRequest,
    find: Callable[[ProducePartition], Partition],
) -> "tuple[Refusals, asyncio.Future[None] | None]":
    """Ask for leave for the batches of a request that begin a transaction in their partition.

    Args:
        admission: the coordinator.
        request: the records of refused entries are taken out of it.
        find: the partition of an entry; the append raises its errors.

    Returns:
        The refused entries, and the future to wait for before the append, mostly None.
    """
    refused = _without_transactional_id(request)
    transactional_id = request.transactional_id or ""
    waits = []
    for (producer_id, epoch), entries in _beginnings(request, find, refused).items():
        # A request adds its partitions as a whole; those added before are checked one by one.
        together = [entries] if request.may_add else [[entry] for entry in entries]
        for some in together:
            places = [(entry.topic, entry.partition) for entry in some]
            try:
                admitted = admission.admit(
                    transactional_id, producer_id, epoch, places, may_add=request.may_add
                )
            except RequestError as error:
                translated = _for_producer(error, request)
                refused.update((id(entry), translated) for entry in some)
                continue
            if admitted is not None:
                waits.append(admitted)
    for entry in request.partitions:
        if id(entry) in refused:
            entry.records = None
    return refused, all_of(waits)


def _without_transactional_id(request: ProduceRequest) -> dict[int, SeglogError]:
    """Refuse a request that has records of a transaction and does not say of which, as a whole.

    Permission belongs to the transactional id: without one no client may write.
    """
    if request.transactional_id is not None or not any(
        _is_transactional(entry.records) for entry in request.partitions
    ):
        return {}
    error = RequestError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "records of a transaction came in a request without a transactional id",
    )
    return {id(entry): error for entry in request.partitions}


def _is_transactional(records: memoryview | None) -> bool:
    return (
        records is not None
        and records.nbytes >= HEADER_BYTES
        and bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT)
    )


def _beginnings(
    request: ProduceRequest,
    find: Callable[[ProducePartition], Partition],
    refused: dict[int, SeglogError],
) -> dict[tuple[int, int], list[ProducePartition]]:
    """The entries that begin a transaction in their partition, by producer id and epoch."""
    found: dict[tuple[int, int], list[ProducePartition]] = {}
    for entry in request.partitions:
        records = entry.records
        if records is None or id(entry) in refused or not _is_transactional(records):
            continue
        try:
            partition = find(entry)
        except SeglogError:
            # The append meets the same error and answers with it.
            continue
        producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
        known = partition.log.producer_state.get(producer_id)
        if known is not None and known.open_transaction_offset is not None and known.epoch == epoch:
            continue
        if request.may_add and known is None and sequence != 0:
            # Of two batches in flight the first one was refused, to come again. A log that knows
            # nothing of the producer would take the second one now, and miss the first.
            refused[id(entry)] = RequestError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins in {entry.topic}-{entry.partition} with sequence "
                f"{sequence}, expected 0",
            )
            continue
        found.setdefault((producer_id, epoch), []).append(entry)
    return found


def _for_producer(error: RequestError, request: ProduceRequest) -> RequestError:
    """The error in words that producers act upon: older ones know only some in this place."""
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code in _NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not request.may_add):
        # Retriable without a look at the metadata.
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    return RequestError(code, error.message)
