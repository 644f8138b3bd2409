"""How a Kafka message is declared: once, as a class, with version ranges on its fields.

    class TopicProduceData(Struct):
        name: str = string("0-12", ignorable=True)
        topic_id: bytes = uuid("13+", ignorable=True)
        partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")

    class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
        ...

One class serves all versions. The order of the fields is their order on the wire. A field that a
version does not carry has its default after decoding, and must have it (or be ``ignorable``) to be
encoded. The default is 0, False, "", empty, or what ``default`` says; a field of a struct type is
None while it is absent. To a type checker only a field with an explicit ``default`` may be left out
of a constructor call, so nothing is forgotten by accident.

A class has slots and nothing else: its constructor is compiled on first use, its codecs per version
on first use (``codec``), so that a declaration costs little at import.
"""

from typing import Any, ClassVar, Final, TypeAlias, cast, dataclass_transform

from seglog.protocol.declaration.fields import FIXED_FORMATS, PLAIN_DEFAULTS, ZERO_UUID, Field
from seglog.protocol.declaration.keys import RecordSource
from seglog.protocol.declaration.layout import WireMessage
from seglog.protocol.declaration.versions import VersionRange, version_range

__all__ = ["FIXED_FORMATS", "ZERO_UUID", "Field"]

NOT_REQUESTED: Final = -(2**31)
"""In place of a set of authorized operations that the client did not ask for."""

RecordsField: TypeAlias = memoryview | bytes | RecordSource | None
"""Record batches in a message: a view after decoding; for encoding bytes or where to find them."""
_EMPTY_LIST: Final = object()


def field(
    kind: str,
    versions: str,
    *,
    element: "type[Struct] | str | None" = None,
    default: Any = ...,
    nullable: str = "",
    ignorable: bool = False,
    tag: int | None = None,
    tagged: str = "",
) -> Any:
    """Declare a field of any kind; the functions below are shorter for each of them.

    Args:
        kind: see ``Field``.
        versions: the versions that carry it.
        element: see ``Field``.
        default: the value where it is absent.
        nullable: the versions in which it may be null.
        ignorable: whether encoding may drop it in a version that cannot carry it.
        tag: its number in the tagged block.
        tagged: the versions that carry it in the tagged block; all of ``versions`` if left out.
    """
    if default is ...:
        default = PLAIN_DEFAULTS.get(kind, 0)
    in_block = version_range("" if tag is None else tagged or versions)
    return Field(
        kind, version_range(versions), version_range(nullable), default, ignorable, tag, in_block,
        element,
    )  # fmt: skip


def boolean(versions: str, **options: Any) -> Any:
    """One byte, 0 or 1."""
    return field("boolean", versions, **options)


def int8(versions: str, **options: Any) -> Any:
    """A signed byte."""
    return field("int8", versions, **options)


def int16(versions: str, **options: Any) -> Any:
    """Two bytes, signed."""
    return field("int16", versions, **options)


def int32(versions: str, **options: Any) -> Any:
    """Four bytes, signed."""
    return field("int32", versions, **options)


def int64(versions: str, **options: Any) -> Any:
    """Eight bytes, signed."""
    return field("int64", versions, **options)


def float64(versions: str, **options: Any) -> Any:
    """Eight bytes, IEEE 754."""
    return field("float64", versions, **options)


def string(versions: str, **options: Any) -> Any:
    """UTF-8 behind its length."""
    return field("string", versions, **options)


def binary(versions: str, **options: Any) -> Any:
    """Bytes behind their length; decoding copies them."""
    return field("binary", versions, **options)


def uuid(versions: str, **options: Any) -> Any:
    """Sixteen bytes; all zero means none."""
    return field("uuid", versions, **options)


def records(versions: str, **options: Any) -> Any:
    """Record batches behind their length; decoding gives a view of the input, not a copy."""
    return field("records", versions, **options)


def array(element: "type[Struct] | str", versions: str, **options: Any) -> Any:
    """Elements behind their count: structs, or a kind by its name."""
    return field("array", versions, element=element, **options)


def nested(element: "type[Struct]", versions: str, **options: Any) -> Any:
    """One struct within another; None while it is absent."""
    return field("struct", versions, element=element, **options)


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        field, boolean, int8, int16, int32, int64, float64, string, binary, uuid, records, array,
        nested,
    ),
)  # fmt: skip
class StructType(type):
    """Turns the fields of a class body into slots and remembers them in ``__fields__``."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "StructType":
        declared = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        fields = []
        for key, value in declared.items():
            del namespace[key]
            value.name = key
            fields.append(value)
        namespace["__slots__"] = tuple(declared)
        namespace["__fields__"] = tuple(fields)
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
