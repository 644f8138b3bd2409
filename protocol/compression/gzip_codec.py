"""Gzip (RFC 1952): one member is written, one or more are read."""

import zlib
from typing import Final

from seglog.protocol.compression.codec import BoundedOutput, Codec, CorruptCompressionError
from seglog.protocol.types import Buffer

LEVELS: Final = (-1, *range(1, 10))

_GZIP_WINDOW_BITS: Final = 31
_INPUT_BYTES_MIN: Final = 1024
_INPUT_BYTES_MAX: Final = 64 * 1024


def compress(data: Buffer, level: int | None) -> bytes:
    """Write one member."""
    compressor = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def decompress(data: memoryview, max_bytes: int) -> bytes | memoryview:
    """Read all members up to the end of ``data``."""
    output = BoundedOutput(Codec.GZIP, max_bytes)
    position = 0
    try:
        while True:
            position = _inflate_member(data, position, output)
            if position == len(data):
                return output.content()
    except zlib.error as error:
        raise CorruptCompressionError(Codec.GZIP, error) from error


def _inflate_member(data: memoryview, position: int, output: BoundedOutput) -> int:
    """Inflate the member at ``position`` and return the position behind it.

    Input goes in small slices first: zlib copies the input that a member leaves over, which would
    take quadratic time on a stream of many tiny members.
    """
    inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
    slice_bytes = _INPUT_BYTES_MIN
    while not inflater.eof:
        if position == len(data):
            raise CorruptCompressionError(Codec.GZIP, "it ends in the middle", is_cut=True)
        part: Buffer = data[position : position + slice_bytes]
        position += len(part)
        slice_bytes = min(2 * slice_bytes, _INPUT_BYTES_MAX)
        while True:
            wanted = output.next_chunk_bytes
            chunk = inflater.decompress(part, wanted)
            output.add(chunk)
            part = inflater.unconsumed_tail
            # A full chunk may have left output inside zlib although all input is consumed.
            if inflater.eof or (not part and len(chunk) < wanted):
                break
    return position - len(inflater.unused_data)
