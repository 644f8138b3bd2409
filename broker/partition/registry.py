"""PartitionRegistry: every partition that this broker leads, by name."""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from seglog.broker.errors import RequestError
from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.partition.partition import Partition, PartitionServices
from seglog.broker.partition.replicas import SoleReplica
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log.log import Log
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

NO_ROOM: Final = "has no room for records"


class PartitionRegistry:
    """Finds partitions by topic and number, and topics by id; sees to it when a disk fails.

    Args:
        logs: the logs of the broker, loaded; each becomes a partition.
        counters: of the broker.
        sync_pool_of: the threads that sync segments in a data directory, by its path.
        on_no_directory_left: called when the last data directory has failed; time to stop.

    Attributes:
        found_no_room: data directories in which a write found no room since ``BackgroundWork`` has
            looked at them.
    """

    def __init__(
        self,
        logs: LogManager,
        counters: BrokerCounters,
        sync_pool_of: Callable[[str], WorkerPool],
        on_no_directory_left: Callable[[StorageError], None],
    ) -> None:
        self.found_no_room: set[LogDir] = set()
        self._logs = logs
        self._counters = counters
        self._services = PartitionServices(sync_pool_of, counters, self._storage_failed)
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._topic_names: dict[bytes, str] = {}
        logs.failures.on_lost = self._lost
        logs.failures.on_full = self._note_full
        logs.failures.on_none_left = on_no_directory_left
        self.add(logs.all_logs())

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, topic: str, partition: int) -> Partition | None:
        """A partition, or None if it is unknown or offline."""
        return self._partitions.get((topic, partition))

    def get(self, topic: str, partition: int) -> Partition:
        """A partition that can be served.

        Raises:
            RequestError: it does not exist, or it is offline because of its disk.
        """
        found = self._partitions.get((topic, partition))
        if found is None:
            raise self._missing(TopicPartition(topic, partition))
        return found

    def topic_name(self, topic_id: bytes) -> str:
        """The name of a topic that was named by its id.

        Raises:
            RequestError: no topic has the id.
        """
        name = self._topic_names.get(topic_id)
        if name is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id.hex()}"
            )
        return name

    def all(self) -> Collection[Partition]:
        """All partitions that can be served, in no particular order."""
        return self._partitions.values()

    def add(self, logs: Iterable[Log]) -> None:
        """Serve logs that were loaded or made."""
        for log in logs:
            topic, number = log.topic_partition
            assert (topic, number) not in self._partitions, log.topic_partition
            self._partitions[topic, number] = Partition(
                log,
                self._logs.log_dir_of(log),
                SoleReplica(self._logs.node_id),
                self._counters.topic(topic),
                self._services,
            )
            if log.topic_id is not None:
                self._topic_names[log.topic_id] = topic

    def remove_topic(self, topic: str, topic_id: bytes, partition_count: int) -> None:
        """Forget a topic that is being deleted; its waiters find it unknown."""
        self._topic_names.pop(topic_id, None)
        for number in range(partition_count):
            partition = self._partitions.pop((topic, number), None)
            if partition is not None:
                partition.close(self._missing(TopicPartition(topic, number)))
        self._counters.forget_topic(topic)

    def settings_changed(self, topic: str | None = None) -> None:
        """Have the partitions of a topic, or all, look at their settings again."""
        for partition in list(self._partitions.values()):
            if topic is None or partition.topic_partition.topic == topic:
                partition.settings_changed()

    def close(self) -> None:
        """Release all waiters, because the broker stops."""
        error = RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker is stopping")
        for partition in list(self._partitions.values()):
            partition.close(error)

    # ---- failures

    @property
    def full_directories(self) -> list[LogDir]:
        """Data directories in which a write found no room, until there is room."""
        return [log_dir for log_dir in self._logs.log_dirs if log_dir.is_full]

    def trouble_of(self, log_dir: LogDir) -> str | None:
        """The trouble of a data directory, in words that follow its path; None if there is none."""
        if log_dir.offline_reason is not None:
            return f"is offline: {log_dir.offline_reason}"
        if log_dir.is_full:
            return NO_ROOM
        return None if log_dir.refusal is None else f"refuses records: {log_dir.refusal}"

    def _storage_failed(self, partition: Partition, error: StorageError) -> None:
        self._logs.failures.report(partition.log_dir, error, partition.log)

    def _note_full(self, log_dir: LogDir) -> None:
        log_dir.note_full()
        self.found_no_room.add(log_dir)

    def _lost(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic, number in topic_partitions:
            partition = self._partitions.pop((topic, number), None)
            if partition is not None:
                partition.close(self._missing(TopicPartition(topic, number)))

    def _missing(self, topic_partition: TopicPartition) -> RequestError:
        reason = self._logs.offline_partitions.get(topic_partition)
        if reason is not None:
            return RequestError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} is offline: {reason}"
            )
        return RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}"
        )
