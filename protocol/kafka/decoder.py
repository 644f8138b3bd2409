"""Compiles declarations to decoders: one straight-line function per (layout, version).

A decoder is ``decode(buffer, position, end, budget) -> (object, position)``. ``buffer`` is a
memoryview of bytes, ``budget`` a list with the number of array elements that the message may still
hold. That of an element that is grouped by topic takes the fields of the topic as well. Nothing is
allocated for a count or a length before it is compared with the rest of the input: an element
takes at least ``minimum_size`` bytes.

It raises ``MalformedError``, ``UnicodeDecodeError`` or, where the input just ends, ``IndexError``
or ``struct.error``; ``codec`` turns all of them into a ``ProtocolError`` that names the field.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from seglog.protocol.declaration.fields import FIXED_FORMATS, Field
from seglog.protocol.declaration.layout import (
    Layout,
    Place,
    topic_layout,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.objects import ObjectCompiler
from seglog.protocol.kafka.reading import (
    check_tag_count,
    long_varint,
    minimum_element_size,
    read_tag,
    refuse_count,
    refuse_length,
    refuse_number,
    refuse_tag_size,
    skip_tagged,
    struct_of,
)
from seglog.protocol.limits import MAX_ARRAY_ELEMENTS

Decoder: TypeAlias = Callable[..., tuple[Any, int]]
_ERRORS: Final = {int(code): code for code in ErrorCode}


_HELPERS: Final = {
    "long_varint": long_varint,
    "skip_tagged": skip_tagged,
    "read_tag": read_tag,
    "check_tag_count": check_tag_count,
    "refuse_length": refuse_length,
    "refuse_count": refuse_count,
    "refuse_tag_size": refuse_tag_size,
    "refuse_number": refuse_number,
    "ERRORS": _ERRORS,
    "UNKNOWN_ERROR": ErrorCode.UNKNOWN_SERVER_ERROR,
    "unpack_from": struct.unpack_from,
    "MAX_ELEMENTS": MAX_ARRAY_ELEMENTS,
}


@cache
def compile_decoder(layout: Layout, version: int, flexible: bool) -> Decoder:
    """The decoder of one struct in one version; compiled once."""
    return _DecoderCompiler(layout, version, flexible, dict(_HELPERS)).compile()


class _DecoderCompiler(ObjectCompiler):
    """Writes the source of one decoder: how the bytes are taken apart."""

    def compile(self) -> Callable[..., Any]:
        layout, add = self._layout, self._source.add
        outer = "".join(f", v_{each.attribute}" for each in layout.outer)
        add(0, f"def decode(b, p, end, budget{outer}):")
        carried = layout.carried(self._version)
        self._begin(carried)
        plain = [place for place in carried if place.field.is_plain_in(self._version)]
        while plain:
            run = self._fixed_run(plain)
            if run:
                self._unpack(run)
                del plain[: len(run)]
            else:
                self._source.field = plain[0].field.name
                self._value(1, plain[0].field, self._target(plain.pop(0)))
        self._source.field = ""
        if self._flexible:
            self._tagged_block([p for p in carried if p.field.is_tagged_in(self._version)])
        self._end()
        return self._source.compile("decode")

    @staticmethod
    def _fixed_run(plain: list[Place]) -> list[Place]:
        """The fields at the front that one call can unpack together."""
        run = []
        for place in plain:
            if place.field.kind not in FIXED_FORMATS:
                break
            run.append(place)
        return run

    def _unpack(self, run: list[Place]) -> None:
        letters = "".join(FIXED_FORMATS[place.field.kind] for place in run)
        first, last = run[0].field.name, run[-1].field.name
        self._source.field = first if len(run) == 1 else f"{first}..{last}"
        targets = [self._target(place) for place in run]
        self._source.add(
            1,
            f"{', '.join(targets)}, = {self._source.unpacker(letters)}(b, p)",
            f"p += {struct.calcsize('>' + letters)}",
        )
        for place, target in zip(run, targets, strict=True):
            self._convert(1, place.field, target)

    def _value(self, depth: int, each: Field, target: str) -> None:
        """Read one field of a kind that is not fixed, or any kind within the tagged block."""
        nullable = self._version in each.nullable
        if each.kind in FIXED_FORMATS:
            letter = FIXED_FORMATS[each.kind]
            self._source.add(depth, f"{target}, = {self._source.unpacker(letter)}(b, p)")
            self._source.add(depth, f"p += {struct.calcsize('>' + letter)}")
        elif each.kind == "uuid":
            self._uuid(depth, target)
        elif each.kind == "struct":
            self._struct(depth, each, target, nullable)
        elif each.kind == "array":
            self._array(depth, each, target, nullable)
        else:
            self._sized(depth, each.kind, target, nullable)
        self._convert(depth, each, target)

    def _uuid(self, depth: int, target: str) -> None:
        self._source.add(
            depth,
            "q = p + 16",
            "if q > end: refuse_length(16, end - p)",
            f"{target} = bytes(b[p:q])",
            "p = q",
        )

    def _length(self, depth: int, short: bool) -> None:
        """Read a length or count into ``n``; -1 is null in both encodings."""
        add = self._source.add
        if self._flexible:
            add(depth, "n = b[p] - 1", "p += 1")
            add(depth, "if n > 126:", "    n, p = long_varint(b, p, n + 1)", "    n -= 1")
        else:
            letter, size = ("h", 2) if short else ("i", 4)
            add(depth, f"n, = {self._source.unpacker(letter)}(b, p)", f"p += {size}")

    def _null_branch(self, depth: int, target: str, nullable: bool) -> int:
        """Handle null where it is allowed; returns the depth for the other case."""
        if not nullable:
            return depth
        self._source.add(depth, "if n == -1:", f"    {target} = None", "else:")
        return depth + 1

    def _sized(self, depth: int, kind: str, target: str, nullable: bool) -> None:
        """Read a string, bytes or records."""
        self._length(depth, short=kind == "string")
        depth = self._null_branch(depth, target, nullable)
        value = {
            "string": 'str(b[p:q], "utf-8")',
            "binary": "bytes(b[p:q])",
            "records": "b[p:q]",
        }[kind]
        self._source.add(
            depth,
            "q = p + n",
            "if n < 0 or q > end: refuse_length(n, end - p)",
            f"{target} = {value}",
            "p = q",
        )

    def _decoder(self, layout: Layout) -> str:
        return self._source.value(compile_decoder(layout, self._version, self._flexible))

    def _struct(self, depth: int, each: Field, target: str, nullable: bool) -> None:
        decode = self._decoder(struct_of(each))
        if nullable:
            self._source.add(
                depth, "n = b[p]", "p += 1", "if n == 255:", f"    {target} = None", "else:"
            )
            depth += 1
        self._source.add(depth, f"{target}, p = {decode}(b, p, end, budget)")

    def _count(self, depth: int, element_size: int) -> None:
        """Check the count ``n`` of elements that are about to be read."""
        self._source.add(
            depth,
            f"if n < 0 or n > MAX_ELEMENTS or n * {element_size} > end - p:",
            "    refuse_count(n, end - p)",
            "budget[0] -= n",
            "if budget[0] < 0: refuse_count(MAX_ELEMENTS - budget[0], end - p)",
        )

    def _array(self, depth: int, each: Field, target: str, nullable: bool) -> None:
        self._length(depth, short=False)
        depth = self._null_branch(depth, target, nullable)
        size = minimum_element_size(each, self._version, self._flexible)
        self._count(depth, size)
        add = self._source.add
        if isinstance(each.element, str) and each.element in FIXED_FORMATS:
            letter = FIXED_FORMATS[each.element]
            add(depth, f'{target} = list(unpack_from(f">{{n}}{letter}", b, p))', f"p += {size} * n")
            return
        add(depth, f"{target} = items = []", "for _ in range(n):")
        if each.group is not None:
            self._topic(depth + 1, each)
            return
        if not isinstance(each.element, str):
            add(depth + 1, f"item, p = {self._decoder(struct_of(each))}(b, p, end, budget)")
        elif each.element == "uuid":
            self._uuid(depth + 1, "item")
        else:
            self._sized(depth + 1, each.element, "item", nullable=False)
        add(depth + 1, "items.append(item)")

    def _topic(self, depth: int, each: Field) -> None:
        """Read the entry of one topic of a grouped list, with its elements."""
        add, name = self._source.add, self._source.field
        *outer, inner = topic_layout(each).fields
        for field in outer:
            self._source.field = f"{name}.{field.name}"
            if field.is_plain_in(self._version):
                self._value(depth, field, f"v_{field.attribute}")
            else:
                self._absent(depth, f"v_{field.attribute}", field.default)
        self._source.field = f"{name}.{inner.name}"
        self._length(depth, short=False)
        size = minimum_element_size(inner, self._version, self._flexible)
        self._count(depth, size)
        element = struct_of(each)
        topic = "".join(f", v_{field.attribute}" for field in outer)
        if isinstance(inner.element, str):
            letter = FIXED_FORMATS[inner.element]
            add(depth, f'for item in unpack_from(f">{{n}}{letter}", b, p):')
            add(depth + 1, f"items.append({self._bare_element(element)})")
            add(depth, f"p += {size} * n")
        else:
            add(depth, "for _ in range(n):")
            add(depth + 1, f"item, p = {self._decoder(element)}(b, p, end, budget{topic})")
            add(depth + 1, "items.append(item)")
        self._source.field = name
        if self._flexible:
            add(depth, "if b[p] == 0:", "    p += 1", "else:", "    p = skip_tagged(b, p, end)")

    def _tagged_block(self, tagged: list[Place]) -> None:
        add = self._source.add
        add(1, "if b[p] == 0:", "    p += 1", "else:")
        if not tagged:
            add(2, "p = skip_tagged(b, p, end)")
            return
        self._length(2, short=False)
        add(2, "check_tag_count(n + 1)", "for _ in range(n + 1):")
        add(3, "tag, size, p = read_tag(b, p, end)", "after = p + size")
        for place in tagged:
            self._source.field = place.field.name
            add(3, f"if tag == {place.field.tag}:")
            self._value(4, place.field, self._target(place))
            add(4, "if p != after: refuse_tag_size(size, size + p - after)")
        self._source.field = ""
        add(3, "p = after")
