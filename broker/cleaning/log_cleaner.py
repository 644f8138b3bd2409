"""LogCleaner: picks the filthiest log, has a thread clean it, and swaps in the result.

    loop     look_for_work: choose a log, freeze a plan           <----------------+
    thread   kafka-log-cleaner-thread-N: two passes over it                        |
    loop     swap the new segments in, group by group; checkpoint ----- next log --+

It belongs to the thread that owns the logs. Appends and fetches go on meanwhile: the threads see
sealed segments only and hold no GIL while they work on them.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from seglog.broker.cleaning.checkpoints import CleanerCheckpoints
from seglog.broker.cleaning.jobs import (
    CleaningAbortedError,
    CleaningJob,
    CleaningOutcome,
    SegmentExchange,
)
from seglog.broker.cleaning.rests import Rests
from seglog.broker.cleaning.states import CleaningEvent, CleaningState, CleaningStates
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.cleaner.candidates import (
    CleanableLog,
    filthiest,
    look_at,
    make_plan,
    nothing_to_clean,
)
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import CleaningResult, SegmentSwap, progress_of
from seglog.broker.storage.errors import (
    ClosedFileError,
    DiskFullError,
    MissingFileError,
    StorageError,
)
from seglog.broker.storage.files import FileSystem
from seglog.broker.storage.layout import CLEANED_SUFFIX
from seglog.broker.storage.log import Log
from seglog.broker.storage.log_manager import LogManager
from seglog.broker.storage.log_swap import discard_new_segments
from seglog.broker.storage.segment import LogSegment
from seglog.config import BrokerConfig
from seglog.protocol.errors import SeglogError
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

THREAD_NAME = "kafka-log-cleaner-thread"


@dataclass(slots=True)
class CleanerCounters:
    """What the cleaner has done since the broker started; plain numbers for the metrics."""

    passes: int = 0
    failures: int = 0
    bytes_mapped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_without_key: int = 0
    last_pass_seconds: float = 0.0


class LogCleaner:
    """Compaction of all logs whose ``cleanup.policy`` has ``compact``.

    Args:
        run_blocking: runs a job that writes a checkpoint in a worker.
        storage_failed: told of an error that takes a data directory offline.
        roll_overdue: seals active segments that have passed ``max.compaction.lag.ms`` (CLN-16).
        traffic: when there were requests, which passes give way to.

    Attributes:
        uncleanable: logs that failed to clean, with the reason; left alone until a restart, their
            deletion, or until somebody asks for them to be cleaned (CLN-8).
        counters: for the metrics.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        file_system: FileSystem,
        clock: Clock,
        *,
        run_blocking: Callable[[Callable[[], None]], "asyncio.Future[None]"],
        storage_failed: Callable[[Log, StorageError], None],
        roll_overdue: Callable[[], None],
        traffic: Traffic,
    ) -> None:
        self.uncleanable: dict[TopicPartition, str] = {}
        self.counters = CleanerCounters()
        self._config = config
        self._logs = logs
        self._file_system = file_system
        self._clock = clock
        self._run_blocking = run_blocking
        self._storage_failed = storage_failed
        self._roll_overdue = roll_overdue
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._threads = WorkerPool(
            THREAD_NAME, max(1, config.log_cleaner_threads), self._loop, in_bulk=True
        )
        self._states = CleaningStates()
        self._jobs: dict[TopicPartition, CleaningJob] = {}
        self._asked: dict[TopicPartition, asyncio.Future[CleaningOutcome]] = {}
        self._not_before_ms: dict[TopicPartition, int] = {}
        self._idle_cleaners: list[Cleaner] = []
        self._stop_waiting = threading.Event()
        self._is_stopping = False
        self._throttle = Throttle(
            config.log_cleaner_io_max_bytes_per_second, time.monotonic, self._stop_waiting.wait
        )
        self._exchange = SegmentExchange(
            self._swap_in, file_system.sync_directory, self._schedule_deletion
        )
        self._checkpoints = CleanerCheckpoints(file_system)
        log_ends = {log.topic_partition: log.offsets.log_end for log in logs.all_logs()}
        online = [log_dir.path for log_dir in logs.log_dirs if log_dir.is_online]
        self._outdated_checkpoints = {p for p in online if self._checkpoints.load(p, log_ends)}
        self._loop.call_soon(self._write_outdated_checkpoints)

    # ---- what others ask for

    def update_config(self, config: BrokerConfig) -> None:
        """Take other settings; passes that run go on with what they began with."""
        self._config = config
        self._threads.resize(max(1, config.log_cleaner_threads))
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        # The next ones are made with the new buffers; those at work now are not used again.
        self._idle_cleaners = []

    def clean_now(self, topic_partition: TopicPartition) -> "asyncio.Future[CleaningOutcome]":
        """Clean a log as soon as a thread is free, however clean it is.

        The log's active segment is left as it is: what lies in it stays dirty. A pass that runs
        already is no answer; another one follows it.
        """
        asked = self._asked.get(topic_partition)
        if asked is None:
            asked = self._asked[topic_partition] = self._loop.create_future()
            if self._config.log_cleaner_threads == 0:
                off = CleaningAbortedError("there is no cleaner: log.cleaner.threads is 0")
                self._answer(topic_partition, CleaningOutcome(0, 0, 0, 0, off))
                return asked
            self.uncleanable.pop(topic_partition, None)
            self.look_for_work()
        return asked

    def state_of(self, topic_partition: TopicPartition) -> CleaningState:
        """What happens to a log at the moment."""
        return self._states.of(topic_partition)

    def progress_of(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Bytes that the running cleaning has gone over, and how many there are to go over.

        What is dirty counts twice: it is read for the key map, and then again to be copied.
        """
        job = self._jobs.get(topic_partition)
        return (0, 0) if job is None else progress_of(job.plan, job.statistics)

    def look_at(self, log: Log) -> CleanableLog:
        """What there is to clean in a log; one whose files cannot be read is given up."""
        try:
            return self._look_into(log)
        except StorageError as error:
            self._cannot_begin(log, error)
            return nothing_to_clean(log)

    async def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """End the pass over a log, if one runs, and begin no other until ``resume`` (CLN-9)."""
        job = self._jobs.get(topic_partition)
        if job is None:
            self._states.apply(topic_partition, CleaningEvent.PAUSE)
            return
        self._states.apply(topic_partition, CleaningEvent.ABORT)
        job.is_aborted = True
        await asyncio.shield(job.ended)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Take back one ``abort_and_pause``."""
        self._states.apply(topic_partition, CleaningEvent.RESUME)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted: a new one of the same name is another log."""
        self._states.forget(topic_partition)
        self.uncleanable.pop(topic_partition, None)
        self._not_before_ms.pop(topic_partition, None)
        for log_dir in self._logs.log_dirs:
            if self._checkpoints.forget(log_dir.path, topic_partition):
                # On disk before a topic of that name can be: after a crash it would pass for clean.
                if not self._outdated_checkpoints:
                    self._loop.call_soon(self._write_outdated_checkpoints)
                self._outdated_checkpoints.add(log_dir.path)

    async def stop(self, deadline_seconds: float) -> bool:
        """End all passes at their next chunk; False if the deadline passed first."""
        self._is_stopping = True
        self._stop_waiting.set()
        for job in self._jobs.values():
            job.is_aborted = True
        for asked in self._asked.values():
            asked.cancel()
        return await self._threads.stop(deadline_seconds)

    # ---- choosing

    def look_for_work(self) -> None:
        """Give every idle thread a log; the scheduler calls it every ``log.cleaner.backoff.ms``."""
        if self._is_stopping or self._config.log_cleaner_threads == 0:
            return
        self._roll_overdue()
        while len(self._jobs) < self._threads.threads:
            chosen = self._choose()
            if chosen is None:
                return
            self._begin(*chosen)

    def _choose(self) -> tuple[Log, CleanableLog] | None:
        for topic_partition in self._asked:
            if self._states.of(topic_partition) is not CleaningState.IDLE:
                continue
            log = self._logs.get(topic_partition)
            if log is None:
                self._answer(topic_partition, CleaningOutcome(0, 0, 0, 0, _gone(topic_partition)))
                return self._choose()
            try:
                return log, self._look_into(log)
            except StorageError as error:
                self._cannot_begin(log, error)
                return self._choose()
        now_ms = self._clock.monotonic_ms()
        best = filthiest(
            (self.look_at(log), log.config.min_cleanable_dirty_ratio)
            for log in self._logs.all_logs()
            if log.config.compacts and self._may_be_cleaned(log.topic_partition, now_ms)
        )
        if best is None:
            return None
        log = self._logs.get(best.topic_partition)
        assert log is not None
        return log, best

    def _look_into(self, log: Log) -> CleanableLog:
        log_dir = self._logs.log_dir_of(log).path
        checkpoint = self._checkpoints.get(log_dir, log.topic_partition)
        return look_at(log, checkpoint, self._clock.time_ms())

    def _may_be_cleaned(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        return (
            topic_partition not in self.uncleanable
            and self._not_before_ms.get(topic_partition, 0) <= now_ms
            and self._states.of(topic_partition) is CleaningState.IDLE
        )

    def _postpone(self, log: Log, reason: object) -> None:
        """Leave a log alone for a while; nothing is wrong with it."""
        topic_partition, now_ms = log.topic_partition, self._clock.monotonic_ms()
        if self._not_before_ms.get(topic_partition, 0) <= now_ms:
            logger.warning(
                "event=cleaning-postponed log=%s reason=%r", topic_partition, str(reason)
            )
        self._not_before_ms[topic_partition] = now_ms + self._config.log_cleaner_backoff_ms

    def _cannot_begin(self, log: Log, error: StorageError) -> None:
        """Note that a log's files could not be looked at, and tell who has asked for it."""
        if isinstance(error, DiskFullError):  # or no descriptor: both pass
            self._postpone(log, error)
        else:
            self._give_up(log, error)
        size = log.segment_bytes_total
        self._answer(log.topic_partition, CleaningOutcome(size, size, 0, 0, error))

    # ---- a pass

    def _begin(self, log: Log, cleanable: CleanableLog) -> None:
        if cleanable.checkpoint_is_invalid and not log.config.deletes:
            logger.warning(
                "event=cleaner-checkpoint-reset log=%s first_dirty=%d",
                log.topic_partition,
                cleanable.first_dirty_offset,
            )
        try:
            plan = make_plan(log, cleanable, self._clock.time_ms())
        except StorageError as error:
            self._cannot_begin(log, error)
            return
        job = CleaningJob(log, plan, self._loop.create_future())
        job.size_before = log.segment_bytes_total
        # Who asks while a pass runs means the log as it is then: that pass is no answer.
        job.answers = self._asked.get(log.topic_partition)
        self._jobs[log.topic_partition] = job
        self._states.apply(log.topic_partition, CleaningEvent.START)
        idle = self._idle_cleaners
        cleaner = idle.pop() if idle else self._make_cleaner()
        started = self._clock.monotonic_ms()
        rests = Rests(self._traffic, time.monotonic_ns, time.sleep)
        running = self._threads.run(
            partial(job.run, cleaner, self._throttle, rests, self._loop, self._exchange)
        )
        running.add_done_callback(lambda _running: idle.append(cleaner))
        running.add_done_callback(partial(self._ended, job, started))

    def _make_cleaner(self) -> Cleaner:
        config = self._config
        threads = max(1, config.log_cleaner_threads)
        return Cleaner(
            self._file_system,
            map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            map_load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer_bytes=config.log_cleaner_io_buffer_size // threads // 2,
        )

    def _swap_in(self, job: CleaningJob, swap: SegmentSwap) -> list[LogSegment]:
        """Put finished segments in the place of their sources; runs on the loop."""
        log = job.log
        new = [
            LogSegment.open(
                self._file_system,
                log.directory,
                base_offset,
                log.config,
                self._clock.time_ms(),
                suffix=CLEANED_SUFFIX,
            )
            for base_offset in swap.new_base_offsets
        ]
        if job.is_over or self._logs.get(swap.topic_partition) is not log:
            for segment in new:
                segment.delete_files()
            raise CleaningAbortedError(f"{swap.topic_partition} is not cleaned any more")
        found = [log.segments.get(base_offset) for base_offset in swap.old_base_offsets]
        old = [segment for segment in found if segment is not None]
        try:
            return log.replace_segments(new, old)
        except DiskFullError:
            discard_new_segments(new)
            raise

    def _schedule_deletion(self, job: CleaningJob, removed: list[LogSegment]) -> None:
        self._logs.housekeeping.schedule_deletion(job.log, removed, self._clock.time_ms())

    def _ended(
        self,
        job: CleaningJob,
        started_ms: float,
        running: "asyncio.Future[CleaningResult]",
    ) -> None:
        topic_partition = job.plan.topic_partition
        del self._jobs[topic_partition]
        self._states.apply(topic_partition, CleaningEvent.END)
        self.counters.bytes_mapped += job.statistics.bytes_mapped
        self.counters.bytes_read += job.statistics.bytes_read
        self.counters.bytes_written += job.statistics.bytes_written
        self.counters.records_without_key += job.statistics.records_without_key
        self.counters.last_pass_seconds = (self._clock.monotonic_ms() - started_ms) / 1000
        try:
            self._take_outcome(job, running)
        finally:
            # Whatever went wrong: who deletes the topic waits for this.
            job.ended.set_result(None)
            self._loop.call_soon(self.look_for_work)

    def _take_outcome(self, job: CleaningJob, running: "asyncio.Future[CleaningResult]") -> None:
        topic_partition = job.plan.topic_partition
        error = None if running.cancelled() else running.exception()
        if not running.cancelled() and error is None:
            self._succeeded(job, running.result())
        elif isinstance(error, SeglogError):
            self._failed(job, error)
        elif error is not None:
            self.counters.failures += 1
            self.uncleanable[topic_partition] = f"{type(error).__name__}: {error}"
            logger.error("event=cleaner-bug log=%s", topic_partition, exc_info=error)
        if job.answers is not None:
            known = error if isinstance(error, SeglogError) else None
            if error is not None and known is None:
                known = CleaningAbortedError(f"the pass failed: {type(error).__name__}: {error}")
            self._answer(
                topic_partition,
                CleaningOutcome(
                    job.size_before,
                    job.log.segment_bytes_total,
                    job.statistics.bytes_read,
                    job.statistics.bytes_written,
                    known,
                ),
            )

    def _succeeded(self, job: CleaningJob, result: CleaningResult) -> None:
        log, statistics = job.log, result.statistics
        topic_partition = log.topic_partition
        self.counters.passes += 1
        logger.info(
            "event=log-cleaned log=%s end_offset=%d bytes_before=%d bytes_after=%d keys=%d"
            " records_read=%d records_kept=%d map_full=%s seconds=%.3f",
            topic_partition,
            result.end_offset,
            job.size_before,
            log.segment_bytes_total,
            statistics.keys,
            statistics.records_read,
            statistics.records_kept,
            statistics.is_map_full,
            self.counters.last_pass_seconds,
        )
        if self._logs.get(topic_partition) is not log:
            return
        if job.plan.dirty_segments and result.end_offset <= job.plan.first_dirty_offset:
            self._postpone(log, "the pass got no further")
        log_dir = self._logs.log_dir_of(log)
        self._checkpoints.set(log_dir.path, topic_partition, result.end_offset)
        self._write_checkpoint(log_dir.path, partial(self._note_storage_error, log))
        # What lies below the log start goes now, without waiting for the retention task (CLN-12).
        self._logs.housekeeping.run_retention(
            self._clock.time_ms(), only={topic_partition.topic}, dry_run=False
        )

    def _write_outdated_checkpoints(self) -> None:
        while self._outdated_checkpoints:
            log_dir = self._outdated_checkpoints.pop()
            self._write_checkpoint(log_dir, partial(_note_unwritten, log_dir))

    def _write_checkpoint(self, log_dir: str, failed: Callable[[StorageError], None]) -> None:
        present = {each.topic_partition for each in self._logs.all_logs()}
        write = self._checkpoints.job(log_dir, present)
        if write is None:
            return

        def look_at_outcome(written: "asyncio.Future[None]") -> None:
            error = None if written.cancelled() else written.exception()
            if isinstance(error, StorageError):
                failed(error)

        place = next(each for each in self._logs.log_dirs if each.path == log_dir)
        self._run_blocking(partial(place.run_inside, write)).add_done_callback(look_at_outcome)

    def _failed(self, job: CleaningJob, error: SeglogError) -> None:
        log = job.log
        gone = self._logs.get(log.topic_partition) is not log
        if isinstance(error, CleaningAbortedError) or gone:
            logger.info("event=cleaning-stopped log=%s", log.topic_partition)
        elif isinstance(error, DiskFullError):
            self._postpone(log, error)
            # What earlier groups and passes have replaced makes room for the next one.
            log_dir = self._logs.log_dir_of(log)
            self._logs.housekeeping.hurry_deletions(log_dir, self._clock.time_ms())
        elif _was_taken_away(log, error):
            self._postpone(log, "retention took a segment away")
        else:
            self._give_up(log, error)
            if isinstance(error, StorageError):
                self._note_storage_error(log, error)

    def _give_up(self, log: Log, error: SeglogError) -> None:
        """Leave a log alone from now on (CLN-8)."""
        if log.topic_partition in self.uncleanable:
            return
        self.counters.failures += 1
        self.uncleanable[log.topic_partition] = str(error)
        logger.error("event=log-uncleanable log=%s reason=%s", log.topic_partition, error)

    def _note_storage_error(self, log: Log, error: StorageError) -> None:
        if error.takes_dir_offline and not self._logs.log_dir_of(log).loses_only_a_log(error):
            self._storage_failed(log, error)
        else:
            logger.warning("event=cleaner-write-failed log=%s error=%s", log.topic_partition, error)

    def _answer(self, topic_partition: TopicPartition, outcome: CleaningOutcome) -> None:
        asked = self._asked.pop(topic_partition, None)
        if asked is not None and not asked.done():
            asked.set_result(outcome)


def _note_unwritten(log_dir: str, error: StorageError) -> None:
    logger.warning("event=cleaner-write-failed directory=%s error=%s", log_dir, error)


def _was_taken_away(log: Log, error: SeglogError) -> bool:
    """Whether a pass has failed because a segment was deleted under its hands."""
    if isinstance(error, MissingFileError):  # renamed between two looks at its name
        return all(segment.log.path != error.path for segment in log.segments)
    return isinstance(error, ClosedFileError)


def _gone(topic_partition: TopicPartition) -> SeglogError:
    return CleaningAbortedError(f"there is no log of {topic_partition}")
