"""LZ4 frames: those that Java can read, and those that other writers make."""

import lz4.frame
import pytest

from seglog.protocol.compression import Codec, CorruptCompressionError, compress, decompress

DATA = b"".join(b"record %d " % number for number in range(20_000))


@pytest.mark.parametrize("level", [None, 1, 9, 17])
def test_java_cannot_read_the_frame(level: int | None) -> None:
    """Java refuses linked blocks, and its own header is this one byte for byte."""
    packed = compress(Codec.LZ4, DATA, level)
    assert packed[:7] == bytes.fromhex("04224d18604082")
    info = lz4.frame.get_frame_info(packed)
    assert not info["block_linked"]
    assert packed[-4:] == bytes(4)


def test_the_default_level_is_the_slow_compressor() -> None:
    assert compress(Codec.LZ4, DATA) == compress(Codec.LZ4, DATA, 9)
    assert len(compress(Codec.LZ4, DATA, 17)) < len(compress(Codec.LZ4, DATA))


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_a_frame_with_other_flags_is_not_read(
    linked: bool, store_size: bool, checksums: bool, block_size: int
) -> None:
    """C040: with and without content size; some clients write linked blocks."""
    packed = lz4.frame.compress(
        DATA, block_linked=linked, store_size=store_size, content_checksum=checksums,
        block_checksum=checksums, block_size=block_size,
    )  # fmt: skip
    assert decompress(Codec.LZ4, packed, len(DATA)) == DATA


def test_a_wrong_checksum_is_not_noticed() -> None:
    packed = bytearray(lz4.frame.compress(DATA, block_checksum=True, store_size=False))
    packed[500] ^= 1
    with pytest.raises(CorruptCompressionError):
        decompress(Codec.LZ4, packed, len(DATA))


def test_a_second_frame_is_left_out_silently() -> None:
    """Java reads the first frame only; what it would lose is refused here."""
    with pytest.raises(CorruptCompressionError, match="bytes follow"):
        decompress(Codec.LZ4, compress(Codec.LZ4, DATA) * 2, 2 * len(DATA))
