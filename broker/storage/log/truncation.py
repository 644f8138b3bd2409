"""Cutting the end of a log off, or all of it, in an order that no crash can turn into damage.

    owner:    truncation = log.begin_truncation(offset, now_ms)     or ``begin_restart``
    worker:   the checkpoints of the directory, and the cleaner's   they say less than the log has
    worker:   truncation.run()                                      then the log gets less
    owner:    log.finish_truncation(truncation)                     and goes on

``begin`` lowers the offsets in memory, so that the checkpoints that are written next have the lower
values: recovery point, log start, high watermark. The other way round, records appended after the
cut would count as synced for as long as a file on disk says so. Between ``begin`` and ``finish``
the log answers readers below its new end, and no append, roll, deletion or exchange happens,
so ``run`` has input that stands still.

``run`` lowers leader epochs and snapshots, removes segments from the highest down, waits until
their names are gone, and cuts last. Killed anywhere, it leaves a beginning of the old log which is
at least as long as the new one, or, where everything was to go, an empty log in its place.
"""

import logging
from collections.abc import Sequence

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.flush import LogFlusher
from seglog.broker.storage.log.leader_epochs import EpochWrite
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.log.producer_replay import replay_producers
from seglog.broker.storage.log.producer_state import ProducerState
from seglog.broker.storage.log.reader import LogReader
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.log.writer import LogWriter
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig

logger = logging.getLogger(__name__)


class TruncationUnderWayError(StorageError):
    """The log is being cut, and takes neither records nor other changes until that is done."""

    def __init__(self, log_name: str) -> None:
        super().__init__(f"{log_name} is being truncated; try again when that is done")


