"""Opening a log: after a clean stop without looking at the records, after a crash with recovery.

The steps and their order are those of docs/storage-format.md, section 12. Loading shares no state
with anything, so that many logs can be loaded in as many threads.
"""

import logging
import os.path
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from seglog.broker.storage.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    SegmentOverflowError,
)
from seglog.broker.storage.files.checkpoint import LeaderEpochCheckpointFile
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    INDEX_SUFFIXES,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_segment_file_name,
    segment_path,
)
from seglog.broker.storage.log.closed_logs import NO_CLOSED_LOGS, ClosedLogs
from seglog.broker.storage.log.crash_recovery import note_all_epochs, recover_segments
from seglog.broker.storage.log.exchange import swap_segments
from seglog.broker.storage.log.interrupted_exchange import tidy_folder
from seglog.broker.storage.log.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.offsets import LogOffsets
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.log.producer_replay import find_aborted_transactions, replay_producers
from seglog.broker.storage.log.producer_snapshot_files import ProducerSnapshotFiles
from seglog.broker.storage.log.producer_state import ProducerState
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.split import split_segment
from seglog.config.log_config import LogConfig
from seglog.protocol.types import INT32_MAX, NO_LEADER_EPOCH, TopicPartition

logger = logging.getLogger(__name__)

PRODUCER_EXPIRATION_MS_DEFAULT: Final = 86_400_000
_SMALL_INDEX_BYTES: Final = 512
"""A sector: a write to it is on disk as a whole, or not at all."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The entries of a log in the directory's files, and the time; see `load_log`."""

    now_ms: int
    clean_shutdown: bool
    recovery_point: int
    is_recovery_point_known: bool
    log_start_checkpoint: int
    leader_epoch_floor: int | None
    may_have_gaps: bool
    transaction_index_sizes: Mapping[int, int]
    topic_id: bytes | None
    producer_expiration_ms: int


def load_log(
    file_system: FileSystem,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    now_ms: int,
    clean_shutdown: bool = False,
    recovery_point: int | None = None,
    log_start_checkpoint: int = 0,
    leader_epoch_floor: int | None = None,
    was_compacted: bool = False,
    closed_logs: ClosedLogs = NO_CLOSED_LOGS,
    topic_id: bytes | None = None,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
) -> Log:
    """Open the log in a folder that exists; an empty folder becomes an empty log (MGR-1).

    The high watermark of the result is its log start until the caller sets it (HW-5).

    Args:
        now_ms: wall clock.
        clean_shutdown: whether the directory had its clean-shutdown marker.
        recovery_point: checkpointed; None if the checkpoint is lost: everything is verified then,
            and a gap between two segments does not end the log, for it may have been synced so.
        log_start_checkpoint: 0 if unknown.
        leader_epoch_floor: of the directory, see `LogDir`; None if any epoch may be in the batches.
        was_compacted: whether it was ever compacted, under any policy: a gap may be no loss.
        closed_logs: what the clean stop before has said of the logs of the directory.
        topic_id: of ``partition.metadata``.
        producer_expiration_ms: ``producer.id.expiration.ms``.

    Raises:
        FileError: the disk failed; the log directory cannot be used.
        DiskFullError: there is no room for the files of the recovery.
    """
    options = LoadOptions(
        now_ms,
        clean_shutdown,
        0 if recovery_point is None else recovery_point,
        recovery_point is not None,
        log_start_checkpoint,
        leader_epoch_floor,
        was_compacted or config.compacts,
        closed_logs.transaction_index_sizes(os.path.basename(directory)),
        topic_id,
        producer_expiration_ms,
    )
    while True:
        loader = LogLoader(file_system, directory, topic_partition, config, options)
        try:
            return loader.load()
        except SegmentOverflowError as overflow:
            loader.split(overflow.base_offset)


