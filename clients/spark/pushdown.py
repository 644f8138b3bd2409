"""Filters of a batch query, as far as offsets can say them: PySpark 4.1 and newer."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from seglog.clients.offsets import timestamp_of
from seglog.clients.spark.batch_reader import SeglogBatchReader
from seglog.clients.spark.planning import Planner
from seglog.clients.spark.sentinel_dates import SENTINEL_DATES
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import OffsetRange
from seglog.protocol.types import INT64_MAX


class SeglogPushdownReader(SeglogBatchReader):
    """Also looks at the filters of a query.

    A class of its own: where Spark's setting for it is off, it refuses any reader that has
    ``pushFilters``.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._restriction = Restriction()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what can be said by offsets; returns what Spark must still look at."""
        SENTINEL_DATES.end()
        return [each for each in filters if not self._restriction.take(each)]

    def restrict(self, ranges: list[OffsetRange], planner: Planner) -> list[OffsetRange]:
        """What the filters leave."""
        return self._restriction.apply(ranges, planner)


class Restriction:
    """What filters leave of the topics, partitions and offsets."""

    def __init__(self) -> None:
        self._topics: set[object] | None = None
        self._partitions: set[object] | None = None
        self._first_offset = 0
        self._end_offset = INT64_MAX
        self._timestamp_ms: int | None = None

    def take(self, condition: Filter) -> bool:
        """Note what a filter says; whether it is then kept exactly."""
        if isinstance(condition, IsNotNull):
            return condition.attribute in {("topic",), ("partition",), ("offset",), ("timestamp",)}
        if not isinstance(
            condition, (EqualTo, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
        ):
            return False
        value = condition.value
        if condition.attribute == ("topic",):
            return self._take_topic(condition)
        if condition.attribute == ("partition",):
            return self._take_partition(condition)
        if condition.attribute == ("offset",) and type(value) is int:
            return self._take_offset(condition, value)
        if condition.attribute == ("timestamp",) and isinstance(value, datetime):
            self._take_timestamp(condition, value)
        return False

    def _take_topic(self, condition: Filter) -> bool:
        values = _values_of(condition)
        if values is None:
            return False
        self._topics = set(values) & (set(values) if self._topics is None else self._topics)
        return True

    def _take_partition(self, condition: Filter) -> bool:
        values = _values_of(condition)
        if values is None:
            return False
        chosen = set(values)
        self._partitions = chosen & (chosen if self._partitions is None else self._partitions)
        return True

    def _take_offset(self, condition: Filter, value: int) -> bool:
        if isinstance(condition, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            first = value + 1 if isinstance(condition, GreaterThan) else value
            self._first_offset = max(self._first_offset, first)
        if isinstance(condition, (EqualTo, LessThan, LessThanOrEqual)):
            end = value if isinstance(condition, LessThan) else value + 1
            self._end_offset = min(self._end_offset, end)
        return not isinstance(condition, In)

    def _take_timestamp(self, condition: Filter, value: datetime) -> None:
        """Before the first record at or after a time, all are older; nothing holds behind it."""
        if isinstance(condition, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            # Rounded up, a time between two milliseconds loses nothing: stamps are whole ones. A
            # broker is asked for no time before 1970, and -1 there means no timestamp, which Spark
            # reads as one just before 1970: such filters say nothing about offsets.
            timestamp_ms = timestamp_of(value)
            if timestamp_ms >= 0:
                self._timestamp_ms = max(self._timestamp_ms or 0, timestamp_ms)

    def apply(self, ranges: list[OffsetRange], planner: Planner) -> list[OffsetRange]:
        """The remaining ranges."""
        kept = [
            replace(
                each,
                start=max(each.start, self._first_offset),
                end=min(each.end, self._end_offset),
            )
            for each in ranges
            if (self._topics is None or each.partition.topic in self._topics)
            and (self._partitions is None or each.partition.partition in self._partitions)
        ]
        if self._timestamp_ms is None or not kept:
            return kept
        questions = dict.fromkeys((each.partition for each in kept), self._timestamp_ms)
        found = planner.cluster.list_offsets(questions, planner.options.isolation_level)
        return [
            replace(
                each,
                start=max(each.start, found[each.partition]),
                end=each.end if found[each.partition] >= 0 else each.start,
            )
            for each in kept
        ]


def _values_of(condition: Filter) -> Sequence[object] | None:
    if isinstance(condition, EqualTo):
        return [condition.value]
    return list(condition.value) if isinstance(condition, In) else None
