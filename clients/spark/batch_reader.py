"""The batch source: everything between two bounds, which are resolved once for each load."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.planning import Extent, Planner, report_loss
from seglog.clients.spark.range_reader import read_splits
from seglog.clients.spark.source_options import Bound, SourceOptions
from seglog.clients.spark.splits import OffsetRange, RangeSplit, make_splits
from seglog.protocol.types import TopicPartition


class SeglogBatchReader(DataSourceReader):
    """Reads what lies between the starting and the ending bound.

    Args:
        options: of the source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The splits; Spark keeps them for the whole life of what ``load()`` returned."""
        return self._splits()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split, in a task."""
        if not isinstance(partition, RangeSplit):
            return iter(())  # Where there is nothing to read Spark makes up a partition.
        return read_splits(self.options, partition)

    def restrict(
        self,
        ranges: list[OffsetRange],
        planner: Planner,  # noqa: ARG002 - a subclass asks it
    ) -> list[OffsetRange]:
        """The wanted part of the ranges: all of them, since Spark told no filters."""
        return ranges

    def _splits(self) -> list[RangeSplit]:
        planner = Planner(self.options)
        topics = planner.topics()
        partitions = planner.partitions(topics)
        extent = planner.extent(partitions)
        starting, ending = self.options.starting, self.options.ending
        # The ends first: a start by time may then be behind them, and leaves nothing to read.
        ends = extent.resolve(ending, latest_if_none=True)
        starts = extent.resolve(starting, latest_if_none=self.options.latest_if_no_timestamp)
        ranges = []
        for partition in partitions:
            begin = self._bounded(starting, partition, starts[partition], extent)
            end = self._bounded(ending, partition, ends[partition], extent)
            if begin > end and starting.offsets is not None and ending.offsets is not None:
                raise ConfigurationError(
                    f"{partition}: endingOffsets {end} is before startingOffsets {begin}"
                )
            topic = topics[partition.topic]
            leader = planner.cluster.metadata.leader_address(partition)
            ranges.append(OffsetRange(partition, begin, end, topic.topic_id, leader))
        return make_splits(self.restrict(ranges, planner), self.options)

    def _bounded(self, bound: Bound, partition: TopicPartition, wanted: int, extent: Extent) -> int:
        """An offset within what there is; only one that the options name can be data loss."""
        if bound.offsets is None or bound.offsets[partition] < 0:
            return wanted
        first, end = extent.earliest[partition], extent.latest[partition]
        if not first <= wanted <= end:
            report_loss(
                f"{partition}: {bound.option} {wanted} was asked for, available are offsets "
                f"{first} to {end - 1}",
                fail=self.options.fail_on_data_loss,
            )
        return max(first, min(wanted, end))
