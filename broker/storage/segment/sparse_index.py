"""The common part of offset index and time index: sorted fixed-size entries in a file.

While the segment is active the file is longer than its entries (the rest is zero); when the segment
is sealed or closed the file is cut to them, so that the number of entries of a file that is opened
is its size divided by the size of an entry. Nothing is read before the first use. The number of
entries and the last one are kept as plain attributes: appending and asking whether the index is
full read nothing.

A search reads windows of rows where the wanted one should be if entries are evenly spread, which
they nearly are: one or two reads, for an index of any size.
"""

import logging
from struct import Struct
from typing import ClassVar, Final, Self

from seglog.broker.storage.errors import (
    CorruptIndexError,
    FileError,
    IndexFullError,
    IndexOverflowError,
)
from seglog.broker.storage.files.file_system import FileSystem, IndexFile
from seglog.protocol.types import INT32_MAX

logger = logging.getLogger(__name__)

_WINDOW_ROWS: Final = 256
_GUESSES_MAX: Final = 4
"""So often a search assumes even spread before it halves the rest."""


class SparseIndex:
    """Sorted entries of two numbers each; the subclasses say which.

    Args:
        path: the file; it need not exist before the first use.
        base_offset: the segment's base offset, to which stored offsets are relative.
        max_bytes: the most the file may take (``segment.index.bytes``), cut to whole entries; one
            and the reserved ones fit in any case.
        create: make the file, at its full size.
    """

    __slots__ = (
        "_entries",
        "_file",
        "_file_system",
        "_first",
        "_is_loaded",
        "_last",
        "_old_rows",
        "_old_start",
        "base_offset",
        "max_entries",
    )

    ENTRY: ClassVar[Struct]
    RESERVED_ENTRIES: ClassVar[int] = 0

    def __init__(
        self,
        file_system: FileSystem,
        path: str,
        base_offset: int,
        max_bytes: int,
        *,
        create: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.max_entries = self._entries_in(max_bytes)
        self._file_system = file_system
        self._file = file_system.open_index(
            path,
            entry_bytes=self.ENTRY.size,
            max_bytes=self.max_entries * self.ENTRY.size,
            create=create,
        )
        self._entries = 0
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None
        self._is_loaded = create
        # While the index is built anew, and its file has held all new entries so far: rows of it.
        self._old_rows: bytes | None = None
        self._old_start = 0
        if create and self.RESERVED_ENTRIES:
            self._file.write(0, b"")  # the block of the first slot

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, entries={self._entries})"

    @property
    def path(self) -> str:
        """The file."""
        return self._file.path

    @property
    def entries(self) -> int:
        """How many entries there are."""
        if not self._is_loaded:
            self._load()
        return self._entries

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries, without the reserve behind them."""
        return self.entries * self.ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether a further entry is refused (one slot of a time index is kept for the last)."""
        if not self._is_loaded:
            self._load()
        return self._entries >= self.max_entries - self.RESERVED_ENTRIES

    def exists(self) -> bool:
        """Whether the file is there."""
        return self._file.exists()

    def entry_at(self, number: int) -> tuple[int, int]:
        """The ``number``-th entry, from 0."""
        if not 0 <= number < self.entries:
            raise IndexError(f"{self.path} has {self._entries} entries, not one at {number}")
        size = self.ENTRY.size
        return self._decode(self.ENTRY.unpack(self._file.read(number * size, size)))

    def sanity_check(self, data_bytes: int | None = None) -> None:
        """Looks at the size and the first and last entry; cheap for an index of any size.

        Args:
            data_bytes: the size of the data file, where it is known.

        Raises:
            CorruptIndexError: the index must be rebuilt.
            MissingFileError: there is no file.
        """
        size = self._file.size
        if size % self.ENTRY.size:
            raise CorruptIndexError(
                self.path, f"its size {size} is no multiple of {self.ENTRY.size}"
            )
        if self.entries:
            self._check_ends(data_bytes)

    def take_ends(self, twin: Self) -> None:
        """Takes over the first and last entry that another object has read from the same file."""
        self._entries, self._last = twin._entries, twin._last
        self._first = twin._first
        self._is_loaded = True

    def replace_by(self, twin: Self, file_system: FileSystem) -> None:
        """Puts a new index, which is not used any more, in the place of this one.

        Raises:
            StorageError: its file could not be renamed.
        """
        path = self.path
        file_system.rename(twin.path, path)
        self._file.close()
        self._file = twin._file
        self._file.hand_over()  # another thread has written it
        self._file.renamed(path)
        self.take_ends(twin)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries with that offset or a greater one (IDX-6)."""
        keep = self._first_row_at_or_above(offset)
        if keep < self.entries:
            self._truncate_to_entries(keep)

    def clear(self) -> None:
        """Drops all entries and takes the full size again; the file may be missing or damaged."""
        self._forget_entries()
        self._file.reset(self.max_entries * self.ENTRY.size)

    def begin_rebuild(self) -> None:
        """Drops all entries, but leaves the file alone for as long as the new ones are in it.

        So a recovery that finds the index as it should be writes nothing. ``trim`` or
        ``end_rebuild`` follows. The file may be missing or damaged.
        """
        self._forget_entries()
        if self._file.has_size():
            self._old_rows, self._old_start = b"", 0
        else:
            self._file.reset(self.max_entries * self.ENTRY.size)

    def end_rebuild(self) -> None:
        """Drops what else is in the file, and gives it its full size."""
        if self._old_rows is not None:
            self._old_rows = None
            self._file.resize(self._entries * self.ENTRY.size)
            self._file.resize(self.max_entries * self.ENTRY.size)

    def _forget_entries(self) -> None:
        self._is_loaded = True
        self._entries = 0
        self._first = self._last = None
        self._old_rows = None

    def grow_to_max(self, max_bytes: int | None = None) -> None:
        """Makes room for appends: the file of an active segment has its full size (IDX-9).

        Args:
            max_bytes: a new limit, for when the configuration changed.
        """
        entries = self.entries
        if max_bytes is not None:
            self.max_entries = max(self._entries_in(max_bytes), entries)
        self._file.resize(self.max_entries * self.ENTRY.size)

    def trim(self) -> None:
        """Cuts the file to its entries, as it is kept once the segment is sealed."""
        self._old_rows = None
        size = self.size_bytes
        if self._file.size != size:
            self._file.resize(size)

    @property
    def file(self) -> IndexFile:
        """The file, for syncs."""
        return self._file

    def renamed(self, path: str) -> None:
        """Takes note that the file was renamed."""
        self._file.renamed(path)

    def close(self) -> None:
        """Lets go of the file, as it is; ``trim`` it before."""
        self._file.close()

    # ---- defined by subclasses

    def _decode(self, row: tuple[int, ...]) -> tuple[int, int]:
        raise NotImplementedError

    def _follows(self, entry: tuple[int, int], previous: tuple[int, int]) -> bool:
        raise NotImplementedError

    def _check_ends(self, data_bytes: int | None) -> None:
        raise NotImplementedError

    def _first_row_at_or_above(self, offset: int) -> int:
        raise NotImplementedError

    # ---- for subclasses

    def _entries_in(self, max_bytes: int) -> int:
        # Without room for one entry it would be full at once, and each record have its own segment.
        return max(max_bytes // self.ENTRY.size, 1 + self.RESERVED_ENTRIES)

    def _load(self) -> None:
        self._entries = self._file.size // self.ENTRY.size
        self._is_loaded = True
        self._last = self._read_last()

    def _first_entry(self) -> tuple[int, int]:
        """The first entry, of which there has to be one; read once."""
        if self._first is None:
            self._first = self.entry_at(0)
        return self._first

    def _read_last(self) -> tuple[int, int] | None:
        if self._entries == 0:
            return None
        size = self.ENTRY.size
        row = self.ENTRY.unpack(self._file.read((self._entries - 1) * size, size))
        return self._decode(row)

    def _check_last_two(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The first and the last entry, once the last one is known to follow the one before."""
        first, last = self.entry_at(0), self.entry_at(self._entries - 1)
        if self._entries > 1:
            previous = self.entry_at(self._entries - 2)
            if not self._follows(last, previous):
                raise CorruptIndexError(
                    self.path, f"its last entry {last} does not follow {previous}"
                )
        return first, last

    def _truncate_to_entries(self, entries: int) -> None:
        size = self.ENTRY.size
        full_size = self._file.size
        self._entries = entries
        # Through the shorter size, so that the dropped entries read as zero.
        self._file.resize(entries * size)
        self._file.resize(full_size)
        self._first = None
        self._last = self._read_last()

    def _put(self, row: bytes, entry: tuple[int, int]) -> None:
        position = self._entries * self.ENTRY.size
        if self._old_rows is not None:
            if self._is_in_file(row, position):
                self._entries += 1
                self._last = entry
                return
            self.end_rebuild()
        if position + len(row) > self._file.size:
            self.grow_to_max()  # the closing entry of a segment that was trimmed without one
        self._file.write(position, row)
        self._entries += 1
        self._last = entry

    def _is_in_file(self, row: bytes, position: int) -> bool:
        """Whether the file that is built anew holds a row already."""
        assert self._old_rows is not None
        start, size = position - self._old_start, len(row)
        if start + size > len(self._old_rows):
            try:
                length = min(_WINDOW_ROWS * size, self._file.size - position)
                if length < size:
                    return False
                self._old_rows, self._old_start = self._file.read(position, length), position
            except (CorruptIndexError, FileError) as error:
                logger.debug("event=index-not-compared path=%s error=%s", self.path, error)
                return False
            start = 0
        return self._old_rows[start : start + size] == row

    def _check_room(self, *, use_reserve: bool = False) -> None:
        limit = self.max_entries if use_reserve else self.max_entries - self.RESERVED_ENTRIES
        if self.entries >= limit:
            raise IndexFullError(self.path, f"it is full with {self._entries} entries")

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= INT32_MAX:
            raise IndexOverflowError(
                self.path,
                f"offset {offset} is not within 2147483647 above the base offset "
                f"{self.base_offset}",
            )
        return relative

    def _floor_row(
        self, column: int, target: int, entries: int, low_value: int, high_value: int
    ) -> tuple[int, tuple[int, int] | None]:
        """The last row whose ``column`` is <= ``target`` (both as stored), and its number, or -1.

        The returned row was compared with the target, also in a damaged file: a damaged order can
        make a search start too early, but never too late.

        Args:
            low_value, high_value: about the values of the first and the last row in that column.
        """
        low, high = 0, entries  # rows below low are <= target, those from high on above it
        floor: tuple[int, int] | None = None
        size = self.ENTRY.size
        unpack_from = self.ENTRY.unpack_from
        guesses = _GUESSES_MAX
        while low < high:
            count = min(_WINDOW_ROWS, high - low)
            first = low + ((high - low - count) >> 1)
            if guesses > 0 and low_value <= target < high_value:
                guesses -= 1
                middle = low + (target - low_value) * (high - low) // (high_value - low_value)
                first = max(low, min(middle - (count >> 1), high - count))
            rows = self._file.read(first * size, count * size)
            lowest, highest = unpack_from(rows, 0), unpack_from(rows, (count - 1) * size)
            if lowest[column] > target:
                high, high_value = first, lowest[column]
            elif highest[column] <= target:
                low, low_value, floor = first + count, highest[column], highest
            else:
                return self._floor_in(rows, column, target, first)
        return low - 1, floor if floor is None else self._decode(floor)

    def _floor_in(
        self, rows: bytes, column: int, target: int, first: int
    ) -> tuple[int, tuple[int, int]]:
        """The same within rows that were read, of which the first one is <= ``target``."""
        size = self.ENTRY.size
        unpack_from = self.ENTRY.unpack_from
        low, high = 1, len(rows) // size
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(rows, middle * size)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return first + low - 1, self._decode(unpack_from(rows, (low - 1) * size))
