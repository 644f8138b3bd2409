"""The one walk over the batches of a pass: chunks, whole batches, and what their transactions are.

Both passes of a cleaning are visitors of it, so that they cannot differ in what they take for
aborted (CMAP-7, KEEP-13, KEEP-17).
"""

from collections.abc import Iterable
from typing import Protocol

from seglog.broker.storage.cleaner.chunks import ChunkReader
from seglog.broker.storage.cleaner.plan import SourceSegment
from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.transaction_index import AbortedTransaction
from seglog.broker.storage.transaction_walk import EndedTransaction, TransactionWalk
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.compaction import WalkStop


class BatchVisitor(Protocol):
    """What a pass does with the batches."""

    def plain(self, view: memoryview, position: int) -> tuple[int, int]:
        """Take the plain batches of a chunk from a position on.

        Returns:
            Where it stopped and why: END (no whole batch is left), SPECIAL, FULL or CORRUPT.
        """
        ...

    def data(self, batch: RecordBatch, *, is_aborted: bool) -> int:
        """Take one batch that ``plain`` has left; its checksum is right. END, FULL or CORRUPT."""
        ...

    def control(self, batch: RecordBatch, ended: EndedTransaction | None, /) -> None:
        """Take a control batch; its checksum is right, and it has ended a transaction or none."""
        ...

    def walked(self, byte_count: int) -> None:
        """Take note of how far the walk has come."""
        ...


class BatchWalk:
    """Walks over segments in their order; transactions are followed from one to the next.

    Args:
        reader: reads them.
        aborted: the aborted transactions that overlap the segments.
    """

    def __init__(self, reader: ChunkReader, aborted: Iterable[AbortedTransaction]) -> None:
        self._reader = reader
        self._transactions = TransactionWalk(aborted)

    def visit(self, segment: SourceSegment, visitor: BatchVisitor) -> bool:
        """Show a segment to a visitor; False if that has no room for more of it.

        Raises:
            CorruptLogError: a batch cannot be read.
        """
        position = 0
        while position < segment.size_bytes:
            view = self._reader.read(segment.log, position, segment.size_bytes)
            done, is_full = self._visit_chunk(segment, position, view, visitor)
            visitor.walked(done)
            if is_full:
                return False
            if done == 0:
                self._reader.grow_for(segment.log, position, view, segment.size_bytes)
            position += done
        return True

    def _visit_chunk(
        self, segment: SourceSegment, position: int, view: memoryview, visitor: BatchVisitor
    ) -> tuple[int, bool]:
        """Show the whole batches of a chunk: their size, and whether the visitor is full."""
        done = 0
        while True:
            done, why = visitor.plain(view, done)
            if why == WalkStop.SPECIAL:
                try:
                    size_bytes, why = self._visit_special(view[done:], visitor)
                except RecordError as error:
                    raise CorruptLogError(segment.log.path, position + done, str(error)) from error
                if why == WalkStop.END:
                    done += size_bytes
                    continue
            if why == WalkStop.CORRUPT:
                raise CorruptLogError(
                    segment.log.path, position + done, "a batch fails its checks; see dump-log"
                )
            return done, why == WalkStop.FULL

    def _visit_special(self, view: memoryview, visitor: BatchVisitor) -> tuple[int, int]:
        batch = RecordBatch(view)
        batch.check()
        header = batch.header
        why: int = WalkStop.END
        if header.is_control:
            visitor.control(batch, self._transactions.end(batch))
        else:
            why = visitor.data(batch, is_aborted=self._transactions.is_aborted(header))
        return header.size_bytes, why
