"""LeftAlone: the logs that the cleaner does not touch, for good or for a while, and why."""

import logging

from seglog.broker.cleaning.counters import CleanerCounters
from seglog.broker.runtime.clock import Clock
from seglog.broker.storage.log import Log
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class LeftAlone:
    """Logs that failed to clean, and others that are to be tried again later.

    Args:
        clock: tells when the time of a postponed one has come.
        counters: told of failures.
        backoff_ms: for how long a log is postponed.

    Attributes:
        uncleanable: logs that failed to clean, with the reason; left alone until a restart, their
            deletion, or until somebody asks for them to be cleaned (CLN-8).
        backoff_ms: may be changed at any time.
    """

    def __init__(self, clock: Clock, counters: CleanerCounters, backoff_ms: int) -> None:
        self.uncleanable: dict[TopicPartition, str] = {}
        self.backoff_ms = backoff_ms
        self._clock = clock
        self._counters = counters
        self._not_before_ms: dict[TopicPartition, float] = {}

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether a log is to be left alone now."""
        return (
            topic_partition in self.uncleanable
            or self._not_before_ms.get(topic_partition, 0) > self._clock.monotonic_ms()
        )

    def postpone(self, log: Log, reason: object) -> None:
        """Leave a log alone for a while; nothing is wrong with it."""
        topic_partition, now_ms = log.topic_partition, self._clock.monotonic_ms()
        if self._not_before_ms.get(topic_partition, 0) <= now_ms:
            logger.warning(
                "event=cleaning-postponed log=%s reason=%r", topic_partition, str(reason)
            )
        self._not_before_ms[topic_partition] = now_ms + self.backoff_ms

    def give_up(self, log: Log, reason: str) -> None:
        """Leave a log alone from now on (CLN-8)."""
        if log.topic_partition in self.uncleanable:
            return
        self._counters.failures += 1
        self.uncleanable[log.topic_partition] = reason
        logger.error("event=log-uncleanable log=%s reason=%s", log.topic_partition, reason)

    def give_up_after_bug(self, log: Log, bug: BaseException) -> None:
        """The same after an error that is no error of ours; it is logged with its traceback."""
        self._counters.failures += 1
        self.uncleanable[log.topic_partition] = f"{type(bug).__name__}: {bug}"
        logger.error("event=cleaner-bug log=%s", log.topic_partition, exc_info=bug)

    def ask_again(self, topic_partition: TopicPartition) -> None:
        """Somebody wants a log that was given up to be tried once more."""
        self.uncleanable.pop(topic_partition, None)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted: a new one of the same name is another log."""
        self.uncleanable.pop(topic_partition, None)
        self._not_before_ms.pop(topic_partition, None)
