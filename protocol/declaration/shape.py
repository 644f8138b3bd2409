"""Makes the classes of this package dataclasses, without compiling unused code.

``dataclasses`` compiles three methods for each class. There are more than a hundred classes here,
which takes a sixth of a broker's start, and most processes make objects of few of them.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from seglog.protocol.declaration import fields as wire

__all__ = ["field", "kafka_order", "shape"]

T = TypeVar("T")


@dataclass_transform(
    field_specifiers=(
        field, wire.field, wire.boolean, wire.int8, wire.int16, wire.int32, wire.int64,
        wire.float64, wire.string, wire.binary, wire.uuid, wire.records, wire.error_code,
        wire.number_of, wire.topic_name, wire.topic_uuid, wire.array, wire.by_topic, wire.mapping,
        wire.nested, wire.since,
    )
)  # fmt: skip
def shape(declared: type[T]) -> type[T]:
    """A dataclass with slots; its constructor is compiled when the first object is made.

    As with ``dataclass(slots=True)``, objects are compared by value and are not hashable.
    """
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(declared)
    made.__init__ = _first_init
    made.__eq__ = _is_equal
    made.__hash__ = None
    made.__repr__ = _show
    finished: type[T] = made
    return finished


def kafka_order(*first: str) -> Callable[[type[T]], type[T]]:
    """Say which fields Kafka's wire has first; the others follow as the class declares them.

    The order of the class is that of its constructor and of the native dialect.
    """

    def mark(declared: type[T]) -> type[T]:
        declared.__kafka_order__ = first  # type: ignore[attr-defined]  # read by ``layout``
        return declared

    return mark


def _first_init(self: Any, *values: Any, **named: Any) -> None:
    cls = type(self)
    cls.__init__ = _compile_constructor(fields(cls))
    cls.__init__(self, *values, **named)


def _is_equal(self: Any, other: object) -> Any:
    declared = fields(self)
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, each.name) == getattr(other, each.name) for each in declared)


def _show(self: Any) -> str:
    values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
    return f"{type(self).__name__}({values})"


def _compile_constructor(declared: tuple[Field[Any], ...]) -> Any:
    """An ``__init__`` that takes the fields in their order, in straight-line code."""
    names: dict[str, object] = {"_MISSING": MISSING}
    parameters, lines = [], []
    for index, each in enumerate(declared):
        if each.default is not MISSING:
            names[f"_D{index}"] = each.default
            parameters.append(f"{each.name}=_D{index}")
            lines.append(f"self.{each.name} = {each.name}")
        elif each.default_factory is not MISSING:
            names[f"_F{index}"] = each.default_factory
            parameters.append(f"{each.name}=_MISSING")
            lines.append(
                f"self.{each.name} = _F{index}() if {each.name} is _MISSING else {each.name}"
            )
        else:
            parameters.append(each.name)
            lines.append(f"self.{each.name} = {each.name}")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__(self, {', '.join(parameters)}):\n {body}", names)  # noqa: S102  # own source
    return names["__init__"]
