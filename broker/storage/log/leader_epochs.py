"""The leader epoch cache: in which term of which leader an offset was written.

A list of (epoch, start offset) pairs, ascending in both, kept in the partition's folder as
``leader-epoch-checkpoint``. A follower that comes back asks for the end of its last epoch and cuts
off records that no leader acknowledged; consumers use it to notice truncation.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from seglog.broker.storage.files.checkpoint import EpochEntry, LeaderEpochCheckpointFile
from seglog.broker.storage.ownership import Owned, owner_only
from seglog.protocol.types import NO_LEADER_EPOCH, NO_OFFSET

UNDEFINED_EPOCH_END: Final = EpochEntry(NO_LEADER_EPOCH, NO_OFFSET)


class _EpochFile:
    """The file of one log's epochs; written by any thread, one at a time.

    States are numbered, so that a flush that was begun before a truncation does not bring back cut
    entries, and two writers never share the temporary file.
    """

    def __init__(self, file: LeaderEpochCheckpointFile) -> None:
        self.file = file
        self.written = 0
        self._lock = threading.Lock()

    def write(self, number: int, entries: Sequence[EpochEntry]) -> bool:
        with self._lock:
            if number <= self.written:
                return False
            self.file.write(entries)
            self.written = number
            return True


class EpochWrite(NamedTuple):
    """The epochs of a log as they were at a moment, on their way to the disk.

    Attributes:
        file: where to.
        number: of the state; a later one has a higher number.
        entries: the epochs.
    """

    file: _EpochFile
    number: int
    entries: tuple[EpochEntry, ...]

    def write(self) -> bool:
        """Puts them on disk, unless they or newer ones are there; blocks, in any thread.

        Returns:
            Whether it was written, and with it every name in the folder.

        Raises:
            DiskFullError, FileError: the old content is still there.
        """
        return self.file.write(self.number, self.entries)


class LeaderEpochCache(Owned):
    """The epochs of one log.

    The file is older than the cache until it is written. Where that only lacks the newest epochs,
    or still has entries of cut records, it is safe: the loader cuts the list to the log.
    """

    def __init__(self, file: LeaderEpochCheckpointFile, entries: Iterable[EpochEntry] = ()) -> None:
        self._number = 0
        self._file = _EpochFile(file)
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self._put(*entry)
        self._file.written = self._number

    @property
    def has_unwritten_changes(self) -> bool:
        """Whether the disk does not have the newest state yet."""
        return self._number > self._file.written

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All epochs, oldest first."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The oldest epoch with its start, None if there is none."""
        return self._entries[0] if self._entries else None

    @owner_only
    def note(self, epoch: int, start_offset: int) -> bool:
        """Notes that ``epoch`` starts at ``start_offset``; whether that was news (EPOCH-1, 2).

        Raises:
            ValueError: a number is negative.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} from offset {start_offset} on: negative")
        return self._put(epoch, start_offset)

    def _put(self, epoch: int, start_offset: int) -> bool:
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self._number += 1
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """The greatest epoch <= ``epoch`` that the log knows, and where it ends (EPOCH-4).

        ``start_offset`` of the result is that end. Undefined is (-1, -1).
        """
        entries = self._entries
        if epoch == NO_LEADER_EPOCH or not entries:
            return UNDEFINED_EPOCH_END
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        higher = bisect_right(entries, epoch, key=_epoch_of)
        if higher == len(entries):
            return UNDEFINED_EPOCH_END
        known = entries[higher - 1].epoch if higher else epoch
        return EpochEntry(known, entries[higher].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which ``offset`` was written, None if it is below the first start."""
        number = bisect_right(self._entries, offset, key=_start_of) - 1
        return self._entries[number].epoch if number >= 0 else None

    @owner_only
    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops the epochs that start at or above ``end_offset``; whether there were any."""
        keep = bisect_left(self._entries, end_offset, key=_start_of)
        if end_offset < 0 or keep == len(self._entries):
            return False
        del self._entries[keep:]
        self._number += 1
        return True

    @owner_only
    def truncate_from_start(self, start_offset: int) -> bool:
        """Drops the entries below ``start_offset``; the epoch that covers it starts there then."""
        covering = bisect_right(self._entries, start_offset, key=_start_of) - 1
        if covering < 0:
            return False
        replaced = EpochEntry(self._entries[covering].epoch, start_offset)
        if covering == 0 and self._entries[0] == replaced:
            return False
        self._entries[: covering + 1] = [replaced]
        self._number += 1
        return True

    @owner_only
    def clear(self) -> None:
        """Forgets all epochs."""
        if self._entries:
            self._entries.clear()
            self._number += 1

    def begin_write(self) -> EpochWrite:
        """The write after which the disk has the present epochs."""
        return EpochWrite(self._file, self._number, self.entries)

    def moved(self, path: str) -> None:
        """Takes note that the partition's folder was renamed."""
        self._file.file.path = path


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
