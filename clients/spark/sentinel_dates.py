"""Filters on times that Python's ``datetime`` does not have: 9999-12-31 23:59:59 in New York.

PySpark turns the values of filters into Python objects before a reader sees them, and fails for a
time after the year 9999 or before the year 1, where such a sentinel ends up in UTC. While a reader
waits for its filters, those become the last or first time that there is: the request to the broker
is then never for fewer records than Spark, which keeps the filter itself, evaluates.
"""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import variant_utils

_NAME: Final = "_get_timestamp"
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


class SentinelDates:
    """Makes PySpark take such times in this process until it is told to stop.

    A PySpark that reads them in another way is left as it is, and fails as before.
    """

    def __init__(self) -> None:
        self._original: Any = None

    def begin(self) -> None:
        """From now on they become the first or last time."""
        utils: Any = getattr(variant_utils, "VariantUtils", None)
        original = None if utils is None else utils.__dict__.get(_NAME)
        if original is not None and self._original is None:
            self._original = original
            setattr(utils, _NAME, classmethod(_clamped(original.__func__)))

    def end(self) -> None:
        """From now on they fail again, as another source may expect."""
        if self._original is not None:
            setattr(variant_utils.VariantUtils, _NAME, self._original)
            self._original = None


def _clamped(original: Callable[..., datetime]) -> Callable[..., datetime]:
    def get_timestamp(cls: Any, value: bytes, position: int, zone_id: str) -> datetime:
        with contextlib.suppress(OverflowError):
            return original(cls, value, position, zone_id)
        # A byte that says what it is, and microseconds since 1970.
        microseconds = int.from_bytes(value[position + 1 : position + 9], "little", signed=True)
        return _FIRST if microseconds < 0 else _LAST

    return get_timestamp


SENTINEL_DATES: Final = SentinelDates()
"""For the planning process of a query: PySpark makes a reader there, then gives it filters."""
