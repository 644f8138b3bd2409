"""Java's ``.properties`` syntax: what ``server.properties`` and ``meta.properties`` are written in.

The rules are those of ``java.util.Properties.load``: a key ends at the first unescaped ``=``, ``:``
or blank; a line that ends in an odd number of backslashes goes on in the next one; ``#`` and ``!``
start a comment; ``\\uXXXX``, ``\\t``, ``\\n``, ``\\r`` and ``\\f`` are escapes, any other escaped
character stands for itself. (The package ``javaproperties`` does the same and was left out because
its import costs 33 ms of a start that may take 250.)
"""

from typing import NamedTuple

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = 4


class Property(NamedTuple):
    """One entry and the number of the line it starts on, counted from 1."""

    key: str
    value: str
    line: int


def parse_properties(text: str) -> list[Property]:
    """Split a properties file into its entries, in order; a key may occur more than once.

    Raises:
        ValueError: a ``\\u`` escape is not followed by four hexadecimal digits.
    """
    entries = []
    for number, line in _logical_lines(text):
        key_end = _end_of_key(line)
        value_start = _skip_blanks(line, key_end)
        if value_start < len(line) and line[value_start] in "=:":
            value_start = _skip_blanks(line, value_start + 1)
        key, value = _unescape(line[:key_end], number), _unescape(line[value_start:], number)
        entries.append(Property(key, value, number))
    return entries


def format_property(key: str, value: str) -> str:
    """Write one entry as a line, without line feed; ``parse_properties`` gives it back."""
    escaped_value = _escape(value, "")
    if escaped_value.startswith(" "):
        escaped_value = "\\" + escaped_value
    return f"{_escape(key, ' =:#!')}={escaped_value}"


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Join continued lines; drop comments, blank lines and leading blanks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    logical: list[tuple[int, str]] = []
    index = 0
    while index < len(lines):
        number = index + 1
        line = lines[index].lstrip(_BLANKS)
        index += 1
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1]
            if index == len(lines):
                break
            line += lines[index].lstrip(_BLANKS)
            index += 1
        if line:
            logical.append((number, line))
    return logical


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
            continue
        if character in "=:" or character in _BLANKS:
            return position
        position += 1
    return len(line)


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position] in _BLANKS:
        position += 1
    return position


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            parts.append(character if character != "\\" else "")
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + _UNICODE_DIGITS]
            parts.append(_unicode_escape(digits, line))
            position += _UNICODE_DIGITS
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Java writes characters beyond the basic plane as two escapes, a surrogate pair.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode_escape(digits: str, line: int) -> str:
    if len(digits) != _UNICODE_DIGITS or not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise ValueError(f"line {line}: \\u must be followed by four hexadecimal digits")
    return chr(int(digits, 16))


def _escape(text: str, special: str) -> str:
    parts = []
    for character in text:
        if character in "\t\n\r\f":
            parts.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[character])
        elif character == "\\" or character in special:
            parts.append("\\" + character)
        else:
            parts.append(character)
    return "".join(parts)
