"""LZ4 frames (lz4 frame format 1.6).

Written: what Java writes and can read, independent blocks of 64 KiB without content size and
checksums, so that a frame starts with ``04 22 4d 18 60 40 82``. Read: one frame with any flags;
there are clients that write linked blocks, which Java refuses but liblz4 reads.
"""

from typing import Final

import lz4.frame

from seglog.protocol.compression.codec import BoundedOutput, Codec, CorruptCompressionError
from seglog.protocol.types import Buffer

LEVELS: Final = range(1, 18)

_DEFAULT_LEVEL: Final = 9  # which means the fast compressor on the Java side
_FAST_LEVEL: Final = 0  # of liblz4
_THOROUGH_LEVEL_MIN: Final = 3
_THOROUGH_LEVEL_MAX: Final = 12
_INPUT_BYTES: Final = 64 * 1024


def compress(data: Buffer, level: int | None) -> bytes:
    """Write one frame."""
    own_level = _FAST_LEVEL
    if level is not None and level != _DEFAULT_LEVEL:
        own_level = min(max(level, _THOROUGH_LEVEL_MIN), _THOROUGH_LEVEL_MAX)
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=own_level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def decompress(data: memoryview, max_bytes: int) -> bytes | memoryview:
    """Read one frame, which must fill ``data``."""
    output = BoundedOutput(Codec.LZ4, max_bytes)
    inflater = lz4.frame.LZ4FrameDecompressor()
    position = 0
    try:
        # Zero stands for "not said" here; liblz4 finds out whether it is true.
        output.expect(lz4.frame.get_frame_info(data)["content_size"])
        while not inflater.eof:
            part = memoryview(b"")
            if inflater.needs_input:
                if position == len(data):
                    raise CorruptCompressionError(Codec.LZ4, "it ends in the middle")
                part = data[position : position + _INPUT_BYTES]
                position += len(part)
            output.add(inflater.decompress(part, output.next_chunk_bytes))
    except RuntimeError as error:
        raise CorruptCompressionError(Codec.LZ4, error) from error
    if position != len(data) or inflater.unused_data:
        raise CorruptCompressionError(Codec.LZ4, "bytes follow the frame")
    return output.content()
