"""The four files of a segment: made, renamed, synced, closed and deleted together.

The order of operations matters for the loader: an index without its data file is deleted at the
next start, so the data file is always the first to be renamed or removed.
"""

import contextlib
from typing import Final, NamedTuple

from seglog.broker.storage.errors import DiskFullError, MissingFileError, StorageError
from seglog.broker.storage.files.file_pool import Handle
from seglog.broker.storage.files.file_positions import FilePosition, FilePositions
from seglog.broker.storage.files.file_system import FileSystem, IndexFile, LogFile
from seglog.broker.storage.files.layout import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from seglog.broker.storage.segment.offset_index import OffsetIndex
from seglog.broker.storage.segment.time_index import TimeIndex
from seglog.broker.storage.segment.transaction_index import TransactionIndex

_NOTHING_WRITTEN: Final = FilePosition(0, 0)


class SegmentFiles:
    """Data file and indexes of one segment.

    Args:
        directory: the partition's folder.
        max_index_bytes: the most an offset or time index may take.
        suffix: text behind the ordinary suffix of every file, e.g. ``.cleaned``.
        create: make the files, empty.
        preallocate_bytes: the size at which a new data file is made.
        known_size: of a data file that was just looked at, in bytes.
    """

    __slots__ = (
        "base_offset",
        "directory",
        "file_system",
        "is_closed",
        "log",
        "offset_index",
        "suffix",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        *,
        max_index_bytes: int,
        suffix: str = "",
        create: bool = False,
        preallocate_bytes: int = 0,
        known_size: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.directory = directory
        self.suffix = suffix
        self.is_closed = False
        self.file_system = file_system
        path_of = self.path_of
        try:
            self.log = file_system.open_log(
                path_of(LOG_SUFFIX),
                create=create,
                preallocate_bytes=preallocate_bytes,
                known_size=known_size,
            )
            self.offset_index = OffsetIndex(
                file_system,
                path_of(OFFSET_INDEX_SUFFIX),
                base_offset,
                max_index_bytes,
                create=create,
            )
            self.time_index = TimeIndex(
                file_system,
                path_of(TIME_INDEX_SUFFIX),
                base_offset,
                max_index_bytes,
                create=create,
            )
            self.transaction_index = TransactionIndex(
                file_system, path_of(TRANSACTION_INDEX_SUFFIX), base_offset, create=create
            )
        except DiskFullError:
            if create:
                self._unlink_all()
            raise

    def path_of(self, kind: str) -> str:
        """The path of one of the files; ``kind`` is its ordinary suffix."""
        return segment_path(self.directory, self.base_offset, kind + self.suffix)

    @property
    def modified_ms(self) -> int:
        """When the data file was last written."""
        return self.file_system.modified_ms(self.log.path)

    def set_modified_ms(self, modified_ms: int) -> None:
        """Sets that time, for a segment that takes the place of older ones (SEG-2)."""
        for path in (self.log.path, self.offset_index.path, self.time_index.path):
            self.file_system.set_modified_ms(path, modified_ms)

    def change_suffix(self, old: str, new: str) -> None:
        """Renames all files, e.g. from "" to ``.deleted``; open files and slices stay valid.

        The caller syncs the directory where the order of names on disk matters.

        Raises:
            ValueError: the files do not have the suffix ``old``.
            FileError: a file could not be renamed.
        """
        self.change_log_suffix(old, new)
        self.change_index_suffixes(old, new)

    def change_log_suffix(self, old: str, new: str) -> None:
        """Renames the data file; ``change_index_suffixes`` follows before anything else does.

        Raises:
            ValueError: the files do not have the suffix ``old``.
            FileError: it could not be renamed, and has its name still.
        """
        if self.suffix != old:
            raise ValueError(f"{self.log.path} has the suffix {self.suffix!r}, not {old!r}")
        source = self.path_of(LOG_SUFFIX)
        self.suffix = new
        target = self.path_of(LOG_SUFFIX)
        try:
            self.file_system.rename(source, target)
        except StorageError:
            self.suffix = old
            raise
        self._renamed(LOG_SUFFIX, target)

    def change_index_suffixes(self, old: str, new: str) -> None:
        """Renames the indexes of a data file that was renamed; those that are missing stay so.

        Raises:
            FileError: a file could not be renamed.
        """
        for kind in INDEX_SUFFIXES:
            source = segment_path(self.directory, self.base_offset, kind + old)
            target = segment_path(self.directory, self.base_offset, kind + new)
            with contextlib.suppress(MissingFileError):
                self.file_system.rename(source, target)
            self._renamed(kind, target)

    def take_suffix(self, suffix: str) -> None:
        """Takes note that another object has renamed all files."""
        self.suffix = suffix
        self.moved(self.directory)

    def moved(self, directory: str) -> None:
        """Takes note that the partition's folder was renamed."""
        self.directory = directory
        for kind in SEGMENT_SUFFIXES:
            self._renamed(kind, self.path_of(kind))

    def _renamed(self, kind: str, path: str) -> None:
        if kind == LOG_SUFFIX:
            self.log.path = path
        elif kind == OFFSET_INDEX_SUFFIX:
            self.offset_index.renamed(path)
        elif kind == TIME_INDEX_SUFFIX:
            self.time_index.renamed(path)
        else:
            self.transaction_index.renamed(path)

    def trim(self) -> None:
        """Cuts indexes and data file to their content."""
        self.offset_index.trim()
        self.time_index.trim()
        self.log.trim()

    def close(self) -> None:
        """Lets go of everything, as it is; slices in flight stay valid. Idempotent."""
        self.is_closed = True
        self.log.close()
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.close()

    def delete(self) -> None:
        """Removes the files; slices in flight stay valid.

        Raises:
            FileError: a file could not be removed.
        """
        self.close()
        self._unlink_all()

    def _unlink_all(self) -> None:
        for kind in SEGMENT_SUFFIXES:
            self.file_system.unlink(self.path_of(kind), missing_ok=True)

    def begin_sync(self, *, with_indexes: bool = True) -> "SegmentSync":
        """The files that a worker thread syncs for this segment; to be released."""
        return SegmentSync(self, with_indexes=with_indexes)

    def hand_over(self) -> None:
        """Let the thread own the files that changes them next."""
        for file in (self.log, self.offset_index.file, self.time_index.file):
            file.hand_over()
        if self.transaction_index.opened_file is not None:
            self.transaction_index.opened_file.hand_over()

    @property
    def is_untouched(self) -> bool:
        """Whether this object, which has not made the files, has written to none of them."""
        return (
            not self.log.cuts
            and self.transaction_index.opened_file is None
            and self.offset_index.file.positions.written == _NOTHING_WRITTEN
            and self.time_index.file.positions.written == _NOTHING_WRITTEN
        )

    def assume_synced(self) -> None:
        """Note that all files are on disk as they are: the last stop was a clean one."""
        for file in (self.log, self.offset_index.file, self.time_index.file):
            file.positions.assume_synced()


class SegmentSync:
    """The files of one segment that are not on disk yet, held open for a sync in another thread.

    The owner makes it, which notes the positions to be reached; ``run`` may be called from any
    thread, also while appends go on, which are not covered; then either of them releases it.

    Attributes:
        new_names: the files whose name is not known to be on disk.
    """

    def __init__(self, files: SegmentFiles, *, with_indexes: bool) -> None:
        self.new_names: list[FilePositions] = []
        self._held: list[_HeldFile] = []
        try:
            self._hold(files.log)
            if with_indexes:
                self._hold(files.offset_index.file)
                self._hold(files.time_index.file)
            transactions = files.transaction_index.opened_file
            if transactions is not None:
                self._hold(transactions)
        except StorageError:
            self.release()
            raise

    def _hold(self, file: LogFile | IndexFile) -> None:
        positions = file.positions
        if positions.needs_name_sync:
            self.new_names.append(positions)
        if positions.needs_sync:
            self._held.append(_HeldFile(file, file.acquire(), positions.written))

    def run(self) -> None:
        """Syncs data, offset index, time index, transaction index, in this order (FLUSH-2).

        Raises:
            FileError: the data on disk is unknown.
        """
        for each in self._held:
            each.file.sync_held(each.handle.value, each.target)

    def release(self) -> None:
        """Lets the descriptors go. Idempotent."""
        while self._held:
            self._held.pop().handle.unpin()


class _HeldFile(NamedTuple):
    """A file that is kept open, and how far it has to be on disk."""

    file: LogFile | IndexFile
    handle: Handle[int]
    target: FilePosition
