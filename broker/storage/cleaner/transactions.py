"""Which transactions a pass has walked through, and what follows for batches and markers."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from seglog.broker.storage.transaction_index import AbortedTransaction
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.records.control import ControlType


@dataclass(slots=True)
class _Aborting:
    """An aborted transaction whose marker has not come yet."""

    transaction: AbortedTransaction
    has_batches: bool = False


class CleanedTransactions:
    """Follows the transactions over all segments of a pass (KEEP-13..17).

    Args:
        aborted: the aborted transactions of the range, in order of their first offset.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        ordered = sorted(aborted, key=lambda each: (each.first_offset, each.last_offset))
        self._coming = deque(ordered)
        self._aborting: dict[int, _Aborting] = {}
        self._committing: set[int] = set()
        self.kept_aborted: list[AbortedTransaction] = []
        """Transactions whose abort marker stays; who writes the index takes them out (KEEP-14)."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take note of a data batch; True if its transaction was aborted, so that it goes."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        aborting = self._aborting.get(header.producer_id)
        if aborting is None:
            self._committing.add(header.producer_id)
            return False
        aborting.has_batches = True
        return True

    def is_marker_needless(self, header: BatchHeader, control_type: ControlType | None) -> bool:
        """Take note of a marker; True if no batch of its transaction was seen in this pass."""
        self._advance(header.last_offset)
        if control_type is ControlType.ABORT:
            aborting = self._aborting.pop(header.producer_id, None)
            if aborting is None or not aborting.has_batches:
                return True
            self.kept_aborted.append(aborting.transaction)
            return False
        if control_type is ControlType.COMMIT:
            if header.producer_id in self._committing:
                self._committing.remove(header.producer_id)
                return False
            return True
        return False

    def _advance(self, last_offset: int) -> None:
        coming = self._coming
        while coming and coming[0].first_offset <= last_offset:
            transaction = coming.popleft()
            self._aborting.setdefault(transaction.producer_id, _Aborting(transaction))
