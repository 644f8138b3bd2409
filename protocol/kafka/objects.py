"""How decoded values become objects: the part of a decoder that knows our classes."""

from typing import Any

from seglog.protocol.declaration.fields import Field
from seglog.protocol.declaration.layout import (
    CLASS,
    SINGLE,
    TUPLE,
    Layout,
    Place,
    absent_fields,
    only_layout,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.source import Source


class ObjectCompiler:
    """Writes the lines of a decoder that make objects and put values into them.

    In the compiled code ``o`` is the object, ``only`` the only element of a list that stands in its
    place; the values of tuples and of fields that are not stored are in variables of their own.
    """

    def __init__(self, layout: Layout, version: int, flexible: bool, names: dict[str, Any]) -> None:
        self._layout = layout
        self._version = version
        self._flexible = flexible
        self._source = Source("decode", layout, version, flexible, names)
        self._takes: dict[str, str] = {}

    def _begin(self, carried: list[Place]) -> None:
        """Make the objects, and give their fields what does not come from the body."""
        add = self._source.add
        if self._layout.form == CLASS:
            self._make("o", self._layout)
            add(1, *(f"o.{each.attribute} = v_{each.attribute}" for each in self._layout.outer))
        self._defaults("o", self._layout, carried)
        listed = self._layout.only(self._version)
        if listed is not None:
            only = only_layout(listed)
            self._make("only", only)
            self._defaults("only", only, carried)
            add(1, f"o.{listed.attribute} = [only]")

    def _make(self, holder: str, layout: Layout) -> None:
        made = layout.made
        assert made is not None
        self._source.names |= {f"CLASS_{holder}": made, f"new_{holder}": made.__new__}
        self._source.add(1, f"{holder} = new_{holder}(CLASS_{holder})")

    def _defaults(self, holder: str, layout: Layout, carried: list[Place]) -> None:
        for each in absent_fields(layout, carried, holder):
            value: object = self._version in each.since if each.since else each.default
            self._absent(1, self._target(Place(each, holder)), value)
        for place in carried:
            if place.holder == holder and place.field.is_tagged_in(self._version):
                self._absent(1, self._target(place), place.field.default)

    def _absent(self, depth: int, target: str, value: object) -> None:
        if value == () or value == {}:
            self._source.add(depth, f"{target} = {'[]' if value == () else '{}'}")
        else:
            self._source.add(depth, f"{target} = {self._source.value(value)}")

    def _target(self, place: Place) -> str:
        """The variable or attribute that takes the value of a field."""
        each, holder = place
        if not each.is_stored:
            if each.take is not None and each.is_carried_in(self._version):
                self._takes.setdefault(each.name, f"{self._source.value(each.take)}({holder}, ")
            return f"k_{each.name}"
        if holder == "o" and self._layout.form != CLASS:
            return f"v_{each.attribute}"
        return f"{holder}.{each.attribute or each.name}"

    def _end(self) -> None:
        """Hand over the fields that are not stored, and return the object."""
        self._source.add(1, *(f"{take}k_{name})" for name, take in self._takes.items()))
        self._source.add(1, f"return {self._result()}, p")

    def _result(self) -> str:
        if self._layout.form == TUPLE:
            return "(" + "".join(f"v_{each.attribute}, " for each in self._layout.own) + ")"
        return f"v_{self._layout.own[0].attribute}" if self._layout.form == SINGLE else "o"

    def _convert(self, depth: int, each: Field, target: str) -> None:
        """Make our value of the one on the wire."""
        add = self._source.add
        if each.enum is ErrorCode:
            add(depth, f"{target} = ERRORS.get({target}, UNKNOWN_ERROR)")
        elif each.enum is not None:
            members = self._source.value({int(member): member for member in each.enum})
            if not (each.is_open or each.is_withheld):
                enum = self._source.value(each.enum)
                add(depth, f"if {target} not in {members}: refuse_number({target}, {enum})")
            add(depth, f"{target} = {members}.get({target}, {target})")
        elif each.read is not None:
            null = f"if {target} is not None: " if self._version in each.nullable else ""
            add(depth, f"{null}{target} = {self._source.value(each.read)}({target})")

    def _bare_element(self, layout: Layout) -> str:
        """An expression for an element of its one inner value ``item`` and those of its topic."""
        values = {each.attribute: f"v_{each.attribute}" for each in layout.outer}
        values[layout.inner[0].attribute] = "item"
        if layout.form == TUPLE:
            return "(" + "".join(f"{values[each.attribute]}, " for each in layout.own) + ")"
        named = ", ".join(f"{name}={value}" for name, value in values.items())
        return f"{self._source.value(layout.made)}({named})"
