"""Records out of a stream of bytes: lines with keys, or JSON lines as ``consume --json`` writes."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

import click

from seglog.clients.cli.json_text import JsonText, array_items, object_fields
from seglog.clients.cli.signals import wait_for_input

READ_BYTES: Final = 1 << 16
LINE_BYTES_MAX: Final = 1 << 28

Header = tuple[str, bytes | None]

_RECORD_FIELDS: Final = frozenset(
    {
        "topic", "partition", "offset", "timestamp_ms", "key", "key_base64", "value",
        "value_base64", "headers",
    }
)  # fmt: skip
_HEADER_FIELDS: Final = frozenset({"name", "value", "value_base64"})


class InputRecord(NamedTuple):
    """A record to be sent; ``timestamp_ms`` None is now, ``partition`` None is by the key."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: Sequence[Header]
    partition: int | None


def split_stream(stream: BinaryIO, delimiter: bytes) -> Iterator[list[bytes]]:
    """Yield complete lines as soon as they arrive; the last line needs no end.

    Raises:
        click.ClickException: a line is longer than 256 MiB.
    """
    rest = bytearray()
    for part in _parts_of(stream):
        begin = max(0, len(rest) - len(delimiter) + 1)
        rest += part
        if rest.find(delimiter, begin) < 0:
            _check_length(rest, "without a delimiter")
            continue
        *lines, tail = bytes(rest).split(delimiter)
        rest = bytearray(tail)
        yield lines
    if rest:
        yield [bytes(rest)]


def read_whole(stream: BinaryIO) -> bytes:
    """All that a stream has, to its end.

    Raises:
        click.ClickException: that is more than 256 MiB.
    """
    whole = bytearray()
    for part in _parts_of(stream):
        whole += part
        _check_length(whole, "of input")
    return bytes(whole)


def _parts_of(stream: BinaryIO) -> Iterator[bytes]:
    # ``read1`` returns the bytes now in the pipe; waiting for a full buffer would delay records.
    read = getattr(stream, "read1", stream.read)
    wait_for_input(stream)
    while part := read(READ_BYTES):
        yield part
        wait_for_input(stream)


def _check_length(content: bytearray, kind: str) -> None:
    if len(content) > LINE_BYTES_MAX:
        raise click.ClickException(f"more than {LINE_BYTES_MAX} bytes {kind}; no record is so long")


@dataclass(frozen=True)
class LineFormat:
    """How a line holds a record.

    Attributes:
        key_separator: between key and value; None: the whole line is the value.
        key: of every record, where lines have none.
        header_separator: between the headers in front (``a:1,b:2``) and the rest; None: there are
            none.
        headers: of every record.
        null_marker: a value (or key) of exactly these bytes is null.
        timestamp_ms: of every record.
        partition: of every record.
    """

    key_separator: bytes | None = None
    key: bytes | None = None
    header_separator: bytes | None = None
    headers: tuple[Header, ...] = ()
    null_marker: bytes | None = None
    timestamp_ms: int | None = None
    partition: int | None = None

    def parse(self, line: bytes, number: int) -> InputRecord:
        """Read one line.

        Raises:
            click.ClickException: a separator is missing.
        """
        headers = self.headers
        if self.header_separator is not None:
            front, separator, line = line.partition(self.header_separator)
            if not separator:
                raise _missing("header separator", self.header_separator, number)
            headers = (*headers, *_parse_headers(front, number))
        key: bytes | None = self.key
        value: bytes | None = line
        if self.key_separator is not None:
            key, separator, value = line.partition(self.key_separator)
            if not separator:
                raise _missing("key separator", self.key_separator, number)
            if key == self.null_marker:
                key = None
        if value == self.null_marker:
            value = None
        return InputRecord(key, value, self.timestamp_ms, headers, self.partition)


def _missing(what: str, separator: bytes, number: int) -> click.ClickException:
    return click.ClickException(
        f"line {number} has no {what} {separator.decode(errors='replace')!r}"
    )


