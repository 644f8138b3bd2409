"""Creating, growing, configuring and deleting topics: catalog, logs and partitions together.

Blocking work runs in the thread for changes of each data directory. The catalog is written first: a
broker that is killed between that and the last folder finds missing and leftover folders at its
next start, and puts them right.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from seglog.broker.partition.registry import PartitionRegistry
from seglog.broker.runtime.broker_workers import Workers
from seglog.broker.runtime.clock import Clock
from seglog.broker.runtime.workers import WorkersStoppedError
from seglog.broker.storage.directories.log_dir import LogDir, LogDirJob
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.directories.partition_making import PartitionMaking
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.directories.topic_deletion import TopicDeletion
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log.retention import frees_space
from seglog.config import LogConfig
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


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
        workers: Workers,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._logs = logs
        self._partitions = partitions
        self._workers = workers
        self._directories = workers.directories
        self._clock = clock
        self._removals: set[asyncio.Future[None]] = set()
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
            await self._workers.catalog.run(create)
            await self._make_logs(name, 0, partition_count, log_config, topic_id)
        except StorageError:
            if self._catalog.get(name) is not None:
                await self.delete(name)
            raise

    async def grow(self, name: str, partition_count: int, log_config: LogConfig) -> None:
        """Add partitions to a topic, durably, and serve them.

        Raises:
            StorageError: they could not be made; the topic is as it was.
        """
        topic = self._catalog.get(name)
        assert topic is not None, name
        try:
            await self._workers.catalog.run(
                partial(self._catalog.grow_topic, name, partition_count)
            )
            first = topic.partition_count
            await self._make_logs(name, first, partition_count, log_config, topic.topic_id)
        except StorageError:
            if self._catalog.get(name) != topic:
                await self._workers.catalog.run(
                    partial(self._catalog.shrink_topic, name, topic.partition_count)
                )
            raise

    async def delete(self, name: str) -> None:
        """Delete a topic, durably; its name is free at once, its files go later.

        Raises:
            StorageError: the deletion could not be made durable; the topic stays.
        """
        topic = self._catalog.get(name)
        assert topic is not None, name
        await self._workers.catalog.run(partial(self._catalog.delete_topic, name))
        deletions = self._logs.begin_delete(name)
        self._partitions.remove_topic(name, topic.topic_id, topic.partition_count)
        for listener in self.deletion_listeners:
            await listener(name)
        renames = [self._rename_folders(deletion) for deletion in deletions]
        await self._directories.wait_patiently(renames)
        removal = asyncio.ensure_future(self._sync_folders(topic.topic_id, deletions, renames))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    def _rename_folders(self, deletion: TopicDeletion) -> "asyncio.Future[None]":
        """Have the folders of a deleted topic renamed in one directory, and removed later."""

        def renamed(_done: "asyncio.Future[None]") -> None:
            self._logs.finish_delete(deletion, self._clock.time_ms())

        rename = self._directories.changes(deletion.log_dir.path).run(deletion.run)
        rename.add_done_callback(renamed)
        return rename

    async def _sync_folders(
        self,
        topic_id: bytes,
        deletions: Sequence[TopicDeletion],
        renames: "Sequence[asyncio.Future[None]]",
    ) -> None:
        """Put the new names on disk, which no request waits for, and then forget the topic.

        Until then the catalog tells the topic of a folder that still has its old name.
        """
        try:
            await asyncio.gather(*renames)
            synced = await asyncio.gather(
                *(self._directories.changes(each.log_dir.path).run(each.sync) for each in deletions)
            )
            if all(synced) and self._logs.are_all_there:
                # Else a folder may be in a directory that is away; the start that sees it renames
                # it.
                await self._workers.catalog.run(partial(self._catalog.folders_are_gone, topic_id))
        except (WorkersStoppedError, asyncio.CancelledError):
            logger.info("event=folders-not-synced topic_id=%s", topic_id.hex())

    async def configure(self, name: str, configs: Mapping[str, str], log_config: LogConfig) -> None:
        """Replace the settings of a topic, durably, and put them into force.

        Raises:
            StorageError: they could not be made durable; the old ones stay.
        """
        logs = self._logs.of_topic(name)
        frees = any(frees_space(log.config, log_config) for log in logs)
        await self._workers.catalog.run(
            partial(self._catalog.alter_topic, name, configs, frees_space=frees)
        )
        self._logs.update_topic_config(name, log_config)
        self._partitions.settings_changed(name)

    async def _make_logs(
        self, name: str, first: int, end: int, log_config: LogConfig, topic_id: bytes
    ) -> None:
        names = [TopicPartition(name, number) for number in range(first, end)]
        now_ms = self._clock.time_ms()
        making = self._logs.begin_make(names, log_config, topic_id, now_ms)
        jobs = making.begin(self._hanging())
        while jobs:
            late = await self._run_unless_elsewhere(making, jobs)
            jobs = making.next(late, self._hanging())
        try:
            logs = making.finish()
        except StorageError:
            await asyncio.gather(*self._begin(making.undo()))
            raise
        self._logs.add_logs(logs)
        self._partitions.add(logs)

    async def _run_unless_elsewhere(
        self, making: PartitionMaking, jobs: Sequence[LogDirJob]
    ) -> set[LogDir]:
        """Run jobs in their directories; those of directories that hang are given up."""
        running = dict(zip(self._begin(jobs), (job.log_dir for job in jobs), strict=True))
        usable = [each.path for each in making.elsewhere(self._hanging())]
        paths = {future: log_dir.path for future, log_dir in running.items()}
        late = await self._directories.wait_unless_elsewhere(paths, usable)
        for future in late:
            log_dir = running[future]
            logger.warning("event=directory-hangs directory=%s", log_dir.path)
            future.add_done_callback(partial(self._undo_late, making, log_dir))
        return {running[future] for future in late}

    def _undo_late(
        self, making: PartitionMaking, log_dir: LogDir, done: "asyncio.Future[None]"
    ) -> None:
        if done.cancelled():
            return  # the broker stops, and the next start puts the new folders aside
        try:
            self._begin(making.undo_late(log_dir))
        except WorkersStoppedError as error:
            logger.info("event=folders-not-removed directory=%s error=%s", log_dir.path, error)

    def _begin(self, jobs: Sequence[LogDirJob]) -> "list[asyncio.Future[None]]":
        return [self._directories.changes(job.log_dir.path).run(job.run) for job in jobs]

    def _hanging(self) -> list[LogDir]:
        is_hanging = self._directories.is_hanging
        return [log_dir for log_dir in self._logs.log_dirs if is_hanging(log_dir.path)]
