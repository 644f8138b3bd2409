"""Finding the next sound batch behind damaged bytes."""

from seglog.protocol.checksum import crc32c
from seglog.protocol.errors import RecordError
from seglog.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)
from seglog.protocol.types import Buffer


def find_sound_batch(buffer: Buffer, position: int, min_offset: int) -> BatchHeader | None:
    """The header of the first whole batch at ``position`` or behind it whose checksum is right.

    The search does not trust lengths on the way: it tries every byte that may be the format of a
    batch. The base offset of the batch must be ``min_offset`` or more.
    """
    view = memoryview(buffer)
    content = bytes(view[position:])
    place = content.find(MAGIC, MAGIC_POSITION)
    while place >= 0:
        start = place - MAGIC_POSITION
        header = _sound_header(memoryview(content)[start:])
        # The checksum does not cover the base offset: a lower one is damage or an old batch.
        if header is not None and header.base_offset >= min_offset:
            return header
        place = content.find(MAGIC, place + 1)
    return None


def _sound_header(view: memoryview) -> BatchHeader | None:
    try:
        header = read_header(view)
    except RecordError:
        return None
    size = header.size_bytes
    if not HEADER_BYTES <= size <= len(view):
        return None
    # Cheap checks first: a checksum over a long claimed size at every candidate byte would take
    # quadratic time.
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return None
    return header if crc32c(view[ATTRIBUTES_POSITION:size]) == header.crc else None
