"""Keeps the indexes of a segment in step with its data file.

Which batch gets an entry depends on nothing but the batches before it and
``index.interval.bytes``: appending, recovering and rebuilding run the same code and give the same
entries, also across a restart.

If they do not fit, they are built anew: on the spot while a log is being loaded, and by another
thread once it is served (``examination``), since reading never writes. The same walk finds
damage in the data file; from then on reads skip it, and readers of it get an error.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial

from seglog.broker.storage.errors import (
    ClosedFileError,
    CorruptFileError,
    CorruptIndexError,
    CorruptLogError,
    DeferredReadError,
    DiskFullError,
    FileError,
    MissingFileError,
    SegmentOverflowError,
)
from seglog.broker.storage.segment.batch_walk import (
    SCAN_WINDOW_BYTES,
    walk_batches,
)
from seglog.broker.storage.segment.checked_ranges import CheckedRanges
from seglog.broker.storage.segment.damage_walk import DamagedRange
from seglog.broker.storage.segment.examination import Examination, SegmentToExamine
from seglog.broker.storage.segment.index_check import check_indexes
from seglog.broker.storage.segment.segment_files import SegmentFiles
from seglog.protocol.records.batch import LOG_OVERHEAD, BatchHeader
from seglog.protocol.types import INT32_MAX, NO_TIMESTAMP

logger = logging.getLogger(__name__)


class SegmentIndexes:
    """Offset index and time index of one segment.

    Attributes:
        interval_bytes: bytes of data between two entries.
        max_timestamp_ms: the greatest timestamp of the segment, -1 if no record has one; valid
            after ``load``.
        max_timestamp_offset: the last offset of the batch that carries it.
        damaged: ranges of the data file without good batches, as far as they are known.
        checked: ranges of the data file that were found in order.
        end_offset: where the next segment begins, None if there is none.
        is_served: whether reads have to leave long work and writes to another thread.
    """

    __slots__ = (
        "_base_offset",
        "_cuts",
        "_doubt",
        "_files",
        "_indexed_position",
        "_is_active",
        "_judged",
        "_log",
        "_offset_index",
        "_time_index",
        "checked",
        "damaged",
        "end_offset",
        "interval_bytes",
        "is_loaded",
        "is_served",
        "max_timestamp_ms",
        "max_timestamp_offset",
    )

    def __init__(self, files: SegmentFiles, interval_bytes: int, *, is_new: bool) -> None:
        self.interval_bytes = interval_bytes
        self.is_loaded = is_new
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = files.base_offset
        self._files = files
        self._base_offset = files.base_offset
        self._log = files.log
        self._offset_index = files.offset_index
        self._time_index = files.time_index
        self._indexed_position = 0
        self.damaged: tuple[DamagedRange, ...] = ()
        self.end_offset: int | None = None
        self.is_served = False
        self.checked = CheckedRanges()
        self._is_active = is_new
        self._doubt = ""
        self._judged = ""
        self._cuts = 0

    @property
    def is_full(self) -> bool:
        """Whether one of the two takes no further entry."""
        return self._offset_index.is_full or self._time_index.is_full

    @property
    def is_doubted(self) -> bool:
        """Whether they do not fit, and wait for a thread to build them anew."""
        return bool(self._doubt)

    # ---- accounting

    def account(self, header: BatchHeader, position: int) -> None:
        """Notes the batch that lies at ``position``, and adds entries when they are due (IDX-1)."""
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = header.base_offset + header.last_offset_delta
        self.checked.add(position, position + header.batch_length + LOG_OVERHEAD)
        if self.damaged and self.damaged[-1].next_offset is None:
            self._end_damage(header.base_offset)
        if position - self._indexed_position > self.interval_bytes:
            self._add_entries(header.base_offset + header.last_offset_delta, position)

    def _add_entries(self, last_offset: int, position: int) -> None:
        # An entry may be left out: without room or disk space the next batch tries again.
        if self._doubt or self.is_full:  # a doubted index is built anew, with this batch
            return
        try:
            self._offset_index.append(last_offset, position)
            self._indexed_position = position
            self._time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        except DiskFullError as error:
            logger.warning("event=index-entry-left-out path=%s reason=%r", error.path, error.reason)

    def seal(self) -> None:
        """Makes the greatest timestamp the last entry, and cuts the files (ROLL-8).

        A disk without space for the entry leaves the files uncut: that is how the next start sees
        that they are not complete, and builds them anew.
        """
        self._is_active = False
        if self._doubt:
            return  # the new ones are sealed when they come
        try:
            self._time_index.maybe_append(
                self.max_timestamp_ms, self.max_timestamp_offset, skip_full_check=True
            )
        except DiskFullError as error:
            logger.warning(
                "event=index-left-unfinished path=%s reason=%r", error.path, error.reason
            )
            self._offset_index.end_rebuild()
            self._time_index.end_rebuild()
            return
        self._files.trim()

    def prepare_for_appends(self, max_index_bytes: int) -> None:
        """Gives the files their full size and a reserved slot (IDX-9)."""
        with self.changing():
            self.load()
        self._is_active = True
        self._offset_index.grow_to_max(max_index_bytes)
        self._time_index.grow_to_max(max_index_bytes)

    def forget_from(self, offset: int) -> None:
        """Drops the entries with that offset or a greater one."""
        self.load()
        self._offset_index.truncate_to(offset)
        self._time_index.truncate_to(offset)

    def reload_after_cut(self) -> None:
        """Finds the greatest timestamp anew: the last entry, and the tail behind it (TRUNC-8)."""
        self._cuts += 1
        self.checked.cut(self._log.size)
        self.damaged = tuple(each for each in self.damaged if each.end <= self._log.size)
        self._take_last_entries()
        start = self._offset_index.lookup(self.max_timestamp_offset).position
        for step in walk_batches(self._log, start, self._log.size):
            header = step.header()
            if header.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    # ---- checking and rebuilding

    def load(self) -> None:
        """Looks at the indexes before their first use, and rebuilds them if they are damaged."""
        if self.is_loaded:
            return
        try:
            self.check()
        except (CorruptIndexError, FileError) as error:
            self.doubt_because(error)
            return
        self._take_last_entries()
        self.is_loaded = True

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While the owner changes the files anyway, an unfit index is built anew at once."""
        was_served, self.is_served = self.is_served, False
        try:
            yield
        finally:
            self.is_served = was_served

    def load_apart(self) -> Callable[[], None]:
        """Looks at the indexes in another thread, through files of its own.

        Returns:
            A function with which the owner takes the result over.
        """
        files = self._files
        twin_files = SegmentFiles(
            files.file_system, files.directory, self._base_offset, max_index_bytes=0
        )
        twin = SegmentIndexes(twin_files, self.interval_bytes, is_new=False)
        try:
            twin.check()
        except (CorruptIndexError, FileError) as error:
            logger.debug("event=index-not-preloaded path=%s error=%s", self._log.path, error)
            return self._load_or_doubt
        finally:
            twin_files.close()
        return partial(self._take_ends, twin)

    def _load_or_doubt(self) -> None:
        try:
            self.load()
        except DeferredReadError as error:
            # The read that is tried again meets it, and waits.
            logger.debug("event=index-not-preloaded path=%s error=%s", self._log.path, error)

    def _take_ends(self, twin: "SegmentIndexes") -> None:
        if self.is_loaded or self._files.is_closed:
            return
        if twin._log.size != self._log.size:
            # Another program has changed the file. The next read must not come here again.
            self._load_or_doubt()
            return
        self._offset_index.take_ends(twin._offset_index)
        self._time_index.take_ends(twin._time_index)
        self._take_last_entries()
        self.is_loaded = True

    def check(self) -> None:
        """Compares the indexes with each other and with the data; see ``check_indexes``."""
        check_indexes(self._log, self._offset_index, self._time_index, self.interval_bytes)

    def clear(self) -> None:
        """Drops all entries, in any state of the files; ``seal`` follows their rebuilding."""
        self._offset_index.begin_rebuild()
        self._time_index.begin_rebuild()
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self._base_offset
        self._indexed_position = 0
        self._cuts += 1
        self.checked.clear()
        self.damaged = ()
        self._doubt = ""
        self.is_loaded = True

    def rebuild(self) -> int:
        """Builds both indexes from the headers of the data file; returns where the batches end.

        Checksums are not looked at and nothing is cut off: this is for a segment whose data is
        trusted.

        Raises:
            SegmentOverflowError: the offsets span more than 2^31-1.
        """
        self.clear()
        end, next_offset = 0, self._base_offset
        try:
            for step in walk_batches(self._log, 0, self._log.size, SCAN_WINDOW_BYTES):
                header = step.header()
                if not 0 <= header.last_offset - self._base_offset <= INT32_MAX:
                    raise SegmentOverflowError(
                        self._log.path, self._base_offset, header.last_offset, step.position
                    )
                if header.base_offset < next_offset:
                    logger.warning(
                        "event=segment-not-indexed path=%s reason=%r",
                        self._log.path,
                        f"a batch begins with offset {header.base_offset} where {next_offset} is "
                        f"due, at position {step.position}",
                    )
                    break
                self.account(header, step.position)
                end, next_offset = step.position + header.size_bytes, header.next_offset
        except CorruptLogError as error:
            logger.warning("event=segment-not-indexed path=%s reason=%r", error.path, error.reason)
        return end

    def _heal(self, reason: str) -> None:
        logger.warning("event=indexes-rebuilt path=%s reason=%r", self._log.path, reason)
        try:
            self.rebuild()
        except SegmentOverflowError as error:
            # Readers before it do not need a whole index.
            logger.warning("event=segment-not-indexed path=%s reason=%r", error.path, str(error))
        self.seal()

    # ---- doubts

    def doubt_because(self, error: CorruptFileError | FileError) -> None:
        """Have the segment looked through; while it is loaded, build its indexes anew at once.

        Raises:
            DeferredReadError: with the work that another thread has to do.
            StorageError: ``error``, where it is no fault of the indexes and nothing can be done, or
                where the segment has been looked through for the same reason before.
        """
        indexes = (self._offset_index.path, self._time_index.path)
        if isinstance(error, FileError) and (
            isinstance(error, ClosedFileError) or error.path not in indexes
        ):
            raise error
        if not self.is_served:
            if isinstance(error, CorruptLogError):
                raise error
            self._heal(str(error))
            return
        file_system = self._files.file_system
        if isinstance(error, MissingFileError) and not file_system.exists(self._log.path):
            # The whole segment was removed by hand: there is nothing to build an index from, and
            # retention has to hear it, or it would wait for this segment for ever.
            raise MissingFileError("look at", self._log.path, error.reason) from error
        reason = str(error)
        if reason == self._judged:
            raise error
        if not self._doubt:
            logger.warning("event=segment-doubted path=%s reason=%r", self._log.path, reason)
        self._doubt = reason
        index_bytes = tuple(
            index.max_entries * index.ENTRY.size for index in (self._offset_index, self._time_index)
        )
        subject = SegmentToExamine(
            self._files.file_system,
            self._log,
            self._base_offset,
            self._log.size,
            self.end_offset,
            self._offset_index.path,
            self._time_index.path,
            (index_bytes[0], index_bytes[1]),
        )
        raise DeferredReadError(self._log.path, reason, partial(self._examine, subject, self._cuts))

    def _examine(self, subject: SegmentToExamine, cuts: int) -> Callable[[], None]:
        """Look the segment through in another thread; returns how its owner takes that over."""
        examination = Examination(subject)
        files = copy(self._files)
        files.offset_index, files.time_index = examination.offset_index, examination.time_index
        twin = SegmentIndexes(files, self.interval_bytes, is_new=True)
        examination.run(subject, twin.account)
        return partial(self._take_over, examination, twin, cuts)

    def _take_over(self, examination: Examination, twin: "SegmentIndexes", cuts: int) -> None:
        files = self._files
        if files.is_closed or cuts != self._cuts or not self._doubt:
            examination.discard(files.file_system)
            return
        # The time index first: the next start notices a missing offset index.
        self._time_index.replace_by(examination.time_index, files.file_system)
        self._offset_index.replace_by(examination.offset_index, files.file_system)
        self.max_timestamp_ms = twin.max_timestamp_ms
        self.max_timestamp_offset = twin.max_timestamp_offset
        self._indexed_position = twin._indexed_position
        self.damaged, self.checked = examination.damaged, twin.checked
        self._judged, self._doubt = self._doubt, ""
        self.is_loaded = True
        for step in walk_batches(self._log, examination.end, self._log.size):
            self.account(step.header(), step.position)  # appended meanwhile
        if not self._is_active:
            self.seal()
        self._report()

    def _report(self) -> None:
        logger.warning("event=indexes-rebuilt path=%s reason=%r", self._log.path, self._judged)
        for damage in self.damaged:
            logger.error(
                "event=records-damaged path=%s position=%d bytes=%d first_offset=%d next_offset=%s",
                self._log.path,
                damage.position,
                damage.end - damage.position,
                damage.first_offset,
                self.end_offset if damage.next_offset is None else damage.next_offset,
            )

    def _end_damage(self, next_offset: int) -> None:
        """Note the batch behind damage at the end of the file: it is appended now."""
        *before, last = self.damaged
        self.damaged = (*before, last._replace(next_offset=next_offset))

    def leave(self) -> None:
        """Close: the next start must not trust doubted indexes."""
        if self._doubt:
            self._files.file_system.unlink(self._offset_index.path, missing_ok=True)
        elif self.is_loaded:
            self.seal()

    def _take_last_entries(self) -> None:
        last = self._offset_index.last_entry
        self._indexed_position = 0 if last is None else last.position
        latest = self._time_index.last_entry
        self.max_timestamp_ms = latest.timestamp_ms
        self.max_timestamp_offset = latest.offset
