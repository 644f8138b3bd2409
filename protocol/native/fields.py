"""How one value of a message is put into a header array and taken out again.

A ``Field`` is a pair of functions. Packing trusts its input, which is our own typed object;
unpacking checks type and range, because handlers rely on both. Raised is always ``ProtocolError``.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from seglog.protocol.api import ZERO_TOPIC_ID
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.native.frames import RecordCursor, RecordSink
from seglog.protocol.wording import count_text

_CHARACTERS_SHOWN: Final = 40


class Field(NamedTuple):
    """The two directions of one value; the second argument carries the bytes behind the header."""

    pack: Callable[[Any, RecordSink], Any]
    unpack: Callable[[Any, RecordCursor], Any]


def _same(value: Any, _sink: RecordSink) -> Any:
    return value


def _scalar(expected: type) -> Field:
    def unpack(value: Any, _cursor: RecordCursor) -> Any:
        if type(value) is not expected:
            raise ProtocolError(f"{_describe(value)}, expected {expected.__name__}")
        return value

    return Field(_same, unpack)


def _integer(bits: int) -> Field:
    low, end = -(1 << (bits - 1)), 1 << (bits - 1)

    def unpack(value: Any, _cursor: RecordCursor) -> int:
        if type(value) is not int or not low <= value < end:
            raise ProtocolError(f"{_describe(value)}, expected an integer of {bits} bits")
        return value

    return Field(_same, unpack)


def _describe(value: object) -> str:
    """Name a value of the wrong type in few words."""
    # Not by its repr: that of arrays a thousand deep is a RecursionError, and that of a string
    # takes four times its memory.
    if isinstance(value, list):
        return f"array of {count_text(len(value), 'element')}"
    if isinstance(value, str | bytes) and len(value) > _CHARACTERS_SHOWN:
        unit = "character" if isinstance(value, str) else "byte"
        return f"{type(value).__name__} of {count_text(len(value), unit)}"
    return repr(value)


BOOLEAN: Final = _scalar(bool)
STRING: Final = _scalar(str)
BYTES: Final = _scalar(bytes)
INT16: Final = _integer(16)
INT32: Final = _integer(32)
INT64: Final = _integer(64)


def _unpack_float(value: Any, _cursor: RecordCursor) -> float:
    if type(value) is not float and type(value) is not int:
        raise ProtocolError(f"{_describe(value)}, expected a number")
    return float(value)


FLOAT: Final = Field(_same, _unpack_float)


def nullable(field: Field) -> Field:
    """The same value, or None as msgpack nil."""

    def pack(value: Any, sink: RecordSink) -> Any:
        return None if value is None else field.pack(value, sink)

    def unpack(value: Any, cursor: RecordCursor) -> Any:
        return None if value is None else field.unpack(value, cursor)

    return Field(pack, unpack)


NULLABLE_STRING: Final = nullable(STRING)


def list_of(field: Field) -> Field:
    """An array of equal elements, as a list."""

    def pack(value: Any, sink: RecordSink) -> list[Any]:
        return [field.pack(element, sink) for element in value]

    def unpack(value: Any, cursor: RecordCursor) -> list[Any]:
        if type(value) is not list:
            raise ProtocolError(f"{_describe(value)}, expected an array")
        return [field.unpack(element, cursor) for element in value]

    return Field(pack, unpack)


def tuple_of(*fields: Field) -> Field:
    """An array of exactly these elements, as a tuple."""

    def pack(value: Any, sink: RecordSink) -> list[Any]:
        return [field.pack(element, sink) for field, element in zip(fields, value, strict=True)]

    def unpack(value: Any, cursor: RecordCursor) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(fields):
            raise ProtocolError(f"{_describe(value)}, expected an array of {len(fields)}")
        return tuple(
            field.unpack(element, cursor) for field, element in zip(fields, value, strict=True)
        )

    return Field(pack, unpack)


def dict_of(key: Field, value: Field) -> Field:
    """A dict, as an array of key and value pairs, each key once."""
    pairs = list_of(tuple_of(key, value))

    def pack(mapping: Any, sink: RecordSink) -> Any:
        return pairs.pack(mapping.items(), sink)

    def unpack(array: Any, cursor: RecordCursor) -> dict[Any, Any]:
        entries = pairs.unpack(array, cursor)
        mapping = dict(entries)
        if len(mapping) != len(entries):
            raise ProtocolError("a key is there twice")
        return mapping

    return Field(pack, unpack)


def enum_of(kind: type[IntEnum], *, open_ended: bool = False) -> Field:
    """A member of ``kind``; with ``open_ended`` a number without a member stays a number."""
    members = {int(member): member for member in kind}

    def pack(value: Any, _sink: RecordSink) -> int:
        return int(value)

    def unpack(value: Any, cursor: RecordCursor) -> Any:
        number = INT16.unpack(value, cursor)
        member = members.get(number)
        if member is not None:
            return member
        if open_ended:
            return number
        raise ProtocolError(f"{number} is no {kind.__name__}")

    return Field(pack, unpack)


_ERRORS: Final = {int(code): code for code in ErrorCode}


def unpack_error(value: Any) -> ErrorCode:
    """The error of a code; one that only a newer peer knows is UNKNOWN_SERVER_ERROR."""
    if type(value) is not int:
        raise ProtocolError(f"{_describe(value)}, expected an error code")
    return _ERRORS.get(value, ErrorCode.UNKNOWN_SERVER_ERROR)


ERROR: Final = Field(
    lambda value, _sink: int(value),
    lambda value, _cursor: unpack_error(value),
)


def _pack_topic_id(value: Any, _sink: RecordSink) -> bytes | None:
    return None if value == ZERO_TOPIC_ID else bytes(value)


def _unpack_topic_id(value: Any, _cursor: RecordCursor) -> bytes:
    if value is None:
        return ZERO_TOPIC_ID
    if type(value) is not bytes or len(value) != len(ZERO_TOPIC_ID):
        raise ProtocolError(f"{_describe(value)}, expected 16 bytes")
    return value


TOPIC_ID: Final = Field(_pack_topic_id, _unpack_topic_id)
"""16 bytes, nil where it is not known."""


def _pack_records(value: Any, sink: RecordSink) -> int | None:
    return None if value is None else sink.add(value)


def _unpack_records(value: Any, cursor: RecordCursor) -> memoryview | None:
    if value is None:
        return None
    if type(value) is not int:
        raise ProtocolError(f"{_describe(value)}, expected a length")
    return cursor.take(value)


RECORDS: Final = Field(_pack_records, _unpack_records)
"""Record batches: their length in the header, the bytes behind it."""
