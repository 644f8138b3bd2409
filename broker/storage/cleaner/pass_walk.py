"""The one walk over the batches of a pass: chunks, whole batches, and their transactions.

Both passes of a cleaning are visitors of it, so they agree on aborted transactions (CMAP-7,
KEEP-13, KEEP-17) and on the bounds of batches. It begins at the log start.
"""

from collections.abc import Iterable
from typing import Protocol

from seglog.broker.storage.cleaner.chunks import ChunkReader
from seglog.broker.storage.cleaner.log_start import position_of_log_start
from seglog.broker.storage.cleaner.plan import SourceSegment
from seglog.broker.storage.cleaner.transaction_walk import EndedTransaction, TransactionWalk
from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    RecordBatch,
    read_header,
)
from seglog.protocol.records.compaction import WalkStop, frame_batches


class BatchVisitor(Protocol):
    """The part of a pass that handles the batches."""

    def plain(self, view: memoryview, position: int) -> tuple[int, int]:
        """Take the plain batches of a chunk from a position on.

        Args:
            view: whole batches, with unchecked checksums.

        Returns:
            Where it stopped and why: END (no batch is left), SPECIAL, FULL or CORRUPT.
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


class PassWalk:
    """Walks over segments in their order; transactions are followed from one to the next.

    Args:
        reader: reads them.
        log_start: the walk does not look below it, even at unreadable bytes.
        aborted: the aborted transactions that overlap the segments.
    """

    def __init__(
        self, reader: ChunkReader, log_start: int, aborted: Iterable[AbortedTransaction]
    ) -> None:
        self._reader = reader
        self._log_start = log_start
        self._transactions = TransactionWalk(aborted)

    def visit(self, segment: SourceSegment, visitor: BatchVisitor) -> bool:
        """Show a segment to a visitor; False if that has no room for more of it.

        Raises:
            CorruptLogError: a batch cannot be read.
        """
        position, next_offset = 0, segment.base_offset
        if segment.base_offset < self._log_start:
            position = position_of_log_start(segment, self._log_start, self._reader.account)
            visitor.walked(position)
        while position < segment.size_bytes:
            view = self._reader.read(segment.log, position, segment.size_bytes)
            whole, why, next_offset = frame_batches(view, 0, next_offset, segment.end_offset)
            done, is_full = self._visit_chunk(segment, position, view[:whole], visitor)
            visitor.walked(done)
            if is_full:
                return False
            # Only now: where a wrong length has led to this place, the checksum has told by itself.
            if why == WalkStop.CORRUPT:
                fault = _fault_of(read_header(view, whole), next_offset, segment.end_offset)
                raise CorruptLogError(segment.log.path, position + whole, fault)
            if whole == 0:
                self._reader.grow_for(segment.log, position, view, segment.size_bytes)
            position += whole
        return True

    def _visit_chunk(
        self, segment: SourceSegment, position: int, view: memoryview, visitor: BatchVisitor
    ) -> tuple[int, bool]:
        """Show the batches of a chunk: how far that came, and whether the visitor is full."""
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
                offset = read_header(view, done).base_offset
                raise CorruptLogError(
                    segment.log.path,
                    position + done,
                    f"the batch at offset {offset} fails its checks; see dump-log",
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


def _fault_of(header: BatchHeader, next_offset: int, end_offset: int) -> str:
    """Why a batch does not go with those around it."""
    if header.magic != MAGIC or header.size_bytes < HEADER_BYTES:
        return f"a batch of {header.size_bytes} bytes says it has format {header.magic}"
    return (
        f"a batch has the offsets {header.base_offset} to {header.last_offset}, where only"
        f" {next_offset} to {end_offset - 1} can be"
    )
