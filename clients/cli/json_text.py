"""JSON taken apart without giving up how it was written.

A value that is data in JSON goes into a record byte for byte: read and written again ``1e400``
would be ``Infinity``, ``1.10`` would be ``1.1``, and blanks would come and go.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_BLANKS: Final = " \t\n\r"


class JsonText(NamedTuple):
    """A value, and the text that says it."""

    value: Any
    text: str


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def object_fields(text: str) -> dict[str, JsonText]:
    """The fields of the one object in ``text``.

    Raises:
        ValueError: it is not JSON, or a field is there twice.
        TypeError: it is no object.
    """
    position = _skip_blanks(text, 0)
    if text[position : position + 1] != "{":
        _DECODER.decode(text)
        raise TypeError("it is no object")
    fields: dict[str, JsonText] = {}
    position = _skip_blanks(text, position + 1)
    is_first = True
    while text[position : position + 1] != "}":
        if not is_first:
            position = _skip_blanks(text, _expect(text, position, ","))
        is_first = False
        name, position = _DECODER.raw_decode(text, _expect(text, position, '"') - 1)
        position = _skip_blanks(text, _expect(text, _skip_blanks(text, position), ":"))
        if name in fields:
            raise ValueError(f"{name!r} is there twice")
        value, end = _DECODER.raw_decode(text, position)
        fields[name] = JsonText(value, text[position:end])
        position = _skip_blanks(text, end)
    if _skip_blanks(text, position + 1) != len(text):
        raise json.JSONDecodeError("Extra data", text, position + 1)
    return fields


def array_items(text: str) -> Iterator[str]:
    """Yield the text of each item of the array in ``text``, which is JSON."""
    position = _skip_blanks(text, _expect(text, 0, "["))
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        yield text[position:end]
        position = _skip_blanks(text, end)
        if text[position] == ",":
            position = _skip_blanks(text, position + 1)


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _expect(text: str, position: int, character: str) -> int:
    if text[position : position + 1] != character:
        raise json.JSONDecodeError(f"Expecting {character!r}", text, position)
    return position + 1
