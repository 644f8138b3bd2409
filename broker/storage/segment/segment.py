"""One segment of a log: a data file and its three indexes.

Only the last segment of a log, the active one, grows; the others are sealed. Opening a segment only
looks at the size of the data file, and an unread sealed segment holds no descriptor. Only the owner
of the log calls this; ``FileSlice`` and ``SegmentSync`` objects may leave its thread.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from seglog.broker.storage.errors import CorruptLogError, IndexOverflowError, TornSegmentError
from seglog.broker.storage.files.file_system import FileSlice, FileSystem
from seglog.broker.storage.segment.batch_search import BatchSearch
from seglog.broker.storage.segment.batch_walk import (
    SCAN_WINDOW_BYTES,
    BatchExtent,
    VerifiedBatches,
    walk_batches,
)
from seglog.broker.storage.segment.indexes import SegmentIndexes
from seglog.broker.storage.segment.search import SegmentSearch
from seglog.broker.storage.segment.segment_files import SegmentFiles, SegmentSync
from seglog.broker.storage.segment.time_index import TimestampOffset
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import LOG_OVERHEAD, BatchHeader, RecordBatch
from seglog.protocol.records.search import find_timestamp
from seglog.protocol.types import INT32_MAX, Buffer

logger = logging.getLogger(__name__)


class LogSegment:
    """The batches from ``base_offset`` on, up to the next segment's base offset.

    Attributes:
        files: the four files, for renaming, moving, deleting.
        log, offset_index, time_index, transaction_index: the same one by one.
        indexes: offset index and time index, and whether they are in doubt.
        created_ms: when the segment was made, or opened by this process.
        is_torn: whether ``check_end`` has failed.
    """

    __slots__ = (
        "_config",
        "_file_system",
        "_first_batch_timestamp",
        "_is_end_assumed",
        "_next_offset",
        "_search",
        "base_offset",
        "created_ms",
        "files",
        "indexes",
        "is_torn",
        "log",
        "offset_index",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self, file_system: FileSystem, files: SegmentFiles, config: LogConfig, created_ms: int,
        *, is_new: bool,
    ) -> None:  # fmt: skip
        self.base_offset: Final = files.base_offset
        self.created_ms = created_ms
        self.files = files
        self.log = files.log
        self.offset_index = files.offset_index
        self.time_index = files.time_index
        self.transaction_index = files.transaction_index
        self._file_system = file_system
        self._config = config
        self.indexes = SegmentIndexes(files, config.index_interval_bytes, is_new=is_new)
        self._search = SegmentSearch(files, self.indexes)
        self._first_batch_timestamp: int | None = None
        self._next_offset = files.base_offset if is_new else None
        self._is_end_assumed = self.is_torn = False

    @classmethod
    def create(
        cls,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        suffix: str = "",
    ) -> "LogSegment":
        """Makes the files of a new, empty segment.

        Raises:
            DiskFullError: there is no space; no file is left.
            FileError: a file could not be made.
        """
        files = SegmentFiles(
            file_system,
            directory,
            base_offset,
            max_index_bytes=config.segment_index_bytes,
            suffix=suffix,
            create=True,
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )
        return cls(file_system, files, config, now_ms, is_new=True)

    @classmethod
    def open(
        cls,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        suffix: str = "",
        known_size: int | None = None,
    ) -> "LogSegment":
        """A segment that is there; nothing but the size of its data file is looked at.

        Raises:
            MissingFileError: there is no data file.
        """
        files = SegmentFiles(
            file_system,
            directory,
            base_offset,
            max_index_bytes=config.segment_index_bytes,
            suffix=suffix,
            known_size=known_size,
        )
        return cls(file_system, files, config, now_ms, is_new=False)

    def __repr__(self) -> str:
        return f"LogSegment({self.log.path!r}, size={self.log.size})"

    def update_config(self, config: LogConfig) -> None:
        """Takes other settings; the size of an index file only changes with the next growth."""
        self._config = config
        self.indexes.interval_bytes = config.index_interval_bytes

    # ---- contents

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return self.log.size

    @property
    def first_batch_timestamp(self) -> int | None:
        """The greatest timestamp of the first batch; None while the segment is empty."""
        if self._first_batch_timestamp is None and self.log.size:
            first = next(walk_batches(self.log, 0, self.log.size), None)
            if first is not None:
                self._first_batch_timestamp = first.header().max_timestamp
        return self._first_batch_timestamp

    @property
    def max_timestamp_ms(self) -> int:
        """The greatest timestamp of the segment, -1 if no record has one."""
        self.indexes.load()
        return self.indexes.max_timestamp_ms

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that carries the greatest timestamp."""
        self.indexes.load()
        return self.indexes.max_timestamp_offset

    @property
    def largest_timestamp_ms(self) -> int:
        """The time for retention: the greatest timestamp, or the file's time if there is none."""
        timestamp = self.max_timestamp_ms
        return timestamp if timestamp >= 0 else self.files.modified_ms

    def next_offset(self) -> int:
        """The offset behind the last batch; the base offset if there is none."""
        if self._next_offset is None:
            next_offset = self.base_offset
            for step in self._search.walk_from(self.base_offset + INT32_MAX):
                next_offset = step.extent().last_offset + 1
            self._next_offset = next_offset
        return self._next_offset

    def end_before(self, offset: int) -> int:
        """The offset behind the last batch that ends below ``offset``; the base offset if none."""
        return self._search.end_before(offset)

    def ends_with_a_batch(self) -> bool:
        """Whether the file ends as appends leave it; looks behind the last index entry."""
        found = self._search.whole_end()
        if found is not None:
            self._next_offset = found
        return found is not None

    def assume_end(self, next_offset: int) -> None:
        """Take the offset behind the last batch from a source that knows; see ``check_end``."""
        self._next_offset = next_offset
        self._is_end_assumed = True

    def check_end(self) -> None:
        """Make sure, before the first append, that the file ends where it is assumed to.

        Raises:
            TornSegmentError: it does not.
        """
        if self._is_end_assumed:
            with self.indexes.changing():
                found = self._search.whole_end()
            self.is_torn = found != self._next_offset
            if self.is_torn:
                raise TornSegmentError(self.log.path, self.log.size, self._next_offset)
            self._is_end_assumed = False

    @property
    def is_index_full(self) -> bool:
        """Whether one of the indexes takes no further entry (ROLL-1)."""
        return self.indexes.is_full

    def fits_offset(self, offset: int) -> bool:
        """Whether an offset can be expressed relative to the base offset."""
        return 0 <= offset - self.base_offset <= INT32_MAX

    def batches(self, from_offset: int | None = None) -> Iterator[tuple[BatchHeader, int]]:
        """Headers and file positions, from the batch with ``from_offset`` (or the first) on.

        Raises:
            CorruptLogError: something that is no batch starts where one should.
        """
        if from_offset is None:
            steps = walk_batches(self.log, 0, self.log.size, SCAN_WINDOW_BYTES)
        else:
            steps = self._search.walk_from(from_offset)
        for step in steps:
            header = step.header()
            if from_offset is None or header.last_offset >= from_offset:
                yield header, step.position

    def read_batch(self, position: int, size_bytes: int) -> RecordBatch:
        """One batch, in memory.

        Raises:
            CorruptLogError, RecordError: no whole batch of that size is there.
        """
        content = self.log.read(position, size_bytes)
        if len(content) < size_bytes:
            raise CorruptLogError(self.log.path, position, "a batch is cut off")
        return RecordBatch(content)

    # ---- appending

    def append(self, batches: Buffer, headers: Sequence[BatchHeader]) -> int:
        """Appends whole batches in one write; returns the file position of the first.

        Args:
            batches: the bytes, with offsets assigned.
            headers: the header of each batch in ``batches``, in order.

        Raises:
            IndexOverflowError: offset or position do not fit; nothing was written.
            DiskFullError: there is no space; nothing was kept.
            FileError: the directory must go offline; nothing was kept, or the batches are there
                but not in the index.
        """
        log = self.log
        last = headers[-1]
        last_offset = last.base_offset + last.last_offset_delta
        if not 0 <= last_offset - self.base_offset <= INT32_MAX:
            raise IndexOverflowError(
                log.path,
                f"offset {last_offset} is not within 2147483647 above {self.base_offset}",
            )
        if log.size + len(batches) > INT32_MAX:
            raise IndexOverflowError(
                log.path, f"{len(batches)} bytes more than {log.size} exceed 2147483647"
            )
        indexes = self.indexes
        if not indexes.is_loaded:
            indexes.load()
        start = position = log.append(batches)
        if start == 0:
            self._first_batch_timestamp = headers[0].max_timestamp
        for header in headers:
            indexes.account(header, position)
            position += header.batch_length + LOG_OVERHEAD
        self._next_offset = last_offset + 1
        return start

    # ---- reading

    def translate(self, offset: int) -> BatchExtent | None:
        """The first batch whose last offset is >= ``offset``, None if none is (READ-4, 11)."""
        return self._search.find(offset)

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        *,
        max_position: int | None = None,
        min_one_message: bool = True,
    ) -> FileSlice | None:
        """The batches from the one that contains ``start_offset`` on, as a slice of the file.

        Whole batches only: the slice ends at the last batch boundary within ``max_bytes``; with
        ``min_one_message`` the first batch is in it however large it is.

        Args:
            max_position: the end for the reader; a batch boundary.

        Returns:
            The slice, empty if nothing may be seen or fits; None if the segment holds nothing at
            or above ``start_offset``, so that the next one is to be tried. It must be released.
        """
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}")
        first = self._search.find(start_offset)
        if first is None:
            return None
        log = self.log
        start, end = first.position, first.position + first.size_bytes
        limit = log.size if max_position is None else min(max_position, log.size)
        if start >= limit or (first.size_bytes > max_bytes and not min_one_message):
            return FileSlice(log, start, 0)
        if start + max_bytes >= limit:
            end = limit
        elif first.size_bytes < max_bytes:
            end = self._search.boundary_before(end, start + max_bytes)
        return self.slice(start, first.base_offset, end)

    def slice(self, position: int, first_offset: int, end: int) -> FileSlice:
        """The batches from a boundary, where that with ``first_offset`` begins, up to another."""
        good_end = self._search.good_until(position, first_offset, end)
        return FileSlice(self.log, position, good_end - position)

    def upper_bound_offset(self, position: int) -> int | None:
        """An offset that no batch before ``position`` reaches, None if no entry tells (READ-12).

        It is that of the first index entry at or behind ``position``.
        """
        entry = self._search.trusted_upper_bound(position)
        return None if entry is None else entry.offset

    # ---- by time

    def find_offset_by_timestamp(
        self, timestamp_ms: int, starting_offset: int, search: BatchSearch | None = None
    ) -> TimestampOffset | None:
        """The first record at or above ``starting_offset`` stamped that or later (LIST-5, 10, 11).

        Raises:
            DeferredReadError: with ``search``, a batch inflates to much.
            CorruptLogError, RecordError: a batch on the way cannot be read.
        """
        first_offset = self._search.trusted_floor_by_time(timestamp_ms, starting_offset)
        for step in self._search.walk_from(first_offset):
            header = step.header()
            if header.max_timestamp < timestamp_ms or header.last_offset < starting_offset:
                continue
            batch = self.read_batch(step.position, header.size_bytes)
            if search is None:
                found = find_timestamp(batch.view, timestamp_ms, from_offset=starting_offset)
            else:
                found = search.find_timestamp(batch, timestamp_ms, starting_offset)
            if found is not None:
                return TimestampOffset(found[1], found[0], header.partition_leader_epoch)
        return None

    # ---- recovering, cutting

    def recover(
        self,
        on_batch: Callable[[BatchHeader, int], None] | None = None,
        end_offset: int | None = None,
        before_cut: Callable[[], None] | None = None,
    ) -> int:
        """Verifies the data file, cuts it behind the last good batch, and rebuilds all indexes.

        The cut is on disk when this returns.

        Args:
            on_batch: called with header and file position of each good batch; aborted
                transactions are the caller's to put back into ``transaction_index``.
            end_offset: where the next segment begins, if there is one.
            before_cut: called once before the file is cut. Without the bad batch nothing tells
                any more that segments behind it are to go, so they have to be gone by then.

        Returns how many bytes were cut off (REC-4). Calls on the result change nothing (REC-3).

        Raises:
            SegmentOverflowError: the offsets span more than 2^31-1; the segment must be split.
        """
        batches = VerifiedBatches(self.log, self.base_offset, end_offset)
        self.indexes.clear()
        self.transaction_index.clear()
        self._first_batch_timestamp = None
        self._next_offset = self.base_offset
        for header, position in batches:
            self.indexes.account(header, position)
            self._next_offset = header.next_offset
            if on_batch is not None:
                on_batch(header, position)
        removed = 0
        if batches.end < self.log.size:
            if before_cut is not None:
                before_cut()
            removed = self.log.truncate(batches.end)
            self.log.sync()
            logger.warning(
                "event=segment-cut path=%s position=%d bytes=%d reason=%r",
                self.log.path,
                batches.end,
                removed,
                batches.fault,
            )
        self.indexes.seal()
        return removed

    def rebuild_indexes(self) -> None:
        """Builds offset index and time index from the batch headers; the data is left alone.

        Raises:
            SegmentOverflowError: the offsets span more than 2^31-1; the segment must be split.
        """
        self._next_offset = None
        self.indexes.rebuild()
        self.indexes.seal()

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cuts at the start of the batch that holds ``offset``; returns how many bytes went.

        The segment is ready for appends afterwards.

        Raises:
            FileError: the data file could not be cut.
        """
        with self.indexes.changing():
            extent = self.translate(offset)
            self.indexes.forget_from(offset)
            self.transaction_index.truncate_to(offset)
            removed = 0 if extent is None else self.log.truncate(extent.position)
            if self.log.size == 0:
                self.created_ms = now_ms
                self._first_batch_timestamp = None
            self._next_offset = None
            self._is_end_assumed = False
            self.indexes.reload_after_cut()
            self.prepare_for_appends()
        return removed

    # ---- life cycle

    def prepare_for_appends(self) -> None:
        """Makes the segment the active one: its index files have their full size (IDX-9)."""
        self.indexes.prepare_for_appends(self._config.segment_index_bytes)

    def on_become_inactive(self) -> None:
        """Seals the segment: closing time-index entry, files cut to their content (ROLL-8).

        Raises:
            FileError: the files are not as they should be.
        """
        with self.indexes.changing():
            self.indexes.load()
        self.indexes.seal()

    def flush(self) -> None:
        """Puts everything on disk; blocks, raises FileError. See ``begin_sync`` for threads."""
        sync = self.begin_sync()
        try:
            sync.run()
        finally:
            sync.release()

    def begin_sync(self, *, with_indexes: bool = True) -> SegmentSync:
        """The files that a worker thread syncs for the segment; to be released by the owner."""
        return self.files.begin_sync(with_indexes=with_indexes)

    def change_suffix(self, old: str, new: str) -> None:
        """Renames the files, e.g. from "" to ``.deleted``."""
        self.files.change_suffix(old, new)

    def delete_files(self) -> None:
        """Removes the files; slices stay readable."""
        self.files.delete()

    def close(self) -> None:
        """Seals the segment and lets go of it; slices in flight stay readable. Idempotent.

        Raises:
            FileError: the files are not as they should be; everything is let go.
        """
        if self.files.is_closed:
            return
        try:
            self.indexes.leave()
        finally:
            self.files.close()
