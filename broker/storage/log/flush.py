"""Group commit: the files of a flush, collected by the owner and synced by a worker thread.

    owner:   ticket = log.begin_flush()      everything appended so far, a few segments at a time
    thread:  ticket.run()                    blocks; appends go on meanwhile
    owner:   log.finish_flush(ticket)        the recovery point moves
    owner:   again, while ``ticket.continues_to`` names an offset

Of the active segment only the data file is synced. Its indexes are not needed: after an unclean
stop the segment that holds the recovery point is scanned and its indexes are built anew. Segments
below the recovery point are trusted, so sealed ones are synced with their indexes.
"""

import logging
from itertools import islice
from typing import Final

from seglog.broker.storage.errors import FileError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.flush_ticket import FlushTicket
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.segment.segment import LogSegment

logger = logging.getLogger(__name__)

_SEGMENTS_AT_ONCE_MAX: Final = 16
_OPEN_FILES_PER_SEGMENT: Final = 32
"""Of the files that may stay open: four of a segment, for each of eight logs that are closed."""


class LogFlusher:
    """Which parts of a log are not on disk yet; makes tickets and takes them back.

    Owned by the log. A truncation starts another generation of the content: a flush that was begun
    before it, or while it ran, says nothing about the offsets any more.
    """

    def __init__(self, file_system: FileSystem, parts: LogParts) -> None:
        self._last_append_ms = 0
        self._unflushed_since_ms: int | None = None
        self._file_system = file_system
        self._segments = parts.segments
        self._offsets = parts.offsets
        self._leader_epochs = parts.leader_epochs
        self._snapshots = parts.snapshots
        self._generation = 0
        self._begun: list[FlushTicket] = []
        self._failure: BaseException | None = None
        at_once = file_system.max_open_files // _OPEN_FILES_PER_SEGMENT
        self._segments_at_once = max(1, min(at_once, _SEGMENTS_AT_ONCE_MAX))
        # Sealed segments whose indexes are not known to be on disk, ascending.
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

    # ---- tickets

    def begin(self, directory: str, up_to: int, *, for_close: bool = False) -> FlushTicket:
        """A ticket for the records below ``up_to``; at a close with the active segment's indexes.

        It has the first few of many segments, so that a log that was not synced for long, or whose
        recovery point was lost, does not need a descriptor for each of its files at once.
        """
        active, epochs = self._segments.active, self._leader_epochs
        below = (segment for segment in self._sealed if segment.base_offset < up_to)
        sealed = list(islice(below, self._segments_at_once + 1))
        continues_to = None
        if len(sealed) > self._segments_at_once:
            continues_to, up_to = up_to, sealed.pop().base_offset
        is_whole = continues_to is None
        includes_active = max(active.base_offset, self._offsets.recovery_point) < up_to
        syncs = [(segment, True) for segment in sealed]
        if is_whole and (for_close or includes_active):
            syncs.append((active, for_close))
        ticket = FlushTicket(
            self._file_system,
            directory,
            syncs,
            up_to=up_to,
            continues_to=continues_to,
            generation=self._generation,
            last_append_ms=self._last_append_ms,
            snapshot_paths=self._snapshots.unsynced_paths(up_to),
            snapshot_writes=self._snapshots.begin_writes(up_to),
            epochs=epochs.begin_write() if epochs.has_unwritten_changes else None,
        )
        self._begun.append(ticket)
        return ticket

    def finish(self, ticket: FlushTicket) -> bool:
        """Take a ticket back that was run; whether all it stands for is on disk (FLUSH-3)."""
        self._begun = [each for each in self._begun if each is not ticket]
        if self._failure is None:
            self._failure = ticket.sync_failure
        for write, is_written in ticket.snapshots_done():
            self._snapshots.end_write(write, is_written=is_written)
        if not ticket.is_done or ticket.generation != self._generation:
            return False
        for segment in ticket.sealed:
            self.segment_removed(segment)
        self._snapshots.mark_synced(ticket.snapshot_paths)
        self._offsets.advance_recovery_point(ticket.up_to)
        is_clean = self._offsets.recovery_point == self._offsets.log_end
        self._unflushed_since_ms = None if is_clean else ticket.last_append_ms
        return True

    def flush(self, directory: str, *, for_close: bool = False) -> None:
        """Sync everything that is left; blocks."""
        up_to: int | None = self._offsets.log_end
        while up_to is not None:
            ticket = self.begin(directory, up_to, for_close=for_close)
            try:
                ticket.run()
            finally:
                is_on_disk = self.finish(ticket)
            up_to = ticket.continues_to if is_on_disk else None

    def flush_for_close(self, directory: str) -> None:
        """Sync all that is left, the indexes of the active segment included; blocks.

        Raises:
            FileError: a sync has failed, or one that was begun has not ended and may fail yet: the
                kernel reports a failure once, and perhaps to that one.
        """
        for ticket in list(self._begun):
            if not ticket.give_up() and not ticket.is_over:
                raise FileError("close", directory, "a sync that was begun has not ended")
            self.finish(ticket)
        if self._failure is not None:
            raise self._failure
        self.flush(directory, for_close=True)

    def abandon(self) -> None:
        """Release the files of tickets that will not run; the log is of no further use."""
        for ticket in self._begun:
            ticket.give_up()
