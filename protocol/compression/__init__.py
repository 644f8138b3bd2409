"""The four codecs of record batches, in the framings that Kafka's clients write and read.

Only the records area of a batch is compressed, as one stream. Streams are written as Kafka's Java
code writes them, and read in every framing that some client writes; see the modules of the codecs.

A stream may inflate to anything, so ``decompress`` works in chunks and gives up as soon as the
total exceeds its bound. A codec and its library are imported on first use: start-up time is a
feature.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from seglog.protocol.compression.codec import (
    Codec,
    CorruptCompressionError,
    DecompressedTooLargeError,
)
from seglog.protocol.types import Buffer

__all__ = [
    "Codec",
    "CorruptCompressionError",
    "DecompressedTooLargeError",
    "compress",
    "decompress",
]


class _CodecModule(Protocol):
    """The functions of the module of a codec."""

    LEVELS: Sequence[int]

    def compress(self, data: Buffer, level: int | None) -> bytes: ...

    def decompress(self, data: memoryview, max_bytes: int) -> bytes | memoryview: ...


_MODULE_NAMES: Final = {
    Codec.GZIP: "seglog.protocol.compression.gzip_codec",
    Codec.SNAPPY: "seglog.protocol.compression.snappy_codec",
    Codec.LZ4: "seglog.protocol.compression.lz4_codec",
    Codec.ZSTD: "seglog.protocol.compression.zstd_codec",
}
_modules: Final[dict[Codec, _CodecModule]] = {}


def _module_of(codec: Codec) -> _CodecModule:
    module = _modules.get(codec)
    if module is None:
        module = _modules[codec] = cast("_CodecModule", import_module(_MODULE_NAMES[codec]))
    return module


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress ``data``; ``level`` None is Kafka's default level of the codec.

    Levels: gzip -1 or 1 to 9, lz4 1 to 17 (9 is the fast compressor, the others the thorough one),
    zstd -131072 to 22. Snappy has none and ignores it.

    Raises:
        ValueError: the codec has no such level.
    """
    if codec is Codec.NONE:
        return bytes(data)
    module = _module_of(codec)
    if level is not None and module.LEVELS and level not in module.LEVELS:
        lowest, highest = module.LEVELS[0], module.LEVELS[-1]
        raise ValueError(
            f"{codec.name_of()} level {level} is not in the range {lowest} to {highest}"
        )
    return module.compress(data, level)


def decompress(codec: Codec, data: Buffer, max_bytes: int) -> bytes | memoryview:
    """Inflate ``data``, which must be one whole stream and nothing else.

    Raises:
        CorruptCompressionError: it is not.
        DecompressedTooLargeError: it inflates to more than ``max_bytes``. Where the stream says so
            itself nothing was done; otherwise no more than that and one chunk was allocated.
    """
    view = memoryview(data)
    if codec is Codec.NONE:
        if view.nbytes > max_bytes:
            raise DecompressedTooLargeError(codec, max_bytes)
        return view
    return _module_of(codec).decompress(view, max_bytes)
