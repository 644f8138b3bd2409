"""What the two compilers share: source text that knows which field each of its lines is about.

The compiled code is straight-line and checks only what it must. When something is wrong, it raises
wherever it is, and the line numbers of the traceback tell which field of which struct was being
worked on: naming the field costs nothing until it is needed.
"""

import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from seglog.protocol.declaration.layout import Layout

_LINE_FIELDS: Final[dict[str, list[str]]] = {}


class MalformedError(ValueError):
    """A value that breaks the protocol; the caller adds the name of the field."""


class Source:
    """Lines of a function under construction, each with the field that it serves.

    Args:
        verb: what the function does.
        layout, version, flexible: for what; together with ``verb`` they make a file name
            that no other function has, by which tracebacks are told apart.
        names: the globals of the function.
    """

    def __init__(
        self,
        verb: str,
        layout: Layout,
        version: int,
        flexible: bool,
        names: dict[str, Any],
    ) -> None:
        form = "flexible" if flexible else "classic"
        subject = f"{layout.name} {id(layout):x}"
        self.file_name = f"<kafka codec: {verb} {subject} version {version} {form}>"
        self.names = names
        self.field = ""
        self._lines: list[str] = []
        self._fields: list[str] = []

    def add(self, depth: int, *lines: str) -> None:
        """Append lines that are indented by ``depth`` levels."""
        for line in lines:
            self._lines.append("    " * depth + line)
            self._fields.append(self.field)

    def value(self, value: object) -> str:
        """The name by which the code calls ``value``."""
        name = f"value_{len(self.names)}"
        self.names[name] = value
        return name

    def packer(self, letters: str) -> str:
        """The name by which the code calls ``struct.Struct(">" + letters).pack``."""
        name = "pack_" + letters.replace("?", "Z")
        self.names[name] = struct.Struct(">" + letters).pack
        return name

    def unpacker(self, letters: str) -> str:
        """The name by which the code calls ``struct.Struct(">" + letters).unpack_from``."""
        name = "unpack_" + letters.replace("?", "Z")
        self.names[name] = struct.Struct(">" + letters).unpack_from
        return name

    def compile(self, function_name: str) -> Callable[..., Any]:
        """Compile the lines and return the function that they define."""
        _LINE_FIELDS[self.file_name] = self._fields
        code = compile("\n".join(self._lines), self.file_name, "exec")
        exec(code, self.names)  # noqa: S102  # the text is made from our own declarations only
        function: Callable[..., Any] = self.names[function_name]
        return function


def field_path(traceback: TracebackType | None) -> str:
    """The field that compiled code was working on when it raised, such as ``topics.name``."""
    path = []
    while traceback is not None:
        fields = _LINE_FIELDS.get(traceback.tb_frame.f_code.co_filename)
        if fields is not None and fields[traceback.tb_lineno - 1]:
            path.append(fields[traceback.tb_lineno - 1])
        traceback = traceback.tb_next
    return ".".join(path)