class Truncation:
    """One truncation: made and finished by the owner of the log, run once by any thread.

    Attributes:
        end_offset: where the log ends afterwards.
        cuts_records: whether records go; leader epochs may in any case.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        parts: LogParts,
        config: LogConfig,
        *,
        end_offset: int,
        cuts_records: bool,
        restarts: bool,
        now_ms: int,
    ) -> None:
        self.end_offset = end_offset
        self.cuts_records = cuts_records
        self.producers = ProducerState("", parts.producers.expiration_ms)
        self.segments = LogSegments(parts.segments)
        self._file_system = file_system
        self._directory = directory
        self._snapshots = parts.snapshots
        self._config = config
        self._restarts = restarts
        self._now_ms = now_ms
        self._epochs: EpochWrite = parts.leader_epochs.begin_write()

    def run(self) -> None:
        """Make it so on disk; blocks.

        Raises:
            StorageError: the disk failed; it is unknown how much was cut, and the log is of no
                further use.
        """
        # Before the segments: after a crash the small files may say less than the log holds, never
        # more.
        self._epochs.write()
        if not self.cuts_records:
            return
        self._snapshots.remove_outside(0, -1 if self._restarts else self.end_offset)
        if self._restarts:
            self._begin_anew()
        else:
            self._cut()
        replay_producers(
            self.producers,
            self._snapshots,
            self.segments,
            log_end=self.end_offset,
            now_ms=self._now_ms,
        )

    def _cut(self) -> None:
        # From the highest down, and their names are gone before the cut: a crash must not leave a
        # segment behind a gap.
        self._remove(self.segments.higher_all(self.end_offset)[::-1])
        self._cut_segment(self.segments.active)

    def _begin_anew(self) -> None:
        """Put an empty segment in the place of all others.

        Segments above it go first, as at a cut. Segments below go once it exists: without any
        segment the log would begin at offset 0.
        """
        start = self.end_offset
        self._remove(self.segments.higher_all(start - 1)[::-1])
        last = self.segments.last
        if last is not None and last.next_offset() > start:
            self._cut_segment(last)
        created = LogSegment.create(
            self._file_system, self._directory, start, self._config, self._now_ms
        )
        # The new name is on disk before the old ones go: a folder without segments begins at 0.
        self._file_system.sync_directory(self._directory)
        self._remove(list(self.segments))
        self.segments.add(created)
        created.prepare_for_appends()

    def _cut_segment(self, segment: LogSegment) -> None:
        """Cut a segment at the new end, on disk before anything is appended.

        If only a later append reached the disk, cut records could follow it. An earlier flush may
        be at work on the file, hence a separate descriptor.
        """
        segment.truncate_to(self.end_offset, self._now_ms)
        self._file_system.sync_file(segment.log.path)

    def _remove(self, doomed: Sequence[LogSegment]) -> None:
        """Remove segments in this order, and wait until their names are gone."""
        if not doomed:
            return
        for segment in doomed:
            self.segments.remove(segment.base_offset)
            # Slices in flight become void first, so that no connection sends removed bytes.
            segment.log.withdraw()
            segment.delete_files()
        self._file_system.sync_directory(self._directory)


class LogTruncator:
    """The owner's side of truncations; a part of `Log`.

    Attributes:
        count: how many were begun that took records away.
    """

    def __init__(
        self,
        file_system: FileSystem,
        log_name: str,
        parts: LogParts,
        flusher: LogFlusher,
        reader: LogReader,
        writer: LogWriter,
    ) -> None:
        self._file_system = file_system
        self._log_name = log_name
        self._parts = parts
        self._flusher = flusher
        self._reader = reader
        self._writer = writer
        self.count = 0
        self._current: Truncation | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether one has been begun and not finished."""
        return self._current is not None

    def check_at_rest(self) -> None:
        """Make sure that the log may be changed.

        Raises:
            TruncationUnderWayError: it is being cut.
        """
        if self._current is not None:
            raise TruncationUnderWayError(self._log_name)

    def begin(self, directory: str, config: LogConfig, offset: int, now_ms: int) -> Truncation:
        """Begin to cut the log so that it ends at ``offset`` (TRUNC-1 to 8).

        A batch that holds the offset goes as a whole, and the log ends where it began (TRN-9).

        Raises:
            ValueError: the offset is negative.
            TruncationUnderWayError: another one has not been finished.
        """
        offsets, segments = self._parts.offsets, self._parts.segments
        if offset < 0:
            raise ValueError(f"cannot truncate {self._log_name} to offset {offset}")
        end_offset = offsets.log_end
        if offset < end_offset:
            segment = segments.floor(offset)
            if segment is None:
                return self.begin_restart(directory, config, offset, now_ms)
            self.check_at_rest()
            end_offset = segment.end_before(offset)
            self._report(end_offset)
        return self._begin(directory, config, end_offset, now_ms, None)

    def begin_restart(
        self,
        directory: str,
        config: LogConfig,
        offset: int,
        now_ms: int,
        log_start: int | None = None,
    ) -> Truncation:
        """Begin to drop everything, so that the next record gets ``offset`` (TRUNC-9).

        Raises:
            TruncationUnderWayError: another one has not been finished.
        """
        self.check_at_rest()
        self._report(offset)
        start = offset if log_start is None else log_start
        return self._begin(directory, config, offset, now_ms, start)

    def _begin(
        self,
        directory: str,
        config: LogConfig,
        end_offset: int,
        now_ms: int,
        restarts_at: int | None,
    ) -> Truncation:
        """Lower everything in memory; ``restarts_at`` is the log start where nothing stays."""
        self.check_at_rest()
        parts = self._parts
        restarts = restarts_at is not None
        cuts_records = restarts or end_offset < parts.offsets.log_end
        if restarts_at is not None:
            parts.offsets.restart_at(end_offset, restarts_at)
            parts.leader_epochs.clear()
        elif cuts_records:
            parts.offsets.truncate(end_offset)
        parts.leader_epochs.truncate_from_end(end_offset)
        if cuts_records:
            self.count += 1
            self._flusher.content_truncated()
            self._reader.forget()
            self._reader.is_being_cut = True
        self._current = Truncation(
            self._file_system,
            directory,
            parts,
            config,
            end_offset=end_offset,
            cuts_records=cuts_records,
            restarts=restarts,
            now_ms=now_ms,
        )
        return self._current

    def finish(self, truncation: Truncation) -> None:
        """Go on with the rest that a finished truncation has left."""
        assert truncation is self._current, truncation
        self._current = None
        if not truncation.cuts_records:
            return
        parts = self._parts
        parts.segments.clear()
        for segment in truncation.segments:
            parts.segments.add(segment)
        self._flusher.content_truncated()
        self._reader.forget()
        self._reader.is_being_cut = False
        self._writer.choose_jitter()
        parts.producers.reset(truncation.end_offset, list(truncation.producers))
        parts.update_first_unstable()

    def _report(self, offset: int) -> None:
        high_watermark = self._parts.offsets.high_watermark
        if offset < high_watermark:
            logger.warning(
                "event=truncation-below-high-watermark log=%s offset=%d high_watermark=%d",
                self._log_name,
                offset,
                high_watermark,
            )
