"""The producer snapshots of one log directory: which exist, writing, loading, cleaning up.

Owned by the log; called from the thread that owns the log. Snapshots are written without fsync:
the flush that follows a roll syncs them (`unsynced_paths`), and one that a power cut has torn fails
its checksum and is replaced by a scan.
"""

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Final

from seglog.broker.storage.errors import DiskFullError, MissingFileError
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
        position = bisect_left(self._offsets, offset)
        if position < len(self._offsets) and self._offsets[position] == offset:
            return True
        try:
            # A window only where there is something to say.
            if entries:
                window = encode_window(entries)
                self._file_system.write_file(self.window_path(offset), window, sync=False)
            snapshot = encode_snapshot(entries)
            self._file_system.write_file(self.snapshot_path(offset), snapshot, sync=False)
        except DiskFullError as error:
            logger.warning("event=no-producer-snapshot error=%s", error)
            self.remove(offset)
            return False
        self._offsets.insert(position, offset)
        self._unsynced[offset] = [self.snapshot_path(offset)]
        if entries:
            self._unsynced[offset].append(self.window_path(offset))
        return True

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
        if offset in self._offsets:
            self._offsets.remove(offset)
        self._unsynced.pop(offset, None)
        self._file_system.unlink(self.snapshot_path(offset), missing_ok=True)
        self._file_system.unlink(self.window_path(offset), missing_ok=True)

    def remove_outside(self, lowest: int, highest: int) -> None:
        """Delete snapshots of offsets outside of ``[lowest, highest]``."""
        for offset in self.offsets:
            if not lowest <= offset <= highest:
                self.remove(offset)

    def moved(self, directory: str) -> None:
        """Take note that the log's folder was renamed."""
        self._directory = directory

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
