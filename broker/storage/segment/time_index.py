"""The sparse time index (``.timeindex``): from a timestamp to an offset.

An entry is 12 bytes, big-endian: int64 timestamp in ms, int32 offset relative to the segment's
base. The timestamp is the greatest that the segment had seen, the offset the last one of the batch
that carries it: every record with a greater timestamp comes after that offset. Timestamps strictly
increase, offsets do not decrease. One slot is kept for the closing entry, which tells the greatest
timestamp of a sealed segment.
"""

from struct import Struct
from typing import ClassVar, NamedTuple

from seglog.broker.storage.errors import CorruptIndexError, IndexAppendError
from seglog.broker.storage.segment.sparse_index import SparseIndex
from seglog.protocol.types import NO_LEADER_EPOCH, NO_TIMESTAMP


class TimestampOffset(NamedTuple):
    """A timestamp and the offset that goes with it; the epoch where a record was found."""

    timestamp_ms: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


class TimeIndex(SparseIndex):
    """Greatest timestamp so far to offset, sparse; see ``SparseIndex`` for the life cycle."""

    __slots__ = ()

    ENTRY: ClassVar[Struct] = Struct(">qi")
    RESERVED_ENTRIES: ClassVar[int] = 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, (-1, base offset) if there is none."""
        if not self._is_loaded:
            self._load()
        if self._last is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(*self._last)

    def maybe_append(
        self, timestamp_ms: int, offset: int, *, skip_full_check: bool = False
    ) -> bool:
        """Adds an entry if the timestamp is greater than the last one; whether it did (TIX-2).

        Args:
            skip_full_check: use the reserved slot, for the closing entry of a segment.

        Raises:
            IndexFullError: there is no room.
            IndexOverflowError: the offset does not fit.
            IndexAppendError: timestamp or offset is smaller than the last entry's.
            DiskFullError: there is no disk block for it; nothing was added.
        """
        last = self.last_entry
        if timestamp_ms == last.timestamp_ms:
            return False
        self._check_room(use_reserve=skip_full_check)
        if timestamp_ms < last.timestamp_ms:
            raise IndexAppendError(
                self.path, f"timestamp {timestamp_ms} is below the last one, {last.timestamp_ms}"
            )
        if self._last is not None and offset < last.offset:
            raise IndexAppendError(
                self.path, f"offset {offset} is below the last one, {last.offset}"
            )
        self._put(self.ENTRY.pack(timestamp_ms, self._relative(offset)), (timestamp_ms, offset))
        return True

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The entry with the greatest timestamp <= ``timestamp_ms``, else (-1, base offset)."""
        entries, last = self.entries, self._last
        entry = None
        if last is not None and last[0] <= timestamp_ms:
            entry = last
        elif last is not None:
            earliest_ms = self._first_entry()[0]
            _, entry = self._floor_row(0, timestamp_ms, entries, earliest_ms, last[0])
        if entry is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(*entry)

    def _decode(self, row: tuple[int, ...]) -> tuple[int, int]:
        return row[0], row[1] + self.base_offset

    def _follows(self, entry: tuple[int, int], previous: tuple[int, int]) -> bool:
        return entry[0] > previous[0] and entry[1] >= previous[1]

    def _first_row_at_or_above(self, offset: int) -> int:
        entries, last = self.entries, self._last
        if last is None:
            return 0
        last_relative = last[1] - self.base_offset
        return self._floor_row(1, offset - self.base_offset - 1, entries, 0, last_relative)[0] + 1

    def _check_ends(self, data_bytes: int | None) -> None:
        first, last = self._check_last_two()
        if last[0] < first[0] or first[0] < 0:
            raise CorruptIndexError(
                self.path, f"its first timestamp {first[0]} does not go with the last, {last[0]}"
            )
        if first[1] < self.base_offset or last[1] < first[1]:
            raise CorruptIndexError(
                self.path,
                f"its offsets {first[1]} to {last[1]} do not go with the base offset "
                f"{self.base_offset}",
            )
        if data_bytes == 0:
            raise CorruptIndexError(self.path, "it has entries, but the data file is empty")
