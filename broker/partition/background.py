"""Background work on logs: the tasks of the scheduler, and the same on demand.

The loop decides and collects, workers do the blocking work, the loop notes the outcome.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from seglog.broker.errors import RequestError
from seglog.broker.partition.deferred_reads import DeferredReads, read_pools
from seglog.broker.partition.registry import PartitionRegistry
from seglog.broker.runtime.broker_workers import Workers
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.scheduler import (
    DELETE_FILE_TASK,
    FLUSHER_TASK,
    HIGH_WATERMARK_CHECKPOINT_TASK,
    LOG_START_OFFSET_CHECKPOINT_TASK,
    RECOVERY_POINT_CHECKPOINT_TASK,
    RETENTION_TASK,
    Scheduler,
    TaskFunction,
)
from seglog.broker.runtime.turns import in_turns
from seglog.broker.runtime.workers import WorkersStoppedError
from seglog.broker.storage.directories.deletion_queue import Deletion
from seglog.broker.storage.directories.disk_reserve import RESERVE_BYTES
from seglog.broker.storage.directories.log_dir import LogDir, LogDirJob
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.directories.retention_plan import RetentionFinding
from seglog.broker.storage.errors import DeferredReadError, DiskFullError, StorageError
from seglog.broker.storage.log.log import Log
from seglog.config import BrokerConfig

logger = logging.getLogger(__name__)

DISK_GUARD_TASK: Final = "disk-guard"

_DISK_GUARD_PERIOD_MS: Final = 1000
_DELETE_FILE_PERIOD_MS: Final = 250
_FLUSHER_PERIOD_MS_MAX: Final = 1000
_LONGEST_PERIOD_MS: Final = 24 * 3_600_000
"""Where a period is "never", the task still runs once a day, which costs nothing."""
_FULL_FOR_MS: Final = 60_000
"""After so long without a refused append a directory counts as having room, if it looks like it."""


class _Full(NamedTuple):
    """When an append last found no room in a directory, and how much was free then."""

    seen_ms: float
    free_bytes: int


class BackgroundWork:
    """Housekeeping over all partitions."""

    def __init__(
        self,
        logs: LogManager,
        partitions: PartitionRegistry,
        workers: Workers,
        clock: Clock,
    ) -> None:
        self._logs = logs
        self._housekeeping = logs.housekeeping
        self._retention = logs.housekeeping.retention
        self._partitions = partitions
        self._directories = workers.directories
        self._deferred_reads = DeferredReads(read_pools(logs, workers.directories))
        self._clock = clock
        self._full: dict[LogDir, _Full] = {}
        self._busy: dict[tuple[str, LogDir], asyncio.Task[object]] = {}
        self._running: set[asyncio.Task[object]] = set()

    def schedule(self, scheduler: Scheduler, config: BrokerConfig) -> None:
        """Hand every task to the scheduler, under Kafka's names and with Kafka's periods."""
        delay_ms = config.log_initial_task_delay_ms

        def add(name: str, task: TaskFunction, period_ms: int, first_ms: int) -> None:
            period_ms = min(max(1, period_ms), _LONGEST_PERIOD_MS)
            scheduler.schedule(name, task, first_ms, period_ms)

        add(RETENTION_TASK, self.retention, config.log_retention_check_interval_ms, delay_ms)
        # Kafka's default for it is "never"; then flush.ms of a topic would do nothing.
        flush_ms = min(config.log_flush_scheduler_interval_ms, _FLUSHER_PERIOD_MS_MAX)
        add(FLUSHER_TASK, self.flush_due, flush_ms, flush_ms)
        add(
            RECOVERY_POINT_CHECKPOINT_TASK,
            self.checkpoint_recovery_points,
            config.log_flush_offset_checkpoint_interval_ms,
            delay_ms,
        )
        add(
            LOG_START_OFFSET_CHECKPOINT_TASK,
            self.checkpoint_log_starts,
            config.log_flush_start_offset_checkpoint_interval_ms,
            delay_ms,
        )
        add(
            HIGH_WATERMARK_CHECKPOINT_TASK,
            self.checkpoint_high_watermarks,
            config.replica_high_watermark_checkpoint_interval_ms,
            config.replica_high_watermark_checkpoint_interval_ms,
        )
        add(DELETE_FILE_TASK, self.delete_files, _DELETE_FILE_PERIOD_MS, _DELETE_FILE_PERIOD_MS)
        add(DISK_GUARD_TASK, self.guard_disks, _DISK_GUARD_PERIOD_MS, _DISK_GUARD_PERIOD_MS)

    # ---- retention and deletion

    async def run_retention(self, *, only: Collection[str] | None = None) -> list[RetentionFinding]:
        """Apply the retention rules now; returns the deleted segments.

        Args:
            only: names topics, None means all.
        """
        findings = await self._run_retention_once(only)
        if deferred := self._retention.take_deferred():
            await self._work_off(deferred)
            again = await self._run_retention_once(only)
            known = {(each.topic_partition, each.base_offset) for each in findings}
            new = [each for each in again if each[:2] not in known]
            findings = sorted([*findings, *new])
        return self._retention.gone(findings)

    async def _run_retention_once(self, only: Collection[str] | None) -> list[RetentionFinding]:
        findings: list[RetentionFinding] = []
        steps = self._retention.steps(self._clock.time_ms(), findings, only=only, dry_run=False)
        async for _ in in_turns(steps):
            pass
        await self._take_segments_away(findings)
        return findings

    def begin_retention(self, log: Log) -> None:
        """Apply the retention rules to the topic of a log, soon."""
        self._keep(self.run_retention(only={log.topic_partition.topic}), RETENTION_TASK)

    async def find_obsolete(self, *, only: Collection[str] | None = None) -> list[RetentionFinding]:
        """What ``run_retention`` would delete now; changes nothing."""
        findings: list[RetentionFinding] = []
        steps = self._retention.steps(self._clock.time_ms(), findings, only=only, dry_run=True)
        async for _ in in_turns(steps):
            pass
        return findings

    async def retention(self) -> None:
        """The task: retention of everything, and rolls that only time asks for."""
        now_ms = self._clock.time_ms()
        async for partition in in_turns(list(self._partitions.all())):
            if not partition.is_closed:
                partition.roll_if_overdue(now_ms)
        await self.run_retention()

    async def _take_segments_away(self, findings: Iterable[RetentionFinding]) -> None:
        """Take away what retention has begun with, once the raised log starts are on disk."""
        self._recount_waiters(findings)
        # A run that is under way takes away what this one has begun with as well. The caller waits
        # for that run, since it is told that the segments are gone.
        running = [
            self._busy.get((RETENTION_TASK, log_dir))
            or self._begin(RETENTION_TASK, log_dir, self._take_away_in(log_dir))
            for log_dir in self._retention.leaving()
        ]
        await self._directories.wait_patiently(running)

    async def _take_away_in(self, log_dir: LogDir) -> None:
        while logs := self._retention.leaving().get(log_dir):
            errors = await self.store_log_starts({log: log.offsets.log_start for log in logs})
            if isinstance(errors.get(log_dir), DiskFullError):
                await self._make_room_for_log_starts(log_dir, logs)
            elif errors:
                logger.warning(
                    "event=retention-postponed directory=%s error=%s", log_dir.path, errors[log_dir]
                )
                self._retention.keep(logs)
            else:
                self._retention.take_away(logs, self._clock.time_ms())

    async def _make_room_for_log_starts(self, log_dir: LogDir, logs: Collection[Log]) -> None:
        """Make room on a full disk, in an order that needs no log start in the checkpoint."""
        changed = self._retention.take_lowest_away(logs, self._clock.time_ms())
        for log in changed:
            sync = log.removed_names.begin_sync(log.directory).run
            if await self._run_job(LogDirJob(log_dir, sync)) is not None:
                self._retention.keep(logs)
                return
        self._housekeeping.hurry_deletions(log_dir, self._clock.time_ms())
        await self.delete_files()

    async def _work_off(self, deferred: Iterable[DeferredReadError]) -> None:
        """Have indexes healed, and snapshots put on disk, that retention has to wait for."""
        for error in deferred:
            try:
                await self._deferred_reads.work_off(error)
            except StorageError as failure:
                logger.warning("event=segment-not-examined path=%s error=%s", error.path, failure)

    def roll_if_overdue(self, log: Log) -> None:
        """Seal the active segment of one log, if it has passed ``max.compaction.lag.ms``."""
        try:
            partition = self._partitions.get(*log.topic_partition)
        except RequestError:  # deleted or offline meanwhile: nothing is appended
            return
        partition.roll_if_overdue(self._clock.time_ms())

    async def guard_disks(self) -> None:
        """The task: make room where a limit is set or a disk is full."""
        now_ms = self._clock.time_ms()
        await self._take_segments_away(self._retention.check_disk_guard(now_ms))
        if self._partitions.full_directories:
            await self.make_room()
        jobs: list[LogDirJob] = []
        for log_dir in self._logs.log_dirs:
            if log_dir.owes_leader_epoch and log_dir.is_writable_now:
                jobs.append(LogDirJob(log_dir, log_dir.store_leader_epoch_floor))
            if log_dir.reserve.is_open:
                jobs += self._housekeeping.reserve_jobs(log_dir)
        await self._run_jobs(DISK_GUARD_TASK, jobs)

    async def make_room(self) -> None:
        """Remove the files at once that wait for their removal in full directories."""
        self._note_full()
        now_ms = self._clock.time_ms()
        for log_dir in self._partitions.full_directories:
            self._housekeeping.hurry_deletions(log_dir, now_ms)
        await self.delete_files()
        await self._forget_full()

    def _note_full(self) -> None:
        """Note how much is free in directories that have just found no room."""
        found = self._partitions.found_no_room
        for log_dir in self._partitions.full_directories:
            if log_dir in found or log_dir not in self._full:
                free_bytes = self._housekeeping.free_bytes(log_dir)
                self._full[log_dir] = _Full(self._clock.monotonic_ms(), free_bytes)
        found.clear()

    async def _forget_full(self) -> None:
        """Mark directories as no longer full that have more room, or refused nothing for a while.

        A disk that has just refused a batch may take a smaller one: that alone is no good news.
        """
        room: list[LogDir] = []
        for log_dir, full in self._full.items():
            free_bytes = self._housekeeping.free_bytes(log_dir)
            is_quiet = self._clock.monotonic_ms() - full.seen_ms >= _FULL_FOR_MS
            needed_bytes = RESERVE_BYTES + (0 if is_quiet else full.free_bytes)
            if free_bytes >= needed_bytes or not log_dir.is_online:
                room.append(log_dir)
        # Make the reserve first, before waiting appends take the room.
        reserves = [
            job for each in room for job in self._housekeeping.reserve_jobs(each, has_room=True)
        ]
        await self._run_jobs(DISK_GUARD_TASK, reserves)
        for log_dir in room:
            log_dir.note_room()
            self._full.pop(log_dir, None)

    async def delete_files(self) -> None:
        """The task: remove due files, but none in directories whose last removals still run."""
        while True:
            busy = {log_dir for purpose, log_dir in self._busy if purpose == DELETE_FILE_TASK}
            due = self._housekeeping.take_due_deletions(self._clock.time_ms(), busy)
            if not due:
                return
            by_directory: dict[LogDir, list[Deletion]] = {}
            for deletion in due:
                by_directory.setdefault(deletion.log_dir, []).append(deletion)
            running = [
                self._begin(DELETE_FILE_TASK, log_dir, self._delete(log_dir, deletions))
                for log_dir, deletions in by_directory.items()
            ]
            if not await self._directories.wait_patiently(running):
                return

    async def _delete(self, log_dir: LogDir, deletions: Iterable[Deletion]) -> None:
        pool = self._directories.deletion(log_dir.path)
        running = [(deletion, pool.run(deletion.run)) for deletion in deletions]
        for deletion, removed in running:
            error: StorageError | None = None
            try:
                await removed
            except StorageError as failure:
                error = failure
            self._housekeeping.deletion_done(deletion, error)

    def _recount_waiters(self, findings: Iterable[RetentionFinding]) -> None:
        for topic, number in {finding.topic_partition for finding in findings}:
            partition = self._partitions.find(topic, number)
            if partition is not None:
                # Fetches that wait below the new log start have to hear of it.
                partition.fetch_waiters.recount()

    # ---- flushes and checkpoints

    async def flush_due(self) -> None:
        """The task: sync the logs whose records have waited for ``flush.ms``, or for room."""
        now_ms = self._clock.time_ms()
        async for partition in in_turns(list(self._partitions.all())):
            if not partition.is_closed:
                # A failure takes the directory offline and is reported there.
                partition.flush_if_due(now_ms)

    async def checkpoint_recovery_points(self) -> None:
        """The task: write recovery points that have moved."""
        await self._run_jobs(
            RECOVERY_POINT_CHECKPOINT_TASK,
            await _collect(self._housekeeping.recovery_point_steps),
        )

    async def checkpoint_log_starts(self) -> None:
        """The task: write log start offsets that have moved."""
        await self._run_jobs(
            LOG_START_OFFSET_CHECKPOINT_TASK, await _collect(self._housekeeping.log_start_steps)
        )

    async def checkpoint_high_watermarks(self) -> None:
        """The task: write high watermarks that have moved."""
        await self._run_jobs(
            HIGH_WATERMARK_CHECKPOINT_TASK,
            await _collect(self._housekeeping.high_watermark_steps),
        )

    async def store_log_starts(self, wanted: Mapping[Log, int]) -> dict[LogDir, StorageError]:
        """Have log start offsets on disk that logs are about to get.

        Returns:
            The errors of directories that refuse.
        """
        log_dirs = {self._logs.log_dir_of(log) for log in wanted}
        freeing = {
            self._logs.log_dir_of(log) for log, start in wanted.items() if _frees(log, start)
        }
        with self._housekeeping.wanted_starts(wanted):
            jobs = await _collect(
                partial(self._housekeeping.log_start_steps, only=log_dirs, freeing=freeing)
            )
            outcomes = await asyncio.gather(*(self._run_job(job) for job in jobs))
        # Where a directory was lost during the collection, nothing was written.
        errors = {
            log_dir: StorageError(f"data directory {log_dir.path} takes no changes any more")
            for log_dir in log_dirs
            if not log_dir.is_writable_now
        }
        for job, error in zip(jobs, outcomes, strict=True):
            if error is not None:
                errors[job.log_dir] = error
        return errors

    async def _run_jobs(self, purpose: str, jobs: Iterable[LogDirJob]) -> None:
        """Run jobs in the threads of their directories; not where the last ones still run."""
        by_directory: dict[LogDir, list[LogDirJob]] = {}
        for job in jobs:
            if (purpose, job.log_dir) not in self._busy:
                by_directory.setdefault(job.log_dir, []).append(job)
        running = [
            self._begin(purpose, log_dir, self._run_all(jobs_there))
            for log_dir, jobs_there in by_directory.items()
        ]
        await self._directories.wait_patiently(running)

    def _begin(
        self, purpose: str, log_dir: LogDir, work: Coroutine[None, None, object]
    ) -> "asyncio.Task[object]":
        """Let work in a directory run to its end, however long that hangs."""
        key = purpose, log_dir
        task = self._busy[key] = self._keep(work, purpose)
        task.add_done_callback(lambda _task: self._busy.pop(key, None))
        return task

    def _keep(self, work: Coroutine[None, None, object], name: str) -> "asyncio.Task[object]":
        """Run work without a waiter, and keep the reference that asyncio does not keep."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _run_all(self, jobs: Iterable[LogDirJob]) -> None:
        for job in jobs:
            await self._run_job(job)

    async def _run_job(self, job: LogDirJob) -> StorageError | None:
        try:
            await self._directories.changes(job.log_dir.path).run(job.run)
        except StorageError as error:
            self._logs.failures.report(job.log_dir, error)
            return error
        except WorkersStoppedError as error:
            return StorageError(str(error))  # the stop writes all checkpoints, but later
        return None


async def _collect(steps: Callable[[list[LogDirJob]], Iterator[None]]) -> list[LogDirJob]:
    """Collect jobs over as many turns as that takes."""
    jobs: list[LogDirJob] = []
    async for _ in in_turns(steps(jobs)):
        pass
    return jobs


def _frees(log: Log, log_start: int) -> bool:
    """Whether a segment goes when the log begins at ``log_start``."""
    first = log.segments.first
    second = None if first is None else log.segments.higher(first.base_offset)
    return second is not None and second.base_offset <= log_start
