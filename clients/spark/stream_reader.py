"""The streaming source: what Spark asks on the driver, and where tasks read.

On the driver one reader lives as long as a run of the query. Tasks get a pickled copy of another
one, which has nothing but the options: what they need to know is in the splits.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from seglog.clients.session.metadata import KnownTopic
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.batch_begins import find_begin
from seglog.clients.spark.heads import Heads, IdleWait, Planned, settled_heads
from seglog.clients.spark.offset_maps import FIRST, IDS, INIT, Offsets, describe, from_json, to_json
from seglog.clients.spark.planning import LOG, Planner, report_loss
from seglog.clients.spark.range_reader import read_splits
from seglog.clients.spark.rate_limits import limited_ends, offsets_for_bytes
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import OffsetRange, RangeSplit, make_splits
from seglog.protocol.types import TopicPartition

WrittenOffsets = dict[str, Any]


class SeglogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches by offsets, and reads them.

    Args:
        options: of the source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._forget()

    def _forget(self) -> None:
        self._planner: Planner | None = None
        self._idle: IdleWait | None = None
        self._planned: Planned | None = None
        self._heads: Heads | None = None
        self._initial: WrittenOffsets | None = None
        self._ids: dict[str, str] = {}
        self._missing: set[str] = set()
        self._target: Offsets | None = None
        self._reported_end: Offsets = {}
        self._is_available_now = False
        self._has_begun = False
        self._last_batch_at_s = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.options = state["options"]
        self._forget()

    @property
    def planner(self) -> Planner:
        """Connects when it is first used."""
        if self._planner is None:
            self._planner = Planner(self.options)
        return self._planner

    @property
    def idle(self) -> IdleWait:
        """Made when it is first used."""
        if self._idle is None:
            self._idle = IdleWait(self.planner)
        return self._idle

    # What Spark asks on the driver.

    def initialOffset(self) -> WrittenOffsets:  # noqa: N802 - Spark's name
        """Where a new query begins; asked twice, and again when its first batch is replayed."""
        self._has_begun = True
        if self._initial is None:
            starting = self.options.starting
            topics = self.planner.topics()
            extent = self.planner.extent(self.planner.partitions(topics))
            offsets = extent.resolve(starting, latest_if_none=self.options.latest_if_no_timestamp)
            is_lasting = starting.word == "earliest" or (
                starting.offsets is not None and -1 not in starting.offsets.values()
            )
            ids = {name: topics[name].topic_id.hex() for name in sorted(topics)}
            marks = {} if is_lasting else {FIRST[1:]: True}
            self._initial = self._written(offsets, ids, marks)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What Spark passes to ``latestOffset`` unless a trigger asks for everything."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at the offsets that exist at the first request for them.

        Not at those of now: a batch that is to be replayed first may know partitions that have gone
            meanwhile, or not yet know new ones.
        """
        self._is_available_now = True

    def reportLatestOffset(self) -> WrittenOffsets:  # noqa: N802 - Spark's name
        """For progress reports: how far it could go, as ``latestOffset`` has just heard."""
        if self._heads is None:
            self._heads = settled_heads(self.planner, {}, {})
        return to_json(self._heads.ends)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: WrittenOffsets, limit: ReadLimit
    ) -> WrittenOffsets:
        """Where the next batch ends; ``start`` itself if there is nothing to read."""
        self._note_restart()
        if not self._is_available_now:
            self.idle.wait(self._heads)
        end = self._latest_offset(start, limit)
        self.idle.answered(has_news=end is not start)
        return end

    def _latest_offset(self, start: WrittenOffsets, limit: ReadLimit) -> WrittenOffsets:
        # Asked each time: from an older answer ``processAllAvailable`` would take that there is
        # nothing new, although something was written before it was called.
        written = from_json(start)
        known_ids = start.get(IDS) or self._ids
        heads = self._heads = settled_heads(self.planner, written, known_ids)
        self._tell_missing(heads)
        self._report_gone(set(written) - set(heads.ends))
        sameness = self._compare_ids(known_ids, heads)
        self._ids.update(heads.ids)
        goal = self._goal(written, heads)
        is_first = bool(start.get(FIRST))
        if goal == written and not is_first and False not in sameness.values():
            return start
        earliest = self.planner.earliest(goal)
        begins = {}
        for partition, first in earliest.items():
            before, is_same = written.get(partition), sameness[partition.topic]
            begin = find_begin(partition, before, is_same, first, goal[partition])
            if begin.loss and self.options.fail_on_data_loss:
                # Before Spark writes anything down: what fails now may be mended, or be right
                # again, and the next run begins where this one did.
                report_loss(begin.loss, fail=True)
            begins[partition] = begin.offset
        if not isinstance(limit, ReadAllAvailable):
            if self._should_wait(begins, goal):
                # The first batch runs all the same; it must then be empty.
                goal = dict(written) if is_first else goal
                if not is_first:
                    return start
            goal = self._limited(begins, goal)
        self._last_batch_at_s = time.monotonic()
        marks = {INIT[1:]: to_json(written)} if is_first else {}
        end = self._written(goal, heads.ids, marks)
        self._planned = Planned(start, end, heads.topics, earliest)
        return end

    def partitions(self, start: WrittenOffsets, end: WrittenOffsets) -> Sequence[InputPartition]:
        """The splits of a batch; missing partitions are reported."""
        self._note_restart()
        planned, self._planned = self._planned, None
        if planned is not None and (planned.start, planned.end) != (start, end):
            planned = None
        if start.get(FIRST) and INIT in end:
            start = {**start, **end[INIT]}
        written, ends = from_json(start), from_json(end)
        old_ids, new_ids = start.get(IDS) or {}, end.get(IDS) or {}
        if written == ends and old_ids == new_ids:
            return []
        if planned is not None:
            topics, earliest = planned.topics, planned.earliest
        else:
            topics, earliest = self._ask_again(ends, new_ids)
        ranges = []
        for partition, first in earliest.items():
            name = partition.topic
            is_same = (
                new_ids[name] == old_ids[name] if {name} <= set(old_ids) & set(new_ids) else None
            )
            begin = find_begin(partition, written.get(partition), is_same, first, ends[partition])
            if begin.loss and begin.offset > self._reported_end.get(partition, -1):
                report_loss(begin.loss, fail=self.options.fail_on_data_loss)
                self._reported_end[partition] = first
            topic = topics[name]
            ranges.append(
                OffsetRange(
                    partition,
                    begin.offset,
                    ends[partition],
                    topic.topic_id,
                    self.planner.cluster.metadata.leader_address(partition),
                )
            )
        return make_splits(ranges, self.options)

    def _ask_again(
        self, ends: Offsets, ids: Mapping[str, str]
    ) -> tuple[dict[str, KnownTopic], Offsets]:
        """Topics and first offsets for a batch that was decided on by another run, or earlier.

        Missing partitions are asked for again for the time for retries.
        """
        waiter = Waiter(self.options.connection)
        while True:
            topics = self.planner.cluster.topics({partition.topic for partition in ends})
            existing = {
                each
                for name, topic in topics.items()
                for each in topic.partitions
                if ids.get(name) in {None, topic.topic_id.hex()}
            }
            gone = set(ends) - existing
            if not gone or not waiter.pause():
                break
        self._report_gone(gone)
        return topics, self.planner.earliest(sorted(existing & set(ends)))

    def commit(self, end: WrittenOffsets) -> None:
        """Spark keeps the offsets; it says a batch later that one is done."""

    def stop(self) -> None:
        """Nothing: Spark mostly kills the process instead."""

    # What tasks do.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split, in a task."""
        assert isinstance(partition, RangeSplit)
        return read_splits(self.options, partition)

    # How it is done.

    def _written(
        self, offsets: Offsets, ids: dict[str, str], marks: dict[str, Any]
    ) -> WrittenOffsets:
        if not self.options.fail_on_data_loss:
            read = {partition.topic for partition in offsets}
            marks = {**marks, IDS[1:]: {name: ids[name] for name in sorted(read & set(ids))}}
        return to_json(offsets, **marks)

    def _note_restart(self) -> None:
        """Say once that a query which goes on does not look at where it was told to begin."""
        if not self._has_begun and self.options.starting.option:
            LOG.warning(
                "the query goes on from its checkpoint, %s is ignored", self.options.starting.option
            )
        self._has_begun = True

    def _tell_missing(self, heads: Heads) -> None:
        """Say once that something which is named is left out (``failOnDataLoss=false``)."""
        subscription = self.options.subscription
        names = subscription.topics or {each.topic for each in subscription.partitions}
        missing = set(names) - set(heads.topics)
        if missing - self._missing:
            LOG.warning("topic %s does not exist; going on without it", describe(missing))
        self._missing = missing

    def _compare_ids(self, known: Mapping[str, str], heads: Heads) -> dict[str, bool | None]:
        """Whether topics are those that the query has read so far; None where that is unknown."""
        sameness: dict[str, bool | None] = {}
        for name, topic_id in heads.ids.items():
            sameness[name] = known[name] == topic_id if name in known else None
            if sameness[name] is False and self.options.fail_on_data_loss:
                report_loss(
                    f"topic {name} was deleted and created again while it was being read", fail=True
                )
        return sameness

    def _goal(self, written: Offsets, heads: Heads) -> Offsets:
        """How far the next batches may go; with AvailableNow not beyond the first answer."""
        if not self._is_available_now:
            return dict(heads.ends)
        if self._target is None:
            self._target = dict(heads.ends)
        goal = {}
        for partition, head in heads.ends.items():
            if partition in self._target:
                goal[partition] = min(head, self._target[partition])
            elif partition in written:
                goal[partition] = written[partition]
        return goal

    def _should_wait(self, begins: Offsets, goal: Offsets) -> bool:
        """Whether too little is there, and the time to wait for more is not over."""
        options = self.options
        if options.min_offsets_per_trigger is None or self._is_available_now:
            return False
        available = sum(offset - begins[partition] for partition, offset in goal.items())
        waited_ms = (time.monotonic() - self._last_batch_at_s) * 1000
        return (
            available < options.min_offsets_per_trigger and waited_ms < options.max_trigger_delay_ms
        )

    def _limited(self, begins: Offsets, goal: Offsets) -> Offsets:
        limit = self.options.max_offsets_per_trigger
        if self.options.max_bytes_per_trigger is not None and begins != goal:
            sizes = self.planner.cluster.bytes_per_offset({each.topic for each in goal})
            by_bytes = offsets_for_bytes(begins, goal, sizes, self.options.max_bytes_per_trigger)
            limit = by_bytes if limit is None else min(limit, by_bytes)
        return goal if limit is None else limited_ends(begins, goal, limit)

    def _report_gone(self, partitions: set[TopicPartition]) -> None:
        if partitions:
            report_loss(
                f"{describe(partitions)} was being read and does not exist any more, or is not "
                "subscribed to",
                fail=self.options.fail_on_data_loss,
            )
