"""The leader epoch cache: in which term of which leader an offset was written.

A list of (epoch, start offset) pairs, ascending in both, kept in the partition's folder as
``leader-epoch-checkpoint``. A follower that comes back asks for the end of its last epoch and cuts
off what no leader ever acknowledged; consumers use it to notice truncation.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from seglog.broker.storage.checkpoint import EpochEntry, LeaderEpochCheckpointFile
from seglog.protocol.types import NO_LEADER_EPOCH, NO_OFFSET

UNDEFINED_EPOCH_END: Final = EpochEntry(NO_LEADER_EPOCH, NO_OFFSET)


class LeaderEpochCache:
    """The epochs of one log.

    ``assign`` is on disk when it returns; after the truncations the file is older than the cache
    until ``write`` is called (``has_unwritten_changes``), which is safe: the loader cuts the list
    to the log anyway.
    """

    def __init__(self, file: LeaderEpochCheckpointFile, entries: Iterable[EpochEntry] = ()) -> None:
        self.has_unwritten_changes = False
        self._file = file
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self._put(*entry)
        self.has_unwritten_changes = False

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

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Notes that ``epoch`` starts at ``start_offset``; whether that was news (EPOCH-1, 2).

        Raises:
            ValueError: a number is negative.
            DiskFullError, FileError: the file could not be replaced; the cache has the epoch and
                ``has_unwritten_changes``.
        """
        if not self.note(epoch, start_offset):
            return False
        self.write()
        return True

    def note(self, epoch: int, start_offset: int) -> bool:
        """``assign`` without writing the file, for a caller that notes many."""
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
        self.has_unwritten_changes = True
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

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops the epochs that start at or above ``end_offset``; whether there were any."""
        keep = bisect_left(self._entries, end_offset, key=_start_of)
        if end_offset < 0 or keep == len(self._entries):
            return False
        del self._entries[keep:]
        self.has_unwritten_changes = True
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drops what is below ``start_offset``; the epoch that covers it starts there then."""
        covering = bisect_right(self._entries, start_offset, key=_start_of) - 1
        if covering < 0:
            return False
        replaced = EpochEntry(self._entries[covering].epoch, start_offset)
        if covering == 0 and self._entries[0] == replaced:
            return False
        self._entries[: covering + 1] = [replaced]
        self.has_unwritten_changes = True
        return True

    def clear(self) -> None:
        """Forgets all epochs."""
        self.has_unwritten_changes = self.has_unwritten_changes or bool(self._entries)
        self._entries.clear()

    def write(self) -> None:
        """Puts the cache on disk.

        Raises:
            DiskFullError, FileError: the old content is still there.
        """
        self._file.write(self._entries)
        self.has_unwritten_changes = False

    def moved(self, path: str) -> None:
        """Takes note that the partition's folder was renamed."""
        self._file.path = path


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
