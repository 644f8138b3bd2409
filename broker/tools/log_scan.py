"""Walking a data file from batch to batch, through everything that can be walked.

Unlike recovery, which stops at the first bad batch, a scan goes on behind a batch whose checksum or
records are wrong as long as its length leads somewhere: one damaged block shall not hide the next.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from seglog.broker.storage.files.log_file import LogFile
from seglog.protocol.checksum import crc32c
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC,
    MIN_ENTRY_LENGTH,
    BatchHeader,
    RecordBatch,
    read_header,
)
from seglog.protocol.records.validation import inspect_batch
from seglog.protocol.types import INT32_MAX

_WINDOW_BYTES: Final = 1 << 20
_WHOLE_BYTES_MAX: Final = 1 << 26
"""Batches beyond this size are loaded only once their checksum is known to be right."""


class ScannedBatch(NamedTuple):
    """A batch where the file has one.

    Attributes:
        header: unchecked.
        position: in the file.
        batch: with its bytes; None where it is no batch of format 2, or the checksum is wrong.
        fault: its fault, None if it has none.
        has_right_checksum: whether the stored checksum is that of the bytes.
    """

    header: BatchHeader
    position: int
    batch: RecordBatch | None
    fault: str | None
    has_right_checksum: bool


class TailKind(Enum):
    """The bytes behind the last batch."""

    TORN = "torn"
    ZEROS = "zeros"
    GARBAGE = "garbage"


class Tail(NamedTuple):
    """The bytes at the end of a file that are no batch."""

    kind: TailKind
    position: int
    text: str


class LogScan:
    """Iterates over the batches of a data file.

    Args:
        file: opened; its size when the iteration begins is where it ends.
        base_offset: of the segment.
        end: where to stop, None for the end of the file.

    Attributes:
        tail: bytes behind the last batch, once the iteration is over; None if there are none.
        end: the position behind the last batch so far.
    """

    def __init__(self, file: LogFile, base_offset: int, end: int | None = None) -> None:
        self.tail: Tail | None = None
        self.end = 0
        self._file = file
        self._base_offset = base_offset
        self._size = file.size if end is None else min(end, file.size)
        self._window = memoryview(b"")
        self._window_at = 0
        self._next_offset = base_offset

    def __iter__(self) -> Iterator[ScannedBatch]:
        """Every batch, good or bad, as far as lengths lead.

        Raises:
            FileError: the file cannot be read.
        """
        while self.end < self._size:
            position = self.end
            remaining = self._size - position
            header = self._header_at(position, remaining)
            if header is None:
                return
            scanned = self._look_at(header, position)
            self.end = position + header.size_bytes
            yield scanned

    def _header_at(self, position: int, remaining: int) -> BatchHeader | None:
        """The header of the next batch; None, and ``tail`` set, if there is none."""
        if remaining < HEADER_BYTES:
            self.tail = self._tail(position, remaining, f"{remaining} bytes are no batch")
            return None
        header = read_header(self._bytes(position, HEADER_BYTES))
        size = header.size_bytes
        if header.batch_length < MIN_ENTRY_LENGTH or not 0 <= header.magic <= MAGIC:
            self.tail = self._tail(
                position,
                remaining,
                f"no batch begins here (length {header.batch_length}, format {header.magic}); "
                f"{remaining} bytes cannot be read",
                TailKind.GARBAGE,
            )
            return None
        if size > remaining:
            self.tail = Tail(
                TailKind.TORN, position, f"a batch of {size} bytes is cut off after {remaining}"
            )
            return None
        return header

    def _tail(
        self, position: int, remaining: int, text: str, kind: TailKind = TailKind.TORN
    ) -> Tail:
        if self._is_zero(position):
            return Tail(TailKind.ZEROS, position, f"{remaining} bytes of zeros, preallocated")
        return Tail(kind, position, text)

    def _is_zero(self, position: int) -> bool:
        while position < self._size:
            part = self._file.read(position, min(_WINDOW_BYTES, self._size - position))
            if not part or part.strip(b"\0"):
                return False
            position += len(part)
        return True

    def _look_at(self, header: BatchHeader, position: int) -> ScannedBatch:
        if header.magic != MAGIC:
            text = f"a message of the old format {header.magic}, which this broker cannot read"
            return ScannedBatch(header, position, None, text, has_right_checksum=False)
        if header.size_bytes < HEADER_BYTES:
            text = f"a batch of {header.size_bytes} bytes is shorter than its header"
            return ScannedBatch(header, position, None, text, has_right_checksum=False)
        fault = self._offset_fault(header)
        checksum, batch = self._load(header, position)
        if batch is None:
            text = f"the checksum is {checksum:08x}, the header says {header.crc:08x}"
            return ScannedBatch(header, position, None, text, has_right_checksum=False)
        self._next_offset = max(self._next_offset, header.next_offset)
        return ScannedBatch(
            header, position, batch, fault or _record_fault(batch), has_right_checksum=True
        )

    def _offset_fault(self, header: BatchHeader) -> str | None:
        if header.last_offset_delta < 0:
            return f"the last offset delta is {header.last_offset_delta}"
        if header.base_offset < self._next_offset:
            return f"the base offset is {header.base_offset}, expected {self._next_offset} or more"
        if header.last_offset - self._base_offset > INT32_MAX:
            return f"offset {header.last_offset} is too far from {self._base_offset} to be indexed"
        return None

    def _load(self, header: BatchHeader, position: int) -> tuple[int, RecordBatch | None]:
        """The checksum of the bytes, and the batch if it is that of the header."""
        size = header.size_bytes
        if size <= _WHOLE_BYTES_MAX:
            view = self._bytes(position, size)
            checksum = crc32c(view[ATTRIBUTES_POSITION:])
            return checksum, RecordBatch(view) if checksum == header.crc else None
        checksum = 0
        at, end = position + ATTRIBUTES_POSITION, position + size
        while at < end:
            part = self._file.read(at, min(_WINDOW_BYTES, end - at))
            if not part:
                break
            checksum = crc32c(part, checksum)
            at += len(part)
        if checksum != header.crc:
            return checksum, None
        buffer = bytearray(size)
        self._file.read_into(position, memoryview(buffer))
        return checksum, RecordBatch(buffer)

    def _bytes(self, position: int, size: int) -> memoryview:
        """``size`` bytes at ``position``; read in windows, so that small batches are cheap."""
        at = position - self._window_at
        if at < 0 or at + size > len(self._window):
            wanted = max(size, min(_WINDOW_BYTES, self._size - position))
            buffer = bytearray(wanted)
            count = self._file.read_into(position, memoryview(buffer))
            self._window = memoryview(bytes(buffer[:count]) if count < wanted else buffer)
            self._window_at = position
            at = 0
        return self._window[at : at + size]


def _record_fault(batch: RecordBatch) -> str | None:
    """The fault in the records of a batch whose checksum is right."""
    try:
        inspection = inspect_batch(batch.view, from_client=False)
    except RecordError as error:
        return error.message
    # A greater one is what compaction may leave behind; a smaller one hides records from searches.
    if batch.header.max_timestamp < inspection.max_timestamp_ms:
        return (
            f"the header's max timestamp is {batch.header.max_timestamp}, "
            f"that of the records is {inspection.max_timestamp_ms}"
        )
    return None
