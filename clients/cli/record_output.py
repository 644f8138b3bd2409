"""How ``seglog consume`` writes a record: its value, its fields, a template, or a JSON line."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from seglog.protocol.records.record import Record

Format = Callable[[Record], bytes]

_TOKEN: Final = re.compile(rb"%(.?)", re.DOTALL)


def value_format(delimiter: bytes, null_marker: bytes) -> Format:
    """The value and a delimiter; a tombstone is ``null_marker``."""

    def write(record: Record) -> bytes:
        value = record.value
        return (null_marker if value is None else value) + delimiter

    return write


@dataclass(frozen=True)
class Fields:
    """Which fields of a record are written, in this order, as Kafka's console consumer does."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False
    value: bool = True


def fields_format(fields: Fields, separator: bytes, delimiter: bytes, null_marker: bytes) -> Format:
    """Chosen fields with a separator between them; the timestamp is in milliseconds."""

    def write(record: Record) -> bytes:
        parts: list[bytes] = []
        if fields.timestamp:
            parts.append(b"%d" % record.timestamp_ms)
        if fields.partition:
            parts.append(b"%d" % record.partition)
        if fields.offset:
            parts.append(b"%d" % record.offset)
        if fields.headers:
            parts.append(_headers_text(record, b":", null_marker) or b"NO_HEADERS")
        if fields.key:
            parts.append(null_marker if record.key is None else record.key)
        if fields.value:
            parts.append(null_marker if record.value is None else record.value)
        return separator.join(parts) + delimiter

    return write


def template_format(template: bytes, null_marker: bytes) -> Format:
    """A text with kcat's tokens: %t %p %o %k %K %s %S %T %h %%; nothing is added behind it.

    Raises:
        ValueError: a token that does not exist.
    """
    pieces: list[Format] = []
    for number, part in enumerate(_TOKEN.split(template)):
        is_token = bool(number % 2)
        if not is_token:
            if part:
                pieces.append(_constant(part))
        elif part == b"%":
            pieces.append(_constant(part))
        else:
            pieces.append(_field_writer(part.decode("latin-1"), null_marker))

    def write(record: Record) -> bytes:
        return b"".join([piece(record) for piece in pieces])

    return write


def _constant(text: bytes) -> Format:
    return lambda _: text


def _field_writer(letter: str, null_marker: bytes) -> Format:
    writers: dict[str, Format] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "k": lambda record: null_marker if record.key is None else record.key,
        "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
        "s": lambda record: null_marker if record.value is None else record.value,
        "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
        "T": lambda record: b"%d" % record.timestamp_ms,
        "h": lambda record: _headers_text(record, b"=", null_marker),
    }
    if letter not in writers:
        known = " ".join(f"%{each}" for each in (*writers, "%"))
        raise ValueError(f"there is no token %{letter}; there are {known}")
    return writers[letter]


def _headers_text(record: Record, between: bytes, null_marker: bytes) -> bytes:
    return b",".join(
        name.encode() + between + (null_marker if value is None else value)
        for name, value in record.headers
    )


def json_format(record: Record) -> bytes:
    """One line of JSON; bytes that are no UTF-8 are in ``key_base64`` and ``value_base64``."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    _add(fields, "key", record.key)
    _add(fields, "value", record.value)
    headers: list[dict[str, Any]] = []
    for name, value in record.headers:
        header: dict[str, Any] = {"name": name}
        _add(header, "value", value)
        headers.append(header)
    fields["headers"] = headers
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _add(fields: dict[str, Any], name: str, content: bytes | None) -> None:
    if content is None:
        fields[name] = None
        return
    try:
        fields[name] = content.decode("utf-8")
    except UnicodeDecodeError:
        fields[f"{name}_base64"] = base64.b64encode(content).decode("ascii")
