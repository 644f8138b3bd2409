"""How often each operation was asked for, how it ended and how long it took: plain numbers.

One owner, the event-loop thread. Latencies are counted in buckets by hand; a histogram of
prometheus-client costs ten times as much an observation.
"""

import dataclasses
import typing
from bisect import bisect_left
from typing import Any, Final

from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode

LATENCY_BOUNDS_SECONDS: Final = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of the buckets, inclusive; one more bucket takes what is longer."""
_BOUNDS_NS: Final = tuple(round(bound * 1_000_000_000) for bound in LATENCY_BOUNDS_SECONDS)
_NO_ERROR: Final = 0


class RequestStatistics:
    """One operation.

    Attributes:
        name: as Kafka's metrics spell it: ``Produce``, ``ListOffsets``.
        count: requests that were answered, or that wanted no answer.
        total_ns: the sum of their durations, from decoded to answered.
        buckets: how many were within each bound and above the one before.
        errors: how often each error code was part of an answer; 0 counts answers without any.
    """

    __slots__ = ("buckets", "count", "errors", "name", "total_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.total_ns = 0
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.errors: dict[int, int] = {_NO_ERROR: 0}

    def observe(self, elapsed_ns: int) -> None:
        """Count a request that took ``elapsed_ns``."""
        self.count += 1
        self.total_ns += elapsed_ns
        self.buckets[bisect_left(_BOUNDS_NS, elapsed_ns)] += 1

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

    def quantile_ns(self, share: float) -> float:
        """An estimate of the duration that this share of all requests stayed within."""
        rank = share * self.count
        seen = 0
        low = 0
        for bound, count in zip((*_BOUNDS_NS, _BOUNDS_NS[-1]), self.buckets, strict=True):
            if count and seen + count >= rank:
                return low + (bound - low) * (rank - seen) / count
            seen += count
            low = bound
        return 0.0


class RequestMetrics:
    """The statistics of all operations, made on first use."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
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
    has_error, list_names = _LAYOUTS.get(type(response)) or _layout_of(type(response))
    errors = [response.error] if has_error and response.error else []
    for name in list_names:
        for result in getattr(response, name):
            if result.error:
                errors.append(result.error)  # noqa: PERF401 - an empty list is the usual case
    return errors


_Layout = tuple[bool, tuple[str, ...]]
_LAYOUTS: dict[type, _Layout] = {}


def _layout_of(shape: type) -> _Layout:
    """Where a response type carries error codes; found out once from its declaration."""
    hints = typing.get_type_hints(shape)
    names = []
    for name, hint in hints.items():
        element = typing.get_args(hint)[0] if typing.get_origin(hint) is list else None
        if dataclasses.is_dataclass(element) and "error" in typing.get_type_hints(element):
            names.append(name)
    layout = _LAYOUTS[shape] = ("error" in hints, tuple(names))
    return layout
