"""What compiled encoders call where a value is unusual, and how flat lists are grouped."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Final, NoReturn

from seglog.protocol.kafka.source import MalformedError


def unsigned_varint(value: int) -> bytes:
    """Encode ``value`` seven bits a byte, low bits first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


SMALL_VARINTS: Final = tuple(unsigned_varint(value) for value in range(128))
"""The varints of one byte, by value."""


def records_length(records: Any) -> int:
    """How many bytes a records field holds, wherever they are."""
    if isinstance(records, (bytes, bytearray, memoryview)):
        return len(records)
    length: int = records.length
    return length


def refuse_value(value: object, version: int) -> NoReturn:
    """Refuse to drop a value that the version cannot carry."""
    raise MalformedError(f"version {version} cannot carry {value!r}")


def refuse_uuid(value: bytes) -> NoReturn:
    """Refuse an id of the wrong size, which would shift everything behind it."""
    raise MalformedError(f"a UUID has 16 bytes, not {len(value)}")


def write_tagged(write: Callable[[Any], None], fields: list[tuple[int, list[bytes]]]) -> None:
    """Write a tagged block; each field is its tag and the chunks of its data."""
    write(unsigned_varint(len(fields)))
    for tag, chunks in fields:
        data = b"".join(chunks)
        write(unsigned_varint(tag) + unsigned_varint(len(data)) + data)


def merged(items: Iterable[Any], key: Callable[[Any], Any]) -> list[list[Any]]:
    """Lists of the items with the same key, in the order of the first of each."""
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def runs(items: Sequence[Any], key: Callable[[Any], Any]) -> list[Sequence[Any]]:
    """Lists of the neighbours with the same key."""
    if len(items) == 1:
        return [items]
    return [list(group) for _, group in groupby(items, key)]
