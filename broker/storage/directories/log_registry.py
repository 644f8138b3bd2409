"""LogRegistry: every log of the broker, by partition, topic and data directory."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.files.layout import parent_directory
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition

_NONE: Final[Mapping[TopicPartition, Log]] = MappingProxyType({})


class LogRegistry:
    """Logs that are served, and partitions that are not because their directory or log failed.

    Belongs to the owner of the logs; it does no I/O.
    """

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, Log] = {}
        self._by_topic: dict[str, dict[TopicPartition, Log]] = {}
        self._by_directory: dict[str, dict[TopicPartition, Log]] = {}
        self._offline: dict[TopicPartition, str] = {}

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def offline(self) -> Mapping[TopicPartition, str]:
        """Partitions that cannot be served, with the reason."""
        return self._offline

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, None if it is unknown or offline."""
        return self._logs.get(topic_partition)

    def all(self) -> Collection[Log]:
        """All logs."""
        return self._logs.values()

    def of_topic(self, topic: str) -> list[Log]:
        """The logs of a topic, by partition number."""
        logs = self._by_topic.get(topic, _NONE)
        return [logs[topic_partition] for topic_partition in sorted(logs)]

    def of_directory(self, log_dir: LogDir) -> Collection[Log]:
        """The logs in a data directory."""
        return self._by_directory.get(log_dir.path, _NONE).values()

    def topics(self) -> list[str]:
        """The topics that have logs."""
        return list(self._by_topic)

    def counts_by_directory(self) -> dict[str, int]:
        """How many logs each data directory has, by path."""
        return {path: len(logs) for path, logs in self._by_directory.items()}

    def add(self, log: Log) -> None:
        """Serve a log."""
        topic_partition = log.topic_partition
        assert topic_partition not in self._logs, topic_partition
        self._logs[topic_partition] = log
        self._by_topic.setdefault(topic_partition.topic, {})[topic_partition] = log
        self._by_directory.setdefault(parent_directory(log.directory), {})[topic_partition] = log
        self._offline.pop(topic_partition, None)
        log.hand_over()

    def remove(self, log: Log) -> None:
        """Serve a log no more."""
        log.hand_over()
        topic_partition = log.topic_partition
        del self._logs[topic_partition]
        logs = self._by_topic[topic_partition.topic]
        del logs[topic_partition]
        if not logs:
            del self._by_topic[topic_partition.topic]
        del self._by_directory[parent_directory(log.directory)][topic_partition]

    def set_offline(self, topic_partitions: Iterable[TopicPartition], reason: str) -> None:
        """Note that partitions cannot be served."""
        for topic_partition in topic_partitions:
            self._offline[topic_partition] = reason

    def forget_offline(self, topic: str) -> list[TopicPartition]:
        """Forget the offline partitions of a topic that was deleted; they are returned."""
        forgotten = [each for each in self._offline if each.topic == topic]
        for topic_partition in forgotten:
            del self._offline[topic_partition]
        return forgotten
