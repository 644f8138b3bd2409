"""Compiles declarations to decoders: one straight-line function per (struct, version).

A decoder is ``decode(buffer, position, end, budget) -> (object, position)``. ``buffer`` is a
memoryview of bytes, ``budget`` a list with the number of array elements that the message may still
hold. Nothing is allocated for a count or a length before it is compared with what is left of the
input: an element takes at least ``minimum_size`` bytes.

It raises ``MalformedError``, ``UnicodeDecodeError`` or, where the input just ends, ``IndexError``
or ``struct.error``; ``codec`` turns all of them into a ``ProtocolError`` that names the field.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from seglog.protocol.kafka.schema import FIXED_FORMATS, Field, Struct
from seglog.protocol.kafka.source import MalformedError, Source
from seglog.protocol.limits import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS

StructT = TypeVar("StructT", bound=Struct)
Decoder: TypeAlias = Callable[[memoryview, int, int, list[int]], tuple[StructT, int]]


def long_varint(buffer: memoryview, position: int, low: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte ``low``, just before ``position``, was over 127.

    Raises:
        MalformedError: it takes more than five bytes or exceeds 32 bits.
    """
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedError("a varint is longer than 32 bits")


def skip_tagged(buffer: memoryview, position: int, end: int) -> int:
    """Step over a tagged block in which no tag is known."""
    count = buffer[position]
    position += 1
    if count > 0x7F:
        count, position = long_varint(buffer, position, count)
    check_tag_count(count)
    for _ in range(count):
        _tag, size, position = read_tag(buffer, position, end)
        position += size
    return position


