"""Recovery after an unclean stop: verify data not known to be on disk, cut at the first fault.

Segments are verified in order, from the one that holds the recovery point. Their indexes, leader
epochs, producer state and aborted transactions are built anew on the way.

Above the recovery point a power cut may lose the end of one segment and keep the next one. The log
ends at the first place where something is missing, be it inside of a segment or between two.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.files.checkpoint import EpochEntry
from seglog.broker.storage.log.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log.producer_replay import (
    record_stored_batch,
    replay_producers,
    stored_marker,
)
from seglog.broker.storage.log.producer_snapshot_files import ProducerSnapshotFiles
from seglog.broker.storage.log.producer_state import ProducerState
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.types import INT32_MAX

logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """The findings of the recovery of one segment."""

    cut_bytes: int
    has_gap: bool


def recover_segments(
    segments: LogSegments,
    producers: ProducerState,
    snapshots: ProducerSnapshotFiles,
    leader_epochs: LeaderEpochCache,
    *,
    recovery_point: int,
    log_start: int = 0,
    is_compacted: bool = False,
    keeps_holes: bool = False,
    leader_epoch_max: int = INT32_MAX,
    now_ms: int,
) -> None:
    """Recover the segments from the one that holds ``recovery_point`` on (REC-2, REC-4).

    Afterwards ``producers`` are as they were at the end of the log, and the cut is on disk: a crash
    on the way leaves a log that the next recovery ends at the same offset.

    Args:
        log_start: missing records below it do not matter.
        is_compacted: whether compaction may have removed the last records of segments.
        keeps_holes: only warn where the end of a segment is lost, because the synced end is
            unknown.

        leader_epoch_max: a higher epoch in a batch is damage, and no epoch of the log.

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
    snapshots.remove_outside(0, max(start, recovery_point))
    replay_producers(producers, snapshots, segments, log_end=start, now_ms=now_ms)
    recovery = _Recovery(
        segments, producers, snapshots, leader_epochs, log_start, keeps_holes, leader_epoch_max
    )
    verified_bytes = recovery.run(doubtful, may_have_gaps=is_compacted)
    # Most logs of a broker with many partitions have nothing to verify: they are not worth a line.
    logger.log(
        logging.INFO if verified_bytes else logging.DEBUG,
        "event=log-recovered path=%s segments=%d bytes=%d",
        doubtful[0].files.directory,
        len(doubtful),
        verified_bytes,
    )


class _Recovery(NamedTuple):
    """The recovery of one log, segment by segment; see `recover_segments`."""

    segments: LogSegments
    producers: ProducerState
    snapshots: ProducerSnapshotFiles
    leader_epochs: LeaderEpochCache
    log_start: int
    keeps_holes: bool
    leader_epoch_max: int

    def run(self, doubtful: Sequence[LogSegment], *, may_have_gaps: bool) -> int:
        """Verify segments up to the first fault, and end the log there; returns the bytes read."""
        producers = self.producers
        verified_bytes = 0
        for number, segment in enumerate(doubtful):
            if number > 0:
                # The next recovery need not scan the verified segment again (REC-15).
                producers.end_offset = max(producers.end_offset, segment.base_offset)
                self.snapshots.write(producers.end_offset, list(producers))
            behind = doubtful[number + 1 :]
            recovered = recover_segment(
                segment,
                producers,
                self.leader_epochs,
                behind[0].base_offset if behind else None,
                partial(_remove, self.segments, behind),
                self.leader_epoch_max,
            )
            verified_bytes += segment.size_bytes
            may_have_gaps = may_have_gaps or recovered.has_gap
            if recovered.cut_bytes:
                break
            if behind and not may_have_gaps and self._ends_at_a_hole(segment, behind):
                break
        return verified_bytes

    def _ends_at_a_hole(self, segment: LogSegment, behind: Sequence[LogSegment]) -> bool:
        """Whether the end of a segment is lost, and with it what lies behind."""
        if not _is_hole(segment, behind[0], self.log_start):
            return False
        action = "keep" if self.keeps_holes else "end-the-log-there"
        _report_hole(segment, behind[0], action)
        if not self.keeps_holes:
            _remove(self.segments, behind)
        return not self.keeps_holes


