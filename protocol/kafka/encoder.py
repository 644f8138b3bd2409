"""Compiles declarations to encoders: one straight-line function per (layout, version).

An encoder is ``encode(object, write)``; ``write`` takes one chunk after another: bytes, or what a
records field holds, which is passed on as it is.

A field that the version cannot carry must have its default, unless it is ignorable; else the
receiver would act on something the sender did not say.
"""

import struct
from collections.abc import Callable
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from seglog.protocol.declaration.fields import FIXED_FORMATS, Field
from seglog.protocol.declaration.layout import (
    CLASS,
    TUPLE,
    Layout,
    Place,
    absent_fields,
    only_layout,
    topic_layout,
)
from seglog.protocol.kafka.reading import struct_of
from seglog.protocol.kafka.source import Source
from seglog.protocol.kafka.writing import (
    SMALL_VARINTS,
    merged,
    records_length,
    refuse_uuid,
    refuse_value,
    runs,
    unsigned_varint,
    write_tagged,
)

Encoder: TypeAlias = Callable[[Any, Callable[[Any], None]], None]

_HELPERS: Final = {
    "VARINTS": SMALL_VARINTS,
    "unsigned_varint": unsigned_varint,
    "records_length": records_length,
    "refuse_value": refuse_value,
    "refuse_uuid": refuse_uuid,
    "pack": struct.pack,
    "write_tagged": write_tagged,
    "merged": merged,
    "runs": runs,
}


@cache
def compile_encoder(layout: Layout, version: int, flexible: bool) -> Encoder:
    """The encoder of one struct in one version; compiled once."""
    return _EncoderCompiler(layout, version, flexible).compile()


