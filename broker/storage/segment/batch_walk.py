"""Walking the batches of a data file: by their headers only, or with every checksum checked.

A walk stops without an error where fewer than 17 bytes remain or where the announced batch does not
fit into the rest: a torn write looks like that. Headers are read ahead some KiB at a time, so that
a run of small batches costs one read.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from seglog.broker.storage.errors import CorruptIndexError, CorruptLogError, SegmentOverflowError
from seglog.broker.storage.files.log_file import LogFile
from seglog.protocol.checksum import crc32c
from seglog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_END,
    MIN_ENTRY_LENGTH,
    BatchHeader,
    read_header,
)
from seglog.protocol.types import INT32_MAX

LOOKUP_WINDOW_BYTES: Final = 8192
SCAN_WINDOW_BYTES: Final = 65536
VERIFY_BUFFER_BYTES: Final = 1 << 20
_ORDER_WINDOWS_MAX: Final = 64
"""So much is walked over in one read: about a millisecond for the smallest batches."""

# Base offset, length, magic and last offset delta of a header.
_EXTENT: Final = Struct(">qi4xb6xi")
_LENGTH_AND_MAGIC: Final = Struct(">8xi4xb")


class BatchExtent(NamedTuple):
    """Where a batch lies: its offsets (both inclusive) and its place in the file."""

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int

    @property
    def end(self) -> int:
        """The file position behind the batch."""
        return self.position + self.size_bytes


class Step(NamedTuple):
    """One batch of a walk: it starts at ``at`` in ``window``, in the file at ``position``."""

    window: bytes
    at: int
    position: int

    def extent(self) -> BatchExtent:
        """Offsets and place; cheaper than the whole header."""
        base_offset, length, _magic, last_delta = _EXTENT.unpack_from(self.window, self.at)
        return BatchExtent(
            base_offset, base_offset + last_delta, self.position, length + LOG_OVERHEAD
        )

    def header(self) -> BatchHeader:
        """The whole header."""
        return read_header(self.window, self.at)


def walk_batches(
    file: LogFile, position: int, end: int, window_bytes: int = LOOKUP_WINDOW_BYTES
) -> Iterator[Step]:
    """The whole batches between two file positions; checksums are not looked at.

    Raises:
        CorruptLogError: something that is no batch of format 2 starts where one should.
    """
    window = b""
    start = position
    while end - position >= MAGIC_END:
        at = position - start
        if at + HEADER_BYTES > len(window):
            window = file.read(position, min(window_bytes, end - position))
            start = position
            at = 0
            if len(window) < MAGIC_END:
                return  # the file was truncated under the reader
        length, magic = _LENGTH_AND_MAGIC.unpack_from(window, at)
        if length < MIN_ENTRY_LENGTH:
            raise CorruptLogError(file.path, position, f"a batch says it has {length} bytes")
        size = length + LOG_OVERHEAD
        if size > end - position:
            return
        if magic != MAGIC or size < HEADER_BYTES:
            raise CorruptLogError(
                file.path, position, f"a batch of {size} bytes says it has format {magic}"
            )
        if len(window) - at < HEADER_BYTES:
            return
        yield Step(window, at, position)
        position += size


def find_batch(
    file: LogFile,
    position: int,
    end: int,
    offset: int,
    expected_last: int | None = None,
    *,
    first_offset: int = 0,
) -> BatchExtent | None:
    """The first batch from ``position`` on whose last offset is >= ``offset``, None if none is.

    Every fetch runs this, hence a loop of its own without an object per batch.

    Args:
        expected_last: the last offset of the batch at ``position``, if an index entry told it.
        first_offset: no offset from ``position`` on is below.

    Raises:
        CorruptIndexError: the batch at ``position`` does not end with ``expected_last``.
        CorruptLogError: something that is no batch starts where one should, or offsets do not
            ascend.
    """
    if position < 0:
        raise CorruptIndexError(file.path, f"an entry tells of position {position}")
    unpack_from = _EXTENT.unpack_from
    window = b""
    at = 0
    while end - position >= HEADER_BYTES:
        if at + HEADER_BYTES > len(window):
            window = file.read(position, min(LOOKUP_WINDOW_BYTES, end - position))
            at = 0
            if len(window) < HEADER_BYTES:
                break
        base_offset, length, magic, last_delta = unpack_from(window, at)
        size: int = length + LOG_OVERHEAD
        last_offset: int = base_offset + last_delta
        if expected_last is not None:
            if last_offset != expected_last or magic != MAGIC:
                break
            expected_last = None
        if magic != MAGIC or size < HEADER_BYTES:
            raise CorruptLogError(
                file.path, position, f"a batch of {size} bytes says it has format {magic}"
            )
        if size > end - position:
            raise CorruptLogError(
                file.path, position, f"a batch of {size} bytes is cut off after {end - position}"
            )
        if base_offset < first_offset or last_delta < 0:
            raise _disorder(file, position, base_offset, first_offset)
        if last_offset >= offset:
            return BatchExtent(base_offset, last_offset, position, size)
        first_offset = last_offset + 1
        position += size
        at += size
    _check_nothing_is_behind(file, position, end, expected_last)
    return None


def _check_nothing_is_behind(
    file: LogFile, position: int, end: int, expected_last: int | None
) -> None:
    if expected_last is not None:
        raise CorruptIndexError(
            file.path, f"no batch that ends with offset {expected_last} is at position {position}"
        )
    if end - position >= HEADER_BYTES:
        # A reader that finds no batch goes on in the next segment, and does not see the loss.
        raise CorruptLogError(file.path, position, "the file ends before its end")


def ordered_until(
    file: LogFile, position: int, end: int, first_offset: int, end_offset: int | None
) -> int:
    """Walk over batches that lie between two positions, and over the one behind, by their headers.

    The walk compares fields without a checksum (offsets, lengths) with each other: a batch whose
    offset is wrong does not fit to the one before or behind it.

    Args:
        position, end: batch boundaries.
        first_offset: no offset from ``position`` on is below.
        end_offset: none is at or above, if that is known.

    Returns:
        ``end``, or an earlier boundary behind which it would take too long to walk on.

    Raises:
        CorruptLogError: offsets do not ascend, or something is no batch.
    """
    size_of_file = file.size
    window = b""
    at = windows = 0
    read_bytes = LOOKUP_WINDOW_BYTES
    while True:
        if size_of_file - position < HEADER_BYTES:
            return position  # nothing is behind the last one
        if at + HEADER_BYTES > len(window):
            if windows == _ORDER_WINDOWS_MAX:
                return position
            windows += 1
            window = file.read(position, min(read_bytes, size_of_file - position))
            at = 0
            if len(window) < HEADER_BYTES:
                raise CorruptLogError(file.path, position, "the file ends before its end")
        base_offset, length, magic, last_delta = _EXTENT.unpack_from(window, at)
        size = length + LOG_OVERHEAD
        if (
            magic != MAGIC
            or base_offset < first_offset
            or last_delta < 0
            or not HEADER_BYTES <= size <= size_of_file - position
            or (end_offset is not None and base_offset + last_delta >= end_offset)
        ):
            raise _disorder(file, position, base_offset, first_offset)
        if position >= end:
            return position
        first_offset = base_offset + last_delta + 1
        position += size
        at += size
        # The next header of large batches is read alone.
        read_bytes = LOOKUP_WINDOW_BYTES if size < LOOKUP_WINDOW_BYTES else HEADER_BYTES


def _disorder(file: LogFile, position: int, base_offset: int, first_offset: int) -> CorruptLogError:
    return CorruptLogError(
        file.path,
        position,
        f"a batch that begins with offset {base_offset} does not fit where {first_offset} is due",
    )


def boundary_before(
    file: LogFile, position: int, end: int, expected_last: int | None = None
) -> int:
    """The last batch boundary <= ``end`` from ``position``, which is one, on; stops at a damage.

    Args:
        expected_last: the last offset of the batch at ``position``, if an index entry told it.

    Raises:
        CorruptIndexError: the batch at ``position`` does not end with ``expected_last``.
    """
    window = b""
    if expected_last is not None:
        window = file.read(max(position, 0), LOOKUP_WINDOW_BYTES)
        _check_last_offset(file, window, position, expected_last)
    at = 0
    while end - position >= HEADER_BYTES:
        if at + MAGIC_END > len(window):
            window = file.read(position, min(LOOKUP_WINDOW_BYTES, end - position))
            at = 0
            if len(window) < MAGIC_END:
                break
        length, magic = _LENGTH_AND_MAGIC.unpack_from(window, at)
        size = length + LOG_OVERHEAD
        if magic != MAGIC or not HEADER_BYTES <= size <= end - position:
            break
        position += size
        at += size
    return position


def _check_last_offset(file: LogFile, window: bytes, position: int, expected_last: int) -> None:
    if position >= 0 and len(window) >= HEADER_BYTES:
        base_offset, _length, magic, last_delta = _EXTENT.unpack_from(window, 0)
        if magic == MAGIC and base_offset + last_delta == expected_last:
            return
    raise CorruptIndexError(
        file.path, f"no batch that ends with offset {expected_last} is at position {position}"
    )


class VerifiedBatches:
    """Iterates over the good batches of a data file from its start, and stops at the first bad one.

    Good is: it lies wholly in the file, its checksum is right, and its offsets are at or above the
    base offset, above those before it, and below ``end_offset``. The checksum does not cover the
    base offset: where that leaves a gap, the batch behind it has to agree. After the iteration
    ``end`` is the position behind the last good batch, and ``fault`` describes the fault there,
    None at the end of the file.

    Memory is bounded by one buffer, however long a batch says it is.
    """

    def __init__(self, file: LogFile, base_offset: int, end_offset: int | None = None) -> None:
        self.end = 0
        self.fault: str | None = None
        self._file = file
        self._base_offset = base_offset
        self._end_offset = end_offset
        self._view = memoryview(bytearray(min(VERIFY_BUFFER_BYTES, file.size)))
        self._start = 0
        self._filled = 0

    def __iter__(self) -> Iterator[tuple[BatchHeader, int]]:
        """Headers with their file positions.

        Raises:
            SegmentOverflowError: a good batch ends more than 2^31-1 above the base offset.
        """
        next_offset = self._base_offset
        while (remaining := self._file.size - self.end) > 0:
            position = self.end
            if remaining < HEADER_BYTES:
                self.fault = f"{remaining} bytes are no batch"
                return
            header = read_header(self._view, self._window_at(position, HEADER_BYTES))
            self.fault = self._fault_of(header, position, remaining, next_offset)
            if self.fault is not None:
                return
            if header.last_offset - self._base_offset > INT32_MAX:
                raise SegmentOverflowError(
                    self._file.path, self._base_offset, header.last_offset, position
                )
            next_offset = header.next_offset
            self.end = position + header.size_bytes
            yield header, position

    def _fault_of(
        self, header: BatchHeader, position: int, remaining: int, next_offset: int
    ) -> str | None:
        size = header.size_bytes
        if size < HEADER_BYTES or header.magic != MAGIC or header.last_offset_delta < 0:
            return "there is no batch"
        if size > remaining:
            return f"a batch of {size} bytes is cut off after {remaining}"
        if header.crc != self._checksum(position, size):
            return "the checksum of a batch is wrong"
        if header.base_offset < next_offset:
            return f"a batch starts at offset {header.base_offset}, expected {next_offset} or more"
        end_offset = self._end_offset
        if end_offset is not None and header.last_offset >= end_offset:
            return f"a batch ends at offset {header.last_offset}, expected less than {end_offset}"
        if header.base_offset > next_offset and remaining - size >= HEADER_BYTES:
            following = read_header(self._file.read(position + size, HEADER_BYTES))
            if next_offset <= following.base_offset < header.next_offset:
                return (
                    f"a batch starts at offset {header.base_offset}, the one behind it at "
                    f"{following.base_offset}"
                )
        return None

    def _window_at(self, position: int, size: int) -> int:
        """Where in the buffer the file position is, with ``size`` bytes behind it."""
        at = position - self._start
        if at + size > self._filled:
            self._filled = self._file.read_into(position, self._view)
            self._start = position
            at = 0
            if self._filled < size:
                raise CorruptLogError(self._file.path, position, "the file ends before its end")
        return at

    def _checksum(self, position: int, size: int) -> int:
        if size <= len(self._view):
            at = self._window_at(position, size)
            return crc32c(self._view[at + ATTRIBUTES_POSITION : at + size])
        value = 0
        done, end = position + ATTRIBUTES_POSITION, position + size
        while done < end:
            part = self._file.read(done, min(VERIFY_BUFFER_BYTES, end - done))
            if not part:
                raise CorruptLogError(self._file.path, done, "the file ends before its end")
            value = crc32c(part, value)
            done += len(part)
        return value
