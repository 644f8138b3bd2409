"""The batch source: everything between two bounds, which are resolved once for each load."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from seglog.clients.offsets import timestamp_of
from seglog.clients.spark.offset_maps import Offsets
from seglog.clients.spark.planning import Planner, report_loss
from seglog.clients.spark.range_reader import read_splits
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import OffsetRange, RangeSplit, make_splits
from seglog.protocol.types import INT64_MAX, TopicPartition


class SeglogBatchReader(DataSourceReader):
    """Reads what lies between the starting and the ending bound.

    Args:
        options: of the source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The splits; Spark keeps them for the whole life of what ``load()`` returned."""
        return self._splits(Restriction())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split, in a task."""
        if not isinstance(partition, RangeSplit):
            return iter(())  # Where there is nothing to read Spark makes up a partition.
        return read_splits(self.options, partition)

    def _splits(self, restriction: "Restriction") -> list[RangeSplit]:
        planner = Planner(self.options)
        topics = planner.topics()
        partitions = planner.partitions(topics)
        earliest, latest = planner.earliest(partitions), planner.latest(partitions)
        starting, ending = self.options.starting, self.options.ending
        starts = planner.resolve(
            starting, partitions, latest_if_none=self.options.latest_if_no_timestamp
        )
        ends = planner.resolve(ending, partitions, latest_if_none=True)
        ranges = []
        for partition in partitions:
            begin = self._checked(partition, starts[partition], earliest, latest)
            end = self._checked(partition, ends[partition], earliest, latest)
            ranges.append(OffsetRange(partition, begin, end, topics[partition.topic].topic_id))
        return make_splits(restriction.apply(ranges, planner), self.options)

    def _checked(
        self, partition: TopicPartition, wanted: int, earliest: Offsets, latest: Offsets
    ) -> int:
        """An offset within what there is; to want another is data loss."""
        first, end = earliest[partition], latest[partition]
        if not first <= wanted <= end:
            report_loss(
                f"{partition}: offset {wanted} was asked for, available are {first} to {end - 1}",
                fail=self.options.fail_on_data_loss,
            )
        return max(first, min(wanted, end))


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
        return [each for each in filters if not self._restriction.take(each)]

    def partitions(self) -> Sequence[InputPartition]:
        """The splits within the filters."""
        return self._splits(self._restriction)


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
            # Rounded up, a time between two milliseconds would lose nothing either: stamps are
            # whole ones.
            self._timestamp_ms = max(self._timestamp_ms or 0, timestamp_of(value), 0)

    def apply(self, ranges: list[OffsetRange], planner: Planner) -> list[OffsetRange]:
        """What is left of the ranges."""
        kept = [
            OffsetRange(
                each.partition,
                max(each.start, self._first_offset),
                min(each.end, self._end_offset),
                each.topic_id,
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
            OffsetRange(
                each.partition,
                max(each.start, found[each.partition]),
                each.end if found[each.partition] >= 0 else each.start,
                each.topic_id,
            )
            for each in kept
        ]


def _values_of(condition: Filter) -> Sequence[object] | None:
    if isinstance(condition, EqualTo):
        return [condition.value]
    return list(condition.value) if isinstance(condition, In) else None