@dataclass(slots=True)
class LogLoader:
    """One attempt to open a log; a split of a segment makes another one necessary (REC-5)."""

    file_system: FileSystem
    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    options: LoadOptions
    segments: LogSegments = field(default_factory=LogSegments)

    def load(self) -> Log:
        """Open the log.

        Raises:
            SegmentOverflowError: a segment has to be split before.
        """
        names = tidy_folder(self.file_system, self.directory, self.config, self.options.now_ms)
        on_disk = self.options.recovery_point
        self._open_segments(names)
        leader_epochs = self._open_epochs()
        options = self.options
        snapshots = ProducerSnapshotFiles(self.file_system, self.directory, names)
        producers = ProducerState(str(self.topic_partition), options.producer_expiration_ms)
        first = self.segments.first
        log_start = max(options.log_start_checkpoint, first.base_offset if first is not None else 0)
        if not options.clean_shutdown:
            recover_segments(
                self.segments,
                producers,
                snapshots,
                leader_epochs,
                recovery_point=options.recovery_point,
                log_start=log_start,
                is_compacted=options.may_have_gaps,
                keeps_holes=not options.is_recovery_point_known,
                leader_epoch_max=self._leader_epoch_max(leader_epochs),
                now_ms=options.now_ms,
            )
        log_end = self._log_end(log_start)
        if log_end < on_disk:
            logger.warning(
                "event=records-missing log=%s log_end=%d recovery_point=%d",
                self.topic_partition,
                log_end,
                on_disk,
            )
        self._cut_epochs(leader_epochs, log_start, log_end)
        base_offsets = self.segments.base_offsets
        snapshots.remove_outside(base_offsets[0], log_end)
        snapshots.remove_stray(set(base_offsets))
        self._complete_producers(producers, snapshots, log_end)
        recovery_point = log_end if options.clean_shutdown else options.recovery_point
        offsets = LogOffsets(
            log_start=log_start, log_end=log_end, recovery_point=min(recovery_point, log_end)
        )
        parts = LogParts(self.segments, offsets, leader_epochs, producers, snapshots)
        return Log(
            self.file_system,
            self.directory,
            self.topic_partition,
            self.config,
            parts,
            topic_id=options.topic_id,
            was_closed=options.clean_shutdown or self._is_as_it_was_closed(parts),
        )

    def _is_as_it_was_closed(self, parts: LogParts) -> bool:
        """Whether recovery has found a log as a clean stop leaves it, with nothing to write.

        Then all records are on disk, by the recovery point, and so are its indexes: a close cuts
        them to their entries before it syncs them, and the first append gives them their full size.
        A kill may have come between cut and sync: the check before the first use finds that in an
        index of one sector, and of larger ones nothing is assumed.
        """
        log_end, active = parts.offsets.log_end, parts.segments.active
        indexes = (active.offset_index, active.time_index)
        return (
            self.options.is_recovery_point_known
            and self.options.recovery_point == log_end
            and all(segment.files.is_untouched for segment in parts.segments)
            and all(index.size_bytes <= _SMALL_INDEX_BYTES for index in indexes)
            and not parts.snapshots.unsynced_paths(log_end)
            and (log_end in parts.snapshots.offsets or not len(parts.producers))
        )

    def split(self, base_offset: int) -> None:
        """Split the segment that could not be loaded, and let everything go (REC-5)."""
        segment = self.segments.get(base_offset)
        assert segment is not None, (base_offset, self.segments)
        parts = split_segment(self.file_system, segment, self.config, self.options.now_ms)
        logger.warning(
            "event=segment-split path=%s new_base_offsets=%s",
            segment.log.path,
            [part.base_offset for part in parts],
        )
        removed = swap_segments(self.file_system, self.directory, self.segments, parts, [segment])
        for source in removed:
            source.delete_files()
        for opened in self.segments:
            opened.files.close()

    # ---- segments

    def _open_segments(self, names: Iterable[str]) -> None:
        files: dict[str, set[int]] = {suffix: set() for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES)}
        for name in names:
            parsed = parse_segment_file_name(name)
            if parsed is not None and parsed.suffix in files:
                files[parsed.suffix].add(parsed.base_offset)
        self._delete_orphan_indexes(files)
        for base_offset in sorted(files[LOG_SUFFIX]):
            segment = LogSegment.open(
                self.file_system, self.directory, base_offset, self.config, self.options.now_ms
            )
            expected_bytes = self.options.transaction_index_sizes.get(base_offset, 0)
            segment.transaction_index.expect(expected_bytes)
            if not expected_bytes and base_offset not in files[TRANSACTION_INDEX_SUFFIX]:
                segment.transaction_index.note_absent()
            self.segments.add(segment)
        self._distrust_torn_tail()
        if self.options.clean_shutdown:
            for segment in self.segments:
                segment.files.assume_synced()
        doubtful = None if self.options.clean_shutdown else self._first_doubtful()
        for segment in self.segments:
            if doubtful is None or segment.base_offset < doubtful.base_offset:
                self._check_segment(segment, files)

    def _distrust_torn_tail(self) -> None:
        """Recover the last segment although the stop was clean, if its end is no end of a batch.

        Another program has cut the file, or the disk has lost synced data. Appending behind that
        would make the log unreadable.
        """
        last = self.segments.last
        if not self.options.clean_shutdown or last is None or last.ends_with_a_batch():
            return
        logger.warning(
            "event=torn-after-clean-stop path=%s action=recover-the-segment", last.log.path
        )
        self.options = replace(self.options, clean_shutdown=False, recovery_point=last.base_offset)

    def _first_doubtful(self) -> LogSegment | None:
        """The first segment that recovery will verify."""
        return self.segments.floor(self.options.recovery_point) or self.segments.first

    def _delete_orphan_indexes(self, files: dict[str, set[int]]) -> None:
        """Delete indexes without their data file, and say which records are missing (REC-8)."""
        present = files[LOG_SUFFIX]
        for base_offset in sorted(set().union(*files.values()) - present):
            following = min((base for base in present if base > base_offset), default=None)
            logger.warning(
                "event=data-file-missing path=%s first_missing_offset=%d next_offset_present=%s",
                segment_path(self.directory, base_offset, LOG_SUFFIX),
                base_offset,
                following,
            )
            for suffix in INDEX_SUFFIXES:
                path = segment_path(self.directory, base_offset, suffix)
                self.file_system.unlink(path, missing_ok=True)

    def _check_segment(self, segment: LogSegment, files: dict[str, set[int]]) -> None:
        """Repair files that break a start without recovery (docs/storage-format.md 12, step 4).

        The first use of an index finds and repairs any other damage.
        """
        base_offset = segment.base_offset
        following = self.segments.higher(base_offset)
        if base_offset not in files[OFFSET_INDEX_SUFFIX]:
            if segment.size_bytes:
                logger.warning("event=index-missing path=%s", segment.offset_index.path)
            segment.rebuild_indexes()
        elif following is None or following.base_offset - base_offset > INT32_MAX:
            last_offset = segment.next_offset() - 1
            if last_offset >= base_offset and not segment.fits_offset(last_offset):
                raise SegmentOverflowError(segment.log.path, base_offset, last_offset, 0)
        try:
            segment.transaction_index.sanity_check()
        except CorruptIndexError as error:
            logger.warning("event=transaction-index-rebuilt error=%s", error)
            self._rebuild_transaction_index(segment)

    def _rebuild_transaction_index(self, segment: LogSegment) -> None:
        """Find the aborted transactions of a segment anew, from the producers' state before it.

        The segment was on disk before the crash: its data is left as it is.
        """
        producers = ProducerState(str(self.topic_partition), self.options.producer_expiration_ms)
        replay_producers(
            producers,
            ProducerSnapshotFiles(self.file_system, self.directory),
            self.segments,
            log_end=segment.base_offset,
            now_ms=0,
        )
        segment.transaction_index.replace(find_aborted_transactions(producers, segment))

    def _log_end(self, log_start: int) -> int:
        """Where the log ends; sees to it that there is a segment, and none below (REC-9)."""
        last = self.segments.last
        if last is not None:
            log_end = last.next_offset()
            if log_end >= log_start:
                return log_end
            logger.warning(
                "event=log-emptied log=%s log_end=%d log_start=%d",
                self.topic_partition,
                log_end,
                log_start,
            )
            for segment in self.segments.clear():
                segment.delete_files()
        self.segments.add(
            LogSegment.create(
                self.file_system, self.directory, log_start, self.config, self.options.now_ms
            )
        )
        return log_start

    # ---- leader epochs

    def _epoch_file(self) -> LeaderEpochCheckpointFile:
        return LeaderEpochCheckpointFile(
            self.file_system, f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
        )

    def _open_epochs(self) -> LeaderEpochCache:
        """Read the epochs; if the file is damaged, find them in the batches."""
        file = self._epoch_file()
        try:
            return LeaderEpochCache(file, file.read(empty_ok=False))
        except CorruptCheckpointError as error:
            logger.warning("event=leader-epochs-rebuilt error=%s", error)
        leader_epochs = LeaderEpochCache(file)
        note_all_epochs(self.segments, leader_epochs)
        # Recovery finds no others than these, which were found by looking at all of them.
        self.options = replace(self.options, leader_epoch_floor=leader_epochs.latest_epoch)
        return leader_epochs

    def _leader_epoch_max(self, leader_epochs: LeaderEpochCache) -> int:
        """The highest epoch that a batch can be of.

        It is noted before the first append of each leadership that its log is led from the epoch
        that it has, or from the floor; the checksum of a batch does not cover its epoch.
        """
        floor = self.options.leader_epoch_floor
        return INT32_MAX if floor is None else max(floor, leader_epochs.latest_epoch)

    def _cut_epochs(self, leader_epochs: LeaderEpochCache, log_start: int, log_end: int) -> None:
        """Cut the epochs to the log (REC-11); a log without any finds them in its batches."""
        leader_epochs.truncate_from_end(log_end)
        if not leader_epochs.entries and self._first_epoch() >= 0:
            note_all_epochs(self.segments, leader_epochs)
        leader_epochs.truncate_from_start(log_start)

    def _first_epoch(self) -> int:
        for segment in self.segments:
            for header, _position in segment.batches():
                return header.partition_leader_epoch
        return NO_LEADER_EPOCH

    # ---- producers

    def _complete_producers(
        self,
        producers: ProducerState,
        snapshots: ProducerSnapshotFiles,
        log_end: int,
    ) -> None:
        if not self.options.clean_shutdown and producers.end_offset == log_end:
            return  # recovery has come to the end
        if self.options.clean_shutdown and not snapshots.offsets:
            producers.reset(log_end)  # nothing is scanned after a clean stop (REC-12)
            return
        replay_producers(
            producers,
            snapshots,
            self.segments,
            log_end=log_end,
            now_ms=self.options.now_ms,
        )
