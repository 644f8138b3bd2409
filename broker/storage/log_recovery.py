"""Recovery after an unclean stop: verify what was not known to be on disk, cut at the first fault.

Segments are verified in order, from the one that holds the recovery point. Their indexes, leader
epochs, producer state and aborted transactions are built anew on the way.
"""

import logging

from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log_replay import (
    record_stored_batch,
    replay_producers,
    stored_marker,
)
from seglog.broker.storage.producer_snapshot_files import ProducerSnapshotFiles
from seglog.broker.storage.producer_state import ProducerState
from seglog.broker.storage.segment import LogSegment
from seglog.broker.storage.segments import LogSegments
from seglog.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)


def recover_segments(
    segments: LogSegments,
    producers: ProducerState,
    snapshots: ProducerSnapshotFiles,
    leader_epochs: LeaderEpochCache,
    *,
    recovery_point: int,
    now_ms: int,
) -> None:
    """Recover the segments from the one that holds ``recovery_point`` on (REC-2, REC-4).

    Afterwards ``producers`` are as they were at the end of the log. If anything was cut off, the
    segments behind it are deleted.

    Raises:
        SegmentOverflowError: a segment must be split first.
        FileError: the disk failed.
    """
    doubtful = [*filter(None, [segments.floor(recovery_point)])]
    doubtful += segments.higher_all(recovery_point)
    if not doubtful:
        return
    start = doubtful[0].base_offset
    # Later snapshots may know of records that did not reach the disk.
    snapshots.remove_outside(0, start)
    replay_producers(producers, snapshots, segments, log_end=start, now_ms=now_ms)
    verified_bytes = 0
    for number, segment in enumerate(doubtful):
        if number > 0:
            # The next recovery need not scan what this one has verified (REC-15).
            producers.end_offset = max(producers.end_offset, segment.base_offset)
            snapshots.write(producers.end_offset, list(producers))
        following = doubtful[number + 1] if number + 1 < len(doubtful) else None
        end_offset = None if following is None else following.base_offset
        removed = recover_segment(segment, producers, leader_epochs, end_offset)
        verified_bytes += segment.size_bytes
        if removed:
            _delete_all(segments, doubtful[number + 1 :])
            break
    # Most logs of a broker with many partitions have nothing to verify: they are not worth a line.
    logger.log(
        logging.INFO if verified_bytes else logging.DEBUG,
        "event=log-recovered path=%s segments=%d bytes=%d",
        doubtful[0].files.directory,
        len(doubtful),
        verified_bytes,
    )


def recover_segment(
    segment: LogSegment,
    producers: ProducerState,
    leader_epochs: LeaderEpochCache,
    end_offset: int | None = None,
) -> int:
    """Recover one segment; ``producers`` must be as they were at its base offset.

    Args:
        end_offset: where the next segment begins, if there is one.

    Returns:
        How many bytes were cut off.
    """
    seen_ms = segment.files.modified_ms

    def on_batch(header: BatchHeader, position: int) -> None:
        if header.partition_leader_epoch > leader_epochs.latest_epoch:
            leader_epochs.note(header.partition_leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            marker = stored_marker(segment, header, position) if header.is_control else None
            record_stored_batch(producers, header, marker, seen_ms, segment)

    removed = segment.recover(on_batch, end_offset)
    producers.end_offset = max(producers.end_offset, segment.next_offset())
    return removed


def note_all_epochs(segments: LogSegments, leader_epochs: LeaderEpochCache) -> None:
    """Find the leader epochs in the batch headers of the whole log, as far as they can be read."""
    try:
        for segment in segments:
            for header, _position in segment.batches():
                if header.partition_leader_epoch > leader_epochs.latest_epoch:
                    leader_epochs.note(header.partition_leader_epoch, header.base_offset)
    except CorruptLogError as error:
        logger.warning("event=leader-epochs-incomplete error=%s", error)


def _delete_all(segments: LogSegments, doomed: list[LogSegment]) -> None:
    for segment in doomed:
        logger.warning(
            "event=segment-behind-fault-deleted path=%s bytes=%d",
            segment.log.path,
            segment.size_bytes,
        )
        segments.remove(segment.base_offset)
        segment.delete_files()