def _parse_headers(text: bytes, number: int) -> list[Header]:
    headers: list[Header] = []
    for item in text.split(b",") if text else ():
        name, colon, value = item.partition(b":")
        if not colon:
            raise click.ClickException(f"line {number}: header {item!r} is not NAME:VALUE")
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise click.ClickException(f"line {number}: header name {name!r}: {error}") from error
    return headers


@dataclass(frozen=True)
class JsonFormat:
    """Lines as ``consume --json`` writes them.

    ``key``, ``value`` and ``headers`` are taken as they are, ``key_base64`` and ``value_base64``
    stand for bytes that are no text; ``timestamp_ms`` and ``partition`` count if they are kept,
    ``topic`` and ``offset`` do not. A value is required, even if it is null: otherwise a line that
    is no record would delete the record under its key.

    Attributes:
        keep_partition: whether the partition in a line is where its record goes.
        fallback: the fields of a record that its line does not give.
    """

    keep_partition: bool
    fallback: LineFormat

    def parse(self, line: bytes, number: int) -> InputRecord:
        """Read one line.

        Raises:
            click.ClickException: it is not such an object.
        """
        try:
            return self._record_of(line.decode("utf-8-sig"))
        except (ValueError, TypeError, RecursionError) as error:
            raise click.ClickException(f"line {number} is no record in JSON: {error}") from error

    def _record_of(self, text: str) -> InputRecord:
        fields = object_fields(text)
        _check_names(fields, _RECORD_FIELDS)
        if "value" not in fields and "value_base64" not in fields:
            raise ValueError('it has no "value"; for a deletion say "value":null')
        key = _bytes_of(fields, "key")
        timestamp_ms = _value_of(fields, "timestamp_ms", self.fallback.timestamp_ms)
        partition = _value_of(fields, "partition") if self.keep_partition else None
        for value in (timestamp_ms, partition):
            if value is not None and type(value) is not int:
                raise TypeError(f"{value!r} is no integer")
        return InputRecord(
            self.fallback.key if key is None else key,
            _bytes_of(fields, "value"),
            timestamp_ms,
            (*self.fallback.headers, *_headers_of(fields)),
            self.fallback.partition if partition is None else partition,
        )


def _check_names(fields: Mapping[str, JsonText], known: frozenset[str]) -> None:
    unknown = [name for name in fields if name not in known]
    if unknown:
        allowed = ", ".join(sorted(known))
        raise ValueError(f"there is no field {unknown[0]!r}; there are {allowed}")


def _value_of(fields: Mapping[str, JsonText], name: str, default: Any = None) -> Any:
    return fields[name].value if name in fields else default


def _bytes_of(fields: Mapping[str, JsonText], name: str) -> bytes | None:
    encoded = _value_of(fields, f"{name}_base64")
    if encoded is not None:
        if not isinstance(encoded, str):
            raise TypeError(f"{name}_base64: {encoded!r} is no text")
        if _value_of(fields, name) is not None:
            raise ValueError(f"it has both {name} and {name}_base64")
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}_base64: {error}") from error
    field = fields.get(name)
    if field is None or field.value is None:
        return None
    # A value that is not text stays JSON: an object as a value is the usual case.
    text = field.value if isinstance(field.value, str) else field.text
    return text.encode("utf-8", "surrogatepass")


def _headers_of(fields: Mapping[str, JsonText]) -> Iterator[Header]:
    headers = fields.get("headers")
    if headers is None or headers.value is None:
        return
    if not isinstance(headers.value, list):
        raise TypeError("headers: it is no array")
    for text in array_items(headers.text):
        header = object_fields(text)
        _check_names(header, _HEADER_FIELDS)
        name = _value_of(header, "name")
        if not isinstance(name, str):
            raise TypeError(f"headers: the name {name!r} is no text")
        yield name, _bytes_of(header, "value")
