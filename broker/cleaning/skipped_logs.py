"""SkippedLogs: the logs that the cleaner skips, until something changes or for a while."""

import logging
from typing import NamedTuple

from seglog.broker.cleaning.counters import CleanerCounters
from seglog.broker.runtime.clock import Clock
from seglog.broker.storage.errors import CorruptFileError, FileError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class _Evidence(NamedTuple):
    """The state of a log when it failed; if it differs later, another pass may succeed.

    Attributes:
        segment: the segment whose file was at fault, None if there was none.
        file: the size of that file and when it was changed, None if it cannot be looked at.
    """

    log: Log
    truncations: int
    log_start: int
    segment: LogSegment | None
    file: tuple[int, int] | None


class SkippedLogs:
    """Logs that failed to clean, and others that are to be tried again later.

    Args:
        clock: tells when the time of a postponed one has come.
        counters: told of failures.
        file_system: where the logs are.
        backoff_ms: for how long a log is postponed.

    Attributes:
        uncleanable: logs that failed to clean, with the reason; skipped until their data has
            changed, they are deleted, or a client asks to clean them (CLN-8).
        backoff_ms: may be changed at any time.
    """

    def __init__(
        self, clock: Clock, counters: CleanerCounters, file_system: FileSystem, backoff_ms: int
    ) -> None:
        self.uncleanable: dict[TopicPartition, str] = {}
        self.backoff_ms = backoff_ms
        self._clock = clock
        self._counters = counters
        self._file_system = file_system
        self._evidence: dict[TopicPartition, _Evidence] = {}
        self._not_before_ms: dict[TopicPartition, float] = {}

    def skips(self, log: Log) -> bool:
        """Whether the cleaner skips a log now; a log whose data has changed is released."""
        topic_partition = log.topic_partition
        if topic_partition in self.uncleanable:
            change = self._change_of(log)
            if change is None:
                return True
            logger.info("event=cleaning-retried log=%s reason=%r", topic_partition, change)
            self.ask_again(topic_partition)
        return self._not_before_ms.get(topic_partition, 0) > self._clock.monotonic_ms()

    def postpone(self, log: Log, reason: object) -> None:
        """Skip a log for a while; nothing is wrong with it."""
        topic_partition, now_ms = log.topic_partition, self._clock.monotonic_ms()
        if self._not_before_ms.get(topic_partition, 0) <= now_ms:
            logger.warning(
                "event=cleaning-postponed log=%s reason=%r", topic_partition, str(reason)
            )
        self._not_before_ms[topic_partition] = now_ms + self.backoff_ms

    def give_up(self, log: Log, error: Exception) -> None:
        """Skip a log from now on (CLN-8)."""
        if log.topic_partition in self.uncleanable:
            return
        self._note(log, str(error), error)
        logger.error("event=log-uncleanable log=%s reason=%s", log.topic_partition, error)

    def give_up_after_bug(self, log: Log, bug: BaseException) -> None:
        """The same after an unforeseen error, which is logged with its traceback."""
        self._note(log, f"{type(bug).__name__}: {bug}", bug)
        logger.error("event=cleaner-bug log=%s", log.topic_partition, exc_info=bug)

    def ask_again(self, topic_partition: TopicPartition) -> None:
        """A client asks to try a log again that was given up."""
        self.uncleanable.pop(topic_partition, None)
        self._evidence.pop(topic_partition, None)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted: a new one of the same name is another log."""
        self.ask_again(topic_partition)
        self._not_before_ms.pop(topic_partition, None)

    # ---- changes since the failure

    def _note(self, log: Log, reason: str, error: BaseException) -> None:
        self._counters.failures += 1
        self.uncleanable[log.topic_partition] = reason
        path = error.path if isinstance(error, (CorruptFileError, FileError)) else None
        segment = next((each for each in log.segments if each.log.path == path), None)
        self._evidence[log.topic_partition] = _Evidence(
            log, log.truncations, log.offsets.log_start, segment, self._look_at(segment)
        )

    def _change_of(self, log: Log) -> str | None:
        """The change since the log failed, None if there is none that could help."""
        evidence = self._evidence[log.topic_partition]
        segment, log_start = evidence.segment, log.offsets.log_start
        if log is not evidence.log or log.truncations != evidence.truncations:
            return "it is another log, or its end was cut"
        if segment is None:
            return "the log start has moved" if log_start != evidence.log_start else None
        if log.segments.get(segment.base_offset) is not segment:
            return "the segment at fault is gone"
        # A start that moves below the segment leaves the damage where it was, within the log.
        if log_start != evidence.log_start and log_start > segment.base_offset:
            return "the log start has moved"
        if self._look_at(segment) != evidence.file:
            return "the file at fault is another one"
        return None

    def _look_at(self, segment: LogSegment | None) -> tuple[int, int] | None:
        if segment is None:
            return None
        path = segment.log.path
        try:
            return self._file_system.size(path), self._file_system.modified_ms(path)
        except StorageError:  # a file that is not there is one that has not changed
            return None
