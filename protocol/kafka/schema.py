"""Declarations as Kafka's schemas have them: of stored records, and of refused operations.

    class OffsetCommitKey(Message, api_key=1, versions="0-1"):
        group: str = string("0-1")
        topic: str = string("0-1")
        partition: int = int32("0-1")

One class serves all versions, with Kafka's names in the order of the wire; operations that are
served are declared in ``seglog.protocol.api`` with names of ours, see ``declaration``. A field that
a version does not carry has its default after decoding, and must have it (or be ``ignorable``) to
be encoded. To a type checker only a field with an explicit ``default`` may be left out of a
constructor call, so nothing is forgotten by accident.

A class has slots and nothing else: its constructor is compiled on first use, its codecs per version
on first use (``codec``), so that a declaration costs little at import.
"""

import dataclasses
from typing import Any, ClassVar, Final, TypeAlias, cast, dataclass_transform

from seglog.protocol.declaration import fields
from seglog.protocol.declaration.fields import (
    FIXED_FORMATS,
    ZERO_UUID,
    Field,
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
    wire_field,
)
from seglog.protocol.declaration.keys import RecordSource
from seglog.protocol.declaration.layout import WireMessage
from seglog.protocol.declaration.versions import VersionRange, version_range

__all__ = [
    "FIXED_FORMATS",
    "ZERO_UUID",
    "Field",
    "array",
    "binary",
    "boolean",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "nested",
    "records",
    "string",
    "uuid",
]

NOT_REQUESTED: Final = -(2**31)
"""In place of a set of authorized operations that the client did not ask for."""

RecordsField: TypeAlias = memoryview | bytes | RecordSource | None
"""Record batches in a message: a view after decoding; for encoding bytes or where to find them."""
_EMPTY_LIST: Final = object()


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        fields.field, boolean, int8, int16, int32, int64, float64, string, binary, uuid, records,
        array, nested,
    ),
)  # fmt: skip
class StructType(type):
    """Turns the fields of a class body into slots and remembers them in ``__fields__``."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "StructType":
        declared: dict[str, Field] = {}
        for key, value in namespace.items():
            wire = wire_field(value) if isinstance(value, dataclasses.Field) else value
            if isinstance(wire, Field):
                declared[key] = wire
                wire.name = key
        for key in declared:
            del namespace[key]
        namespace["__slots__"] = tuple(declared)
        namespace["__fields__"] = tuple(declared.values())
        return super().__new__(cls, name, bases, namespace, **options)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: Any
    ) -> None:
        super().__init__(name, bases, namespace)


class Struct(metaclass=StructType):
    """A group of fields; compared by value, not hashable because it can change."""

    __fields__: ClassVar[tuple[Field, ...]]
    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable and compared by value

    def __init__(self, **values: Any) -> None:
        # Only the first instance of a class comes here: compiling a constructor takes longer than
        # declaring the class, and most processes use few of the classes.
        cls = type(self)
        type.__setattr__(cls, "__init__", _compile_constructor(cls.__fields__))
        cast("Any", cls).__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.__fields__)

    def __repr__(self) -> str:
        values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.__fields__)
        return f"{type(self).__name__}({values})"


class Undeclared(Struct):
    """What arrays and nested structs hold that are always empty or null in what we send.

    A refusal needs the fields up to there, and not what it never sends.
    """


class Message(Struct):
    """A struct that is sent or stored on its own.

    Class arguments:
        versions: the versions that can be coded.
        served: of a request, the versions that are answered with more than a refusal; all of
            ``versions`` if left out.
        flexible: the versions with compact lengths and tagged blocks.
        api_key: the number of the operation; for a key of an internal topic the type of record.
    """

    api_key: ClassVar[int]
    versions: ClassVar[VersionRange]
    served: ClassVar[VersionRange]
    flexible: ClassVar[VersionRange]
    __message__: ClassVar[WireMessage]

    def __init_subclass__(
        cls, *, versions: str, flexible: str = "", served: str = "", api_key: int = -1
    ) -> None:
        super().__init_subclass__()
        cls.api_key = api_key
        cls.versions = version_range(versions)
        cls.served = version_range(served or versions)
        cls.flexible = version_range(flexible)
        cls.__message__ = WireMessage(
            cls, cls.__name__, api_key=api_key, versions=cls.versions, flexible=cls.flexible
        )


def _compile_constructor(fields: tuple[Field, ...]) -> Any:
    """A keyword-only ``__init__`` in straight-line code."""
    names: dict[str, object] = {"EMPTY": _EMPTY_LIST}
    parameters, lines = [], []
    for index, each in enumerate(fields):
        if each.default == ():
            parameters.append(f"{each.name}=EMPTY")
            lines.append(f"self.{each.name} = [] if {each.name} is EMPTY else {each.name}")
        else:
            names[f"D{index}"] = each.default
            parameters.append(f"{each.name}=D{index}")
            lines.append(f"self.{each.name} = {each.name}")
    arguments = "".join(f", {parameter}" for parameter in parameters)
    star = ", *" if parameters else ""
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__(self{star}{arguments}):\n {body}", names)  # noqa: S102  # own source
    return names["__init__"]
