"""PassResults: the consequences of the end of a pass."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from seglog.broker.cleaning.checkpoint_saves import CheckpointSaves
from seglog.broker.cleaning.counters import CleanerCounters
from seglog.broker.cleaning.jobs import CleaningAbortedError, CleaningJob, CleaningOutcome
from seglog.broker.cleaning.skipped_logs import SkippedLogs
from seglog.broker.runtime.clock import Clock
from seglog.broker.storage.cleaner.plan import CleaningResult
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import (
    ClosedFileError,
    CorruptFileError,
    DiskFullError,
    FileError,
    MissingFileError,
    StorageError,
)
from seglog.broker.storage.log.log import Log
from seglog.protocol.errors import SeglogError

logger = logging.getLogger(__name__)

_READING: Final = frozenset({"read", "open", "look at", "list"})
"""Operations of a ``FileError`` that change nothing."""


class PassResults:
    """Takes the end of passes: the checkpoint moves, or the log is left alone.

    Args:
        begin_retention: has what lies below the start of a log deleted.
    """

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        counters: CleanerCounters,
        skipped_logs: SkippedLogs,
        checkpoints: CheckpointSaves,
        begin_retention: Callable[[Log], None],
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._counters = counters
        self._skipped_logs = skipped_logs
        self._checkpoints = checkpoints
        self._begin_retention = begin_retention

    def take(
        self, job: CleaningJob, seconds: float, running: "asyncio.Future[CleaningResult]"
    ) -> CleaningOutcome:
        """Count a pass that is over, and draw the consequences of its end.

        Args:
            seconds: how long it took.
            running: the work of the thread, done.

        Returns:
            The outcome for the caller that asked for the pass.
        """
        self._count(job, seconds)
        error = None if running.cancelled() else running.exception()
        if error is None:
            if not running.cancelled():
                self._succeeded(job, running.result())
        elif isinstance(error, SeglogError):
            self._failed(job, error)
        else:
            self._skipped_logs.give_up_after_bug(job.log, error)
            error = CleaningAbortedError(f"the pass failed: {type(error).__name__}: {error}")
        statistics = job.statistics
        return CleaningOutcome(
            job.size_before,
            job.log.segment_bytes_total,
            statistics.bytes_read,
            statistics.bytes_written,
            error,
        )

    def cannot_begin(self, log: Log, error: StorageError) -> CleaningOutcome:
        """Note that a log's files could not be read; returns the outcome for the caller."""
        if isinstance(error, DiskFullError):  # or no descriptor: both pass
            self._skipped_logs.postpone(log, error)
        else:
            self._skipped_logs.give_up(log, error)
        size = log.segment_bytes_total
        return CleaningOutcome(size, size, 0, 0, error)

    def _count(self, job: CleaningJob, seconds: float) -> None:
        counters, statistics = self._counters, job.statistics
        counters.bytes_mapped += statistics.bytes_mapped
        counters.bytes_read += statistics.bytes_read
        counters.bytes_written += statistics.bytes_written
        counters.records_without_key += statistics.records_without_key
        counters.last_pass_seconds = seconds

    def _succeeded(self, job: CleaningJob, result: CleaningResult) -> None:
        log, statistics = job.log, result.statistics
        topic_partition = log.topic_partition
        self._counters.passes += 1
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
            self._counters.last_pass_seconds,
        )
        # After a truncation other records may lie below the end of the pass by now (T10).
        if self._logs.get(topic_partition) is not log or log.truncations != job.plan.truncations:
            return
        if job.plan.dirty_segments and result.end_offset <= job.plan.first_dirty_offset:
            self._skipped_logs.postpone(log, "the pass got no further")
        self._checkpoints.advance(log, result.end_offset, partial(self._note_storage_error, log))
        # Delete everything below the log start now, not in the retention task (CLN-12).
        self._begin_retention(log)

    def _failed(self, job: CleaningJob, error: SeglogError) -> None:
        log = job.log
        gone = self._logs.get(log.topic_partition) is not log
        if isinstance(error, CleaningAbortedError) or gone:
            logger.info("event=cleaning-stopped log=%s reason=%r", log.topic_partition, str(error))
        elif isinstance(error, DiskFullError):
            self._skipped_logs.postpone(log, error)
            # What earlier groups and passes have replaced makes room for the next one.
            log_dir = self._logs.log_dir_of(log)
            self._logs.housekeeping.hurry_deletions(log_dir, self._clock.time_ms())
        elif _was_taken_away(job, error):
            self._skipped_logs.postpone(log, "a segment was deleted or cut meanwhile")
        else:
            self._skipped_logs.give_up(log, error)
            if isinstance(error, StorageError):
                self._note_storage_error(log, error)

    def _note_storage_error(self, log: Log, error: StorageError) -> None:
        if is_of_reading(error):
            logger.warning("event=cleaner-read-failed log=%s error=%s", log.topic_partition, error)
        else:
            logger.warning("event=cleaner-write-failed log=%s error=%s", log.topic_partition, error)
        self._logs.failures.report_harmless(self._logs.log_dir_of(log), error, log)


def is_of_reading(error: StorageError) -> bool:
    """Whether a file could not be read, or is damaged; else it could not be written."""
    if isinstance(error, FileError):
        return error.operation in _READING
    return isinstance(error, CorruptFileError)


def _was_taken_away(job: CleaningJob, error: SeglogError) -> bool:
    """Whether a pass has failed because retention or a truncation took its source."""
    log = job.log
    if isinstance(error, (MissingFileError, CorruptFileError)):  # renamed, or cut, meanwhile
        return log.truncations != job.plan.truncations or all(
            segment.log.path != error.path for segment in log.segments
        )
    return isinstance(error, ClosedFileError)
