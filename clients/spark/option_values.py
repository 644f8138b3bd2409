"""Reading options: Spark passes every value as text and every name in lower case."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from seglog.clients.errors import ConfigurationError
from seglog.protocol.types import INT32_MAX, INT64_MAX, TopicPartition

ValueT = TypeVar("ValueT")

_DURATION: Final = re.compile(
    r"\s*(?P<number>\d+)\s*(?P<unit>ms|msec|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hours?)?\s*"
)
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000}
_SECONDS_SINCE_2001: Final = range(10**9, 10**10)


class OptionReader:
    """Takes options one by one and knows at the end which were not asked for.

    Args:
        options: by name, in any case.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._known: set[str] = set()

    def take(
        self, names: str | Iterable[str], parse: Callable[[str, str], ValueT], default: ValueT
    ) -> ValueT:
        """The value of the option of this name (several: of the first that is given).

        Raises:
            ConfigurationError: from ``parse``, which gets the name and the text.
        """
        found: list[tuple[str, str]] = []
        for name in [names] if isinstance(names, str) else names:
            self._known.add(name)
            if name.lower() in self._values:
                found.append((name, self._values[name.lower()]))
        return parse(*found[0]) if found else default

    def ignore(self, names: Iterable[str]) -> None:
        """These may be given and have no effect here."""
        self._known.update(names)

    def ignore_prefix(self, prefix: str) -> None:
        """Those that begin so may be given and have no effect here."""
        self._known.update(name for name in self._values if name.startswith(prefix))

    def refuse_rest(self, what: str) -> None:
        """Raise ``ConfigurationError`` if there are others; it names the most similar one."""
        known = {name.lower(): name for name in self._known}
        for name in sorted(self._values):
            if name not in known:
                similar = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {known[similar[0]]!r}?" if similar else ""
                raise ConfigurationError(f"{what} has no option {name!r}{hint}")


def text(_: str, value: str) -> str:
    """Any text."""
    return value


def boolean(name: str, value: str) -> bool:
    """``true`` or ``false``."""
    if value.strip().lower() not in {"true", "false"}:
        raise ConfigurationError(f"{name}={value!r}: expected true or false")
    return value.strip().lower() == "true"


def whole_number(low: int, high: int = INT64_MAX) -> Callable[[str, str], int]:
    """A parser of numbers in a range."""

    def parse(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            allowed = f"at least {low}" if high == INT64_MAX else f"from {low} to {high}"
            raise ConfigurationError(f"{name}={value!r}: expected a whole number, {allowed}")
        return number

    return parse


def choice(*allowed: str) -> Callable[[str, str], str]:
    """A parser of one of several words, in any case."""

    def parse(name: str, value: str) -> str:
        if value.strip().lower() not in allowed:
            raise ConfigurationError(f"{name}={value!r}: expected one of {', '.join(allowed)}")
        return value.strip().lower()

    return parse


def duration_ms(name: str, value: str) -> int:
    """A duration as Spark writes it: ``15m``, ``2s``, ``500ms``; a bare number is milliseconds."""
    match = _DURATION.fullmatch(value.lower())
    if match is None:
        raise ConfigurationError(f"{name}={value!r}: expected a duration such as 500ms, 2s or 15m")
    unit = match["unit"] or "ms"
    return int(match["number"]) * (1 if unit.startswith(("ms", "milli")) else _UNIT_MS[unit[0]])


def names(name: str, value: str) -> tuple[str, ...]:
    """Names with commas between them."""
    found = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not found:
        raise ConfigurationError(f"{name}={value!r}: expected at least one name")
    return found


def timestamp_ms(name: str, value: str) -> int:
    """Milliseconds since the epoch."""
    return _checked_timestamp(name, whole_number(0)(name, value))


def _checked_timestamp(name: str, number: int) -> int:
    if number in _SECONDS_SINCE_2001:
        raise ConfigurationError(
            f"{name}={number}: this looks like seconds, expected milliseconds since the epoch"
        )
    return number


def partition_lists(name: str, value: str) -> frozenset[TopicPartition]:
    """JSON such as ``{"topic": [0, 1]}``."""
    chosen = set()
    for topic, numbers in _json_object(name, value).items():
        if not isinstance(numbers, list) or not numbers:
            raise ConfigurationError(f'{name}={value!r}: expected {{"topic": [0, 1]}}')
        for number in numbers:
            if type(number) is not int or not 0 <= number <= INT32_MAX:
                raise ConfigurationError(f"{name}: {number!r} is no partition of {topic}")
            chosen.add(TopicPartition(topic, number))
    if not chosen:
        raise ConfigurationError(f"{name}={value!r}: names no partition")
    return frozenset(chosen)


def offset_maps(name: str, value: str) -> dict[TopicPartition, int]:
    """JSON such as ``{"topic": {"0": 23, "1": -2}}``; -1 is latest, -2 earliest.

    What a progress report shows as offsets can be given, marks that begin with @ included.
    """
    return _partition_numbers(name, value, -2)


def timestamp_maps(name: str, value: str) -> dict[TopicPartition, int]:
    """JSON such as ``{"topic": {"0": 1700000000000}}``, milliseconds since the epoch."""
    found = _partition_numbers(name, value, 0)
    for number in found.values():
        _checked_timestamp(name, number)
    return found


def _partition_numbers(name: str, value: str, low: int) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _json_object(name, value).items():
        if topic.startswith("@"):
            continue
        if not isinstance(numbers, dict):
            raise ConfigurationError(f'{name}={value!r}: expected {{"topic": {{"0": 23}}}}')
        for partition, number in numbers.items():
            if not (partition.isascii() and partition.isdigit()):
                raise ConfigurationError(f"{name}: {partition!r} is no partition of {topic}")
            if type(number) is not int or not low <= number <= INT64_MAX:
                raise ConfigurationError(f"{name}: {topic}-{partition} cannot be {number!r}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json_object(name: str, value: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise ConfigurationError(f"{name}={value!r} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ConfigurationError(f"{name}={value!r}: expected a JSON object")
    return parsed
