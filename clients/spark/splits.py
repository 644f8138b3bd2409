"""Which task reads which offsets: few large ranges, since a Python task costs about 50 ms."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql.datasource import InputPartition

from seglog.clients.config import Address
from seglog.clients.spark.source_options import SourceOptions
from seglog.protocol.types import TopicPartition

LARGE_RANGE_RECORDS: Final = 1_000_000
"""Longer ranges are split where the options say nothing."""


@dataclass(frozen=True)
class OffsetRange:
    """The range to read of one partition.

    Attributes:
        start: the first offset.
        end: exclusive.
        topic_id: of the topic that was meant when this was planned.
        leader: where it was read then; a task that finds nothing there asks the cluster.
    """

    partition: TopicPartition
    start: int
    end: int
    topic_id: bytes
    leader: Address | None = None

    @property
    def count(self) -> int:
        """How many offsets it has."""
        return self.end - self.start


@dataclass(frozen=True)
class RangeSplit(InputPartition):
    """The ranges that one task reads, one after the other."""

    ranges: tuple[OffsetRange, ...]


def make_splits(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[RangeSplit]:
    """Split long ranges and put short ones together.

    Empty ranges are left out. With ``minPartitions`` there are at least so many splits, as long as
    there are so many offsets.
    """
    pieces = [piece for each in ranges if each.count > 0 for piece in _cut(each, options)]
    if options.min_partitions is not None:
        pieces = _cut_further(pieces, options.min_partitions)
    return [RangeSplit(group) for group in _coalesced(pieces, options)]


def _cut(whole: OffsetRange, options: SourceOptions) -> list[OffsetRange]:
    longest = options.max_records_per_partition
    if longest is None:
        if options.min_partitions is not None:
            return [whole]
        longest = LARGE_RANGE_RECORDS
    return _equal_pieces(whole, math.ceil(whole.count / longest))


def _equal_pieces(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    bounds = [whole.start + whole.count * index // pieces for index in range(pieces + 1)]
    return [replace(whole, start=start, end=end) for start, end in itertools.pairwise(bounds)]


def _cut_further(ranges: list[OffsetRange], pieces_min: int) -> list[OffsetRange]:
    """Give each range pieces in proportion to its length."""
    total = sum(each.count for each in ranges)
    if len(ranges) >= pieces_min or not total:
        return ranges
    pieces = {each: max(1, pieces_min * each.count // total) for each in ranges}
    missing = pieces_min - sum(pieces.values())
    for each in sorted(ranges, key=lambda each: each.count / pieces[each], reverse=True):
        if missing > 0:
            pieces[each] += 1
            missing -= 1
    return [
        piece for each in ranges for piece in _equal_pieces(each, min(pieces[each], each.count))
    ]


def _coalesced(pieces: list[OffsetRange], options: SourceOptions) -> list[tuple[OffsetRange, ...]]:
    """Short neighbours in one split; with a number of partitions in the options, none are."""
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        return [(piece,) for piece in pieces]
    groups: list[list[OffsetRange]] = []
    open_count = options.coalesce_records
    for piece in pieces:
        if groups and open_count + piece.count <= options.coalesce_records:
            groups[-1].append(piece)
            open_count += piece.count
        else:
            groups.append([piece])
            open_count = piece.count
    return [tuple(group) for group in groups]
