"""Recording stored batches in producer state: after an append, and again when a log is opened.

Append, recovery and replay run the same code, so that a recovered log gives the same answers to
duplicates and the same aborted transactions as the one that wrote it (TXN-14).
"""

import logging

from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.log.append import transaction_marker
from seglog.broker.storage.log.open_transactions import CompletedTransaction
from seglog.broker.storage.log.producer_snapshot_files import ProducerSnapshotFiles
from seglog.broker.storage.log.producer_state import ProducerState, TransactionMarker
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)


def record_stored_batch(
    producers: ProducerState,
    header: BatchHeader,
    marker: TransactionMarker | None,
    seen_ms: int,
    index_into: LogSegment | None,
) -> None:
    """Record one batch of a producer that is in the log now.

    Args:
        header: with its final offsets.
        marker: the content of a control batch; without it a control batch changes nothing (TXN-13).
        seen_ms: the broker's clock when it was appended.
        index_into: the segment whose transaction index gets the entry of an abort, None if it has
            it already.

    Raises:
        StorageError: the index entry could not be written; the transaction stays open in the
            state, so that no reader is shown aborted records (APP-25).
    """
    if not header.is_control:
        producers.record_batch(header, seen_ms)
        return
    if marker is None:
        return
    completed = producers.record_marker(header, marker, seen_ms)
    if completed is None:
        return
    if completed.is_abort and index_into is not None:
        index_into.transaction_index.append(aborted_transaction(producers, completed))
    producers.transactions.complete(completed)


def aborted_transaction(
    producers: ProducerState, completed: CompletedTransaction
) -> AbortedTransaction:
    """The index entry of an abort (TXN-7)."""
    return AbortedTransaction(
        completed.producer_id,
        completed.first_offset,
        completed.marker_offset,
        producers.transactions.last_stable_after(completed),
    )


def stored_marker(
    segment: LogSegment, header: BatchHeader, position: int
) -> TransactionMarker | None:
    """The marker in the control batch at a position; None, with a warning, if it is unreadable."""
    try:
        return transaction_marker(segment.read_batch(position, header.size_bytes).view)
    except RecordError as error:
        logger.warning(
            "event=unreadable-control-batch path=%s position=%d error=%s",
            segment.log.path,
            position,
            error,
        )
        return None


def replay_producers(
    producers: ProducerState,
    snapshots: ProducerSnapshotFiles,
    segments: LogSegments,
    *,
    log_end: int,
    now_ms: int,
) -> None:
    """Bring producer state to ``log_end``: from the newest usable snapshot, then by headers.

    Usable snapshots need only records that are still on disk: those from the first segment's base
    on. Kafka asks for one above the log start; but the one at the first base knows the producers
    whose records have just been deleted, and deletion forgets no producer (IDEM-14).

    Transaction indexes are left alone; they have their entries. Producers that have been silent
    for too long are not taken over (IDEM-13).
    """
    first = segments.first
    first_offset = log_end if first is None else min(first.base_offset, log_end)
    loaded = snapshots.load_newest(first_offset, log_end)
    if loaded is None:
        producers.reset(first_offset)
    else:
        offset, entries = loaded
        producers.reset(
            offset, [entry for entry in entries if not producers.is_expired(entry, now_ms)]
        )
    start = producers.end_offset
    for segment in segments.values(start, log_end):
        replay_segment(producers, segment, start, log_end)
    producers.end_offset = log_end


def replay_segment(
    producers: ProducerState, segment: LogSegment, from_offset: int, log_end: int
) -> None:
    """Record the batches of one segment from an offset on."""
    seen_ms = segment.files.modified_ms
    for header, position in segment.batches(from_offset):
        if header.base_offset >= log_end:
            return
        if header.producer_id >= 0:
            marker = stored_marker(segment, header, position) if header.is_control else None
            record_stored_batch(producers, header, marker, seen_ms, None)


def find_aborted_transactions(
    producers: ProducerState, segment: LogSegment
) -> list[AbortedTransaction]:
    """The aborted transactions whose marker is in a segment, as far as it can be read.

    Args:
        producers: as they were at the segment's base offset; they are brought to its end.
    """
    found: list[AbortedTransaction] = []
    seen_ms = segment.files.modified_ms
    try:
        for header, position in segment.batches():
            if header.producer_id < 0:
                continue
            marker = stored_marker(segment, header, position) if header.is_control else None
            completed = None if marker is None else producers.closed_by(header, marker)
            if completed is not None and completed.is_abort:
                found.append(aborted_transaction(producers, completed))
            record_stored_batch(producers, header, marker, seen_ms, None)
    except CorruptLogError as error:
        logger.warning("event=transaction-index-incomplete error=%s", error)
    return found
