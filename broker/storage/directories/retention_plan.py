"""The plan of one retention pass over many logs, made before anything is changed.

On top of the rules of each log (``retention``) there are two that look at several logs at once, and
take the oldest segments, by largest timestamp, wherever they lie. A timestamp far ahead of the
clock tells no age: there the time when the file was last written counts, so that records from the
future are not spared at the cost of all others.

* ``retention.bytes.total``: the bytes of a topic over all its partitions;
* the disk guard: the bytes of a data directory, or the free space of its file system.

Both take only sealed segments below the high watermark of topics whose policy is to delete, and of
each log the oldest first, so that no log gets a hole. A dry run makes the same plan as a real pass.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from seglog.broker.storage.errors import MissingFileError, StorageError
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.protocol.types import NO_TIMESTAMP, TopicPartition

TOTAL_REASON: Final = "retention.bytes.total"
AHEAD_MS: Final = 3_600_000
"""By so much the clocks of clients may differ; a time further ahead tells no age."""


class RetentionFinding(NamedTuple):
    """A segment that is or would be deleted, and the rule that says so."""

    topic_partition: TopicPartition
    base_offset: int
    size_bytes: int
    reason: str


class PlannedDeletion(NamedTuple):
    """One segment of the plan."""

    log: Log
    segment: LogSegment
    reason: str

    def finding(self) -> RetentionFinding:
        """The same in words."""
        return RetentionFinding(
            self.log.topic_partition, self.segment.base_offset, self.segment.size_bytes, self.reason
        )


class RetentionPlan:
    """The segments that go in one pass; of each log a run of its oldest ones.

    Args:
        now_ms: wall clock.
        leaving: bytes of segments that are going already, by log; such a log gives nothing more
            before they are gone.

    Attributes:
        failures: logs whose files could not be read, with the error; they keep everything.
        held: logs that a timestamp ahead of the clock keeps from their rule of age.
    """

    def __init__(self, now_ms: int, leaving: Mapping[Log, int] = MappingProxyType({})) -> None:
        self.failures: dict[Log, StorageError] = {}
        self.held: set[Log] = set()
        self._now_ms = now_ms
        self._leaving = leaving
        self._by_log: dict[Log, list[PlannedDeletion]] = {}

    def __len__(self) -> int:
        return sum(len(planned) for planned in self._by_log.values())

    @property
    def has_work(self) -> bool:
        """Whether anything is planned, or has failed."""
        return bool(self._by_log or self.failures)

    @property
    def by_log(self) -> Mapping[Log, list[PlannedDeletion]]:
        """The plan, log by log."""
        return self._by_log

    def findings(self) -> list[RetentionFinding]:
        """The plan in words, ordered by partition and offset."""
        planned = sorted(self._by_log.items(), key=lambda item: item[0].topic_partition)
        return [deletion.finding() for _, deletions in planned for deletion in deletions]

    def planned_bytes(self, log: Log) -> int:
        """How much of a log goes."""
        return sum(deletion.segment.size_bytes for deletion in self._by_log.get(log, ()))

    def add_own_rules(self, logs: Iterable[Log]) -> None:
        """Plan by the rules of each log alone."""
        now_ms = self._now_ms
        for log in logs:
            if log in self._leaving:
                continue
            try:
                found = log.deletable_segments(now_ms) if may_have_deletable(log, now_ms) else []
                if not found and is_held_by_the_future(log, now_ms):
                    self.held.add(log)
            except StorageError as error:
                self.failures[log] = error
                continue
            if found:
                self._by_log[log] = [
                    PlannedDeletion(log, segment, reason.value) for segment, reason in found
                ]

    def add_total_limit(self, logs: Iterable[Log], limit_bytes: int) -> None:
        """Plan for a topic's limit: whole segments, as long as the rest is not below it."""
        topic_logs = list(logs)
        kept_bytes = sum(
            log.segment_bytes_total - self.planned_bytes(log) - self._leaving.get(log, 0)
            for log in topic_logs
        )
        excess = kept_bytes - limit_bytes
        for deletion in self._oldest(topic_logs, TOTAL_REASON):
            if deletion.segment.size_bytes > excess:
                return
            self._add(deletion)
            excess -= deletion.segment.size_bytes

    def add_disk_guard(self, logs: Iterable[Log], excess_bytes: int, reason: str) -> int:
        """Plan until a directory is rid of its excess; returns the remaining excess."""
        directory_logs = list(logs)
        excess_bytes -= sum(self.planned_bytes(log) for log in directory_logs)
        if excess_bytes <= 0:
            return 0
        for deletion in self._oldest(directory_logs, reason):
            self._add(deletion)
            excess_bytes -= deletion.segment.size_bytes
            if excess_bytes <= 0:
                return 0
        return excess_bytes

    def _add(self, deletion: PlannedDeletion) -> None:
        self._by_log.setdefault(deletion.log, []).append(deletion)

    def _oldest(self, logs: list[Log], reason: str) -> Iterator[PlannedDeletion]:
        """Segments that may go and are not planned yet: the oldest next one of any log first."""
        candidates = [
            self._next_of(log, number, reason)
            for number, log in enumerate(logs)
            if log.config.deletes and len(log.segments) > 1 and log not in self._leaving
        ]
        for _, _, deletion in heapq.merge(*candidates):
            yield deletion

    def _next_of(
        self, log: Log, number: int, reason: str
    ) -> Iterator[tuple[int, tuple[int, int], PlannedDeletion]]:
        planned_count = len(self._by_log.get(log, ()))
        segments = tuple(log.segments)
        for position in range(planned_count, len(segments) - 1):
            segment = segments[position]
            if segments[position + 1].base_offset > log.offsets.high_watermark:
                return
            deletion = PlannedDeletion(log, segment, reason)
            try:
                largest_timestamp_ms = self._timestamp_of(segment)
            except MissingFileError:
                largest_timestamp_ms = NO_TIMESTAMP  # it counts, and holds nothing any more
            except StorageError as error:
                self.failures[log] = error
                return
            # Equal timestamps are told apart by numbers, since deletions have no order.
            yield largest_timestamp_ms, (number, position), deletion

    def _timestamp_of(self, segment: LogSegment) -> int:
        """The time of a segment: its largest timestamp, or if far ahead, the time of writing.

        A clock that was wrong for a minute gives records the year 2038. By that they would be the
        youngest of all, and every other log would be emptied before theirs.
        """
        largest_timestamp_ms = segment.largest_timestamp_ms
        if largest_timestamp_ms > self._now_ms + AHEAD_MS:
            return min(segment.files.modified_ms, self._now_ms)
        return largest_timestamp_ms


def may_have_deletable(log: Log, now_ms: int) -> bool:
    """Whether the oldest segment may go; False for an idle log at the cost of a few comparisons.

    True as well where timestamps ahead of the clock keep it: the log looks closer and says so.
    """
    segments, config = log.segments, log.config
    first = segments.first
    assert first is not None, log
    if len(segments) > 1:
        second = segments.higher(first.base_offset)
        if second is not None and second.base_offset <= log.offsets.log_start:
            return True
    elif first.size_bytes == 0:
        return False
    if not config.deletes:
        return False
    if config.retention_bytes >= 0 and log.segment_bytes_total > config.retention_bytes:
        return True
    try:
        age_ms = now_ms - first.largest_timestamp_ms
    except MissingFileError:
        return True  # those behind it have to be asked
    return config.retention_ms >= 0 and (age_ms > config.retention_ms or age_ms < 0)


def is_held_by_the_future(log: Log, now_ms: int) -> bool:
    """Whether the rule of age spares a log because its oldest segment is ahead of the clock."""
    config, first = log.config, log.segments.first
    if first is None or not config.deletes or config.retention_ms < 0 or first.size_bytes == 0:
        return False
    return first.largest_timestamp_ms > now_ms
