"""What a field of a message is: its value in our classes, its place in Kafka's protocol.

    @shape
    class OffsetCommitPartition:
        topic: str = topic_name("0-9", kafka="name", ignorable=True)
        partition: int = int32("0+", kafka="partition_index")
        leader_epoch: int = int32("6+", default=-1, kafka="committed_leader_epoch", ignorable=True)

The versions are those of Kafka's protocol, written as Kafka does: ``3``, ``0-12``, ``9+``; a field
without any is one that only the native dialect has. ``default`` is the default of the constructor;
it is also what stands where a version lacks the field, unless ``absent`` says otherwise.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from enum import IntEnum
from typing import Any, Final

from seglog.protocol.declaration.versions import VersionRange, version_range
from seglog.protocol.errors import ErrorCode

ZERO_UUID: Final = bytes(16)
FIXED_FORMATS: Final = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
"""Types of a fixed width, with their letters for ``struct``."""

PLAIN_DEFAULTS: Final[dict[str, object]] = {
    "boolean": False,
    "float64": 0.0,
    "string": "",
    "binary": b"",
    "uuid": ZERO_UUID,
    "records": None,
    "struct": None,
    "array": (),
}
_NO_VERSION: Final = version_range("")
_WIRE: Final = "wire"


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a flat list is nested on Kafka's wire: by topic.

    Attributes:
        inner: Kafka's name of the array within a topic.
        runs: the versions in which only neighbours of the same topic share an entry; in the others
            one entry takes all that is about its topic.
        is_bare: the inner array holds the one inner field of the elements, without a struct.
    """

    inner: str
    runs: VersionRange
    is_bare: bool


@dataclass(slots=True, eq=False)
class Field:
    """One field of a struct.

    Attributes:
        kind: a name in ``FIXED_FORMATS``, or string, binary, uuid, records, struct or array.
        versions: the versions of Kafka's protocol that carry it.
        nullable: the versions in which it may be null.
        default: the value where it is absent; an empty tuple stands for a new empty list.
        ignorable: whether encoding may drop it in a version that cannot carry it.
        tag, tagged: its number in the tagged block, and the versions that carry it there.
        element: the class or layout of a struct, and of an array either that or a kind.
        name: Kafka's name.
        attribute: our name.
        is_stored: our objects have it; what they do not have is written as its default.
        take, give: of a field that is not stored, how it gets into an object and out of it.
        native: whether the native dialect has it, or the kind that it has there, never null.
        enum: the numbers that it may hold; ``is_open`` lets others pass as plain numbers.
        is_withheld: lets them pass on Kafka's wire; the operation's ``withholding`` takes them out.
        older: errors that came with a later version: which, and what stood for it before.
        read, write: turn the value on the wire into ours, and back.
        null: the value written for None where null is not allowed; everywhere with ``never_null``.
        group: of a list that Kafka nests by topic.
        is_outer: it stands beside that nested array, once a topic.
        only, only_layout: the versions that have the fields of the only element of this list in
            place of the list, and their layout if it is another than in the list.
        answers: the list of the request that this list of a response has a result for each of.
        is_echoed: a refusal has the same value as the request.
        since: it says whether the request is of one of these versions; it is not on the wire.
        is_required: the constructor has to be given it.
        is_mapping: our value is a dict of the pairs that the elements are.
    """

    kind: str
    versions: VersionRange
    nullable: VersionRange = _NO_VERSION
    default: Any = None
    ignorable: bool = False
    tag: int | None = None
    tagged: VersionRange = _NO_VERSION
    element: Any = None
    name: str = ""
    attribute: str = ""
    is_stored: bool = True
    take: Callable[[Any, Any], None] | None = None
    give: Callable[[Any], Any] | None = None
    native: bool | str = True
    enum: type[IntEnum] | None = None
    is_open: bool = False
    is_withheld: bool = False
    older: Mapping[ErrorCode, tuple[int, ErrorCode]] | None = None
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None
    null: Any = None
    never_null: bool = False
    group: Grouping | None = None
    is_outer: bool = False
    only: VersionRange = _NO_VERSION
    only_layout: Any = None
    answers: str = ""
    is_echoed: bool = False
    since: VersionRange = _NO_VERSION
    is_required: bool = False
    is_mapping: bool = False

    def is_plain_in(self, version: int) -> bool:
        """Whether ``version`` carries it at its place in the order of fields."""
        return version in self.versions and version not in self.tagged

    def is_tagged_in(self, version: int) -> bool:
        """Whether ``version`` carries it in the tagged block."""
        return version in self.tagged

    def is_carried_in(self, version: int) -> bool:
        """Whether ``version`` carries it at all."""
        return version in self.versions or version in self.tagged


def wire_field(declared: Any) -> Field | None:
    """What one of the functions below has declared; None for any other field of a class."""
    found: Field | None = declared.metadata.get(_WIRE)
    return found


