"""Kinds of values on the command line, and options that several commands share."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import click

from seglog.clients.cli.moments import FORMS, parse_moment
from seglog.clients.cli.rendering import print_message

if TYPE_CHECKING:
    from seglog.clients.consumer.starts import Start
    from seglog.clients.offsets import TimeSpec

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

_SPECIAL_TIMES: Final[dict[str, Literal["earliest", "latest", "max_timestamp"]]] = {
    "earliest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "end": "latest",
    "max-timestamp": "max_timestamp",
    # Kafka's numbers for the same.
    "-2": "earliest",
    "-1": "latest",
    "-3": "max_timestamp",
}
_DIGITS_MAX: Final = 19
_SECONDS_MIN: Final = 10**8
_SECONDS_END: Final = 10**11
"""Numbers between these are unlikely as milliseconds (1970 to 1973), and likely as seconds."""
_HEX_DIGITS: Final = 2
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def json_option(command: _FunctionT) -> _FunctionT:
    """Give a command ``--json``, as the argument ``as_json``."""
    option = click.option(
        "-J", "--json", "as_json", is_flag=True, help="Write JSON to standard output."
    )
    return option(command)


def partition_option(command: _FunctionT) -> _FunctionT:
    """Give a command ``--partition``, as the argument ``partitions``; none said is an empty one."""
    option = click.option(
        "-p",
        "--partition",
        "partitions",
        type=click.IntRange(min=0),
        multiple=True,
        help="Only this partition; may be given several times.",
    )
    return option(command)


def key_value(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` as a pair; the value may be empty and hold further ``=``.

    Raises:
        click.BadParameter: there is no key or no ``=``.
    """
    key, equals, content = text.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    return key.strip(), content


def instant(text: str) -> int:
    """A time as milliseconds since 1970; a bare number is taken as such.

    Raises:
        click.BadParameter: it is no time.
    """
    return _milliseconds(text, bare_number=True)


def time_question(text: str) -> "TimeSpec":
    """A time for a lookup of offsets, or one of the special words.

    Raises:
        click.BadParameter: the text is none of these.
    """
    return _SPECIAL_TIMES.get(text) or instant(text)


def start_point(text: str) -> "Start":
    """Where consuming begins: a word, an offset, a time, or so many records before the end.

    Raises:
        click.BadParameter: nothing of that.
    """
    from seglog.clients.consumer.starts import Last, Offset, Timestamp

    word = _SPECIAL_TIMES.get(text) if text.isalpha() else None
    if word == "earliest" or word == "latest":
        return word
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
        return Last(int(digits)) if text != digits else Offset(int(digits))
    try:
        parse_moment(text, 0)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected earliest, latest, an offset, -N for the last N records, or "
            f"a time: {FORMS}"
        ) from None
    return Timestamp(_milliseconds(text, bare_number=False))


def _milliseconds(text: str, *, bare_number: bool) -> int:
    try:
        moment = parse_moment(text, time.time_ns() // 1_000_000, bare_number=bare_number)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    digits = text.removeprefix("@")
    if digits.isdecimal() and _SECONDS_MIN <= moment.timestamp_ms < _SECONDS_END:
        print_message(
            f"{text} is taken as milliseconds, which is in 1970 to 1973; if it means seconds, "
            f"write {text}000"
        )
    if moment.assumed_zone:
        print_message(f"{text} has no time zone and is taken as UTC")
    return moment.timestamp_ms


def escaped_bytes(text: str) -> bytes:
    r"""Bytes, with ``\n``, ``\t``, ``\r``, ``\0``, ``\\`` and ``\xHH`` for other bytes.

    Raises:
        click.BadParameter: an escape that does not exist.
    """
    try:
        return unescaped(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def unescaped(text: str) -> bytes:
    r"""Bytes of a text with escapes.

    Raises:
        ValueError: an escape that does not exist.

    >>> unescaped(r"a\tb\x00")
    b'a\tb\x00'
    """
    parts: list[bytes] = []
    position = 0
    while (backslash := text.find("\\", position)) >= 0:
        parts.append(text[position:backslash].encode("utf-8", "surrogateescape"))
        letter = text[backslash + 1 : backslash + 2]
        digits = text[backslash + 2 : backslash + 4]
        if letter in _ESCAPES and letter:
            parts.append(_ESCAPES[letter])
            position = backslash + 2
        elif letter == "x" and len(digits) == _HEX_DIGITS and digits.isascii() and digits.isalnum():
            try:
                parts.append(bytes.fromhex(digits))
            except ValueError:
                raise ValueError(f"\\x{digits} is no byte in hexadecimal") from None
            position = backslash + 4
        else:
            raise ValueError(f"there is no escape \\{letter}; there are {', '.join(_ESCAPES)}, xHH")
    parts.append(text[position:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)


class PartitionOffset(NamedTuple):
    """An offset in a partition, written ``PARTITION:OFFSET``."""

    partition: int
    offset: int


def partition_offset(text: str) -> PartitionOffset:
    """``PARTITION:OFFSET``; the offset may be -1, the end.

    Raises:
        click.BadParameter: it is not that.
    """
    partition, colon, offset = text.partition(":")
    digits = offset.removeprefix("-")
    is_number = all(part.isascii() and part.isdigit() for part in (partition, digits))
    if not colon or not is_number or (offset != digits and offset != "-1"):
        raise click.BadParameter(f"{text!r} is not PARTITION:OFFSET")
    return PartitionOffset(int(partition), int(offset))


def chosen_partitions(partitions: Sequence[int]) -> list[int] | None:
    """The partitions that were named, None if all are meant."""
    return sorted(set(partitions)) or None


def as_mapping(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """Key-value pairs as a mapping.

    Raises:
        click.UsageError: a key is there twice.
    """
    mapping: dict[str, str] = {}
    for key, value in pairs:
        if key in mapping:
            raise click.UsageError(f"{option}: {key} is given twice")
        mapping[key] = value
    return mapping
