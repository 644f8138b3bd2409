"""Retention and the disk guard over all logs: which segments go, and how they leave their logs.

A disk may keep any part of the renames that no sync of a folder covers, in any order: of three
segments that leave a log in one turn the second one may be gone while the first one is back, or an
index may be gone whose data file is back. So segments go in two steps:

    owner    run, or the steps of it       the log start is raised above what goes
    worker   log starts of the directory   from here on no record below is read
    owner    take_away                     the files get other names

A full disk may have no room for the log starts, and only what goes makes room. Then one segment of
each log goes at a time, from the lowest up, and its names are on disk before the next one follows.

Between the two the segments are still part of their log, below its start. If the second step does
not come, because the disk refuses or the broker stops, the next retention finds them there.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

from seglog.broker.storage.directories.data_directories import DataDirectories
from seglog.broker.storage.directories.deletion_queue import DeletionQueue
from seglog.broker.storage.directories.disk_guard import DirectoryUsage, excess_of, is_guarded
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.log_registry import LogRegistry
from seglog.broker.storage.directories.retention_plan import (
    PlannedDeletion,
    RetentionFinding,
    RetentionPlan,
)
from seglog.broker.storage.directories.storage_failures import StorageFailures
from seglog.broker.storage.errors import DeferredReadError, StorageError
from seglog.broker.storage.files.layout import parent_directory
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config import BrokerConfig
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class ScheduleDeletion(Protocol):
    """Has the files of segments removed later; see `LogHousekeeping.schedule_deletion`."""

    def __call__(
        self, log: Log, segments: Collection[LogSegment], now_ms: int, *, delay_ms: int | None
    ) -> None: ...


class LogRetention:
    """Takes old segments away from all logs of a broker.

    Args:
        failures: told the errors of the disks.
        free_bytes_of: free space of a directory's file system, by path.
        schedule_deletion: has files removed that have left their log.

    Attributes:
        deleted_segments: how many segments have left their logs since the start, by the rule that
            said so.
        deleted_bytes: their size.
        config: of the broker.
    """

    def __init__(
        self,
        directories: DataDirectories,
        registry: LogRegistry,
        deletions: DeletionQueue,
        failures: StorageFailures,
        *,
        config: BrokerConfig,
        free_bytes_of: Callable[[str], int],
        schedule_deletion: ScheduleDeletion,
    ) -> None:
        self.deleted_segments: Counter[str] = Counter()
        self.deleted_bytes: Counter[str] = Counter()
        self.config = config
        self._held: set[TopicPartition] = set()
        self._directories = directories
        self._registry = registry
        self._deletions = deletions
        self._free_bytes_of = free_bytes_of
        self._failures = failures
        self._schedule_deletion = schedule_deletion
        self._deferred: dict[str, DeferredReadError] = {}
        self._leaving: dict[Log, Sequence[PlannedDeletion]] = {}
        # Plans look at it while others have their turn. A plan that did not know of a log would
        # raise its start once more, and the step that waits for the disk would take segments away
        # below a start that is only in memory.
        self._bytes_leaving: dict[Log, int] = {}

    @property
    def held_by_future(self) -> list[TopicPartition]:
        """Partitions whose rule of age waits for records that are ahead of the clock."""
        return sorted(each for each in self._held if self._registry.get(each) is not None)

    # ---- the first step

    def run(
        self, now_ms: int, *, only: Collection[str] | None, dry_run: bool
    ) -> list[RetentionFinding]:
        """Begin to delete the segments that rules select, or only list them.

        Args:
            only: the topics to look at, None for all; the rules of directories only count for all.
        """
        findings: list[RetentionFinding] = []
        for _ in self.steps(now_ms, findings, only=only, dry_run=dry_run):
            pass
        return findings

    def steps(
        self,
        now_ms: int,
        findings: list[RetentionFinding],
        *,
        only: Collection[str] | None,
        dry_run: bool,
    ) -> Iterator[None]:
        """The same log by log: after each step others may use and change the logs.

        Args:
            findings: segments that go, or would go, are added; sorted once all steps are taken.
        """
        plan = self._new_plan(now_ms)
        for topic in list(self._registry.topics() if only is None else only):
            for log in self._registry.of_topic(topic):
                if self._registry.get(log.topic_partition) is log:
                    plan.add_own_rules([log])
                    self._note_held(plan, [log])
                    plan = self._finish_step(plan, now_ms, findings, dry_run=dry_run)
                yield
            logs = self._registry.of_topic(topic)
            if logs and logs[0].config.retention_bytes_total >= 0:
                plan.add_total_limit(logs, logs[0].config.retention_bytes_total)
                plan = self._finish_step(plan, now_ms, findings, dry_run=dry_run)
                yield
        if only is None and is_guarded(self.config):
            for log_dir in self._directories.writable:
                self._plan_guard(plan, log_dir, now_ms, dry_run=dry_run)
                plan = self._finish_step(plan, now_ms, findings, dry_run=dry_run)
                yield
        if dry_run:
            findings += plan.findings()
        findings.sort()

    def _new_plan(self, now_ms: int) -> RetentionPlan:
        return RetentionPlan(now_ms, self._bytes_leaving)

    def _finish_step(
        self,
        plan: RetentionPlan,
        now_ms: int,
        findings: list[RetentionFinding],
        *,
        dry_run: bool,
    ) -> RetentionPlan:
        """Begin the planned deletions, except in a dry run; returns the plan to go on with."""
        if dry_run or not plan.has_work:
            return plan
        findings += self._begin(plan, now_ms)
        return self._new_plan(now_ms)

    def _note_held(self, plan: RetentionPlan, logs: Collection[Log]) -> None:
        for log in logs:
            if log in plan.held:
                self._held.add(log.topic_partition)
                plan.held.discard(log)
            else:
                self._held.discard(log.topic_partition)

    def _begin(self, plan: RetentionPlan, now_ms: int) -> list[RetentionFinding]:
        """Raise log starts above the planned segments; returns the segments that really go."""
        found: list[RetentionFinding] = []
        for log, error in plan.failures.items():
            self._failed(log, error)
        for log, planned in plan.by_log.items():
            if not self._directories.find(parent_directory(log.directory)).is_writable_now:
                continue
            try:
                passed = log.pass_over_segments([each.segment for each in planned], now_ms)
            except StorageError as error:
                self._failed(log, error)
                continue
            if passed:
                # The active one may have to wait for room.
                leaving = self._leaving[log] = planned[: len(passed)]
                self._bytes_leaving[log] = sum(each.segment.size_bytes for each in leaving)
                found += [each.finding() for each in leaving]
        return sorted(found)

    # ---- the second step

    def leaving(self) -> dict[LogDir, list[Log]]:
        """Logs with segments that are to be taken away once their log starts are on disk."""
        found: dict[LogDir, list[Log]] = {}
        for log in list(self._leaving):
            if self._registry.get(log.topic_partition) is log:
                log_dir = self._directories.find(parent_directory(log.directory))
                found.setdefault(log_dir, []).append(log)
            else:
                self._stop_leaving(log)
        return found

    def _stop_leaving(self, log: Log) -> Sequence[PlannedDeletion]:
        self._bytes_leaving.pop(log, None)
        return self._leaving.pop(log, ())

    def keep(self, logs: Collection[Log]) -> None:
        """Take nothing away from logs whose starts are not on disk; the next run tries again."""
        for log in logs:
            self._stop_leaving(log)

    def take_away(self, logs: Collection[Log], now_ms: int) -> None:
        """Take the segments below their starts, which are on disk, away from logs."""
        for log in logs:
            planned = self._stop_leaving(log)
            if not planned or self._registry.get(log.topic_partition) is not log:
                continue
            # Meanwhile an exchange may have put other segments in their place.
            reasons = {each.segment: each.reason for each in planned}
            doomed = [each for each in log.segments.below(log.offsets.log_start) if each in reasons]
            try:
                removed = log.delete_segments(doomed, now_ms)
            except StorageError as error:
                self._failed(log, error)
                continue
            if removed:
                self._are_gone(log, {each: reasons[each] for each in removed}, now_ms)

    def take_lowest_away(self, logs: Collection[Log], now_ms: int) -> list[Log]:
        """Take the lowest of their segments away from logs whose starts find no room on the disk.

        Returns:
            The logs whose names have to be on disk before more is taken away.
        """
        changed = []
        for log in logs:
            planned = list(self._leaving.pop(log, ()))
            lowest = planned[:1]
            self._leaving[log] = lowest
            self.take_away([log], now_ms)
            if lowest and lowest[0].segment.base_offset not in log.segments:
                changed.append(log)
                if planned[1:]:
                    self._leaving[log] = planned[1:]
        return changed

    def gone(self, findings: Iterable[RetentionFinding]) -> list[RetentionFinding]:
        """Which of the segments that a run began to delete have left their logs by now."""
        found = []
        for each in findings:
            log = self._registry.get(each.topic_partition)
            if log is None or each.base_offset not in log.segments:
                found.append(each)
        return found

    def _are_gone(self, log: Log, removed: dict[LogSegment, str], now_ms: int) -> None:
        for segment, reason in removed.items():
            self.deleted_segments[reason] += 1
            self.deleted_bytes[reason] += segment.size_bytes
        is_urgent = any(reason.startswith("log.dir.") for reason in removed.values())
        self._schedule_deletion(log, list(removed), now_ms, delay_ms=0 if is_urgent else None)
        logger.info(
            "event=segments-deleted log=%s segments=%d bytes=%d reasons=%r log_start=%d",
            log.topic_partition,
            len(removed),
            sum(segment.size_bytes for segment in removed),
            sorted(set(removed.values())),
            log.offsets.log_start,
        )

    def take_deferred(self) -> list[DeferredReadError]:
        """The work of another thread before retention can judge some logs."""
        deferred, self._deferred = self._deferred, {}
        return list(deferred.values())

    def _failed(self, log: Log, error: StorageError) -> None:
        if isinstance(error, DeferredReadError):
            self._deferred[error.path] = error
            return
        log_dir = self._directories.find(parent_directory(log.directory))
        logger.warning("event=retention-failed log=%s error=%s", log.topic_partition, error)
        self._failures.report_harmless(log_dir, error, log)

    # ---- the disk guard

    def check_disk_guard(self, now_ms: int) -> list[RetentionFinding]:
        """Begin to make room in directories that hold too much, or have them refuse writes.

        Cheap where no limit is set; called more often than retention runs.
        """
        if not is_guarded(self.config):
            for log_dir in self._directories.online:
                log_dir.refuses_writes = None
            return []
        plan = self._new_plan(now_ms)
        for log_dir in self._directories.writable:
            self._plan_guard(plan, log_dir, now_ms, dry_run=False)
        return self._begin(plan, now_ms)

    def _plan_guard(
        self, plan: RetentionPlan, log_dir: LogDir, now_ms: int, *, dry_run: bool
    ) -> None:
        logs = self._registry.of_directory(log_dir)
        try:
            free_bytes = self._free_bytes_of(log_dir.path)
        except StorageError as error:
            self._failures.report(log_dir, error)
            return
        leaving_bytes = sum(self._bytes_leaving.get(log, 0) for log in logs)
        usage = DirectoryUsage(
            sum(log.segment_bytes_total for log in logs) - leaving_bytes,
            free_bytes + log_dir.bytes_pending_deletion + leaving_bytes,
        )
        excess = excess_of(usage, self.config)
        left_bytes = 0
        if excess is not None:
            left_bytes = plan.add_disk_guard(logs, excess.size_bytes, excess.key)
        if dry_run:
            return
        if excess is not None or free_bytes < self.config.log_dir_free_bytes_min:
            self._deletions.hurry(log_dir, now_ms)
        was_refusing = log_dir.refuses_writes is not None
        log_dir.refuses_writes = None
        if excess is not None and left_bytes > 0:
            log_dir.refuses_writes = (
                f"data directory {log_dir.path} takes no records for now: {excess.explanation}, "
                "and nothing more may be deleted"
            )
        if was_refusing != (log_dir.refuses_writes is not None):
            logger.warning(
                "event=disk-guard directory=%s refuses_writes=%r",
                log_dir.path,
                log_dir.refuses_writes,
            )