def field(
    kind: str,
    versions: str = "",
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    absent: Any = MISSING,
    nullable: str = "",
    tag: int | None = None,
    tagged: str = "",
    kafka: str = "",
    **options: Any,
) -> Any:
    """Declare a field of any kind; the functions below are shorter for each of them.

    Args:
        kind: see ``Field``.
        versions: the versions of Kafka's protocol that carry it; none if left out.
        default, default_factory: of the constructor; without one the field has to be given.
        absent: what stands where a version lacks it, if it is not the default.
        nullable: the versions in which it may be null.
        tag: its number in the tagged block.
        tagged: the versions that carry it in the tagged block; all of ``versions`` if left out.
        kafka: Kafka's name, if it is another than ours.
        options: the other attributes of ``Field``.
    """
    if absent is MISSING:
        absent = PLAIN_DEFAULTS.get(kind, 0) if default is MISSING else default
        if default_factory is not MISSING:
            absent = default_factory()
            absent = () if absent == [] else absent
    wire = Field(
        kind,
        version_range(versions),
        version_range(nullable),
        absent,
        tag=tag,
        tagged=version_range("" if tag is None else tagged or versions),
        name=kafka,
        is_required=default is MISSING and default_factory is MISSING,
        **options,
    )
    if default_factory is not MISSING:
        return dataclasses.field(default_factory=default_factory, metadata={_WIRE: wire})
    if default is not MISSING:
        return dataclasses.field(default=default, metadata={_WIRE: wire})
    return dataclasses.field(metadata={_WIRE: wire})


def boolean(versions: str = "", **options: Any) -> Any:
    """One byte, 0 or 1."""
    return field("boolean", versions, **options)


def int8(versions: str = "", **options: Any) -> Any:
    """A signed byte."""
    return field("int8", versions, **options)


def int16(versions: str = "", **options: Any) -> Any:
    """Two bytes, signed."""
    return field("int16", versions, **options)


def int32(versions: str = "", **options: Any) -> Any:
    """Four bytes, signed."""
    return field("int32", versions, **options)


def int64(versions: str = "", **options: Any) -> Any:
    """Eight bytes, signed."""
    return field("int64", versions, **options)


def float64(versions: str = "", **options: Any) -> Any:
    """Eight bytes, IEEE 754."""
    return field("float64", versions, **options)


def string(versions: str = "", **options: Any) -> Any:
    """UTF-8 behind its length."""
    return field("string", versions, **options)


def binary(versions: str = "", **options: Any) -> Any:
    """Bytes behind their length; decoding copies them."""
    return field("binary", versions, **options)


def uuid(versions: str = "", **options: Any) -> Any:
    """Sixteen bytes; all zero means none."""
    return field("uuid", versions, **options)


def records(versions: str = "", **options: Any) -> Any:
    """Record batches behind their length; decoding gives a view of the input, not a copy."""
    return field("records", versions, **options)


def error_code(versions: str = "", *, kafka: str = "error_code", **options: Any) -> Any:
    """An ``ErrorCode``; a refusal puts its error here."""
    return field("int16", versions, kafka=kafka, enum=ErrorCode, absent=ErrorCode.NONE, **options)


def number_of(enum: type[IntEnum], kind: str, versions: str = "", **options: Any) -> Any:
    """A member of ``enum``, as a number of this kind."""
    return field(kind, versions, enum=enum, **options)


def topic_name(versions: str, **options: Any) -> Any:
    """The name of the topic that an element of a list ``by_topic`` is about."""
    return field("string", versions, is_outer=True, **options)


def topic_uuid(versions: str = "", **options: Any) -> Any:
    """The id of that topic; zero where it is not known."""
    return field("uuid", versions, is_outer=True, ignorable=True, **options)


def array(element: Any, versions: str = "", **options: Any) -> Any:
    """Elements behind their count: classes, layouts, or a kind by its name."""
    if "only" in options:
        options["only"] = version_range(options["only"])
    return field("array", versions, element=element, **options)


def by_topic(
    element: Any,
    versions: str,
    *,
    kafka: str = "topics",
    inner: str = "partitions",
    runs: str = "",
    is_bare: bool = False,
    **options: Any,
) -> Any:
    """A flat list whose elements Kafka's wire nests by topic; see ``Grouping``.

    The outer fields of the element are those that ``topic_name`` and ``topic_uuid`` declare.
    """
    group = Grouping(inner, version_range(runs), is_bare)
    return field("array", versions, element=element, kafka=kafka, group=group, **options)


def mapping(element: Any, versions: str, **options: Any) -> Any:
    """A dict; on the wire an array of pairs, which are what a ``row`` of two fields describes."""
    options = {"read": dict, "write": dict.items, **options}
    return field("array", versions, element=element, is_mapping=True, **options)


def nested(element: Any, versions: str, **options: Any) -> Any:
    """One struct within another; None while it is absent."""
    return field("struct", versions, element=element, **options)


def since(versions: str, *, default: bool, native: bool = False) -> Any:
    """Whether a request came in one of these versions: what they change without a field."""
    wire = Field("boolean", _NO_VERSION, default=default, native=native)
    wire.since = version_range(versions)
    return dataclasses.field(default=default, metadata={_WIRE: wire})


def kafka_only(
    declared: Any,
    *,
    take: Callable[[Any, Any], None] | None = None,
    give: Callable[[Any], Any] | None = None,
) -> Any:
    """A field that Kafka's wire has and our objects do not; declare it as a ``ClassVar``.

    Args:
        declared: one of the functions above.
        take: puts a value that was read into the object; without it the value is left alone.
        give: makes the value to write from the object; without it the default is written.
    """
    wire = wire_field(declared)
    assert wire is not None
    wire.is_stored, wire.native, wire.take, wire.give = False, False, take, give
    return declared
