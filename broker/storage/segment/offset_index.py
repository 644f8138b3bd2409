"""The sparse offset index (``.index``): from an offset to a position in the data file.

An entry is 8 bytes, big-endian: int32 offset relative to the segment's base, int32 file position.
It gives the last offset of a batch and the position where that same batch starts. Offsets strictly
increase, positions do not decrease.
"""

from struct import Struct
from typing import ClassVar, NamedTuple

from seglog.broker.storage.errors import CorruptIndexError, IndexAppendError, IndexOverflowError
from seglog.broker.storage.segment.sparse_index import SparseIndex
from seglog.protocol.types import INT32_MAX


class OffsetPosition(NamedTuple):
    """The last offset of a batch and the file position where it starts."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """Offset to file position, sparse; see ``SparseIndex`` for opening and life cycle."""

    __slots__ = ()

    ENTRY: ClassVar[Struct] = Struct(">ii")

    @property
    def last_entry(self) -> OffsetPosition | None:
        """The last entry, None if there is none."""
        if not self._is_loaded:
            self._load()
        return None if self._last is None else OffsetPosition(*self._last)

    def append(self, offset: int, position: int) -> None:
        """Adds an entry for the batch that starts at ``position`` and ends with ``offset``.

        Raises:
            IndexOverflowError: one of the numbers does not fit.
            IndexFullError: there is no room.
            IndexAppendError: the offset is not greater than the last one.
            DiskFullError: there is no disk block for it; nothing was added.
        """
        self._check_room()
        relative = self._relative(offset)
        if not 0 <= position <= INT32_MAX:
            raise IndexOverflowError(self.path, f"position {position} does not fit into 31 bits")
        if self._last is not None and offset <= self._last[0]:
            raise IndexAppendError(
                self.path, f"offset {offset} does not follow the last one, {self._last[0]}"
            )
        self._put(self.ENTRY.pack(relative, position), (offset, position))

    def lookup(self, offset: int) -> OffsetPosition:
        """The entry with the greatest offset <= ``offset``, else (base offset, 0) (IDX-5)."""
        entries = self.entries
        last = self._last
        if last is not None and last[0] <= offset:
            return OffsetPosition(*last)
        if last is None:
            return OffsetPosition(self.base_offset, 0)
        base_offset = self.base_offset
        _, entry = self._floor_row(0, offset - base_offset, entries, 0, last[0] - base_offset)
        return OffsetPosition(self.base_offset, 0) if entry is None else OffsetPosition(*entry)

    def upper_bound_by_position(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a file position, None if there is none."""
        entries = self.entries
        last = self._last
        if last is None or last[1] < position:
            return None
        row, _ = self._floor_row(1, position - 1, entries, 0, last[1])
        return OffsetPosition(*self.entry_at(row + 1)) if row + 1 < entries else None

    def floor_by_position(self, position: int) -> OffsetPosition | None:
        """The last entry at or before a file position, None if there is none."""
        entries = self.entries
        last = self._last
        if last is None:
            return None
        if last[1] <= position:
            return OffsetPosition(*last)
        _, entry = self._floor_row(1, position, entries, 0, last[1])
        return None if entry is None else OffsetPosition(*entry)

    def _decode(self, row: tuple[int, ...]) -> tuple[int, int]:
        return row[0] + self.base_offset, row[1]

    def _follows(self, entry: tuple[int, int], previous: tuple[int, int]) -> bool:
        return entry[0] > previous[0] and entry[1] >= previous[1]

    def _first_row_at_or_above(self, offset: int) -> int:
        entries, last = self.entries, self._last
        if last is None:
            return 0
        last_relative = last[0] - self.base_offset
        return self._floor_row(0, offset - self.base_offset - 1, entries, 0, last_relative)[0] + 1

    def _check_ends(self, data_bytes: int | None) -> None:
        first, last = self._check_last_two()
        if last[0] <= self.base_offset:
            raise CorruptIndexError(
                self.path,
                f"its last offset {last[0]} is not above the base offset {self.base_offset}",
            )
        if first[0] < self.base_offset or first[0] > last[0]:
            raise CorruptIndexError(
                self.path, f"its first offset {first[0]} does not go with the last, {last[0]}"
            )
        if first[1] < 0 or first[1] > last[1]:
            raise CorruptIndexError(
                self.path, f"its first position {first[1]} does not go with the last, {last[1]}"
            )
        if data_bytes is not None and last[1] >= data_bytes:
            raise CorruptIndexError(
                self.path,
                f"its last position {last[1]} is beyond the data file of {data_bytes} bytes",
            )
