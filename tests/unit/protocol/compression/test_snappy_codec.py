"""Snappy as Java writes it and as others do."""

import struct

import pytest
from cramjam import snappy

from seglog.protocol.compression import Codec, CorruptCompressionError, compress, decompress

DATA = b"".join(b"record %d " % number for number in range(10_000))
MAGIC = b"\x82SNAPPY\x00"


def framed(version_words: bytes, block_bytes: int = 32 * 1024) -> bytes:
    parts = [MAGIC, version_words]
    for position in range(0, len(DATA), block_bytes):
        block = bytes(snappy.compress_raw(DATA[position : position + block_bytes]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def test_the_framing_differs_from_java() -> None:
    packed = compress(Codec.SNAPPY, DATA)
    assert packed == framed(struct.pack(">ii", 1, 1))


@pytest.mark.parametrize(
    "packed",
    [
        bytes(snappy.compress_raw(DATA)),
        framed(struct.pack("<ii", 1, 1)),
        framed(struct.pack(">ii", 7, -3)),
        framed(struct.pack(">ii", 1, 1), block_bytes=100),
        framed(struct.pack(">ii", 1, 1), block_bytes=100_000),
        compress(Codec.SNAPPY, DATA[:50_000]) + compress(Codec.SNAPPY, DATA[50_000:]),
    ],
    ids=["raw", "little-endian", "odd versions", "small blocks", "large blocks", "two streams"],
)
def test_a_way_of_writing_is_not_read(packed: bytes) -> None:
    """C040."""
    assert decompress(Codec.SNAPPY, packed, len(DATA)) == DATA


@pytest.mark.parametrize(
    "packed",
    [
        MAGIC,
        MAGIC + struct.pack(">iii", 1, 1, 0),
        MAGIC + struct.pack(">iii", 1, 1, -1) + b"x",
        MAGIC + struct.pack(">iii", 1, 1, 100) + b"x",
        MAGIC + struct.pack(">ii", 1, 1) + MAGIC,
        bytes(snappy.compress(DATA)),
    ],
    ids=["no versions", "empty block", "negative", "cut", "cut second stream", "google framing"],
)
def test_broken_framing_is_read(packed: bytes) -> None:
    with pytest.raises(CorruptCompressionError):
        decompress(Codec.SNAPPY, packed, len(DATA))
