"""Finding batches of a segment through its indexes, or without them.

Entries are hints: the batch that one points to must end with the offset that it tells. Where an
index or the data does not fit, the segment is doubted (``SegmentIndexes.doubt_because``), and known
damage is left out.
"""

from collections.abc import Iterator

from seglog.broker.storage.errors import (
    CorruptFileError,
    CorruptIndexError,
    CorruptLogError,
    DamagedRecordsError,
    FileError,
)
from seglog.broker.storage.segment.batch_walk import (
    BatchExtent,
    Step,
    boundary_before,
    find_batch,
    ordered_until,
    walk_batches,
)
from seglog.broker.storage.segment.damage_walk import DamagedRange
from seglog.broker.storage.segment.index_check import untrue_entry
from seglog.broker.storage.segment.indexes import SegmentIndexes
from seglog.broker.storage.segment.offset_index import OffsetPosition
from seglog.broker.storage.segment.segment_files import SegmentFiles
from seglog.broker.storage.segment.time_index import TimestampOffset
from seglog.protocol.types import INT32_MAX, NO_TIMESTAMP


class SegmentSearch:
    """Lookups in one segment; they write nothing.

    All methods raise ``DeferredReadError`` where the segment has to be looked through by another
    thread first, and ``FileError`` where its data cannot be read.
    """

    __slots__ = ("_base_offset", "_files", "_indexes", "_log")

    def __init__(self, files: SegmentFiles, indexes: SegmentIndexes) -> None:
        self._files = files
        self._indexes = indexes
        self._log = files.log
        self._base_offset = files.base_offset

    def find(self, offset: int) -> BatchExtent | None:
        """The first batch whose last offset is >= ``offset``, None if there is none.

        Raises:
            DeferredReadError: the segment has to be looked through.
            DamagedRecordsError: the batch with that offset is lost.
        """
        if not self._indexes.is_loaded:
            self._indexes.load()
        log, first_offset = self._log, self._base_offset
        floor = self._floor_of(offset) if self._indexes.damaged else 0
        try:
            entry = self._files.offset_index.lookup(offset)
            if entry.position and entry.position >= floor:
                extent = find_batch(
                    log, entry.position, log.size, offset, entry.offset, first_offset=first_offset
                )
            else:
                extent = find_batch(log, floor, log.size, offset, first_offset=first_offset)
        except (CorruptFileError, FileError) as error:
            self._indexes.doubt_because(error)
            return self.find(offset)
        end_offset = self._indexes.end_offset
        if extent is not None and end_offset is not None and extent.last_offset >= end_offset:
            self._indexes.doubt_because(_beyond(log.path, extent, end_offset))
        return extent

    def end_before(self, offset: int) -> int:
        """The offset behind the last batch that ends below ``offset``; the base offset if none."""
        end = self._base_offset
        if offset <= end:
            return end
        for step in self.walk_from(offset - 1):
            last_offset = step.extent().last_offset
            if last_offset >= offset:
                break
            end = last_offset + 1
        return end

    def whole_end(self) -> int | None:
        """The offset behind the last batch; None if the file does not end as appends leave it.

        Nothing follows the last whole batch, as it does where a write was cut off, and offsets
        ascend. What follows the last index entry is looked at.
        """
        end, next_offset = 0, self._base_offset
        try:
            for step in self.walk_from(self._base_offset + INT32_MAX):
                extent = step.extent()
                if extent.base_offset < next_offset:
                    return None
                end, next_offset = extent.end, extent.last_offset + 1
        except CorruptLogError:
            return None
        return next_offset if end == self._log.size else None

    def _floor_of(self, offset: int) -> int:
        """A file position at or before the batch of an offset, with no damage between the two."""
        floor = 0
        for damage in self._indexes.damaged:
            if offset < damage.first_offset:
                break
            following = self._offset_behind(damage)
            if following is None or offset < following:
                raise self._damaged_error(damage)
            floor = damage.end
        return floor

    def _offset_behind(self, damage: DamagedRange) -> int | None:
        return self._indexes.end_offset if damage.next_offset is None else damage.next_offset

    def _damaged_error(self, damage: DamagedRange) -> DamagedRecordsError:
        following = self._offset_behind(damage)
        return DamagedRecordsError(self._log.path, damage.position, damage.first_offset, following)

    def boundary_before(self, boundary: int, end: int) -> int:
        """The last batch boundary <= ``end``; ``boundary`` is one, and no damage is behind it."""
        log = self._log
        try:
            entry = self._files.offset_index.floor_by_position(end)
            if entry is not None and entry.position > boundary:
                return boundary_before(log, entry.position, end, entry.offset)
        except (CorruptIndexError, FileError) as error:
            self._indexes.doubt_because(error)
        return boundary_before(log, boundary, end)

    def good_until(self, position: int, first_offset: int, end: int) -> int:
        """Up to where batches between two boundaries may be handed out: at most ``end``.

        Data not appended by this process is walked over when it is first read.

        Args:
            first_offset: no offset from ``position`` on is below.
        """
        for damage in self._indexes.damaged:
            if damage.position <= position < damage.end:
                raise self._damaged_error(damage)
            if position < damage.position < end:
                end = damage.position
                break
        log = self._log
        if log.lost and (lost := log.lost_between(position, end)) is not None:
            self._indexes.doubt_because(CorruptLogError(log.path, lost, "the file has been cut"))
        checked = self._indexes.checked.end_of(position)
        if checked >= end:
            return end
        try:
            good = ordered_until(log, checked, end, first_offset, self._indexes.end_offset)
        except CorruptLogError as error:
            self._indexes.doubt_because(error)
            return end
        self._indexes.checked.add(position, good)
        return good

    def walk_from(self, offset: int) -> Iterator[Step]:
        """Batches up to the end of the file; begins at or before the one that holds ``offset``."""
        self._indexes.load()
        position = 0
        try:
            position = self.trusted_position(self._files.offset_index.lookup(offset))
        except (CorruptIndexError, FileError) as error:
            self._indexes.doubt_because(error)
        if not self._indexes.is_served:
            return walk_batches(self._log, position, self._log.size)
        return self._walk_good(position)

    def _walk_good(self, position: int) -> Iterator[Step]:
        """Batches from a boundary on, those behind damage as well."""
        for damage in self._indexes.damaged:
            if position < damage.position:
                yield from self._walk_whole(position, damage.position)
            position = max(position, damage.end)
        yield from self._walk_whole(position, self._log.size)

    def _walk_whole(self, position: int, end: int) -> Iterator[Step]:
        """Batches that fill the file between two positions, in order.

        Each waits for the next one: where an offset is wrong, it is the one behind that tells.
        """
        held: Step | None = None
        next_offset, end_offset = self._base_offset, self._indexes.end_offset
        try:
            for step in walk_batches(self._log, position, end):
                extent = step.extent()
                if extent.base_offset < next_offset or extent.last_offset < extent.base_offset:
                    self._indexes.doubt_because(_out_of_order(self._log.path, extent, next_offset))
                if end_offset is not None and extent.last_offset >= end_offset:
                    self._indexes.doubt_because(_beyond(self._log.path, extent, end_offset))
                if held is not None:
                    yield held
                held, next_offset, position = step, extent.last_offset + 1, extent.end
        except CorruptLogError as error:
            self._indexes.doubt_because(error)
        if position < end:
            self._indexes.doubt_because(
                CorruptLogError(self._log.path, position, "a batch is cut off")
            )
        if held is not None:
            yield held

    def trusted_position(self, entry: OffsetPosition | None) -> int:
        """The position of an entry, once it is known that the batch is there; else 0."""
        if entry is None or entry.position == 0:
            return 0
        log = self._log
        try:
            find_batch(log, entry.position, log.size, entry.offset, entry.offset)
        except CorruptFileError as error:
            self._indexes.doubt_because(error)
            return 0
        return entry.position

    def trusted_upper_bound(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a file position, once it is known to be true."""
        self._indexes.load()
        try:
            entry = self._files.offset_index.upper_bound_by_position(position)
        except (CorruptIndexError, FileError) as error:
            self._indexes.doubt_because(error)
            return self._files.offset_index.upper_bound_by_position(position)
        if entry is None or self.trusted_position(entry) == entry.position:
            return entry
        return self._files.offset_index.upper_bound_by_position(position)

    def trusted_floor_by_time(self, timestamp_ms: int, starting_offset: int) -> int:
        """An offset before which nothing is stamped ``timestamp_ms`` or later.

        An entry at or below ``starting_offset`` is not examined: no search uses it.
        """
        self._indexes.load()
        time_index = self._files.time_index
        try:
            entry = time_index.lookup(timestamp_ms)
        except (CorruptIndexError, FileError) as error:
            self._indexes.doubt_because(error)
            entry = time_index.lookup(timestamp_ms)
        if entry.offset > starting_offset and not self._is_true(entry):
            self._indexes.doubt_because(CorruptIndexError(time_index.path, untrue_entry(entry)))
            entry = time_index.lookup(timestamp_ms)
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


def _beyond(path: str, extent: BatchExtent, end_offset: int) -> CorruptLogError:
    return CorruptLogError(
        path,
        extent.position,
        f"a batch ends with offset {extent.last_offset}, although the next segment begins at "
        f"{end_offset}",
    )


def _out_of_order(path: str, extent: BatchExtent, next_offset: int) -> CorruptLogError:
    return CorruptLogError(
        path,
        extent.position,
        f"a batch that begins with offset {extent.base_offset} does not fit where {next_offset} "
        "is due",
    )