def recover_segment(
    segment: LogSegment,
    producers: ProducerState,
    leader_epochs: LeaderEpochCache,
    end_offset: int | None = None,
    before_cut: Callable[[], None] | None = None,
    leader_epoch_max: int = INT32_MAX,
) -> Recovered:
    """Recover one segment; ``producers`` must be as they were at its base offset.

    Args:
        end_offset: where the next segment begins, if there is one.
        before_cut: see `LogSegment.recover`.
        leader_epoch_max: see `recover_segments`.
    """
    seen_ms = segment.files.modified_ms
    next_offset, has_gap = segment.base_offset, False

    def on_batch(header: BatchHeader, position: int) -> None:
        nonlocal next_offset, has_gap
        has_gap = has_gap or header.base_offset > next_offset
        next_offset = header.next_offset
        epoch = header.partition_leader_epoch
        if leader_epochs.latest_epoch < epoch <= leader_epoch_max:
            leader_epochs.note(epoch, header.base_offset)
        elif epoch > leader_epoch_max:
            _report_epoch(segment, header, leader_epoch_max)
        if header.producer_id >= 0:
            marker = stored_marker(segment, header, position) if header.is_control else None
            record_stored_batch(producers, header, marker, seen_ms, segment)

    cut_bytes = segment.recover(on_batch, end_offset, before_cut)
    producers.end_offset = max(producers.end_offset, segment.next_offset())
    return Recovered(cut_bytes, has_gap)


def _is_hole(segment: LogSegment, following: LogSegment, log_start: int) -> bool:
    """Whether the end of a segment is lost although the next one has reached the disk.

    A roll names the new segment by the end of the one before, so there is no gap between them until
    compaction makes one. A log whose batches have gaps anywhere was compacted once, or follows one
    that was: a loss cannot be told from that. The same holds where a segment could not take the
    next offset.
    """
    end = segment.next_offset()
    is_gap = following.base_offset > max(end, log_start)
    return is_gap and segment.fits_offset(_first_end(following))


def _report_hole(segment: LogSegment, following: LogSegment, action: str) -> None:
    logger.warning(
        "event=end-of-segment-lost path=%s first_missing_offset=%d next_offset_present=%d"
        " action=%s",
        segment.log.path,
        segment.next_offset(),
        following.base_offset,
        action,
    )


def _first_end(segment: LogSegment) -> int:
    """The last offset of the first batch; the base offset if no batch is there."""
    try:
        for header, _position in segment.batches():
            return header.last_offset
    except CorruptLogError as error:
        logger.debug("event=damaged-segment-start error=%s", error)
    return segment.base_offset


def _report_epoch(segment: LogSegment, header: BatchHeader, leader_epoch_max: int) -> None:
    logger.warning(
        "event=leader-epoch-not-believed path=%s offset=%d epoch=%d highest_possible=%d",
        segment.log.path,
        header.base_offset,
        header.partition_leader_epoch,
        leader_epoch_max,
    )


def note_all_epochs(segments: LogSegments, leader_epochs: LeaderEpochCache) -> None:
    """Find the leader epochs in the batch headers of the whole log, as far as they can be read.

    No checksum covers them. Epochs never fall, so one that a later batch is below is damage.
    """
    found: list[EpochEntry] = []
    try:
        for segment in segments:
            for header, _position in segment.batches():
                epoch = header.partition_leader_epoch
                while epoch >= 0 and found and found[-1].epoch > epoch:
                    found.pop()
                if epoch >= 0 and (not found or found[-1].epoch < epoch):
                    found.append(EpochEntry(epoch, header.base_offset))
    except CorruptLogError as error:
        logger.warning("event=leader-epochs-incomplete error=%s", error)
    for entry in found:
        leader_epochs.note(*entry)


def _remove(segments: LogSegments, doomed: Sequence[LogSegment]) -> None:
    """Remove the segments behind a fault, from the highest down, and wait until they are gone.

    From the lowest up, a kill in between would leave a log that goes on behind a hole; and if the
    fault were cut before the names are gone from the disk, a power cut would.
    """
    if not doomed:
        return
    for segment in reversed(doomed):
        logger.warning(
            "event=segment-behind-fault-deleted path=%s bytes=%d",
            segment.log.path,
            segment.size_bytes,
        )
        segments.remove(segment.base_offset)
        segment.delete_files()
    files = doomed[0].files
    files.file_system.sync_directory(files.directory)