class _EncoderCompiler:
    """Writes the source of one encoder.

    Within it, ``o`` is the object, ``only`` the only element of a list that stands in its place.
    """

    def __init__(self, layout: Layout, version: int, flexible: bool) -> None:
        self._layout = layout
        self._version = version
        self._flexible = flexible
        self._source = Source("encode", layout, version, flexible, dict(_HELPERS))
        self._only = layout

    def compile(self) -> Callable[..., Any]:
        add = self._source.add
        add(0, "def encode(o, w):")
        carried = self._layout.carried(self._version)
        self._refuse_absent("o", self._layout, carried)
        listed = self._layout.only(self._version)
        if listed is not None:
            self._only = only_layout(listed)
            add(1, f"only = o.{listed.attribute}[0]")
            self._refuse_absent("only", self._only, carried)
        plain = [place for place in carried if place.field.is_plain_in(self._version)]
        while plain:
            run = []
            while plain and plain[0].field.kind in FIXED_FORMATS:
                run.append(plain.pop(0))
            if run:
                self._pack(run)
            if plain:
                place = plain.pop(0)
                self._source.field = place.field.name
                add(1, f"x = {self._expression(place)}")
                self._value(1, place.field, "w")
        self._source.field = ""
        if self._flexible:
            self._tagged_block([p for p in carried if p.field.is_tagged_in(self._version)])
        add(1, "return")
        return self._source.compile("encode")

    def _refuse_absent(self, holder: str, layout: Layout, carried: list[Place]) -> None:
        for each in absent_fields(layout, carried, holder):
            if each.ignorable or not each.versions:
                continue
            self._source.field = each.name
            self._source.add(
                1,
                f"x = {self._expression(Place(each, holder))}",
                f"if {self._differs(each)}: refuse_value(x, {self._version})",
            )

    def _expression(self, place: Place) -> str:
        """The value of a field as it is written."""
        each, holder = place
        if not each.is_stored:
            if each.give is None:
                return "[]" if each.default == () else self._source.value(each.default)
            return f"{self._source.value(each.give)}({holder})"
        layout = self._only if holder == "only" else self._layout
        return self._converted(each, layout.access(holder, each))

    def _converted(self, each: Field, value: str) -> str:
        older = {
            error: before
            for error, (since, before) in (each.older or {}).items()
            if self._version < since
        }
        if older:
            ladder = self._source.value(older)
            return f"{ladder}.get(({value}), {value})"
        nullable = self._version in each.nullable
        if each.write is not None:
            written = f"{self._source.value(each.write)}({value})"
            return f"None if {value} is None else {written}" if nullable else written
        if each.null is not None and (each.never_null or not nullable):
            return f"{self._source.value(each.null)} if {value} is None else {value}"
        return value

    def _differs(self, each: Field) -> str:
        """An expression that is true where ``x`` is not the default of the field."""
        if each.kind == "struct":
            return f"x is not None and x != {self._source.value(_default_of(each))}"
        if each.default is None:
            return "x is not None"
        if each.default == () or each.default == {}:
            return "x is None or len(x)" if each.nullable else "x"
        return f"x != {self._source.value(each.default)}"

    def _pack(self, run: list[Place]) -> None:
        letters = "".join(FIXED_FORMATS[place.field.kind] for place in run)
        values = ", ".join(self._expression(place) for place in run)
        first, last = run[0].field.name, run[-1].field.name
        self._source.field = first if len(run) == 1 else f"{first}..{last}"
        self._source.add(1, f"w({self._source.packer(letters)}({values}))")

    def _length(self, depth: int, write: str, short: bool) -> None:
        """Write the length or count ``n``."""
        if self._flexible:
            self._source.add(
                depth, f"{write}(VARINTS[n + 1] if n < 127 else unsigned_varint(n + 1))"
            )
        else:
            self._source.add(depth, f"{write}({self._source.packer('h' if short else 'i')}(n))")

    def _null_branch(self, depth: int, each: Field, write: str, short: bool) -> int:
        if self._version not in each.nullable:
            return depth
        null = b"\0" if self._flexible else b"\xff\xff" if short else b"\xff\xff\xff\xff"
        self._source.add(depth, "if x is None:", f"    {write}({null!r})", "else:")
        return depth + 1

    def _value(self, depth: int, each: Field, write: str) -> None:
        """Write ``x``, the value of one field."""
        add = self._source.add
        if each.kind in FIXED_FORMATS:
            add(depth, f"{write}({self._source.packer(FIXED_FORMATS[each.kind])}(x))")
        elif each.kind == "uuid":
            add(depth, "if len(x) != 16: refuse_uuid(x)", f"{write}(x)")
        elif each.kind == "struct":
            self._struct(depth, each, write)
        elif each.kind == "array":
            depth = self._null_branch(depth, each, write, short=False)
            if each.group is None:
                self._array(depth, each, write)
            else:
                self._topics(depth, each, write)
        else:
            depth = self._null_branch(depth, each, write, short=each.kind == "string")
            self._sized(depth, each.kind, write)

    def _sized(self, depth: int, kind: str, write: str) -> None:
        add = self._source.add
        if kind == "string":
            add(depth, "x = x.encode()")
        add(depth, "n = records_length(x)" if kind == "records" else "n = len(x)")
        self._length(depth, write, short=kind == "string")
        # An empty source is no part: the connection would ask its file for no bytes.
        add(depth, f"if n: {write}(x)" if kind == "records" else f"{write}(x)")

    def _encoder(self, layout: Layout) -> str:
        return self._source.value(compile_encoder(layout, self._version, self._flexible))

    def _struct(self, depth: int, each: Field, write: str) -> None:
        if self._version in each.nullable:
            self._source.add(depth, "if x is None:", f"    {write}(b'\\xff')", "else:")
            depth += 1
            self._source.add(depth, f"{write}(b'\\x01')")
        self._source.add(depth, f"{self._encoder(struct_of(each))}(x, {write})")

    def _array(self, depth: int, each: Field, write: str) -> None:
        add = self._source.add
        add(depth, "n = len(x)")
        self._length(depth, write, short=False)
        if not isinstance(each.element, str):
            add(depth, "for item in x:", f"    {self._encoder(struct_of(each))}(item, {write})")
        elif each.element in FIXED_FORMATS:
            add(depth, f'if n: {write}(pack(f">{{n}}{FIXED_FORMATS[each.element]}", *x))')
        else:
            add(depth, "for x in x:")
            if each.element == "uuid":
                add(depth + 1, "if len(x) != 16: refuse_uuid(x)", f"{write}(x)")
            else:
                self._sized(depth + 1, each.element, write)

    def _topics(self, depth: int, each: Field, write: str) -> None:
        """Write a flat list grouped by topic."""
        assert each.group is not None
        add, name, element = self._source.add, self._source.field, struct_of(each)
        *outer, inner = topic_layout(each).fields
        if self._version in each.group.runs:
            group, named = "runs", outer
        else:
            # What the version does not say cannot tell two entries apart.
            group, named = "merged", [e for e in outer if e.is_carried_in(self._version)]
        key = self._source.value(_key_of(element, named))
        add(depth, f"x = {group}(x, {key})", "n = len(x)")
        self._length(depth, write, short=False)
        add(depth, "for group in x:", "    item = group[0]")
        depth += 1
        for field in outer:
            if field.is_plain_in(self._version):
                self._source.field = f"{name}.{field.name}"
                add(depth, f"x = {element.access('item', field)}")
                self._value(depth, field, write)
        self._source.field = f"{name}.{inner.name}"
        add(depth, "n = len(group)")
        self._length(depth, write, short=False)
        if isinstance(inner.element, str):
            value = element.access("item", element.inner[0])
            letter = FIXED_FORMATS[inner.element]
            add(depth, f'{write}(pack(f">{{n}}{letter}", *[{value} for item in group]))')
        else:
            add(depth, "for item in group:", f"    {self._encoder(element)}(item, {write})")
        self._source.field = name
        if self._flexible:
            add(depth, f"{write}(b'\\0')")

    def _tagged_block(self, tagged: list[Place]) -> None:
        add = self._source.add
        if not tagged:
            add(1, "w(b'\\0')")
            return
        add(1, "fields = []")
        for place in sorted(tagged, key=lambda place: place.field.tag or 0):
            each = place.field
            self._source.field = each.name
            add(1, f"x = {self._expression(place)}", f"if {self._differs(each)}:")
            add(2, "chunks = []", "wt = chunks.append", f"fields.append(({each.tag}, chunks))")
            self._value(2, each, "wt")
        self._source.field = ""
        add(1, "if fields:", "    write_tagged(w, fields)", "else:", "    w(b'\\0')")


def _key_of(element: Layout, named: list[Field]) -> Callable[[Any], Any]:
    """What tells the topics of elements apart: these of their fields."""
    if element.form == TUPLE:
        return itemgetter(*(element.own.index(each) for each in named))
    return attrgetter(*(each.attribute for each in named))


def _default_of(each: Field) -> object:
    """A struct whose fields all have their defaults."""
    layout = struct_of(each)
    if layout.form == CLASS:
        assert layout.made is not None
        return layout.made()
    values = tuple(inner.default for inner in layout.own)
    return values if layout.form == TUPLE else values[0]
