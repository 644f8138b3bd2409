"""Bytes to messages and back, for any declared message and version.

Everything that is wrong with the input, or with a message that is to be encoded, is a
``ProtocolError`` that names message, version and field.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, TypeVar

from seglog.protocol.declaration.layout import WireMessage, has_records
from seglog.protocol.dialect import Part
from seglog.protocol.errors import ProtocolError
from seglog.protocol.kafka.decoder import compile_decoder
from seglog.protocol.kafka.encoder import compile_encoder
from seglog.protocol.kafka.schema import Message
from seglog.protocol.kafka.source import field_path
from seglog.protocol.limits import MAX_ARRAY_ELEMENTS

MessageT = TypeVar("MessageT")
RecordT = TypeVar("RecordT", bound=Message)

_INT16: Final = struct.Struct(">h")


def decode(
    message: type[MessageT], version: int, buffer: memoryview, position: int = 0
) -> tuple[MessageT, int]:
    """Decode one message.

    Args:
        message: the class to decode.
        version: one of its versions.
        buffer: holds the whole message and ends with its frame; of single bytes.
        position: where the message starts.

    Returns:
        The message and the position behind it. Its records are views of ``buffer``.

    Raises:
        ProtocolError: the input does not follow the declaration, or the version is not declared.
    """
    wire: WireMessage = message.__message__  # type: ignore[attr-defined]  # of all that is coded
    return decode_wire(wire, version, buffer, position)


def decode_wire(
    message: WireMessage, version: int, buffer: memoryview, position: int = 0
) -> tuple[Any, int]:
    """The same for a message by its description, which may be a variant of its class."""
    return decoder_of(message, version)(buffer, position)


@cache
def decoder_of(message: WireMessage, version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
    """What ``decode`` does for one message and version."""
    _check_version(message, version)
    decoder = compile_decoder(message.layout, version, version in message.flexible)

    def decode_message(buffer: memoryview, position: int) -> tuple[Any, int]:
        try:
            return decoder(buffer, position, len(buffer), [MAX_ARRAY_ELEMENTS])
        except (IndexError, struct.error) as error:
            raise _error(message, version, "the input ends too early", error) from error
        except UnicodeDecodeError as error:
            raise _error(message, version, "text is not UTF-8", error) from error
        except ValueError as error:
            raise _error(message, version, str(error), error) from error

    return decode_message


@cache
def _chunks_of(message: WireMessage, version: int) -> Callable[[Any], list[Any]]:
    """Encodes one message as a list of chunks: bytes, and the records of its fields as they are."""
    _check_version(message, version)
    encoder = compile_encoder(message.layout, version, version in message.flexible)

    def encode_message(value: Any) -> list[Any]:
        chunks: list[Any] = []
        try:
            encoder(value, chunks.append)
        except (struct.error, AttributeError, TypeError, ValueError, IndexError) as error:
            raise _error(message, version, str(error), error) from error
        return chunks

    return encode_message


def encoder_of(message: WireMessage, version: int) -> Callable[[Any], list[Part]]:
    """What ``encode`` does for one message and version."""
    encode_chunks = _chunks_of(message, version)
    if has_records(message.layout):
        return lambda value: join(encode_chunks(value))
    return lambda value: [b"".join(encode_chunks(value))]


def encode(message: Any, version: int) -> list[Part]:
    """Encode one message as few parts as possible; see ``join``.

    Raises:
        ProtocolError: a value does not fit its field, or the version cannot carry it.
    """
    return join(_chunks_of(message.__message__, version)(message))


def encode_bytes(message: Any, version: int) -> bytes:
    """Encode one message whose records, if any, are in memory; raises as ``encode``."""
    return b"".join(_chunks_of(message.__message__, version)(message))


def join(chunks: Iterable[Any]) -> list[Part]:
    """Join neighbouring bytes; views and record sources stay apart, so that nothing is copied."""
    parts: list[Part] = []
    small: list[bytes] = []
    for chunk in chunks:
        if type(chunk) is bytes:
            small.append(chunk)
            continue
        if small:
            parts.append(b"".join(small))
            small.clear()
        parts.append(chunk)
    if small:
        parts.append(b"".join(small))
    return parts


def length_of(part: Part) -> int:
    """How many bytes a part stands for."""
    return len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.length


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode a value with its version as an int16 before it, as internal topics hold them."""
    return _INT16.pack(version) + encode_bytes(message, version)


def decode_versioned(message: type[RecordT], data: bytes) -> RecordT:
    """Decode a value behind its int16 version.

    A version newer than the declared ones is read as the newest of them; the fields that it adds
    are behind the known ones and left alone.

    Raises:
        ProtocolError: the value is cut off or malformed, or its version is negative.
    """
    if len(data) < _INT16.size:
        raise ProtocolError(f"{message.__name__}: {len(data)} bytes cannot hold a version")
    version = min(_INT16.unpack_from(data)[0], message.versions.last)
    return decode(message, version, memoryview(data), _INT16.size)[0]


def encode_record_key(message: Message) -> bytes:
    """Encode a key of an internal topic: an int16 with the kind of record, then the key."""
    return _INT16.pack(message.api_key) + encode_bytes(message, 0)


def decode_record_key(data: bytes, *kinds: type[RecordT]) -> RecordT | None:
    """Decode a key of an internal topic; None where its kind is none of ``kinds``.

    Raises:
        ProtocolError: the key is cut off or malformed.
    """
    if len(data) < _INT16.size:
        raise ProtocolError(f"a record key of {len(data)} bytes cannot hold its kind")
    number = _INT16.unpack_from(data)[0]
    for kind in kinds:
        if kind.api_key == number:
            return decode(kind, 0, memoryview(data), _INT16.size)[0]
    return None


def _check_version(message: WireMessage, version: int) -> None:
    if version not in message.versions:
        raise ProtocolError(
            f"{message.name} has versions {message.versions}, not version {version}"
        )


def _error(message: WireMessage, version: int, reason: str, error: BaseException) -> ProtocolError:
    path = field_path(error.__traceback__)
    where = f"{message.name}.{path}" if path else message.name
    return ProtocolError(f"{where} (version {version}): {reason}")
