"""Client properties in files, in the syntax of ``java.util.Properties.load``.

A key ends at the first unescaped ``=``, ``:`` or blank; a line that ends in an odd number of
backslashes goes on in the next one; ``#`` and ``!`` start a comment. The broker reads its
``server.properties`` by the same rules, with code that no client knows; a test compares the two.
"""

import re
from collections.abc import Iterator
from typing import Final

_BLANKS: Final = " \t\f"
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> list[tuple[str, str]]:
    """The entries of a properties file, in order; a key may occur more than once.

    Raises:
        ValueError: a ``\\u`` escape is not followed by four hexadecimal digits.
    """
    entries = []
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        entries.append((_unescape(key[0], number), _unescape(line[separator.end() :], number)))
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; drop comments, blank lines and leading blanks."""
    lines = iter(enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1))
    for number, physical in lines:
        line = physical.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        if line:
            yield number, line


def _unescape(text: str, line: int) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise ValueError(f"line {line}: \\u must be followed by four hexadecimal digits")
        return _ESCAPES.get(match[2], match[2])

    if "\\" not in text:
        return text
    # Java writes characters beyond the basic plane as two escapes, a surrogate pair.
    plain = _ESCAPE.sub(character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
