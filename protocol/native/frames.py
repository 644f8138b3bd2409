"""Frames of the native dialect: a msgpack header with the record batches behind it.

    uint32 length of all that follows | uint32 header length | header | record batches, back to back

Integers are big-endian. The header is one msgpack array; it tells how many of the record bytes
belong to whom, in the order in which they follow. Nothing here keeps state between frames.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

import msgpack

from seglog.protocol.dialect import Part
from seglog.protocol.errors import FrameTooLargeError, ProtocolError

PREFIX_BYTES: Final = 8
"""Both length fields; the header begins here."""
MAX_REQUEST_ELEMENTS: Final = 65_536
"""Longest array in a request. msgpack reserves what an array claims, for each level of nesting."""

_LENGTH: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">II")
_LENGTH_BYTES: Final = _LENGTH.size
_FRAME_BYTES_LIMIT: Final = 2**32 - 1
# One packer for all: it only ever packs plain built-in values, which it does without running any
# Python code in between, so that threads cannot interleave in it.
_pack = msgpack.Packer(use_bin_type=True).pack
_unpack = msgpack.unpackb
_read_length = _LENGTH.unpack_from
_read_prefix = _PREFIX.unpack_from


def pack_array(values: list[Any]) -> bytes:
    """The msgpack array of plain values."""
    packed: bytes = _pack(values)
    return packed


class RecordSink:
    """Collects the record bytes that follow a header while the header is being built."""

    __slots__ = ("length", "parts")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.length = 0

    def add(self, records: Part) -> int:
        """Put ``records`` behind the earlier ones and return how many bytes they are."""
        if isinstance(records, memoryview):
            length = records.nbytes
        elif isinstance(records, (bytes, bytearray)):
            length = len(records)
        else:
            length = records.length
        if length:
            self.parts.append(records)
            self.length += length
        return length


class RecordCursor:
    """Hands out the record bytes behind a header, front to back, as views."""

    __slots__ = ("_end", "_position", "_view")

    def __init__(self, view: memoryview, position: int, end: int) -> None:
        self._view = view
        self._position = position
        self._end = end

    def take(self, length: int) -> memoryview:
        """Return the next ``length`` bytes; raises ``ProtocolError`` if there are fewer."""
        position = self._position
        if not 0 <= length <= self._end - position:
            raise ProtocolError(
                f"{length} bytes of records are announced, {self._end - position} are left"
            )
        self._position = position + length
        return self._view[position : self._position]

    def finish(self) -> None:
        """Raise ``ProtocolError`` if bytes are left that no field announces."""
        if self._position != self._end:
            raise ProtocolError(f"{self._end - self._position} bytes behind the announced records")


def frame_size(view: memoryview, start: int, end: int, max_frame_bytes: int) -> int:
    """Size of the frame that begins at ``start``, or 0 while fewer than 4 bytes of it are there.

    The size counts the length field; ``max_frame_bytes``, as in Kafka, does not.

    Raises:
        FrameTooLargeError: it is over the limit; nothing needs to be allocated to know that.
        ProtocolError: it is too small to hold a header.
    """
    if end - start < _LENGTH_BYTES:
        return 0
    length: int = _read_length(view, start)[0]
    if length > max_frame_bytes:
        raise FrameTooLargeError(f"frame of {length} bytes, the limit is {max_frame_bytes}")
    if length <= _LENGTH_BYTES:
        raise ProtocolError(f"frame of {length} bytes has no header")
    return _LENGTH_BYTES + length


def read_header(view: memoryview, start: int, end: int, max_elements: int) -> tuple[list[Any], int]:
    """Unpack the header of the frame in ``view[start:end]``.

    Returns:
        The header array (of at least one element), and where the record bytes begin.

    Raises:
        ProtocolError: not one msgpack array within the limits. An array that claims more
            elements than the header has bytes is refused without allocating for it.
    """
    header_length: int = _read_prefix(view, start)[1]
    records_start = start + PREFIX_BYTES + header_length
    if records_start > end:
        raise ProtocolError(f"header of {header_length} bytes does not fit into its frame")
    limit = min(max_elements, header_length)
    try:
        header = _unpack(
            view[start + PREFIX_BYTES : records_start],
            max_array_len=limit,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"header is not valid msgpack: {error}") from error
    if type(header) is not list or not header:
        raise ProtocolError(f"header is a {type(header).__name__}, expected a filled array")
    return header, records_start


def build_frame(
    header: list[Any], records: Sequence[Part] = (), records_length: int = 0
) -> list[Part]:
    """Return the parts of one frame: the packed header, then the records as they were given.

    Raises:
        FrameTooLargeError: more bytes than the length field can say.
    """
    packed = _pack(header)
    header_length = len(packed)
    length = _LENGTH_BYTES + header_length + records_length
    if length > _FRAME_BYTES_LIMIT:
        raise FrameTooLargeError(f"frame of {length} bytes, the format ends at {2**32 - 1}")
    return [_PREFIX.pack(length, header_length) + packed, *records]
