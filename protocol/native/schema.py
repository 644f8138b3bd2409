"""Messages as arrays: the generic way between a typed object and a header array.

A ``Message`` names the fields of one dataclass in the order of the wire. A shorter array takes the
dataclass' defaults, elements beyond the known ones are ignored: fields may be added at the end
without a new version on either side. Only a change that breaks this needs a higher version.
"""

import dataclasses
from typing import Any

from seglog.protocol.errors import ProtocolError
from seglog.protocol.native.fields import Field
from seglog.protocol.native.frames import RecordCursor, RecordSink


class Message:
    """The wire form of one dataclass.

    Args:
        shape: the dataclass.
        fields: its fields that travel, in the order of the wire; those without a default first.
    """

    __slots__ = ("_columns", "_required", "shape")

    def __init__(self, shape: type[Any], /, **fields: Field) -> None:
        required = {
            field.name
            for field in dataclasses.fields(shape)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        names = list(fields)
        assert set(names[: len(required)]) == required, f"{shape.__name__}: {names}"
        self.shape = shape
        self._required = len(required)
        self._columns = tuple((name, field.pack, field.unpack) for name, field in fields.items())

    def pack(self, value: Any, sink: RecordSink) -> list[Any]:
        """Return the array for ``value``; its record bytes go to ``sink``."""
        return [pack(getattr(value, name), sink) for name, pack, _ in self._columns]

    def unpack(self, array: Any, cursor: RecordCursor) -> Any:
        """Return the object for ``array``; its record bytes come from ``cursor``.

        Raises:
            ProtocolError: with the path of the field that is wrong.
        """
        if type(array) is not list or len(array) < self._required:
            raise ProtocolError(
                f"{self.shape.__name__}: expected an array of at least {self._required}"
            )
        values: dict[str, Any] = {}
        name = ""
        try:
            # Not strict: that the lengths may differ is how fields are added.
            for (name, _, unpack), element in zip(self._columns, array, strict=False):
                values[name] = unpack(element, cursor)
        except ProtocolError as error:
            raise ProtocolError(f"{self.shape.__name__}.{name}: {error}") from error
        return self.shape(**values)

    @property
    def field(self) -> Field:
        """This message as a field of another."""
        return Field(self.pack, self.unpack)
