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
from collections.abc import Callable, Mapping
from functools import partial

from seglog.broker.cleaning.checkpoint_saves import CheckpointSaves, RunInDirectory
from seglog.broker.cleaning.cleaning_states import CleaningEvent, CleaningState, CleaningStates
from seglog.broker.cleaning.counters import CleanerCounters
from seglog.broker.cleaning.dirty_logs import DirtyLogs
from seglog.broker.cleaning.exchange import Exchanger
from seglog.broker.cleaning.jobs import (
    CleaningAbortedError,
    CleaningJob,
    CleaningOutcome,
)
from seglog.broker.cleaning.pacing import Pacer
from seglog.broker.cleaning.pass_results import PassResults
from seglog.broker.cleaning.skipped_logs import SkippedLogs
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.cleaner.candidates import (
    CleanableLog,
    look_at,
    make_plan,
    nothing_to_clean,
)
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import CleaningResult, progress_of
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import DeferredReadError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.log import Log
from seglog.config import BrokerConfig
from seglog.protocol.errors import SeglogError
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

THREAD_NAME = "kafka-log-cleaner-thread"


class LogCleaner:
    """Compaction of all logs whose ``cleanup.policy`` has ``compact``.

    Args:
        run_in_directory: runs a job that writes a checkpoint in a worker of a data directory,
            which is named by its path.
        roll_if_overdue: seals the active segment of a log if it has passed
            ``max.compaction.lag.ms`` (CLN-16).
        begin_retention: has what lies below the start of a log deleted (CLN-12).
        traffic: when there were requests, which passes give way to.

    Attributes:
        counters: for the metrics.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        file_system: FileSystem,
        clock: Clock,
        *,
        run_in_directory: RunInDirectory,
        roll_if_overdue: Callable[[Log], None],
        begin_retention: Callable[[Log], None],
        traffic: Traffic,
    ) -> None:
        self.counters = CleanerCounters()
        self._config = config
        self._logs = logs
        self._file_system = file_system
        self._clock = clock
        self._roll_if_overdue = roll_if_overdue
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._threads = WorkerPool(
            THREAD_NAME, max(1, config.log_cleaner_threads), self._loop, in_bulk=True
        )
        self._states = CleaningStates()
        self._jobs: dict[TopicPartition, CleaningJob] = {}
        self._asked: dict[TopicPartition, asyncio.Future[CleaningOutcome]] = {}
        self._deferred: set[str] = set()
        self._idle_cleaners: list[Cleaner] = []
        self._stop_waiting = threading.Event()
        self._is_stopping = False
        self._throttle = Throttle(
            config.log_cleaner_io_max_bytes_per_second, time.monotonic, self._stop_waiting.wait
        )
        self._exchange = Exchanger(logs, file_system, clock).steps
        self._skipped_logs = SkippedLogs(
            clock, self.counters, file_system, config.log_cleaner_backoff_ms
        )
        self._checkpoints = CheckpointSaves(logs, file_system, run_in_directory)
        self._dirty_logs = DirtyLogs(logs, self._look_for_round, self._loop.call_later)
        self._results = PassResults(
            logs,
            clock,
            self.counters,
            self._skipped_logs,
            self._checkpoints,
            begin_retention,
        )

    @property
    def uncleanable(self) -> Mapping[TopicPartition, str]:
        """Logs that failed to clean, with the reason; left alone as ``SkippedLogs`` says."""
        return self._skipped_logs.uncleanable

    # ---- requests

    def update_config(self, config: BrokerConfig) -> None:
        """Take other settings; running passes go on with theirs."""
        self._config = config
        self._skipped_logs.backoff_ms = config.log_cleaner_backoff_ms
        self._threads.resize(max(1, config.log_cleaner_threads))
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        # The next ones are made with the new buffers; those at work now are not used again.
        self._idle_cleaners = []

    def clean_now(self, topic_partition: TopicPartition) -> "asyncio.Future[CleaningOutcome]":
        """Clean a log as soon as a thread is free, however clean it is.

        The log's active segment stays dirty. A pass that already runs is no answer; another one
        follows it.
        """
        asked = self._asked.get(topic_partition)
        if asked is None:
            asked = self._asked[topic_partition] = self._loop.create_future()
            if self._config.log_cleaner_threads == 0:
                off = CleaningAbortedError("there is no cleaner: log.cleaner.threads is 0")
                self._answer(topic_partition, CleaningOutcome(0, 0, 0, 0, off))
                return asked
            self._skipped_logs.ask_again(topic_partition)
            if not self._is_stopping:
                self._begin_asked()
        return asked

    def state_of(self, topic_partition: TopicPartition) -> CleaningState:
        """The present state of a log."""
        return self._states.of(topic_partition)

    def progress_of(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Bytes that the running cleaning has gone over, and how many there are to go over.

        The dirty part counts twice: a pass reads it for the key map, and again to copy it.
        """
        job = self._jobs.get(topic_partition)
        return (0, 0) if job is None else progress_of(job.plan, job.statistics)

    def look_at(self, log: Log) -> CleanableLog:
        """The cleanable part of a log; a log whose files cannot be read is given up."""
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
        self._skipped_logs.forget(topic_partition)
        self._checkpoints.forget(topic_partition)

    async def stop(self, deadline_seconds: float) -> bool:
        """End all passes at their next chunk; False if the deadline passed first."""
        self._is_stopping = True
        self._dirty_logs.stop()
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
        self._begin_asked()
        self._dirty_logs.begin_round(self._begin_found)

    def _go_on(self, cleaned: Log) -> None:
        """Give the thread that has become idle another log: of the last round, if any is left."""
        if self._is_stopping or self._config.log_cleaner_threads == 0:
            return
        self._begin_asked()
        if self._dirty_logs.is_round_under_way:
            return
        self._dirty_logs.look_again(cleaned)
        self._begin_found()

    def _begin_asked(self) -> None:
        """Begin requested passes, as far as threads are idle."""
        for topic_partition in list(self._asked):
            if len(self._jobs) >= self._threads.threads:
                return
            if self._states.of(topic_partition) is not CleaningState.IDLE:
                continue
            log = self._logs.get(topic_partition)
            if log is None:
                self._answer(topic_partition, CleaningOutcome(0, 0, 0, 0, _gone(topic_partition)))
                continue
            try:
                cleanable = self._look_into(log)
            except StorageError as error:
                self._cannot_begin(log, error)
                continue
            self._begin(log, cleanable)

    def _begin_found(self) -> None:
        """Begin passes over the dirtiest logs, as far as threads are idle."""
        while len(self._jobs) < self._threads.threads:
            found = self._dirty_logs.take_filthiest()
            if found is None:
                return
            self._begin(*found)

    def _look_for_round(self, log: Log) -> CleanableLog | None:
        if not log.config.compacts:
            return None
        self._roll_if_overdue(log)
        return self.look_at(log) if self._may_be_cleaned(log) else None

    def _look_into(self, log: Log) -> CleanableLog:
        return look_at(log, self._checkpoints.first_dirty(log), self._clock.time_ms())

    def _may_be_cleaned(self, log: Log) -> bool:
        return self._states.of(
            log.topic_partition
        ) is CleaningState.IDLE and not self._skipped_logs.skips(log)

    def _cannot_begin(self, log: Log, error: StorageError) -> None:
        if isinstance(error, DeferredReadError):
            self._work_off(log, error)
        else:
            self._answer(log.topic_partition, self._results.cannot_begin(log, error))

    def _work_off(self, log: Log, error: DeferredReadError) -> None:
        """Have done what looking at a log waits for, an index to be healed, and look again."""
        if self._is_stopping or error.path in self._deferred:
            return
        self._deferred.add(error.path)

        def take_over(done: "asyncio.Future[Callable[[], None]]") -> None:
            self._deferred.discard(error.path)
            if done.cancelled():
                return
            failure = done.exception()
            if failure is None:
                done.result()()
                self._loop.call_soon(self._go_on, log)
            elif isinstance(failure, StorageError):
                self._cannot_begin(log, failure)
            else:
                self._skipped_logs.give_up_after_bug(log, failure)

        self._threads.run(error.work).add_done_callback(take_over)

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
        # A request during a pass means the log of then: the running pass is no answer.
        job.answers = self._asked.get(log.topic_partition)
        self._jobs[log.topic_partition] = job
        self._states.apply(log.topic_partition, CleaningEvent.START)
        idle = self._idle_cleaners
        cleaner = idle.pop() if idle else self._make_cleaner()
        started = self._clock.monotonic_ms()
        pacer = Pacer(self._traffic, time.monotonic_ns, time.sleep)
        running = self._threads.run(
            partial(job.run, cleaner, self._throttle, pacer, self._loop, self._exchange)
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

    def _ended(
        self,
        job: CleaningJob,
        started_ms: float,
        running: "asyncio.Future[CleaningResult]",
    ) -> None:
        topic_partition = job.plan.topic_partition
        del self._jobs[topic_partition]
        self._states.apply(topic_partition, CleaningEvent.END)
        seconds = (self._clock.monotonic_ms() - started_ms) / 1000
        try:
            outcome = self._results.take(job, seconds, running)
            if job.answers is not None:
                self._answer(topic_partition, outcome)
        finally:
            # Also after a defect: the deletion of the topic waits for this.
            job.ended.set_result(None)
            self._loop.call_soon(self._go_on, job.log)

    def _answer(self, topic_partition: TopicPartition, outcome: CleaningOutcome) -> None:
        asked = self._asked.pop(topic_partition, None)
        if asked is not None and not asked.done():
            asked.set_result(outcome)


def _gone(topic_partition: TopicPartition) -> SeglogError:
    return CleaningAbortedError(f"there is no log of {topic_partition}")
