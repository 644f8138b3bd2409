"""Every declared Kafka message, and random values for them."""

import importlib
import pkgutil
import random
from typing import Any

from seglog.protocol.kafka import messages
from seglog.protocol.kafka.schema import FIXED_FORMATS, Field, Message, Struct, Undeclared

INTEGER_BOUNDS = {
    "int8": (-128, 127),
    "int16": (-1, 130),  # int16 fields are error codes, epochs and counts; 130 is a known code
    "int32": (-1, 2**31 - 1),
    "int64": (-1, 2**42),  # small enough to be a date, for readers that make one of timestamps
}
TEXTS = ("", "a", "topic-1", "größer", "日本", "x" * 126, "y" * 127, "z" * 300)


def all_messages() -> list[type[Message]]:
    """The message classes of all modules, in the order of their names."""
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        namespace = vars(importlib.import_module(f"{messages.__name__}.{module.name}"))
        for value in namespace.values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[value.__name__] = value
    return [found[name] for name in sorted(found)]


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
