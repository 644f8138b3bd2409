"""Keeps the indexes of a segment in step with its data file.

Which batch gets an entry depends on nothing but the batches before it and
``index.interval.bytes``: appending, recovering and rebuilding run the same code and give the same
entries, also across a restart.

Entries are hints that are checked where they are used: the batch that an entry points to must end
with the entry's offset. If it does not, or a file is damaged in a way that its size or its ends
show, the indexes are rebuilt from the data file on the spot, with one line in the log.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial

from seglog.broker.storage.batch_walk import (
    SCAN_WINDOW_BYTES,
    BatchExtent,
    Step,
    boundary_before,
    find_batch,
    walk_batches,
)
from seglog.broker.storage.errors import (
    ClosedFileError,
    CorruptIndexError,
    CorruptLogError,
    DiskFullError,
    FileError,
    SegmentOverflowError,
)
from seglog.broker.storage.offset_index import OffsetPosition
from seglog.broker.storage.segment_files import SegmentFiles
from seglog.broker.storage.time_index import TimestampOffset
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.types import INT32_MAX, NO_TIMESTAMP

logger = logging.getLogger(__name__)


class SegmentIndexes:
    """Offset index and time index of one segment, and what they say about it.

    Attributes:
        interval_bytes: bytes of data between two entries.
        max_timestamp_ms: the greatest timestamp of the segment, -1 if no record has one; valid
            after ``load``.
        max_timestamp_offset: the last offset of the batch that carries it.
    """

    __slots__ = (
        "_base_offset",
        "_files",
        "_indexed_position",
        "_log",
        "_offset_index",
        "_time_index",
        "interval_bytes",
        "is_loaded",
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

    @property
    def is_full(self) -> bool:
        """Whether one of the two takes no further entry."""
        return self._offset_index.is_full or self._time_index.is_full

    # ---- accounting

    def account(self, header: BatchHeader, position: int) -> None:
        """Notes the batch that lies at ``position``, and adds entries when they are due (IDX-1)."""
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = header.base_offset + header.last_offset_delta
        if position - self._indexed_position > self.interval_bytes:
            self._add_entries(header.base_offset + header.last_offset_delta, position)

    def _add_entries(self, last_offset: int, position: int) -> None:
        # An entry may be left out: without room or disk space the next batch tries again.
        if self.is_full:
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
        try:
            self._time_index.maybe_append(
                self.max_timestamp_ms, self.max_timestamp_offset, skip_full_check=True
            )
        except DiskFullError as error:
            logger.warning(
                "event=index-left-unfinished path=%s reason=%r", error.path, error.reason
            )
            return
        self._files.trim()

    def prepare_for_appends(self, max_index_bytes: int) -> None:
        """Gives the files their full size and a reserved slot (IDX-9)."""
        self.load()
        self._offset_index.grow_to_max(max_index_bytes)
        self._time_index.grow_to_max(max_index_bytes)

    def forget_from(self, offset: int) -> None:
        """Drops the entries with that offset or a greater one."""
        self.load()
        self._offset_index.truncate_to(offset)
        self._time_index.truncate_to(offset)

    def reload_after_cut(self) -> None:
        """Finds the greatest timestamp anew: the last entry, and the tail behind it (TRUNC-8)."""
        self._take_last_entries()
        for step in self.walk_from(self.max_timestamp_offset):
            header = step.header()
            if header.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    # ---- looking up

    def find(self, offset: int) -> BatchExtent | None:
        """The first batch whose last offset is >= ``offset``, None if there is none."""
        if not self.is_loaded:
            self.load()
        log = self._log
        try:
            entry = self._offset_index.lookup(offset)
            if entry.position:
                return find_batch(log, entry.position, log.size, offset, entry.offset)
        except (CorruptIndexError, FileError) as error:
            self._heal_after(error)
        return find_batch(log, 0, log.size, offset)

    def boundary_before(self, boundary: int, end: int) -> int:
        """The last batch boundary <= ``end``; ``boundary`` is one."""
        log = self._log
        try:
            entry = self._offset_index.floor_by_position(end)
            if entry is not None and entry.position > boundary:
                return boundary_before(log, entry.position, end, entry.offset)
        except (CorruptIndexError, FileError) as error:
            self._heal_after(error)
        return boundary_before(log, boundary, end)

    def walk_from(self, offset: int) -> Iterator[Step]:
        """Batches up to the end of the file; begins at or before the one that holds ``offset``."""
        self.load()
        position = 0
        try:
            position = self.trusted_position(self._offset_index.lookup(offset))
        except (CorruptIndexError, FileError) as error:
            self._heal_after(error)
        return walk_batches(self._log, position, self._log.size)

    def trusted_position(self, entry: OffsetPosition | None) -> int:
        """The position of an entry, once it is known that the batch is there; else 0."""
        if entry is None or entry.position == 0:
            return 0
        log = self._log
        try:
            find_batch(log, entry.position, log.size, entry.offset, entry.offset)
        except CorruptIndexError as error:
            self._heal(error.reason)
            return 0
        return entry.position

    def trusted_upper_bound(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a file position, once it is known to be true."""
        self.load()
        try:
            entry = self._offset_index.upper_bound_by_position(position)
        except (CorruptIndexError, FileError) as error:
            self._heal_after(error)
            return self._offset_index.upper_bound_by_position(position)
        if entry is None or self.trusted_position(entry) == entry.position:
            return entry
        return self._offset_index.upper_bound_by_position(position)

    def trusted_floor_by_time(self, timestamp_ms: int, starting_offset: int) -> int:
        """An offset before which nothing is stamped ``timestamp_ms`` or later.

        An entry at or below ``starting_offset`` is not looked at more closely: nobody uses it.
        """
        self.load()
        try:
            entry = self._time_index.lookup(timestamp_ms)
        except (CorruptIndexError, FileError) as error:
            self._heal_after(error)
            entry = self._time_index.lookup(timestamp_ms)
        if entry.offset > starting_offset and not self._is_true(entry):
            self._heal(_untrue(entry))
            entry = self._time_index.lookup(timestamp_ms)
        return max(entry.offset, starting_offset)

    def _is_true(self, entry: TimestampOffset) -> bool:
        """Whether the batch that an entry of the time index tells of is there, and stamped so."""
        if entry.timestamp_ms == NO_TIMESTAMP:
            return True
        for step in self.walk_from(entry.offset):
            header = step.header()
            if header.last_offset >= entry.offset:
                return (
                    header.base_offset <= entry.offset
                    and header.max_timestamp == entry.timestamp_ms
                )
        return False

    # ---- checking and rebuilding

    def load(self) -> None:
        """Looks at the indexes before their first use, and rebuilds them if they are damaged."""
        if self.is_loaded:
            return
        try:
            self.check()
        except (CorruptIndexError, FileError) as error:
            self._heal_after(error)
            return
        self._take_last_entries()
        self.is_loaded = True

    def load_apart(self) -> Callable[[], None]:
        """Looks at the indexes in another thread, through files of its own.

        Returns:
            What the owner calls to take the result over.
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
            return self.load
        finally:
            twin_files.close()
        return partial(self._take_ends, twin)

    def _take_ends(self, twin: "SegmentIndexes") -> None:
        if self.is_loaded or self._files.is_closed or twin._log.size != self._log.size:
            return
        self._offset_index.take_ends(twin._offset_index)
        self._time_index.take_ends(twin._time_index)
        self._take_last_entries()
        self.is_loaded = True

    def check(self) -> None:
        """Compares the indexes with each other and with the data file.

        Looks at sizes, at both ends, and at the batches that the last entries tell of; the cost
        does not depend on the size of the segment.

        Raises:
            CorruptIndexError, MissingFileError: the indexes must be rebuilt.
        """
        size = self._log.size
        for index in (self._offset_index, self._time_index):
            index.sanity_check(size)
        try:
            self._check_offset_index()
            self._check_time_index()
        except CorruptLogError as error:
            raise CorruptIndexError(self._offset_index.path, error.reason) from error

    def _check_offset_index(self) -> None:
        entry = self._offset_index.last_entry
        if entry is not None:
            find_batch(self._log, entry.position, self._log.size, entry.offset, entry.offset)
            return
        for step in walk_batches(self._log, 0, self._log.size):
            if step.position > self.interval_bytes:
                raise CorruptIndexError(
                    self._offset_index.path,
                    f"it is empty, although a batch is at position {step.position}",
                )

    def _check_time_index(self) -> None:
        last = self._time_index.last_entry
        if last.timestamp_ms == NO_TIMESTAMP:
            first = next(walk_batches(self._log, 0, self._log.size), None)
            if first is not None and first.header().max_timestamp != NO_TIMESTAMP:
                raise CorruptIndexError(
                    self._time_index.path, "it is empty, although records have timestamps"
                )
            return
        entry = self._offset_index.lookup(last.offset)
        for step in walk_batches(self._log, entry.position, self._log.size):
            header = step.header()
            if header.last_offset >= last.offset:
                if header.base_offset <= last.offset and header.max_timestamp == last.timestamp_ms:
                    return
                break
        raise CorruptIndexError(self._time_index.path, _untrue(last))

    def clear(self) -> None:
        """Drops all entries, whatever state the files are in."""
        self._offset_index.clear()
        self._time_index.clear()
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self._base_offset
        self._indexed_position = 0
        self.is_loaded = True

    def rebuild(self) -> int:
        """Builds both indexes from the headers of the data file; returns where the batches end.

        Checksums are not looked at and nothing is cut off: this is for a segment whose data is
        trusted.

        Raises:
            SegmentOverflowError: the offsets span more than 2^31-1.
        """
        self.clear()
        end = 0
        try:
            for step in walk_batches(self._log, 0, self._log.size, SCAN_WINDOW_BYTES):
                header = step.header()
                if not 0 <= header.last_offset - self._base_offset <= INT32_MAX:
                    raise SegmentOverflowError(
                        self._log.path, self._base_offset, header.last_offset, step.position
                    )
                self.account(header, step.position)
                end = step.position + header.size_bytes
        except CorruptLogError as error:
            logger.warning("event=segment-not-indexed path=%s reason=%r", error.path, error.reason)
        return end

    def _heal(self, reason: str) -> None:
        logger.warning("event=indexes-rebuilt path=%s reason=%r", self._log.path, reason)
        try:
            self.rebuild()
        except SegmentOverflowError as error:
            # Who reads what lies before it can be helped without a whole index.
            logger.warning("event=segment-not-indexed path=%s reason=%r", error.path, str(error))
        self.seal()

    def _heal_after(self, error: CorruptIndexError | FileError) -> None:
        """Builds the indexes anew if it was one of them that could not be read; else raises."""
        indexes = (self._offset_index.path, self._time_index.path)
        if isinstance(error, ClosedFileError):
            raise error
        if isinstance(error, FileError) and error.path not in indexes:
            raise error
        self._heal(str(error))

    def _take_last_entries(self) -> None:
        last = self._offset_index.last_entry
        self._indexed_position = 0 if last is None else last.position
        latest = self._time_index.last_entry
        self.max_timestamp_ms = latest.timestamp_ms
        self.max_timestamp_offset = latest.offset


def _untrue(entry: TimestampOffset) -> str:
    return f"no batch at offset {entry.offset} has the timestamp {entry.timestamp_ms} of its entry"
