"""Group commit: what a flush has to sync, collected by the owner and run by a worker thread.

    owner:   ticket = log.begin_flush()      everything appended so far
    thread:  ticket.run()                    blocks; appends go on meanwhile
    owner:   log.finish_flush(ticket)        the recovery point moves

Of the active segment only the data file is synced. Its indexes are not needed: after an unclean
stop the segment that holds the recovery point is scanned and its indexes are built anew. Segments
below the recovery point are trusted, so sealed ones are synced with their indexes.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from seglog.broker.storage.checkpoint import EpochEntry, LeaderEpochCheckpointFile
from seglog.broker.storage.errors import DiskFullError, FileError, MissingFileError, StorageError
from seglog.broker.storage.files import FileSystem
from seglog.broker.storage.log_parts import LogParts
from seglog.broker.storage.segment import LogSegment
from seglog.broker.storage.segment_files import SegmentSync

logger = logging.getLogger(__name__)


class EpochWrite(NamedTuple):
    """Leader epochs that are not on disk yet, as they were when the flush began."""

    file: LeaderEpochCheckpointFile
    entries: tuple[EpochEntry, ...]


class FlushTicket:
    """One flush: made and finished by the owner of the log, run once, in any thread.

    Attributes:
        up_to: everything below this offset is on disk once ``run`` has returned.
        sealed: the sealed segments that are synced with their indexes.
        generation: of the log's content; a truncation in the meantime makes the ticket worthless.
        last_append_ms: when the newest record it covers was appended.
        is_done: whether ``run`` has made all that true, so that the recovery point may move.
    """

    __slots__ = (
        "_directory",
        "_file_system",
        "_sync_directory",
        "_syncs",
        "epochs",
        "generation",
        "is_done",
        "last_append_ms",
        "sealed",
        "snapshot_paths",
        "up_to",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        *,
        up_to: int,
        generation: int,
        last_append_ms: int,
        sealed: Sequence[LogSegment],
        active: LogSegment | None,
        sync_directory: bool,
        snapshot_paths: Sequence[str],
        epochs: EpochWrite | None,
    ) -> None:
        self.up_to = up_to
        self.generation = generation
        self.last_append_ms = last_append_ms
        self.sealed = tuple(sealed)
        self.snapshot_paths = tuple(snapshot_paths)
        self.epochs = epochs
        self.is_done = False
        self._file_system = file_system
        self._directory = directory
        self._sync_directory = sync_directory
        self._syncs: list[SegmentSync] = []
        try:
            for segment in sealed:
                self._syncs.append(segment.begin_sync())
            if active is not None:
                self._syncs.append(active.begin_sync(with_indexes=False))
        except StorageError:
            self.abandon()
            raise

    def run(self) -> None:
        """Sync data and indexes, then snapshots, names and leader epochs (FLUSH-2).

        Raises:
            FileError: what is on disk is unknown.
        """
        try:
            for sync in self._syncs:
                sync.run()
            self.is_done = self._sync_side_files()
        finally:
            self.abandon()

    def _sync_side_files(self) -> bool:
        """Whether the recovery point may move: the records themselves are on disk already."""
        try:
            for path in self.snapshot_paths:
                self._sync_snapshot(path)
            if self.epochs is not None:
                self.epochs.file.write(self.epochs.entries)  # syncs the directory as well
            elif self._sync_directory:
                self._file_system.sync_directory(self._directory)
        except DiskFullError as error:
            # Recovery finds the epochs in the batches, as long as it scans them.
            logger.warning(
                "event=recovery-point-kept directory=%s error=%s", self._directory, error
            )
            return False
        except FileError as error:
            if self._file_system.exists(self._directory):
                raise
            # The whole log is being deleted; its folder was renamed under our hands.
            logger.debug("event=recovery-point-kept directory=%s error=%s", self._directory, error)
            return False
        return True

    def _sync_snapshot(self, path: str) -> None:
        try:
            self._file_system.sync_file(path)
        except MissingFileError:
            # Retention or compaction took it away, with the segment that began at its offset.
            logger.debug("event=snapshot-gone path=%s", path)

    def abandon(self) -> None:
        """Let the descriptors go; for a ticket that will not be run. Idempotent."""
        while self._syncs:
            self._syncs.pop().release()


class LogFlusher:
    """Which parts of a log are not on disk yet; makes tickets and takes them back.

    Owned by the log. A truncation starts another generation of the content: a flush that was begun
    before it says nothing about the offsets any more.
    """

    def __init__(self, file_system: FileSystem, parts: LogParts) -> None:
        self._last_append_ms = 0
        self._unflushed_since_ms: int | None = None
        self._file_system = file_system
        self._segments = parts.segments
        self._offsets = parts.offsets
        self._leader_epochs = parts.leader_epochs
        self._epoch_file = parts.epoch_file
        self._snapshots = parts.snapshots
        self._generation = 0
        self._is_writing_epochs = False
        # Sealed segments whose indexes are not known to be on disk.
        active = parts.segments.active
        self._sealed = [
            segment
            for segment in parts.segments.values(parts.offsets.recovery_point, active.base_offset)
            if segment is not active
        ]

    def appended(self, now_ms: int) -> None:
        """Note that there is something to flush since ``now_ms``."""
        self._last_append_ms = now_ms
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms

    def is_due(self, now_ms: int, flush_ms: int) -> bool:
        """Whether the oldest record that is not known to be on disk has waited for so long."""
        if self._offsets.recovery_point >= self._offsets.log_end:
            return False
        waited_ms = now_ms - (self._unflushed_since_ms or 0)
        # A clock that was set back by an hour must not leave records without a sync for an hour.
        return waited_ms >= flush_ms or waited_ms < 0

    def segment_sealed(self, segment: LogSegment) -> None:
        """Note that a segment was rolled."""
        self._sealed.append(segment)

    def segment_removed(self, segment: LogSegment) -> None:
        """Note that a segment does not belong to the log any more."""
        if segment in self._sealed:
            self._sealed.remove(segment)

    def content_truncated(self) -> None:
        """Note that offsets that a running flush covers may be written again with other content."""
        self._generation += 1
        self._sealed = [
            segment
            for segment in self._sealed
            if segment is self._segments.get(segment.base_offset)
            and segment is not self._segments.active
        ]

    def begin(self, directory: str, up_to: int, *, for_close: bool = False) -> FlushTicket:
        """A ticket for everything below ``up_to``; at a close with the active segment's indexes."""
        offsets = self._offsets
        active = self._segments.active
        recovery_point = offsets.recovery_point
        sealed = [segment for segment in self._sealed if segment.base_offset < up_to]
        if for_close:
            sealed.append(active)
        includes_active = not for_close and max(active.base_offset, recovery_point) < up_to
        is_new_name = bool(sealed) and sealed[-1].base_offset >= recovery_point
        epochs = None
        if self._leader_epochs.has_unwritten_changes and not self._is_writing_epochs:
            epochs = EpochWrite(self._epoch_file, self._leader_epochs.entries)
        ticket = FlushTicket(
            self._file_system,
            directory,
            up_to=up_to,
            generation=self._generation,
            last_append_ms=self._last_append_ms,
            sealed=sealed,
            active=active if includes_active else None,
            sync_directory=is_new_name
            or (includes_active and active.base_offset >= recovery_point),
            snapshot_paths=self._snapshots.unsynced_paths(up_to),
            epochs=epochs,
        )
        self._is_writing_epochs = self._is_writing_epochs or epochs is not None
        return ticket

    def finish(self, ticket: FlushTicket) -> bool:
        """Take a ticket back that was run; whether the recovery point moved (FLUSH-3)."""
        if ticket.epochs is not None:
            self._is_writing_epochs = False
        if not ticket.is_done or ticket.generation != self._generation:
            return False
        if ticket.epochs is not None and ticket.epochs.entries == self._leader_epochs.entries:
            self._leader_epochs.has_unwritten_changes = False
        for segment in ticket.sealed:
            self.segment_removed(segment)
        self._snapshots.mark_synced(ticket.snapshot_paths)
        moved = self._offsets.advance_recovery_point(ticket.up_to)
        is_clean = self._offsets.recovery_point == self._offsets.log_end
        self._unflushed_since_ms = None if is_clean else ticket.last_append_ms
        return moved

    def flush_for_close(self, directory: str) -> None:
        """Sync all that is left, the indexes of the active segment included; blocks."""
        self._is_writing_epochs = False
        ticket = self.begin(directory, self._offsets.log_end, for_close=True)
        ticket.run()
        self.finish(ticket)
