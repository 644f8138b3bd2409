"""The producer snapshots of one log directory: which exist, writing, loading, cleaning up.

Owned by the log; called from the thread that owns the log. Snapshots are written without fsync:
the flush that follows a roll syncs them (`unsynced_paths`), and one that a power cut has torn fails
its checksum and is replaced by a scan. One of very many producers is only planned, and written by
that flush in its thread (`begin_writes`). Until it is on disk a recovery may have to scan from the
one before, and no segment below it is deleted (`check_written`).
"""

import logging
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from seglog.broker.storage.errors import DeferredReadError, DiskFullError, MissingFileError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import SNAPSHOT_SUFFIX, segment_path
from seglog.broker.storage.log.producer_entry import RETAINED_BATCHES, ProducerEntry
from seglog.broker.storage.log.producer_snapshot import (
    CorruptSnapshotError,
    decode_snapshot,
    decode_window,
    encode_snapshot,
    encode_window,
)
from seglog.protocol.types import INT64_MAX

logger = logging.getLogger(__name__)

WINDOW_SUFFIX: Final = ".window"


class SnapshotWrite:
    """A snapshot that is to be written: the owner plans it and takes it back, any thread runs it.

    Args:
        file_system: where to.
        directory: of the log.
        offset: everything below is in it.
        entries: the producers; none of them changes any more.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        offset: int,
        entries: Collection[ProducerEntry],
    ) -> None:
        self.offset = offset
        self._file_system = file_system
        self._entries = entries
        self._directory = directory
        self._lock = threading.Lock()
        self._is_written: bool | None = None

    def run(self, *, sync: bool) -> bool:
        """Write snapshot and window, once; whether they are there. A full disk is passed over.

        Raises:
            FileError: the disk failed.
        """
        with self._lock:
            if self._is_written is None:
                self._is_written = self._run(sync=sync)
            return self._is_written

    def _run(self, *, sync: bool) -> bool:
        try:
            # A window only where there is something to say.
            if self._entries:
                window = encode_window(self._entries)
                self._write(WINDOW_SUFFIX, window, sync=sync)
            self._write(SNAPSHOT_SUFFIX, encode_snapshot(self._entries), sync=sync)
        except DiskFullError as error:
            logger.warning("event=no-producer-snapshot error=%s", error)
            self.discard()
            return False
        return True

    def _write(self, suffix: str, content: bytes, *, sync: bool) -> None:
        path = segment_path(self._directory, self.offset, suffix)
        self._file_system.write_file(path, content, sync=sync)

    def discard(self) -> None:
        """Remove the files."""
        for suffix in (SNAPSHOT_SUFFIX, WINDOW_SUFFIX):
            path = segment_path(self._directory, self.offset, suffix)
            self._file_system.unlink(path, missing_ok=True)

    @property
    def paths(self) -> list[str]:
        """The files that it writes."""
        suffixes = (SNAPSHOT_SUFFIX, WINDOW_SUFFIX) if self._entries else (SNAPSHOT_SUFFIX,)
        return [segment_path(self._directory, self.offset, suffix) for suffix in suffixes]


class ProducerSnapshotFiles:
    """Snapshot and window files of one log.

    Args:
        file_system: all access goes through it.
        directory: of the log.
        names: file names in the directory, if the caller has just listed it.
        offsets: of the snapshots, ascending, if the caller knows that there are no others.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        names: Iterable[str] | None = None,
        *,
        offsets: Iterable[int] | None = None,
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._unsynced: dict[int, list[str]] = {}
        self._planned: dict[int, SnapshotWrite] = {}
        if offsets is not None:
            self._offsets, self._orphan_windows = list(offsets), set[int]()
            return
        listed = list(file_system.list_directory(directory) if names is None else names)
        self._offsets = sorted(_offsets_of(listed, SNAPSHOT_SUFFIX))
        self._orphan_windows = _offsets_of(listed, WINDOW_SUFFIX) - set(self._offsets)

    @property
    def offsets(self) -> list[int]:
        """Offsets of the snapshots that exist, ascending."""
        return list(self._offsets)

    def snapshot_path(self, offset: int) -> str:
        """Path of Kafka's snapshot file."""
        return segment_path(self._directory, offset, SNAPSHOT_SUFFIX)

    def window_path(self, offset: int) -> str:
        """Path of the window file beside it."""
        return segment_path(self._directory, offset, WINDOW_SUFFIX)

    def write(self, offset: int, entries: Collection[ProducerEntry]) -> bool:
        """Write the snapshot of everything below ``offset``, unless there is one (SNAP-1).

        A full disk is no reason to fail: recovery then scans from the snapshot before.

        Returns:
            Whether the snapshot is there.

        Raises:
            FileError: the disk failed.
        """
        if self.is_there(offset):
            return True
        write = SnapshotWrite(self._file_system, self._directory, offset, entries)
        if not write.run(sync=False):
            return False
        self._planned.pop(offset, None)
        insort(self._offsets, offset)
        self._unsynced[offset] = write.paths
        return True

    def is_there(self, offset: int) -> bool:
        """Whether the snapshot of an offset was written."""
        position = bisect_left(self._offsets, offset)
        return position < len(self._offsets) and self._offsets[position] == offset

    # ---- written by a flush

    def plan(self, offset: int, entries: Collection[ProducerEntry]) -> None:
        """Have the next flush write the snapshot of everything below ``offset`` (SNAP-1).

        Args:
            offset: of the snapshot.
            entries: the producers; none of them changes any more.
        """
        if not self.is_there(offset) and offset not in self._planned:
            self._planned[offset] = SnapshotWrite(
                self._file_system, self._directory, offset, entries
            )

    def check_written(self, offset: int) -> None:
        """Make sure that a snapshot is on disk before the records below it are deleted.

        A kill would forget the producers of the deleted records if it is only planned, and a power
        cut if no flush has synced it (IDEM-14): after the roll of a log that has nothing else to
        flush that may be never.

        Raises:
            DeferredReadError: another thread has to write or sync it first.
        """
        write, paths = self._planned.get(offset), self._unsynced.get(offset, [])
        if write is not None:
            work = partial(self._write_apart, self._directory, write)
        elif self.window_path(offset) in paths:  # else it tells of no producer
            work = partial(self._sync_apart, self._directory, paths)
        else:
            return
        raise DeferredReadError(
            self.snapshot_path(offset),
            "the producers of records that are to be deleted are not on disk yet",
            work,
        )

    def _write_apart(self, directory: str, write: SnapshotWrite) -> Callable[[], None]:
        is_written = write.run(sync=True)
        self._file_system.sync_directory(directory)
        return partial(self.end_write, write, is_written=is_written)

    def _sync_apart(self, directory: str, paths: Collection[str]) -> Callable[[], None]:
        for path in paths:
            sync_snapshot(self._file_system, path)
        self._file_system.sync_directory(directory)
        return partial(self.mark_synced, paths)

    def begin_writes(self, up_to_offset: int) -> list[SnapshotWrite]:
        """The snapshots named up to the offset that are planned; ``end_write`` follows for each."""
        return [self._planned[each] for each in sorted(self._planned) if each <= up_to_offset]

    def end_write(self, write: SnapshotWrite, *, is_written: bool) -> None:
        """Take note of a snapshot that another thread has written, or has found no room for.

        One whose segment is gone, or whose offset was cut from the log meanwhile, is removed.
        """
        if self._planned.get(write.offset) is write:
            del self._planned[write.offset]
            if is_written:
                insort(self._offsets, write.offset)
        elif is_written and not self.is_there(write.offset):
            write.discard()

    def unsynced_paths(self, up_to_offset: int) -> list[str]:
        """Files of snapshots named up to the offset that no flush has synced yet."""
        offsets = [offset for offset in sorted(self._unsynced) if offset <= up_to_offset]
        return [path for offset in offsets for path in self._unsynced[offset]]

    def mark_synced(self, paths: Collection[str]) -> None:
        """Note that a flush has put these files on disk."""
        for offset in [each for each, files in self._unsynced.items() if files[0] in paths]:
            del self._unsynced[offset]

    def load_newest(self, lowest: int, highest: int) -> tuple[int, list[ProducerEntry]] | None:
        """Read the newest usable snapshot in ``[lowest, highest]``; damaged ones are deleted."""
        for offset in reversed(self.offsets):
            if not lowest <= offset <= highest:
                continue
            path = self.snapshot_path(offset)
            try:
                entries = decode_snapshot(self._file_system.read_file(path))
            except CorruptSnapshotError as error:
                logger.warning("event=damaged-snapshot-deleted path=%s error=%s", path, error)
                self.remove(offset)
                continue
            except MissingFileError:
                self.remove(offset)
                continue
            self._add_windows(offset, entries)
            return offset, entries
        return None

    def _add_windows(self, offset: int, entries: list[ProducerEntry]) -> None:
        """Fill in the batches that a snapshot has no room for, from a window of the same moment."""
        path = self.window_path(offset)
        windows = {}
        try:
            windows = decode_window(self._file_system.read_file(path))
        except MissingFileError:
            logger.debug("event=no-producer-window offset=%d", offset)
        except CorruptSnapshotError as error:
            logger.warning("event=damaged-window-ignored path=%s error=%s", path, error)
        # A producer that is forgotten too early stores its batches twice. The timestamps of its
        # records do not tell when it was heard of; the latest moment is that of the snapshot.
        written_ms = self._file_system.modified_ms(self.snapshot_path(offset))
        for entry in entries:
            entry.seen_ms = written_ms
            window = windows.get(entry.producer_id)
            if window is None or window.epoch != entry.epoch:
                continue
            entry.seen_ms = window.seen_ms
            if entry.batches and window.batches:
                last = window.batches[-1]
                # The timestamp is left out: the snapshot's may be that of a later marker.
                if (last.last_sequence, last.last_offset) == entry.batches[-1][:2]:
                    entry.batches = [*window.batches[-RETAINED_BATCHES:]]

    def remove(self, offset: int) -> None:
        """Delete one snapshot with its window; not an error if the files are gone."""
        if self._planned.pop(offset, None) is not None and not self.is_there(offset):
            return
        if offset in self._offsets:
            self._offsets.remove(offset)
        self._unsynced.pop(offset, None)
        self._file_system.unlink(self.snapshot_path(offset), missing_ok=True)
        self._file_system.unlink(self.window_path(offset), missing_ok=True)

    def remove_outside(self, lowest: int, highest: int) -> None:
        """Delete snapshots of offsets outside of ``[lowest, highest]``."""
        for offset in (*self._planned, *self._offsets):
            if not lowest <= offset <= highest:
                self.remove(offset)

    def moved(self, directory: str) -> None:
        """Take note that the log's folder was renamed."""
        self._directory = directory
        self._planned.clear()  # it is going to be removed

    def remove_stray(self, segment_bases: Collection[int]) -> None:
        """Delete snapshots that belong to no segment, and windows that belong to no snapshot.

        Of those the newest is kept if it lies above the last segment's base: a clean close wrote it
        at the log end.
        """
        stray = [offset for offset in self._offsets if offset not in segment_bases]
        if stray and stray[-1] > max(segment_bases, default=-1):
            stray.pop()
        for offset in [*stray, *sorted(self._orphan_windows)]:
            self.remove(offset)
        self._orphan_windows.clear()


def _offsets_of(names: Iterable[str], suffix: str) -> set[int]:
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    # isdigit() is true of superscripts, too, which int() does not read.
    offsets = {int(stem) for stem in stems if stem.isascii() and stem.isdigit()}
    return {offset for offset in offsets if offset <= INT64_MAX}


def sync_snapshot(file_system: FileSystem, path: str) -> None:
    """Put a snapshot or window on disk; blocks.

    Raises:
        FileError: the disk failed.
    """
    try:
        file_system.sync_file(path)
    except MissingFileError:
        # Retention or compaction took it away, with the segment that began at its offset.
        logger.debug("event=snapshot-gone path=%s", path)
