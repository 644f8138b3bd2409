"""Leaves out the records of aborted transactions, for readers of decided ones only."""

from collections.abc import Iterable

from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.control import ControlType, read_marker


class AbortedFilter:
    """Walks the batches of one answer in order and says which belong to aborted transactions.

    A transaction runs from its first offset to the marker of its producer, so the set of
    producers whose batches are left out changes as the walk goes on.

    Args:
        aborted: ``(producer id, first offset)`` of the aborted transactions in the answer.
    """

    __slots__ = ("_producers", "_upcoming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._upcoming = sorted(
            ((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True
        )
        self._producers: set[int] = set()

    def leaves_out(self, batch: RecordBatch) -> bool:
        """Whether the batch, the next one of the walk, is to be left out.

        Raises:
            RecordError: a marker that cannot be read.
        """
        header = batch.header
        while self._upcoming and self._upcoming[-1][0] <= header.last_offset:
            self._producers.add(self._upcoming.pop()[1])
        if not header.is_transactional:
            return False
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and marker.control_type is ControlType.ABORT:
                self._producers.discard(header.producer_id)
            return True
        return header.producer_id in self._producers
