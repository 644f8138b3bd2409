"""Every declared Kafka message with Kafka's own names and nesting, and random values for them.

Operations are declared as classes with our names and flat lists. ``generic_of`` makes of such a
declaration the classes that Kafka's schemas describe, whose codecs are told nothing of ours: tests
encode and decode with them what the other side of a connection does.
"""

import importlib
import pkgutil
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from seglog.protocol import api
from seglog.protocol.declaration.layout import (
    TOPIC,
    Layout,
    WireMessage,
    element_layout,
    only_layout,
    topic_layout,
)
from seglog.protocol.declaration.versions import VersionRange
from seglog.protocol.kafka import codec, messages
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from seglog.protocol.kafka.schema import FIXED_FORMATS, Field, Message, Struct, Undeclared

INTEGER_BOUNDS = {
    "int8": (-128, 127),
    "int16": (-1, 130),  # int16 fields are error codes, epochs and counts; 130 is a known code
    "int32": (-1, 2**31 - 1),
    "int64": (-1, 2**42),  # small enough to be a date, for readers that make one of timestamps
}
TEXTS = ("", "a", "topic-1", "größer", "日本", "x" * 126, "y" * 127, "z" * 300)

_MADE: set[type[Struct]] = set()


def all_messages() -> list[type[Message]]:
    """The message classes of all modules, in the order of their names."""
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        namespace = vars(importlib.import_module(f"{messages.__name__}.{module.name}"))
        for value in namespace.values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[value.__name__] = value
    for operation in api.OPERATIONS:
        if operation.versions:
            for wire in (operation.request, operation.response):
                found[wire.name] = generic_of(wire)
    return [found[name] for name in sorted(found)]


@cache
def generic_of(wire: WireMessage) -> type[Message]:
    """The class of a message with Kafka's names and nesting."""
    if isinstance(wire.declared, type) and issubclass(wire.declared, Message):
        return wire.declared
    made: type[Message] = type(Message)(
        wire.name,
        (Message,),
        {each.name: each for each in _generic_fields(wire.layout)}
        | {"__doc__": "As Kafka has it."},
        versions=str(wire.versions),
        flexible=str(wire.flexible) if wire.flexible else "",
        api_key=int(wire.api_key),
    )
    _MADE.add(made)
    return made


@cache
def _generic_struct(layout: Layout) -> type[Struct]:
    inner = {each.name: each for each in _generic_fields(layout)}
    made: type[Struct] = type(Struct)(f"Generic{layout.name}", (Struct,), inner)
    _MADE.add(made)
    return made


def filled(kind: type[Struct], /, **values: Any) -> Any:
    """An instance of a generic class; structs within it are given as dicts."""
    fields = {each.name: each for each in kind.__fields__}
    return kind(**{name: _filled_value(fields[name], value) for name, value in values.items()})


def _filled_value(each: Field, value: Any) -> Any:
    if isinstance(value, list):
        return [_filled_value(each, item) for item in value]
    if isinstance(value, dict):
        assert isinstance(each.element, type)
        return filled(each.element, **value)
    return value


def read_request(key: int, version: int, /, **values: Any) -> Any:
    """What a handler sees of a request with these values, under Kafka's names."""
    operation = OPERATION_OF_KEY[key]
    message = filled(generic_of(operation.request), **values)
    return operation.decode(memoryview(codec.encode_bytes(message, version)), 0, version)


def written_response(key: int, response: Any, version: int) -> Any:
    """What a client reads of a handler's response, under Kafka's names."""
    operation = OPERATION_OF_KEY[key]
    data = b"".join(bytes(part) for part in operation.encode(response, version))  # type: ignore[arg-type]  # no files
    return codec.decode(generic_of(operation.response), version, memoryview(data))[0]


def is_generic(struct: type[Struct]) -> bool:
    """Whether it was made by ``generic_of``, so that its name is not Kafka's."""
    return struct in _MADE


def _generic_fields(layout: Layout) -> Iterator[Field]:
    """The fields of a layout, with those of an only element in their place."""
    for each in layout.fields if layout.form == TOPIC else layout.inner:
        if each.only:
            for inner in only_layout(each).fields:
                both = VersionRange(
                    max(inner.versions.first, each.only.first),
                    min(inner.versions.last, each.only.last),
                )
                if both:
                    yield _generic_field(inner, both)
        if each.versions:
            yield _generic_field(each, each.versions)


def _generic_field(each: Field, versions: VersionRange) -> Field:
    layout = topic_layout(each) if each.group is not None else element_layout(each)
    return Field(
        each.kind,
        versions,
        each.nullable,
        () if each.default == {} else each.default,
        each.ignorable,
        each.tag,
        each.tagged,
        each.element if layout is None else _generic_struct(layout),
        name=each.name,
    )


def random_message(kind: type[Struct], version: int, source: random.Random) -> Any:
    """An instance with random values in the fields that ``version`` carries."""
    values = {
        each.name: random_value(each, version, source)
        for each in kind.__fields__
        if (each.is_plain_in(version) or each.is_tagged_in(version)) and source.random() < 0.9
    }
    return kind(**values)


def random_value(each: Field, version: int, source: random.Random) -> Any:
    """A value that the field may have in ``version``."""
    if each.element is Undeclared:
        return None if each.kind == "struct" or each.default is None else []
    if version in each.nullable and source.random() < 0.2:
        return None
    if each.kind != "array":
        return _random_plain(each.kind, each.element, version, source)
    assert each.element is not None
    kind = each.element if isinstance(each.element, str) else "struct"
    count = source.choice((0, 1, 1, 2, 3))
    return [_random_plain(kind, each.element, version, source) for _ in range(count)]


def _random_plain(
    kind: str, element: type[Struct] | str | None, version: int, source: random.Random
) -> Any:
    if kind == "struct":
        assert isinstance(element, type)
        return random_message(element, version, source)
    if kind == "boolean":
        return source.random() < 0.5
    if kind == "string":
        return source.choice(TEXTS)
    if kind == "uuid":
        return source.randbytes(16)
    if kind == "float64":
        return source.uniform(-1e9, 1e9)
    if kind in ("binary", "records"):
        return source.randbytes(source.choice((0, 1, 61, 126, 127, 128, 500)))
    assert kind in FIXED_FORMATS
    return source.randint(*INTEGER_BOUNDS[kind])
