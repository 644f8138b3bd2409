"""Walking over a data file of which a part is damaged, from its start to its end.

Headers are believed as long as they agree with each other. Where one does not, checksums decide:
damage begins at the batch before if its checksum is wrong (then its length may be damaged),
and ends at the next place where a whole batch with a right checksum and a fitting offset starts.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from seglog.broker.storage.files.log_file import LogFile
from seglog.broker.storage.segment.batch_walk import SCAN_WINDOW_BYTES
from seglog.protocol.checksum import crc32c
from seglog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    read_header,
)
from seglog.protocol.types import INT32_MAX

_MAGIC_AT: Final = 16
_SEARCH_BYTES: Final = 1 << 20
_MAGIC_BYTE: Final = bytes([MAGIC])


class DamagedRange(NamedTuple):
    """A part of a data file without good batches.

    Attributes:
        position, end: where it lies in the file.
        first_offset: the first offset that may be lost.
        next_offset: of the good batch behind it, None if none follows in the segment.
    """

    position: int
    end: int
    first_offset: int
    next_offset: int | None


class SegmentWalk:
    """Iterates over the good batches of a data file, and notes the damage between them.

    Blocks for as long as the file takes to read, and changes nothing: for another thread.

    Args:
        file: the data file.
        base_offset: of the segment.
        end_offset: where the offsets of the segment end at the latest.
        end: where its batches end; later appends do not count.

    Attributes:
        damaged: the ranges that were passed over, in order, valid after the iteration.
    """

    def __init__(self, file: LogFile, base_offset: int, end_offset: int, end: int) -> None:
        self.damaged: list[DamagedRange] = []
        self._file = file
        self._base_offset = base_offset
        self._end_offset = min(end_offset, base_offset + INT32_MAX + 1)
        self._end = end
        self._window = b""
        self._window_at = 0

    def __iter__(self) -> Iterator[tuple[BatchHeader, int]]:
        """Headers with their file positions.

        Raises:
            FileError: the file cannot be read.
        """
        position, next_offset = 0, self._base_offset
        held: tuple[BatchHeader, int] | None = None  # until the batch behind it is seen to be one
        while position < self._end:
            header = self._good_header(position, next_offset)
            if header is not None:
                if held is not None:
                    yield held
                held, next_offset = (header, position), header.next_offset
                position += header.size_bytes
                continue
            if held is not None and not self._has_right_checksum(*held):
                damaged, position = held
                next_offset = damaged.base_offset
                held = None
            elif held is not None:
                yield held
                held = None
            found = self._search(position + 1, next_offset)
            end, base_offset = (self._end, None) if found is None else found
            self.damaged.append(DamagedRange(position, end, next_offset, base_offset))
            position = end
        if held is not None:
            yield held

    def _good_header(self, position: int, next_offset: int) -> BatchHeader | None:
        """The header at a position if it fits to the batches before and behind it."""
        header = self._header_at(position, next_offset)
        if header is None or header.base_offset == next_offset:
            return header
        # The checksum does not cover the base offset: where that leaves a gap, the batch behind it
        # has to agree. Compaction leaves gaps, too.
        behind = self._raw_header(position + header.size_bytes)
        if behind is not None and next_offset <= behind.base_offset < header.next_offset:
            return None
        return header

    def _header_at(self, position: int, next_offset: int) -> BatchHeader | None:
        header = self._raw_header(position)
        if (
            header is None
            or header.magic != MAGIC
            or not HEADER_BYTES <= header.size_bytes <= self._end - position
            or header.last_offset_delta < 0
            or not next_offset <= header.base_offset <= header.last_offset < self._end_offset
            or self._file.lost_between(position, position + header.size_bytes) is not None
        ):
            return None
        return header

    def _raw_header(self, position: int) -> BatchHeader | None:
        at = position - self._window_at
        if not 0 <= at <= len(self._window) - HEADER_BYTES:
            length = min(SCAN_WINDOW_BYTES, self._end - position)
            self._window = self._file.read(position, length) if length > 0 else b""
            self._window_at = position
            at = 0
        return read_header(self._window, at) if len(self._window) - at >= HEADER_BYTES else None

    def _search(self, position: int, next_offset: int) -> tuple[int, int] | None:
        """Where the next good batch starts, and its base offset."""
        while self._end - position >= HEADER_BYTES:
            content = self._file.read(position, min(_SEARCH_BYTES, self._end - position))
            at = content.find(_MAGIC_BYTE, _MAGIC_AT)
            while at >= 0:
                candidate = position + at - _MAGIC_AT
                header = self._header_at(candidate, next_offset)
                if header is not None and self._has_right_checksum(header, candidate):
                    return candidate, header.base_offset
                at = content.find(_MAGIC_BYTE, at + 1)
            if len(content) <= _MAGIC_AT:
                return None
            position += len(content) - _MAGIC_AT
        return None

    def _has_right_checksum(self, header: BatchHeader, position: int) -> bool:
        value = 0
        done, end = position + ATTRIBUTES_POSITION, position + header.size_bytes
        while done < end:
            part = self._file.read(done, min(_SEARCH_BYTES, end - done))
            if not part:
                return False
            value = crc32c(part, value)
            done += len(part)
        return value == header.crc
