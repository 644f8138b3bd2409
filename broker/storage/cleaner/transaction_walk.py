"""Which transaction a batch belongs to, for a walk over the batches of a log in their order.

The transaction index says which offsets of a producer were aborted, both ends included. A batch is
looked up there by its producer and its offset, and by nothing that the walk has seen before: so a
walk may begin anywhere, behind the marker of one transaction or in the middle of another.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.protocol.records.batch import BatchHeader, RecordBatch
from seglog.protocol.records.control import ControlType, read_control_type

_OF_TRANSACTIONS: Final = (ControlType.ABORT, ControlType.COMMIT)


class EndedTransaction(NamedTuple):
    """The transaction that a marker has ended.

    Attributes:
        aborted: its entry in the transaction index; None if it was committed, or is not indexed.
        has_batches: whether the walk has come over a batch of it.
    """

    aborted: AbortedTransaction | None
    has_batches: bool


class TransactionWalk:
    """Told of every transactional batch and marker, in order of their offsets.

    Args:
        aborted: the aborted transactions that overlap the walk.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming: dict[int, deque[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda each: (each.first_offset, each.last_offset)):
            self._coming.setdefault(each.producer_id, deque()).append(each)
        self._begun: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take note of a data batch; whether its transaction was aborted."""
        if not header.is_transactional:
            return False
        self._begun.add(header.producer_id)
        return self._aborted_at(header.producer_id, header.base_offset) is not None

    def end(self, marker: RecordBatch) -> EndedTransaction | None:
        """Take note of a control batch; None if it is not one that ends a transaction.

        One that has lost its record, as old cleaners leave it, has ended one too.

        Raises:
            RecordError: its record is not well formed.
        """
        header = marker.header
        if header.record_count:
            record = marker.records(from_offset=header.base_offset)[0]
            if read_control_type(record.key) not in _OF_TRANSACTIONS:
                return None
        aborted = self._aborted_at(header.producer_id, header.last_offset)
        has_batches = header.producer_id in self._begun
        self._begun.discard(header.producer_id)
        return EndedTransaction(aborted, has_batches)

    def _aborted_at(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        coming = self._coming.get(producer_id)
        if coming is None:
            return None
        while coming and coming[0].last_offset < offset:
            coming.popleft()
        if not coming:
            del self._coming[producer_id]
            return None
        return coming[0] if coming[0].first_offset <= offset else None
