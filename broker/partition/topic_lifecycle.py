"""Creating, growing, configuring and deleting topics: catalog, logs and partitions together.

What blocks runs in the one thread of the pool ``changes``. The catalog is written first: a broker
that is killed between that and the last folder finds out at its next start what is missing or left
over, and puts it right.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from seglog.broker.partition.registry import PartitionRegistry
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log_manager import LogManager
from seglog.broker.storage.topic_catalog import TopicCatalog
from seglog.config import LogConfig
from seglog.protocol.types import TopicPartition


class TopicLifecycle:
    """Changes of topics; the caller sees to it that there is one at a time.

    Attributes:
        deletion_listeners: told the name of a topic, on the event-loop thread, once it is gone, and
            waited for before another topic can have the name.
    """

    def __init__(
        self,
        catalog: TopicCatalog,
        logs: LogManager,
        partitions: PartitionRegistry,
        changes: WorkerPool,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._logs = logs
        self._partitions = partitions
        self._changes = changes
        self._clock = clock
        self.deletion_listeners: list[Callable[[str], Awaitable[None]]] = []

    async def create(
        self,
        name: str,
        topic_id: bytes,
        partition_count: int,
        configs: Mapping[str, str],
        log_config: LogConfig,
    ) -> None:
        """Create a topic, durably, and serve it.

        Raises:
            StorageError: it could not be created, and nothing of it is left.
        """
        create = partial(self._catalog.create_topic, name, topic_id, partition_count, configs)
        try:
            await self._changes.run(create)
            await self._make_logs(name, 0, partition_count, log_config, topic_id)
        except StorageError:
            if self._catalog.get(name) is not None:
                await self.delete(name)
            raise
        finally:
            self._partitions.take_failures()

    async def grow(self, name: str, partition_count: int, log_config: LogConfig) -> None:
        """Add partitions to a topic, durably, and serve them.

        Raises:
            StorageError: they could not be made; the topic is as it was.
        """
        topic = self._catalog.get(name)
        assert topic is not None, name
        try:
            await self._changes.run(partial(self._catalog.grow_topic, name, partition_count))
            first = topic.partition_count
            await self._make_logs(name, first, partition_count, log_config, topic.topic_id)
        except StorageError:
            if self._catalog.get(name) != topic:
                await self._changes.run(
                    partial(self._catalog.shrink_topic, name, topic.partition_count)
                )
            raise
        finally:
            self._partitions.take_failures()

    async def delete(self, name: str) -> None:
        """Delete a topic, durably; its name is free at once, its files go later.

        Raises:
            StorageError: the deletion could not be made durable; the topic stays.
        """
        topic = self._catalog.get(name)
        assert topic is not None, name
        try:
            await self._changes.run(partial(self._catalog.delete_topic, name))
            deletion = self._logs.begin_delete(name)
            self._partitions.remove_topic(name, topic.topic_id, topic.partition_count)
            for listener in self.deletion_listeners:
                await listener(name)
            await self._changes.run(deletion.run)
            self._logs.finish_delete(deletion, self._clock.time_ms())
            if self._logs.are_all_there:
                # Else there may be one where nobody can rename it; the start that sees it does.
                self._catalog.folders_are_gone(topic.topic_id)
        finally:
            self._partitions.take_failures()

    async def configure(self, name: str, configs: Mapping[str, str], log_config: LogConfig) -> None:
        """Replace the settings of a topic, durably, and put them into force.

        Raises:
            StorageError: they could not be made durable; the old ones stay.
        """
        try:
            await self._changes.run(partial(self._catalog.alter_topic, name, configs))
            self._logs.update_topic_config(name, log_config)
        finally:
            self._partitions.take_failures()

    async def _make_logs(
        self, name: str, first: int, end: int, log_config: LogConfig, topic_id: bytes
    ) -> None:
        names = [TopicPartition(name, number) for number in range(first, end)]
        now_ms = self._clock.time_ms()
        logs = await self._changes.run(
            partial(self._logs.make_logs, names, log_config, topic_id, now_ms)
        )
        self._logs.add_logs(logs)
        self._partitions.add(logs)
