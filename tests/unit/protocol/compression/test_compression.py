"""What the four codecs have in common: names, levels, bounds."""

import lzma
import subprocess
import sys
import zlib

import lz4.frame
import pytest
from cramjam import snappy

from seglog.protocol.compression import (
    Codec,
    CorruptCompressionError,
    DecompressedTooLargeError,
    compress,
    decompress,
)
from seglog.protocol.errors import ErrorCode

MIB = 1024 * 1024
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"".join(b'{"carrier":"UA","flight":%d}' % number for number in range(20_000))


@pytest.mark.parametrize(
    ("name", "codec"),
    [("none", 0), ("uncompressed", 0), ("gzip", 1), ("Snappy", 2), ("lz4", 3), ("ZSTD", 4)],
)
def test_a_name_means_another_codec(name: str, codec: int) -> None:
    assert Codec.from_name(name) == codec
    assert Codec.from_name(Codec(codec).name_of()) is Codec(codec)


def test_an_unknown_name_is_refused_without_naming_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'brotli'.*gzip.*zstd"):
        Codec.from_name("brotli")


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "large"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_data_changes_on_the_way(codec: Codec, data: bytes, kind: type) -> None:
    packed = compress(codec, kind(data))
    assert decompress(codec, kind(packed), len(data)) == data


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-131072, 0, 3, 22))],
)
def test_a_legal_level_is_refused(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT[:5000], level), 5000) == TEXT[:5000]


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 0), (Codec.GZIP, 10), (Codec.LZ4, 0), (Codec.LZ4, 18), (Codec.ZSTD, 23)],
)
def test_an_illegal_level_is_taken(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"level {level}"):
        compress(codec, b"", level)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7])
def test_the_bound_is_off_by_one(codec: Codec, size: int) -> None:
    """Exactly ``max_bytes`` are read, one more is not, around the size of the chunks."""
    packed = compress(codec, bytes(size))
    assert len(decompress(codec, packed, size)) == size
    with pytest.raises(DecompressedTooLargeError) as caught:
        decompress(codec, packed, size - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert caught.value.max_bytes == size - 1


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_cut_stream_is_read(codec: Codec) -> None:
    packed = compress(codec, TEXT[:70_000])
    for length in {0, 1, 5, len(packed) // 2, len(packed) - 4, len(packed) - 1}:
        with pytest.raises(CorruptCompressionError) as caught:
            decompress(codec, packed[:length], MIB)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert caught.value.codec is codec


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_bytes_behind_the_stream_are_ignored(codec: Codec) -> None:
    with pytest.raises(CorruptCompressionError):
        decompress(codec, compress(codec, TEXT[:1000]) + b"\x05left", MIB)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_another_format_is_read(codec: Codec) -> None:
    """C040: a batch flagged with a codec whose payload is something else."""
    with pytest.raises(CorruptCompressionError):
        decompress(codec, lzma.compress(TEXT[:1000]), MIB)
    for other in REAL_CODECS:
        if other is not codec:
            with pytest.raises(CorruptCompressionError):
                decompress(codec, compress(other, TEXT[:1000]), MIB)


def zstd_bomb() -> bytes:
    """A frame of 2048 blocks of 4 bytes that repeat one byte 128 KiB times: 256 MiB."""
    block_header = (128 * 1024 << 3) | (1 << 1)
    block = block_header.to_bytes(3, "little") + b"\0"
    last_block = (block_header | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * 2047 + last_block


def gzip_bomb() -> bytes:
    """A member whose 64 MiB of zeros are one repeated piece of deflate stream."""
    compressor = zlib.compressobj(9, wbits=31)
    return compressor.compress(bytes(64 * MIB)) + compressor.flush()


def lz4_bomb() -> bytes:
    return lz4.frame.compress(bytes(64 * MIB), block_size=lz4.frame.BLOCKSIZE_MAX4MB)


def snappy_bomb() -> bytes:
    """Framing with 1024 blocks of 64 KiB."""
    block = bytes(snappy.compress_raw(bytes(64 * 1024)))
    return compress(Codec.SNAPPY, b"") + (len(block).to_bytes(4, "big") + block) * 1024


BOMBS = {
    Codec.GZIP: gzip_bomb,
    Codec.SNAPPY: snappy_bomb,
    Codec.LZ4: lz4_bomb,
    Codec.ZSTD: zstd_bomb,
}

MEASURE_GROWTH = """
import resource, sys
from seglog.protocol.compression import Codec, DecompressedTooLargeError, compress, decompress
codec = Codec(int(sys.argv[1]))
bomb = sys.stdin.buffer.read()
decompress(codec, compress(codec, bytes(1000)), 1000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, 4 * 1024 * 1024)
except DecompressedTooLargeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_small_stream_takes_all_memory(codec: Codec) -> None:
    """A stream of 64 MiB or more, refused at 4 MiB, costs no more than that and some chunks."""
    bomb = BOMBS[codec]()
    assert len(bomb) < 4 * MIB
    process = subprocess.run(
        [sys.executable, "-c", MEASURE_GROWTH, str(int(codec))],
        input=bomb,
        check=True,
        capture_output=True,
    )
    grown_kib = int(process.stdout)
    assert grown_kib < 12 * 1024


def test_a_block_that_announces_gigabytes_is_allocated() -> None:
    """Snappy says its size in front: 1 GiB out of ten bytes is not believed."""
    announcement = b"\x80\x80\x80\x80\x04" + b"\x00a"
    with pytest.raises(CorruptCompressionError):
        decompress(Codec.SNAPPY, announcement, 2**31)


def test_codec_libraries_are_imported_before_they_are_used() -> None:
    """Start-up time is a feature."""
    script = (
        "import sys, seglog.protocol.records\n"
        "print([name for name in ('lz4', 'cramjam', 'zstandard', 'zlib') if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert process.stdout.strip() in {"[]", "['zlib']"}
