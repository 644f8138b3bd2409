"""Zstandard (RFC 8878): one frame without content size is written, any frames are read.

zstandard's objects are costly to make and serve one call at a time, so idle ones are kept in
lists; taking from and adding to a list is atomic, hence threads need no lock.
"""

from typing import Final

import zstandard

from seglog.protocol.compression.codec import BoundedOutput, Codec, CorruptCompressionError
from seglog.protocol.limits import MIB
from seglog.protocol.types import Buffer

LEVELS: Final = range(-131072, 23)

_DEFAULT_LEVEL: Final = 3
_IDLE_OBJECTS_MAX: Final = 4
_KEPT_OUTPUT_BYTES_MAX: Final = 4 * MIB

_FRAME_MAGIC: Final = 0xFD2FB528
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # the last four bits are free
_SINGLE_SEGMENT: Final = 0x20
_CHECKSUM: Final = 0x04
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_RLE_BLOCK: Final = 1

_idle_compressors: Final[dict[int, list[zstandard.ZstdCompressor]]] = {}
_idle_decompressors: Final[list[zstandard.ZstdDecompressor]] = []


def compress(data: Buffer, level: int | None) -> bytes:
    """Write one frame."""
    own_level = _DEFAULT_LEVEL if level is None else level
    idle = _idle_compressors.setdefault(own_level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=own_level, write_content_size=False)
    compressed = compressor.compress(data)
    if len(idle) < _IDLE_OBJECTS_MAX:
        idle.append(compressor)
    return compressed


def decompress(data: memoryview, max_bytes: int) -> bytes | memoryview:
    """Read all frames up to the end of ``data``."""
    output = BoundedOutput(Codec.ZSTD, max_bytes)
    _expect_first_frame(data, output)
    try:
        decompressor = _idle_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            while chunk := reader.read(output.next_chunk_bytes):
                output.add(chunk)
    except zstandard.ZstdError as error:
        raise CorruptCompressionError(Codec.ZSTD, error) from error
    # One that has inflated a large stream keeps a window of up to 128 MiB.
    if output.size <= _KEPT_OUTPUT_BYTES_MAX and len(_idle_decompressors) < _IDLE_OBJECTS_MAX:
        _idle_decompressors.append(decompressor)
    if not _ends_with_a_frame(data):
        raise CorruptCompressionError(Codec.ZSTD, "it ends in the middle")
    return output.content()


def _expect_first_frame(data: memoryview, output: BoundedOutput) -> None:
    """Give up at once where the first frame says that it is too large; libzstd checks if it is."""
    try:
        size = zstandard.get_frame_parameters(data).content_size
    except zstandard.ZstdError as error:
        raise CorruptCompressionError(Codec.ZSTD, error) from error
    if size != zstandard.CONTENTSIZE_UNKNOWN:
        output.expect(size)


def _ends_with_a_frame(data: memoryview) -> bool:
    """Tell whether ``data`` is whole frames: the reader takes a cut one for the end, Java does not.

    The content was decompressed already, so only lengths are looked at.
    """
    position = 0
    while position < len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic & ~0xF == _SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        elif magic == _FRAME_MAGIC and position + 4 < len(data):
            position = _end_of_frame(data, position + 4)
        else:
            return False
    return position == len(data) > 0


def _end_of_frame(data: memoryview, position: int) -> int:
    """Return the position behind the frame whose header descriptor is at ``position``.

    A position beyond the end of ``data`` says that the frame is cut.
    """
    descriptor = data[position]
    single_segment = bool(descriptor & _SINGLE_SEGMENT)
    content_size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6]
    if single_segment and content_size_bytes == 0:
        content_size_bytes = 1
    position += 1 + (not single_segment) + _DICTIONARY_ID_BYTES[descriptor & 3] + content_size_bytes
    is_last = False
    while not is_last:
        if position + 3 > len(data):
            return len(data) + 1
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last = bool(header & 1)
        position += 3 + (1 if header >> 1 & 3 == _RLE_BLOCK else header >> 3)
    return position + (4 if descriptor & _CHECKSUM else 0)
