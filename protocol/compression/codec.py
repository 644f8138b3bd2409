"""The codecs by number, their errors, and the bounded output that all of them write to."""

from enum import IntEnum
from typing import Final

from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.limits import DECOMPRESSION_CHUNK_BYTES


class Codec(IntEnum):
    """How the records of a batch are compressed; bits 0-2 of the batch attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    def name_of(self) -> str:
        """Return the name in configurations and on command lines, for example ``zstd``."""
        return self.name.lower()

    @classmethod
    def from_name(cls, name: str) -> "Codec":
        """Return the codec called ``name``, in any case; ``uncompressed`` is ``none``.

        Raises:
            ValueError: there is no such codec.
        """
        try:
            return _CODECS_BY_NAME[name.lower()]
        except KeyError:
            known = ", ".join(_CODECS_BY_NAME)
            raise ValueError(f"unknown compression {name!r}: one of {known}") from None


_CODECS_BY_NAME: Final = {codec.name_of(): codec for codec in Codec} | {"uncompressed": Codec.NONE}


class CorruptCompressionError(RecordError):
    """Bytes that the codec named by the batch cannot read.

    Attributes:
        is_cut: the stream is sound as far as it goes, and Kafka says so of its codec.
    """

    def __init__(self, codec: Codec, reason: object, *, is_cut: bool = False) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE, f"the records are not valid {codec.name_of()} data: {reason}"
        )
        self.codec = codec
        self.is_cut = is_cut


class DecompressedTooLargeError(RecordError):
    """A stream that inflates to more than was allowed; ``max_bytes`` is the bound.

    MESSAGE_TOO_LARGE on the wire: clients split a batch of several records and send the parts.
    """

    def __init__(self, codec: Codec, max_bytes: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the {codec.name_of()} data of the batch inflates to more than {max_bytes} bytes",
        )
        self.codec = codec
        self.max_bytes = max_bytes


class BoundedOutput:
    """Collects inflated chunks up to a bound; a single one is handed back without a copy."""

    __slots__ = ("_codec", "_first", "_max_bytes", "_whole", "size")

    def __init__(self, codec: Codec, max_bytes: int) -> None:
        self._codec = codec
        self._max_bytes = max_bytes
        self._first = b""
        self._whole: bytearray | None = None
        self.size = 0

    @property
    def next_chunk_bytes(self) -> int:
        """How much to inflate next: one byte above the bound shows that the stream exceeds it."""
        return min(DECOMPRESSION_CHUNK_BYTES, self._max_bytes - self.size + 1)

    def expect(self, announced_bytes: int) -> None:
        """Refuse a stream that announces a size above the bound, before anything is inflated."""
        if announced_bytes > self._max_bytes:
            raise DecompressedTooLargeError(self._codec, self._max_bytes)

    def add(self, chunk: bytes) -> None:
        """Take the next chunk; raises DecompressedTooLargeError above the bound."""
        self.size += len(chunk)
        if self.size > self._max_bytes:
            raise DecompressedTooLargeError(self._codec, self._max_bytes)
        if self._whole is not None:
            self._whole += chunk
        elif self._first:
            self._whole = bytearray(self._first)
            self._whole += chunk
            self._first = b""
        else:
            self._first = chunk

    def content(self) -> bytes | memoryview:
        """Return all that was added."""
        return self._first if self._whole is None else memoryview(self._whole)
