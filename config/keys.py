"""ConfigKey: one configuration key, and the field specifiers of the settings classes.

A settings class is a frozen dataclass. Each of its fields is one key: the key's name is the field's
name with ``_`` replaced by ``.`` (no broker or topic key of Kafka holds an underscore), and the
specifier (``integer``, ``long_integer``, ``string`` ...) carries default, bounds and documentation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final

from seglog.config.values import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    format_value,
    parse_bool,
    parse_double,
    parse_integer,
    parse_list,
)

_METADATA_KEY: Final = "key"


class ValueType(StrEnum):
    """Kafka's names of value types, as DescribeConfigs reports them."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"  # noqa: S105 - the name of a type


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration key.

    ``parse`` turns text into the value and raises ValueError with a short reason; ``allowed``
    describes the legal values in words; ``is_dynamic`` keys may change while the broker runs.
    """

    value_type: ValueType
    default: Any
    documentation: str
    allowed: str
    parse: Callable[[str], Any]
    is_dynamic: bool = False
    name: str = ""
    field_name: str = ""

    def format(self, value: Any) -> str | None:
        """Print a value as Kafka prints it; None for "not set"."""
        return format_value(value)

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must not be shown."""
        return self.value_type is ValueType.PASSWORD


def keys_of(settings: type[Any]) -> dict[str, ConfigKey]:
    """Collect the keys that a settings class declares, by name, in the order of declaration."""
    keys = {}
    for declared in fields(settings):
        key = declared.metadata.get(_METADATA_KEY)
        if key is not None:
            name = declared.name.replace("_", ".")
            keys[name] = replace(key, name=name, field_name=declared.name)
    return keys


def declare(key: ConfigKey, **metadata: Any) -> Any:
    """Make the dataclass field of a key, with further metadata."""
    return field(default=key.default, metadata={_METADATA_KEY: key, **metadata})


def integer(
    default: int | None,
    documentation: str,
    *,
    low: int = INT32_MIN,
    high: int = INT32_MAX,
    dynamic: bool = False,
) -> Any:
    """Declare a 32-bit number with inclusive bounds."""
    return declare(_number(ValueType.INT, default, documentation, low, high, dynamic))


def long_integer(
    default: int | None,
    documentation: str,
    *,
    low: int = INT64_MIN,
    high: int = INT64_MAX,
    dynamic: bool = False,
) -> Any:
    """Declare a 64-bit number with inclusive bounds."""
    return declare(_number(ValueType.LONG, default, documentation, low, high, dynamic))


def double(
    default: float,
    documentation: str,
    *,
    low: float = 0.0,
    high: float | None = None,
    dynamic: bool = False,
) -> Any:
    """Declare a floating-point number with inclusive bounds."""

    def parse(text: str) -> float:
        value = parse_double(text)
        if not low <= value or (high is not None and value > high):
            raise ValueError("it is out of range")
        return value

    allowed = (
        f"a number of at least {low:g}" if high is None else f"a number from {low:g} to {high:g}"
    )
    return declare(ConfigKey(ValueType.DOUBLE, default, documentation, allowed, parse, dynamic))


def boolean(default: bool, documentation: str, *, dynamic: bool = False) -> Any:
    """Declare a switch."""
    key = ConfigKey(ValueType.BOOLEAN, default, documentation, "true or false", parse_bool, dynamic)
    return declare(key)


def string(
    default: str | None,
    documentation: str,
    *,
    choices: tuple[str, ...] = (),
    check: Callable[[str], None] | None = None,
    allowed: str = "any text",
    dynamic: bool = False,
) -> Any:
    """Declare a text, free, one of a few, or checked (``check`` raises ValueError)."""

    def parse(text: str) -> str:
        value = text.strip()
        if choices and value not in choices:
            raise ValueError("it is none of the choices")
        if check is not None:
            check(value)
        return value

    allowed = "one of " + ", ".join(choices) if choices else allowed
    return declare(ConfigKey(ValueType.STRING, default, documentation, allowed, parse, dynamic))


def string_list(
    default: tuple[str, ...],
    documentation: str,
    *,
    choices: tuple[str, ...] = (),
    may_be_empty: bool = True,
    dynamic: bool = False,
    split: Callable[[str], tuple[str, ...]] = parse_list,
    check: Callable[[tuple[str, ...]], None] | None = None,
) -> Any:
    """Declare a comma-separated list, kept in the order given, as a tuple.

    ``check`` raises ``ValueError`` for values that are not legal together.
    """

    def parse(text: str) -> tuple[str, ...]:
        values = split(text)
        if not values and not may_be_empty:
            raise ValueError("it is empty")
        if choices:
            # Once is enough, and a set such as ``delete,delete`` says nothing else.
            values = tuple(dict.fromkeys(values))
        if len(set(values)) != len(values):
            raise ValueError("it names something twice")
        if choices and not set(values) <= set(choices):
            raise ValueError("it holds something else")
        if check is not None:
            check(values)
        return values

    allowed = "a list of " + ", ".join(choices) if choices else "a comma-separated list"
    return declare(ConfigKey(ValueType.LIST, default, documentation, allowed, parse, dynamic))


def check_throttled_replicas(values: tuple[str, ...]) -> None:
    """``*`` alone, or pairs of a partition and a broker, such as ``0:101``.

    Raises:
        ValueError: it is something else.
    """
    if values == ("*",):
        return
    for value in values:
        partition, colon, broker = value.partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            raise ValueError(f"{value!r} is not * alone and not partition:broker, such as 0:101")


def parsed(
    default: Any,
    documentation: str,
    *,
    value_type: ValueType,
    parse: Callable[[str], Any],
    allowed: str,
    dynamic: bool = False,
) -> Any:
    """Declare a value with a syntax of its own."""
    return declare(ConfigKey(value_type, default, documentation, allowed, parse, dynamic))


def _number(
    value_type: ValueType,
    default: int | None,
    documentation: str,
    low: int,
    high: int,
    dynamic: bool,
) -> ConfigKey:
    def parse(text: str) -> int:
        value = parse_integer(text)
        if not low <= value <= high:
            raise ValueError("it is out of range")
        return value

    is_any = (low, high) in ((INT32_MIN, INT32_MAX), (INT64_MIN, INT64_MAX))
    allowed = "a whole number" if is_any else f"a whole number from {low} to {high}"
    return ConfigKey(value_type, default, documentation, allowed, parse, dynamic)
