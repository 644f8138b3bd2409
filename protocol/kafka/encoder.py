"""Compiles declarations to encoders: one straight-line function per (struct, version).

An encoder is ``encode(object, write)``; ``write`` takes one chunk after another: bytes, or what a
records field holds, which is passed on as it is.

A field that the version cannot carry must have its default, unless it is ignorable; else the
receiver would act on something the sender did not say.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from seglog.protocol.kafka.schema import FIXED_FORMATS, Field, Struct
from seglog.protocol.kafka.source import MalformedError, Source

StructT = TypeVar("StructT", bound=Struct)
Encoder: TypeAlias = Callable[[StructT, Callable[[Any], None]], None]


def unsigned_varint(value: int) -> bytes:
    """Encode ``value`` seven bits a byte, low bits first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


SMALL_VARINTS: Final = tuple(unsigned_varint(value) for value in range(128))
"""The varints of one byte, by value."""


def records_length(records: Any) -> int:
    """How many bytes a records field holds, wherever they are."""
    if isinstance(records, (bytes, bytearray, memoryview)):
        return len(records)
    length: int = records.length
    return length


def refuse_value(value: object, version: int) -> NoReturn:
    """Refuse to drop a value that the version cannot carry."""
    raise MalformedError(f"version {version} cannot carry {value!r}")


def refuse_uuid(value: bytes) -> NoReturn:
    """Refuse an id of the wrong size, which would shift everything behind it."""
    raise MalformedError(f"a UUID has 16 bytes, not {len(value)}")


def write_tagged(write: Callable[[Any], None], fields: list[tuple[int, list[bytes]]]) -> None:
    """Write a tagged block; each field is its tag and the chunks of its data."""
    write(unsigned_varint(len(fields)))
    for tag, chunks in fields:
        data = b"".join(chunks)
        write(unsigned_varint(tag) + unsigned_varint(len(data)) + data)


_HELPERS: Final = {
    "VARINTS": SMALL_VARINTS,
    "unsigned_varint": unsigned_varint,
    "records_length": records_length,
    "refuse_value": refuse_value,
    "refuse_uuid": refuse_uuid,
    "pack": struct.pack,
    "write_tagged": write_tagged,
}


@cache
def compile_encoder(struct_class: type[StructT], version: int, flexible: bool) -> Encoder[StructT]:
    """The encoder of one struct in one version; compiled once."""
    return _EncoderCompiler(struct_class, version, flexible).compile()


class _EncoderCompiler:
    """Writes the source of one encoder."""

    def __init__(self, struct_class: type[Struct], version: int, flexible: bool) -> None:
        self._struct_class = struct_class
        self._version = version
        self._flexible = flexible
        names: dict[str, Any] = dict(_HELPERS)
        self._source = Source("encode", struct_class, version, flexible, names)

    def compile(self) -> Callable[..., Any]:
        fields = self._struct_class.__fields__
        self._source.add(0, "def encode(o, w):")
        for index, each in enumerate(fields):
            carried = each.is_plain_in(self._version) or each.is_tagged_in(self._version)
            if not carried and not each.ignorable:
                self._source.field = each.name
                self._source.add(
                    1,
                    f"x = o.{each.name}",
                    f"if {self._differs(each, index)}: refuse_value(x, {self._version})",
                )
        plain = [each for each in fields if each.is_plain_in(self._version)]
        while plain:
            run = []
            while plain and plain[0].kind in FIXED_FORMATS:
                run.append(plain.pop(0))
            if run:
                self._pack(run)
            if plain:
                each = plain.pop(0)
                self._source.field = each.name
                self._source.add(1, f"x = o.{each.name}")
                self._value(1, each, "w")
        self._source.field = ""
        if self._flexible:
            self._tagged_block(
                [
                    (index, each)
                    for index, each in enumerate(fields)
                    if each.is_tagged_in(self._version)
                ]
            )
        self._source.add(1, "return")
        return self._source.compile("encode")

    def _differs(self, each: Field, index: int) -> str:
        """An expression that is true where ``x`` is not the default of the field."""
        if each.kind == "struct":
            self._source.names[f"default_{index}"] = each.element() if each.element else None  # type: ignore[operator]  # a struct's element is its class
            return f"x is not None and x != default_{index}"
        if each.default is None:
            return "x is not None"
        if each.default == ():
            return "x is None or len(x)" if each.nullable else "x"
        self._source.names[f"default_{index}"] = each.default
        return f"x != default_{index}"

    def _pack(self, run: list[Field]) -> None:
        letters = "".join(FIXED_FORMATS[each.kind] for each in run)
        values = ", ".join(f"o.{each.name}" for each in run)
        self._source.field = run[0].name if len(run) == 1 else f"{run[0].name}..{run[-1].name}"
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
            self._array(depth, each, write)
        else:
            depth = self._null_branch(depth, each, write, short=each.kind == "string")
            self._sized(depth, each.kind, write)

    def _sized(self, depth: int, kind: str, write: str) -> None:
        add = self._source.add
        if kind == "string":
            add(depth, "x = x.encode()")
        add(depth, "n = records_length(x)" if kind == "records" else "n = len(x)")
        self._length(depth, write, short=kind == "string")
        add(depth, f"{write}(x)")

    def _struct(self, depth: int, each: Field, write: str) -> None:
        assert isinstance(each.element, type)
        encode = f"encode_{each.element.__name__}"
        self._source.names[encode] = compile_encoder(each.element, self._version, self._flexible)
        if self._version in each.nullable:
            self._source.add(depth, "if x is None:", f"    {write}(b'\\xff')", "else:")
            depth += 1
            self._source.add(depth, f"{write}(b'\\x01')")
        self._source.add(depth, f"{encode}(x, {write})")

    def _array(self, depth: int, each: Field, write: str) -> None:
        add = self._source.add
        add(depth, "n = len(x)")
        self._length(depth, write, short=False)
        if isinstance(each.element, type):
            encode = f"encode_{each.element.__name__}"
            self._source.names[encode] = compile_encoder(
                each.element, self._version, self._flexible
            )
            add(depth, "for item in x:", f"    {encode}(item, {write})")
        elif each.element in FIXED_FORMATS:
            assert each.element is not None
            add(depth, f'if n: {write}(pack(f">{{n}}{FIXED_FORMATS[each.element]}", *x))')
        else:
            assert each.element is not None
            add(depth, "for x in x:")
            if each.element == "uuid":
                add(depth + 1, "if len(x) != 16: refuse_uuid(x)", f"{write}(x)")
            else:
                self._sized(depth + 1, each.element, write)

    def _tagged_block(self, tagged: list[tuple[int, Field]]) -> None:
        add = self._source.add
        if not tagged:
            add(1, "w(b'\\0')")
            return
        add(1, "fields = []")
        for index, each in sorted(tagged, key=lambda pair: pair[1].tag or 0):
            self._source.field = each.name
            add(1, f"x = o.{each.name}", f"if {self._differs(each, index)}:")
            add(2, "chunks = []", "wt = chunks.append", f"fields.append(({each.tag}, chunks))")
            self._value(2, each, "wt")
        self._source.field = ""
        add(1, "if fields:", "    write_tagged(w, fields)", "else:", "    w(b'\\0')")
