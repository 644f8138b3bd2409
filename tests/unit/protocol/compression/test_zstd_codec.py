"""Zstandard frames of other writers, and threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard

from seglog.protocol.compression import Codec, CorruptCompressionError, compress, decompress

DATA = b"".join(b"record %d " % number for number in range(20_000))
SKIPPABLE = b"\x53\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"


def test_the_frame_tells_its_content_size() -> None:
    """Java writes none, and readers that rely on one must fail in our tests, not in theirs."""
    packed = compress(Codec.ZSTD, DATA)
    assert zstandard.frame_content_size(packed) == -1
    assert not zstandard.get_frame_parameters(packed).has_checksum


@pytest.mark.parametrize(
    "packed",
    [
        zstandard.ZstdCompressor().compress(DATA),
        zstandard.ZstdCompressor(write_checksum=True).compress(DATA),
        zstandard.ZstdCompressor(level=19, write_content_size=False).compress(DATA),
        compress(Codec.ZSTD, DATA[:9]) + compress(Codec.ZSTD, DATA[9:]),
        SKIPPABLE + compress(Codec.ZSTD, DATA),
        compress(Codec.ZSTD, DATA) + SKIPPABLE,
    ],
    ids=["sized", "checksum", "level 19", "two frames", "skippable first", "skippable last"],
)
def test_a_frame_is_not_read(packed: bytes) -> None:
    """C040."""
    assert decompress(Codec.ZSTD, packed, len(DATA)) == DATA


def test_streamed_frames_are_not_read() -> None:
    """Flushing ends a block, closing adds an empty last one: what Java's stream does."""
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [compressor.compress(DATA[:1000]), compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    parts += [compressor.compress(DATA[1000:]), compressor.flush()]
    packed = b"".join(parts)
    assert decompress(Codec.ZSTD, packed, len(DATA)) == DATA
    for cut in range(1, 12):
        with pytest.raises(CorruptCompressionError):
            decompress(Codec.ZSTD, packed[:-cut], len(DATA))


@pytest.mark.parametrize("cut", [1, 4, 8, 10])
def test_a_cut_checksum_or_skippable_frame_is_read(cut: int) -> None:
    with_checksum = zstandard.ZstdCompressor(write_checksum=True).compress(DATA)
    for packed in (with_checksum, compress(Codec.ZSTD, DATA) + SKIPPABLE):
        with pytest.raises(CorruptCompressionError):
            decompress(Codec.ZSTD, packed[:-cut], len(DATA))


def test_threads_share_a_compressor() -> None:
    """Idle objects are kept, but one is never used by two calls at a time."""

    def work(number: int) -> bool:
        data = DATA[number:] * 3
        return bytes(decompress(Codec.ZSTD, compress(Codec.ZSTD, data), len(data))) == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))
