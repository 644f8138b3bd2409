"""Where a segment begins that holds the log start: a pass reads nothing below it (U4).

delete-records moves the log start past damage, so the bytes below it may be no batch at all, or one
whose length leads into the middle of another. The search trusts a batch there only if its checksum
is right; behind a bad one it looks for the next sound one byte by byte.
"""

from typing import Final

from seglog.broker.storage.cleaner.chunks import Account
from seglog.broker.storage.cleaner.plan import SourceSegment
from seglog.broker.storage.errors import CorruptLogError
from seglog.protocol.checksum import crc32c
from seglog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)

_READ_BYTES: Final = 1 << 16
_MAGIC: Final = bytes([MAGIC])


def position_of_log_start(segment: SourceSegment, log_start: int, account: Account) -> int:
    """The file position of the first batch that reaches the log start; the file's end if none does.

    Args:
        segment: of a log that starts behind the segment's first offset.
        account: told of the bytes that were read.

    Raises:
        CorruptLogError: the batch at the log start itself is damaged.
    """
    search = _Search(segment, account)
    position, next_offset = segment.start_position, segment.base_offset
    while position < segment.size_bytes:
        header = search.sound_batch_at(position, next_offset)
        if header is None:
            damage = position
            position, header = search.sound_batch_behind(position, next_offset)
            reached = segment.end_offset if header is None else header.base_offset
            if reached > log_start:
                raise CorruptLogError(
                    segment.log.path,
                    damage,
                    f"the batch at the log start, {log_start}, is damaged; the next sound batch"
                    f" begins at offset {reached}: delete the records before it",
                )
        if header is None or header.last_offset >= log_start:
            return position
        position += header.size_bytes
        next_offset = header.next_offset
    return position


class _Search:
    def __init__(self, segment: SourceSegment, account: Account) -> None:
        self._segment = segment
        self._account = account

    def sound_batch_at(self, position: int, next_offset: int) -> BatchHeader | None:
        """The header of the batch at a position; None if there is no batch."""
        content = self._read(position, HEADER_BYTES)
        if len(content) < HEADER_BYTES:
            return None
        header = read_header(content)
        segment = self._segment
        if (
            header.magic != MAGIC
            or not HEADER_BYTES <= header.size_bytes <= segment.size_bytes - position
            or header.last_offset_delta < 0
            or not next_offset <= header.base_offset <= header.last_offset < segment.end_offset
        ):
            return None
        return header if header.crc == self._checksum(position, header) else None

    def sound_batch_behind(self, position: int, next_offset: int) -> tuple[int, BatchHeader | None]:
        """The next sound batch behind a position, and where it begins; else the file's end."""
        size_bytes = self._segment.size_bytes
        position += 1
        while size_bytes - position >= HEADER_BYTES:
            content = self._read(position, _READ_BYTES)
            at = content.find(_MAGIC, MAGIC_POSITION)
            while at >= 0:
                start = position + at - MAGIC_POSITION
                header = self.sound_batch_at(start, next_offset)
                if header is not None:
                    return start, header
                at = content.find(_MAGIC, at + 1)
            position += max(len(content) - MAGIC_POSITION, 1)
        return size_bytes, None

    def _read(self, position: int, byte_count: int) -> bytes:
        count = min(byte_count, self._segment.size_bytes - position)
        self._account(count)
        content = self._segment.log.read(position, count)
        if not content:
            raise CorruptLogError(
                self._segment.log.path,
                position,
                f"the file ends before byte {self._segment.size_bytes}",
            )
        return content

    def _checksum(self, position: int, header: BatchHeader) -> int:
        done, end = position + ATTRIBUTES_POSITION, position + header.size_bytes
        value = 0
        while done < end:
            content = self._read(done, min(_READ_BYTES, end - done))
            value = crc32c(content, value)
            done += len(content)
        return value
