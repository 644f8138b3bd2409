"""Declarations as their compilers read them: the fields of a struct in the order of the wire."""

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

from seglog.protocol.declaration.fields import Field, wire_field
from seglog.protocol.declaration.versions import VersionRange, version_range

CLASS: Final = "class"
TUPLE: Final = "tuple"
SINGLE: Final = "single"
TOPIC: Final = "topic"


class Place(NamedTuple):
    """A field that a version carries, and the variable that holds the object that it belongs to."""

    field: Field
    holder: str


class Layout:
    """How values of one kind lie on Kafka's wire.

    Args:
        name: for messages of errors, and to tell compiled code apart.
        fields: in the order of the wire; those without versions are our own.
        form: ``CLASS`` for objects of ``made``, ``TUPLE`` for tuples of the values, ``SINGLE`` for
            the value of the only field, ``TOPIC`` for the entry of a topic in a grouped list.
        made: the class of the objects.
        own: the fields of the objects in the order of the class.
    """

    def __init__(
        self,
        name: str,
        fields: tuple[Field, ...],
        form: str,
        made: type | None = None,
        own: tuple[Field, ...] = (),
    ) -> None:
        self.name = name
        self.fields = fields
        self.form = form
        self.made = made
        self.own = own or fields

    @cached_property
    def outer(self) -> tuple[Field, ...]:
        """The fields that stand once a topic, where the list of these is grouped."""
        return tuple(each for each in self.fields if each.is_outer)

    @cached_property
    def inner(self) -> tuple[Field, ...]:
        """The other fields."""
        return tuple(each for each in self.fields if not each.is_outer)

    def access(self, holder: str, each: Field) -> str:
        """An expression for the value of a field of the object in the variable ``holder``."""
        if self.form == CLASS:
            return f"{holder}.{each.attribute or each.name}"
        if self.form == TUPLE:
            return f"{holder}[{self.own.index(each)}]"
        return holder

    def carried(self, version: int) -> list[Place]:
        """The fields of ``version``; that of a list's only element may stand in its place."""
        places = []
        for each in self.inner:
            if version in each.only:
                only = only_layout(each)
                places += [
                    Place(inner, "only") for inner in only.fields if inner.is_carried_in(version)
                ]
            elif each.is_carried_in(version):
                places.append(Place(each, "o"))
        return places

    def only(self, version: int) -> Field | None:
        """The list whose only element has its fields in the place of the list, if there is one."""
        return next((each for each in self.inner if version in each.only), None)


def row(**declared: Any) -> Layout:
    """Elements that are tuples: of these values, in the order of the wire and of ours."""
    return Layout("row", _of_keywords(declared), TUPLE)


def single(**declared: Any) -> Layout:
    """Structs with one field, which our lists hold as its value."""
    fields = _of_keywords(declared)
    assert len(fields) == 1
    return Layout("single", fields, SINGLE)


class Variant:
    """Another layout of a class than its own: see ``variant``."""

    def __init__(self, made: type, declared: dict[str, Any]) -> None:
        self.made = made
        self._declared = declared

    @cached_property
    def layout(self) -> Layout:
        """The layout; what it does not mention is as in the class where a version lacks it."""
        plain = layout_of(self.made)
        if not self._declared:
            return plain
        fields = _of_keywords(self._declared)
        by_attribute = {each.attribute: each for each in fields if each.is_stored}
        own = tuple(by_attribute.get(each.attribute, each) for each in plain.own)
        for here, in_class in zip(own, plain.own, strict=True):
            here.is_required = in_class.is_required  # it is one constructor
        return Layout(self.made.__name__, fields, CLASS, self.made, own)


def variant(made: type, **declared: Any) -> Variant:
    """The same class with other fields, versions or names on Kafka's wire, in this order.

    Without any, the class as it is declared, for a second operation that shares it.
    """
    return Variant(made, declared)


def _of_keywords(declared: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(_named(name, wire_field(each)) for name, each in declared.items())


def _named(attribute: str, wire: Field | None) -> Field:
    assert wire is not None, attribute
    wire.attribute = attribute
    wire.name = wire.name or attribute
    return wire


@cache
def layout_of(declared: Any) -> Layout:
    """The layout of a class, of a variant of it, or the layout itself."""
    if isinstance(declared, Layout):
        return declared
    if isinstance(declared, Variant):
        return declared.layout
    generic = getattr(declared, "__fields__", None)
    if generic is not None:
        return Layout(declared.__name__, generic, CLASS, declared)
    fields: dict[str, Field] = {}
    for name, each in declared.__dataclass_fields__.items():
        wire = wire_field(each)
        assert wire is not None, f"{declared.__name__}.{name} says nothing about the wire"
        fields[name] = _named(name, wire)
    order = dict.fromkeys((*getattr(declared, "__kafka_order__", ()), *fields))
    return Layout(
        declared.__name__,
        tuple(fields[name] for name in order),
        CLASS,
        declared,
        tuple(each for each in fields.values() if each.is_stored),
    )


class WireMessage:
    """A class, or a variant of one, that Kafka's protocol sends or stores on its own.

    Attributes:
        declared: the class, or the variant.
        name: Kafka's name.
        api_key: the number of the operation; -1 for a form that is only stored.
        versions: the versions that can be coded.
        flexible: the versions with compact lengths and tagged blocks.
    """

    def __init__(
        self,
        declared: Any,
        name: str,
        *,
        api_key: int,
        versions: VersionRange,
        flexible: VersionRange,
    ) -> None:
        self.declared = declared
        self.name = name
        self.api_key = api_key
        self.versions = versions
        self.flexible = flexible

    @cached_property
    def layout(self) -> Layout:
        """Its fields; put together on first use, most processes need few."""
        return layout_of(self.declared)


def element_layout(each: Field) -> Layout | None:
    """The layout of a struct or of the elements of an array; None where these are plain."""
    return (
        None if each.element is None or isinstance(each.element, str) else layout_of(each.element)
    )


def only_layout(each: Field) -> Layout:
    """The layout of the only element of a list that stands in the place of the list."""
    return layout_of(each.only_layout or each.element)


@cache
def topic_layout(each: Field) -> Layout:
    """The entry of a topic in a grouped list: its outer fields, then an array of the inner."""
    assert each.group is not None
    element = layout_of(each.element)
    inner = Field("array", version_range("0+"), name=each.group.inner, default=())
    inner.element = element.inner[0].kind if each.group.is_bare else element
    return Layout("topic", (*element.outer, inner), TOPIC)


def has_records(layout: Layout) -> bool:
    """Whether objects hold record batches, at any depth."""
    inner = (element_layout(each) for each in layout.fields)
    return any(each.kind == "records" for each in layout.fields) or any(
        has_records(each) for each in inner if each is not None
    )


def absent_fields(layout: Layout, carried: list[Place], holder: str) -> Iterator[Field]:
    """The fields of an object for which the wire has no value in a version."""
    there = {
        place.field.attribute or place.field.name for place in carried if place.holder == holder
    }
    for each in layout.own:
        if (each.attribute or each.name) not in there and not each.is_outer and not each.only:
            yield each