def read_tag(buffer: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """Read the tag and the size of a tagged field; returns them and where its data starts."""
    tag = buffer[position]
    position += 1
    if tag > 0x7F:
        tag, position = long_varint(buffer, position, tag)
    size = buffer[position]
    position += 1
    if size > 0x7F:
        size, position = long_varint(buffer, position, size)
    if size > end - position:
        raise MalformedError(f"tagged field {tag} of {size} bytes, {end - position} are left")
    return tag, size, position


def check_tag_count(count: int) -> None:
    """Refuse a tagged block with an absurd number of fields."""
    if count > MAX_TAGGED_FIELDS:
        raise MalformedError(f"{count} tagged fields, at most {MAX_TAGGED_FIELDS} are allowed")


def refuse_length(length: int, left: int) -> NoReturn:
    """Refuse a negative length (null where null is not allowed, or nonsense) or one too large."""
    if length == -1:
        raise MalformedError("null is not allowed")
    raise MalformedError(f"length {length}, {left} bytes are left")


def refuse_count(count: int, left: int) -> NoReturn:
    """Refuse a number of array elements that is negative, over the limit, or cannot fit."""
    if count == -1:
        raise MalformedError("null is not allowed")
    raise MalformedError(
        f"{count} array elements in {left} bytes; at most {MAX_ARRAY_ELEMENTS} are allowed"
    )


def refuse_tag_size(announced: int, actual: int) -> NoReturn:
    """Refuse a tagged field whose data is not as long as it was announced."""
    raise MalformedError(f"tagged field of {actual} bytes was announced with {announced}")


_HELPERS: Final = {
    "long_varint": long_varint,
    "skip_tagged": skip_tagged,
    "read_tag": read_tag,
    "check_tag_count": check_tag_count,
    "refuse_length": refuse_length,
    "refuse_count": refuse_count,
    "refuse_tag_size": refuse_tag_size,
    "unpack_from": struct.unpack_from,
    "MAX_ELEMENTS": MAX_ARRAY_ELEMENTS,
}


@cache
def minimum_size(struct_class: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes that one struct takes on the wire."""
    size = sum(
        _minimum_field_size(each, version, flexible)
        for each in struct_class.__fields__
        if each.is_plain_in(version)
    )
    return max(1, size + flexible)


def _minimum_field_size(each: Field, version: int, flexible: bool) -> int:
    if each.kind in FIXED_FORMATS:
        return struct.calcsize(">" + FIXED_FORMATS[each.kind])
    if each.kind == "uuid":
        return 16
    if each.kind == "struct":
        if version in each.nullable:
            return 1
        assert isinstance(each.element, type)
        return minimum_size(each.element, version, flexible)
    if flexible:
        return 1
    return 2 if each.kind == "string" else 4


def _minimum_element_size(each: Field, version: int, flexible: bool) -> int:
    if isinstance(each.element, type):
        return minimum_size(each.element, version, flexible)
    assert each.element is not None
    if each.element == "string":
        return 1 if flexible else 2
    return 16 if each.element == "uuid" else struct.calcsize(">" + FIXED_FORMATS[each.element])


@cache
def compile_decoder(struct_class: type[StructT], version: int, flexible: bool) -> Decoder[StructT]:
    """The decoder of one struct in one version; compiled once."""
    compiler = _DecoderCompiler(struct_class, version, flexible)
    return compiler.compile()


class _DecoderCompiler:
    """Writes the source of one decoder."""

    def __init__(self, struct_class: type[Struct], version: int, flexible: bool) -> None:
        self._struct_class = struct_class
        self._version = version
        self._flexible = flexible
        names: dict[str, Any] = {**_HELPERS, "CLASS": struct_class, "new": struct_class.__new__}
        self._source = Source("decode", struct_class, version, flexible, names)

    def compile(self) -> Callable[..., Any]:
        add = self._source.add
        add(0, "def decode(b, p, end, budget):")
        add(1, "o = new(CLASS)")
        fields = self._struct_class.__fields__
        for index, each in enumerate(fields):
            if not each.is_plain_in(self._version):
                self._default(each, index)
        plain = [each for each in fields if each.is_plain_in(self._version)]
        while plain:
            run = self._fixed_run(plain)
            if run:
                self._unpack(run)
                del plain[: len(run)]
            else:
                self._source.field = plain[0].name
                self._value(1, plain.pop(0))
        self._source.field = ""
        if self._flexible:
            self._tagged_block([each for each in fields if each.is_tagged_in(self._version)])
        add(1, "return o, p")
        return self._source.compile("decode")

    def _default(self, each: Field, index: int) -> None:
        if each.default == ():
            self._source.add(1, f"o.{each.name} = []")
        else:
            self._source.names[f"default_{index}"] = each.default
            self._source.add(1, f"o.{each.name} = default_{index}")

    @staticmethod
    def _fixed_run(plain: list[Field]) -> list[Field]:
        """The fields at the front that one call can unpack together."""
        run = []
        for each in plain:
            if each.kind not in FIXED_FORMATS:
                break
            run.append(each)
        return run

    def _unpack(self, run: list[Field]) -> None:
        letters = "".join(FIXED_FORMATS[each.kind] for each in run)
        self._source.field = run[0].name if len(run) == 1 else f"{run[0].name}..{run[-1].name}"
        targets = ", ".join(f"o.{each.name}" for each in run)
        self._source.add(
            1,
            f"{targets}, = {self._source.unpacker(letters)}(b, p)",
            f"p += {struct.calcsize('>' + letters)}",
        )

    def _value(self, depth: int, each: Field) -> None:
        """Read one field of a kind that is not fixed, or any kind within the tagged block."""
        target = f"o.{each.name}"
        add = self._source.add
        nullable = self._version in each.nullable
        if each.kind in FIXED_FORMATS:
            letter = FIXED_FORMATS[each.kind]
            add(depth, f"{target}, = {self._source.unpacker(letter)}(b, p)")
            add(depth, f"p += {struct.calcsize('>' + letter)}")
        elif each.kind == "uuid":
            self._uuid(depth, target)
        elif each.kind == "struct":
            self._struct(depth, each, target, nullable)
        elif each.kind == "array":
            self._array(depth, each, target, nullable)
        else:
            self._sized(depth, each.kind, target, nullable)

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

    def _struct(self, depth: int, each: Field, target: str, nullable: bool) -> None:
        assert isinstance(each.element, type)
        decode = f"decode_{each.element.__name__}"
        self._source.names[decode] = compile_decoder(each.element, self._version, self._flexible)
        if nullable:
            self._source.add(
                depth, "n = b[p]", "p += 1", "if n == 255:", f"    {target} = None", "else:"
            )
            depth += 1
        self._source.add(depth, f"{target}, p = {decode}(b, p, end, budget)")

    def _array(self, depth: int, each: Field, target: str, nullable: bool) -> None:
        self._length(depth, short=False)
        depth = self._null_branch(depth, target, nullable)
        element_size = _minimum_element_size(each, self._version, self._flexible)
        add = self._source.add
        add(
            depth,
            f"if n < 0 or n > MAX_ELEMENTS or n * {element_size} > end - p:",
            "    refuse_count(n, end - p)",
            "budget[0] -= n",
            "if budget[0] < 0: refuse_count(MAX_ELEMENTS - budget[0], end - p)",
        )
        if isinstance(each.element, str) and each.element in FIXED_FORMATS:
            letter = FIXED_FORMATS[each.element]
            add(depth, f'{target} = list(unpack_from(f">{{n}}{letter}", b, p))')
            add(depth, f"p += {element_size} * n")
            return
        add(depth, f"{target} = items = []", "for _ in range(n):")
        if isinstance(each.element, type):
            decode = f"decode_{each.element.__name__}"
            self._source.names[decode] = compile_decoder(
                each.element, self._version, self._flexible
            )
            add(depth + 1, f"item, p = {decode}(b, p, end, budget)")
        elif each.element == "uuid":
            self._uuid(depth + 1, "item")
        else:
            assert each.element is not None
            self._sized(depth + 1, each.element, "item", nullable=False)
        add(depth + 1, "items.append(item)")

    def _tagged_block(self, tagged: list[Field]) -> None:
        add = self._source.add
        add(1, "if b[p] == 0:", "    p += 1", "else:")
        if not tagged:
            add(2, "p = skip_tagged(b, p, end)")
            return
        self._length(2, short=False)
        add(2, "check_tag_count(n + 1)", "for _ in range(n + 1):")
        add(3, "tag, size, p = read_tag(b, p, end)", "after = p + size")
        for each in tagged:
            self._source.field = each.name
            add(3, f"if tag == {each.tag}:")
            self._value(4, each)
            add(4, "if p != after: refuse_tag_size(size, size + p - after)")
        self._source.field = ""
        add(3, "p = after")
