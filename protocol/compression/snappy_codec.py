"""Snappy, which Kafka's clients write in two ways: raw, and in the framing of snappy-java.

``xerial`` framing: the magic ``82 53 4e 41 50 50 59 00``, two int32 version words, then any number
of (int32 length, raw snappy block of up to 32 KiB of input). Java and this module write it;
librdkafka writes one raw block without any framing. The magic tells them apart. Snappy's own
framing format (``ff 06 00 00 sNaPpY``) is in no client's use.
"""

import struct
from collections.abc import Iterator
from typing import Final

from cramjam import DecompressionError, snappy

from seglog.protocol.compression.codec import (
    Codec,
    CorruptCompressionError,
    DecompressedTooLargeError,
)
from seglog.protocol.types import Buffer

LEVELS: Final = range(0)

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">I")
_MAGIC_AS_LENGTH: Final[int] = _BLOCK_LENGTH.unpack_from(_MAGIC)[0]
_EXPANSION_MAX: Final = 22  # the densest element copies 64 bytes and takes 3


def compress(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001 - snappy has no levels
    """Write xerial framing with blocks of 32 KiB."""
    view = memoryview(data)
    parts = [_HEADER]
    for position in range(0, len(view), _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[position : position + _BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: memoryview, max_bytes: int) -> bytes | memoryview:
    """Read either way of writing. The sizes that the blocks announce are added up beforehand."""
    is_framed = bytes(data[: len(_MAGIC)]) == _MAGIC
    try:
        total = sum(_announced_bytes(block) for block in _blocks(data, is_framed))
        if total > max_bytes:
            raise DecompressedTooLargeError(Codec.SNAPPY, max_bytes)
        output = memoryview(bytearray(total))
        position = 0
        for block in _blocks(data, is_framed):
            position += snappy.decompress_raw_into(block, output[position:])
    except DecompressionError as error:
        raise CorruptCompressionError(Codec.SNAPPY, error) from error
    return output


def _blocks(data: memoryview, is_framed: bool) -> Iterator[memoryview]:
    """Yield the raw blocks: the whole, or those of the framing."""
    if not is_framed:
        yield data
        return
    # The version words are not looked at: some producers write them little-endian.
    position = len(_HEADER)
    if position > len(data):
        raise CorruptCompressionError(Codec.SNAPPY, "it ends in the header")
    while position < len(data):
        if len(data) - position < _BLOCK_LENGTH.size:
            raise CorruptCompressionError(
                Codec.SNAPPY, "it ends in the length of a block", is_cut=True
            )
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        if length == _MAGIC_AS_LENGTH:  # another stream was written behind the first one
            position += len(_HEADER)
            if position > len(data):
                raise CorruptCompressionError(Codec.SNAPPY, "it ends in a header")
            continue
        position += _BLOCK_LENGTH.size
        if length > len(data) - position:
            raise CorruptCompressionError(Codec.SNAPPY, f"a block of {length} bytes is cut off")
        yield data[position : position + length]
        position += length


def _announced_bytes(block: memoryview) -> int:
    """Return the inflated size that a raw block announces, if it is possible at all."""
    size: int = snappy.decompress_raw_len(block)
    if size > _EXPANSION_MAX * len(block):
        raise CorruptCompressionError(Codec.SNAPPY, f"{len(block)} bytes cannot hold {size}")
    return size
