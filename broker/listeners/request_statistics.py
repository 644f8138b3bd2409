"""How often each operation was asked for, how it ended and how long it took: plain numbers.

One owner, the event-loop thread.
"""

import dataclasses
import typing
from typing import Any, Final

from seglog.broker.runtime.durations import Durations
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode

_NO_ERROR: Final = 0


class RequestStatistics(Durations):
    """One operation; its durations are those from a decoded request to its answer.

    Requests that wanted no answer count as well.

    Attributes:
        name: as Kafka's metrics spell it: ``Produce``, ``ListOffsets``.
        errors: how often each error code was part of an answer; 0 counts answers without any.
    """

    __slots__ = ("errors", "name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.errors: dict[int, int] = {_NO_ERROR: 0}

    def count_error(self, error: int) -> None:
        """Count one error code in an answer."""
        code = int(error)
        self.errors[code] = self.errors.get(code, 0) + 1

    def count_response(self, response: Any) -> bool:
        """Count the errors that a typed response carries; whether there was any."""
        errors = errors_of(response)
        if not errors:
            self.errors[_NO_ERROR] += 1
            return False
        for error in errors:
            self.count_error(error)
        return True


class RequestMetrics:
    """The statistics of all operations, made on first use.

    Attributes:
        busy_ns: how long handlers were at work, without the time in which a request only waited.
    """

    __slots__ = ("_by_key", "busy_ns")

    def __init__(self) -> None:
        self.busy_ns = 0
        self._by_key: dict[int, RequestStatistics] = {}

    def of(self, api_key: int) -> RequestStatistics:
        """The statistics of one operation."""
        statistics = self._by_key.get(api_key)
        if statistics is None:
            statistics = self._by_key[api_key] = RequestStatistics(operation_name(api_key))
        return statistics

    def all(self) -> list[RequestStatistics]:
        """Every operation that was ever asked for."""
        return list(self._by_key.values())


def operation_name(api_key: int) -> str:
    """``LIST_OFFSETS`` as Kafka's metrics spell it: ``ListOffsets``."""
    try:
        return ApiKey(api_key).name.title().replace("_", "")
    except ValueError:
        return "Unknown"


def errors_of(response: Any) -> list[ErrorCode]:
    """All error codes but NONE in a typed response: its own, and those of its results."""
    has_error, list_names, nested = _LAYOUTS.get(type(response)) or _layout_of(type(response))
    errors = [response.error] if has_error and response.error else []
    for name in list_names:
        for result in getattr(response, name):
            if result.error:
                errors.append(result.error)  # noqa: PERF401 - an empty list is the usual case
    for outer_name, name in nested:
        for outer in getattr(response, outer_name):
            errors += [result.error for result in getattr(outer, name) if result.error]
    return errors


_Layout = tuple[bool, tuple[str, ...], tuple[tuple[str, str], ...]]
_LAYOUTS: dict[type, _Layout] = {}


def _layout_of(shape: type) -> _Layout:
    """Where a response type carries error codes; found out once from its declaration."""
    hints = typing.get_type_hints(shape)
    names, nested = [], []
    for name, element in _elements_of(shape).items():
        if "error" in typing.get_type_hints(element):
            names.append(name)
        else:
            nested += [
                (name, inner_name)
                for inner_name, inner in _elements_of(element).items()
                if "error" in typing.get_type_hints(inner)
            ]
    layout = _LAYOUTS[shape] = ("error" in hints, tuple(names), tuple(nested))
    return layout


def _elements_of(shape: type) -> dict[str, type]:
    """The fields that are lists of dataclasses, with these."""
    found = {}
    for name, hint in typing.get_type_hints(shape).items():
        element = typing.get_args(hint)[0] if typing.get_origin(hint) is list else None
        if dataclasses.is_dataclass(element):
            assert isinstance(element, type)
            found[name] = element
    return found
