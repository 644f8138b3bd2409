"""LogManager: all logs of a broker over all its data directories.

    manager = LogManager(config, OsFileSystem())
    catalog = manager.open()                           lock, identify, look through
    manager.load(catalog, run_parallel, now_ms)        read and, after a crash, recover
    ... get, create, delete, housekeeping ...
    manager.close(run_parallel)                        flush, checkpoint, mark as clean, unlock

It belongs to the thread that owns the logs. It starts no threads and knows no clock: parallel work
is handed to ``run_parallel``, blocking work comes back as jobs. A directory whose disk fails is
taken offline with its partitions; the others go on.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from seglog.broker.storage.directories.catalog_file import CatalogTopic
from seglog.broker.storage.directories.data_directories import DataDirectories
from seglog.broker.storage.directories.deletion_queue import DeletionQueue
from seglog.broker.storage.directories.disk_guard import free_bytes_of
from seglog.broker.storage.directories.housekeeping import LogHousekeeping
from seglog.broker.storage.directories.load_progress import LoadProgress
from seglog.broker.storage.directories.log_dir import LogDir, LogDirJob, remove_directory_tree
from seglog.broker.storage.directories.log_registry import LogRegistry
from seglog.broker.storage.directories.parallel import RunParallel
from seglog.broker.storage.directories.partition_folders import NewPartitions, PartitionFolders
from seglog.broker.storage.directories.partition_making import PartitionMaking
from seglog.broker.storage.directories.shutdown import close_directory
from seglog.broker.storage.directories.startup import LogStartup
from seglog.broker.storage.directories.storage_failures import StorageFailures
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.directories.topic_deletion import TopicDeletion
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    META_PROPERTIES,
    parent_directory,
    partition_directory_name,
)
from seglog.broker.storage.log.log import Log
from seglog.config import BrokerConfig, ConfigError, LogConfig
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class LogManager:
    """The logs of one broker.

    Args:
        config: of the broker.
        file_system: where the logs are.
        free_bytes_of: free space of a directory's file system, by path; for the disk guard.

    Attributes:
        housekeeping: retention, disk guard, deletions, flushes and checkpoints over all logs.
        failures: handles errors of a disk.
        cluster_id: as the data directories have it, once they are open.
        node_id: the same of the node.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        *,
        free_bytes_of: Callable[[str], int] = free_bytes_of,
    ) -> None:
        self.cluster_id = ""
        self.node_id = config.node_id
        self._config = config
        self._file_system = file_system
        self._directories = DataDirectories(file_system, config)
        self._folders = PartitionFolders(file_system)
        self._registry = LogRegistry()
        self._deletions = DeletionQueue()
        self.failures = StorageFailures(self._directories, self._registry, self._deletions)
        self._catalog: TopicCatalog | None = None
        self._startup = LogStartup(file_system, self._directories, self._folders)
        self._is_loaded = False
        self.housekeeping = LogHousekeeping(
            file_system,
            self._directories,
            self._registry,
            self._deletions,
            self.failures,
            config=config,
            free_bytes_of=free_bytes_of,
        )

    # ---- start and stop

    def open(self) -> TopicCatalog:
        """Lock the data directories and find out which topics they hold; changes no log.

        Raises:
            LockedError: another broker is running on one of them; no file was changed.
            StorageError: they cannot be used as they are; the text says which file and why.
            ConfigError: two of them are the same.
        """
        self._directories.lock()
        try:
            self._catalog, identity = self._startup.open_catalog()
        except (StorageError, ConfigError):
            self._directories.unlock()
            raise
        self.cluster_id, self.node_id = identity.cluster_id, identity.node_id
        catalog = self._catalog
        catalog.report = lambda path, error: self.failures.report(
            self._directories.find(path), error
        )
        catalog.write_to_free_space = lambda path, write: self._directories.find(
            path
        ).reserve.write_to_free_space(write)
        self.failures.on_unwritable = lambda log_dir: catalog.leave_out(log_dir.path)
        return catalog

    def load(
        self, run_parallel: RunParallel, now_ms: int, config: BrokerConfig | None = None
    ) -> None:
        """Open every log, after a crash with recovery; make the partitions that are missing.

        A log that cannot be opened is offline afterwards, with its directory if the disk is to
        blame; the others are served.

        Args:
            run_parallel: runs jobs, in any threads, and returns their results.
            now_ms: wall clock.
            config: of the broker, if the settings in the catalog have changed it.

        Raises:
            ConfigError: the settings of a topic contradict those of the broker.
            NoUsableDirectoryError: no directory is left.
        """
        assert self._catalog is not None, "load() comes after open()"
        if config is not None:
            self._config = config
            self.housekeeping.update_config(config)
            self._directories.update_config(config)
        for loaded in self._startup.load(self._catalog, self._config, run_parallel, now_ms):
            if loaded.log is not None:
                self._registry.add(loaded.log)
            elif loaded.error is not None:
                self.failures.load_failed(loaded.log_dir, loaded.topic_partition, loaded.error)
        for log_dir, path in self._startup.leftovers:
            self._queue_folder(log_dir, path, now_ms)
        for log_dir in self._directories.all:
            if not log_dir.is_online:
                self.failures.move_offline(log_dir)
        self._directories.check_any_online()
        self._make_missing(self._catalog, now_ms)
        self._is_loaded = True

    def close(self, run_parallel: RunParallel, *, clean: bool = True) -> None:
        """Put everything on disk, mark the directories as stopped cleanly, and unlock them.

        A directory with a log that could not be closed, or not be loaded, is not marked, so that
        the next start recovers it. With ``clean`` False nothing is written. Never raises
        ``StorageError``: failures are logged.
        """
        try:
            if clean:
                run_parallel([job.run for job in self.closing_jobs(run_parallel)])
            else:
                for log in self._registry.all():
                    log.abandon()
        finally:
            self.unlock()

    def closing_jobs(self, run_parallel: RunParallel) -> list[LogDirJob]:
        """An orderly stop, a job for each directory: a disk that hangs keeps no other one from it.

        Nothing else uses the logs any more. The jobs raise no ``StorageError``; ``unlock`` follows.
        """
        return [
            LogDirJob(
                log_dir,
                partial(
                    close_directory,
                    self._file_system,
                    log_dir,
                    list(self._registry.of_directory(log_dir)),
                    self.housekeeping,
                    run_parallel,
                    may_be_marked=log_dir not in self.failures.damaged
                    and (self._is_loaded or log_dir.stopped_cleanly),
                ),
            )
            for log_dir in self._directories.writable
        ]

    def unlock(self) -> None:
        """Let other brokers have the directories, after their closing jobs."""
        self._directories.unlock()

    # ---- inventory

    @property
    def load_progress(self) -> LoadProgress:
        """How far ``load`` is; to be read from any thread."""
        return self._startup.progress

    @property
    def log_dirs(self) -> Sequence[LogDir]:
        """All data directories, online or not."""
        return self._directories.all

    @property
    def are_all_there(self) -> bool:
        """Whether all data directories are online and present: an absent log does not exist."""
        return self._directories.are_all_online and not self._startup.away

    @property
    def offline_partitions(self) -> Mapping[TopicPartition, str]:
        """Partitions that cannot be served, with the reason."""
        return self._registry.offline

    def __len__(self) -> int:
        return len(self._registry)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, None if it is unknown or offline."""
        return self._registry.get(topic_partition)

    def all_logs(self) -> Collection[Log]:
        """Every log that can be served."""
        return self._registry.all()

    def of_topic(self, topic: str) -> list[Log]:
        """The logs of a topic that can be served, by partition."""
        return self._registry.of_topic(topic)

    def log_dir_of(self, log: Log) -> LogDir:
        """The data directory a log is in."""
        return self._directories.find(parent_directory(log.directory))

    # ---- changes

    def create(
        self, topic_partition: TopicPartition, config: LogConfig, topic_id: bytes, now_ms: int
    ) -> Log:
        """Make one new partition and serve it; see ``make_logs``."""
        [log] = self.make_logs([topic_partition], config, topic_id, now_ms)
        self.add_logs([log])
        return log

    def begin_make(
        self,
        topic_partitions: Sequence[TopicPartition],
        config: LogConfig,
        topic_id: bytes,
        now_ms: int,
    ) -> PartitionMaking:
        """New partitions, each to be made in the directory that holds the fewest.

        ``add_logs`` serves the result.
        """
        expiration_ms = self._config.producer_id_expiration_ms
        return PartitionMaking(
            self._folders,
            self._directories,
            topic_partitions,
            NewPartitions(config, topic_id, expiration_ms, now_ms),
            self._registry.counts_by_directory(),
            report=self.failures.report,
            before=self.housekeeping.stale_checkpoints,
        )

    def make_logs(
        self,
        topic_partitions: Sequence[TopicPartition],
        config: LogConfig,
        topic_id: bytes,
        now_ms: int,
    ) -> list[Log]:
        """The same in one go; blocks.

        Raises:
            DiskFullError: there is no room in any directory.
            StorageError: no directory takes them, or the last one failed.
        """
        making = self.begin_make(topic_partitions, config, topic_id, now_ms)
        jobs = making.begin()
        while jobs:
            for job in jobs:
                job.run()
            jobs = making.next()
        try:
            return making.finish()
        except StorageError:
            for job in making.undo():
                job.run()
            raise

    def add_logs(self, logs: Iterable[Log]) -> None:
        """Serve logs that were made."""
        for log in logs:
            self._registry.add(log)

    def delete_topic(self, topic: str, now_ms: int) -> bool:
        """Serve a topic no more and have its folders removed after ``file.delete.delay.ms``.

        Blocks; whether the new names of its folders are on disk.
        """
        is_synced = True
        for deletion in self.begin_delete(topic):
            deletion.run()
            self.finish_delete(deletion, now_ms)
            is_synced &= deletion.sync()
        return is_synced

    def begin_delete(self, topic: str) -> list[TopicDeletion]:
        """Serve a topic no more; returns the remaining work for each directory.

        Of each ``run`` blocks, ``finish_delete`` follows, and ``sync`` some time later.
        """
        logs = self._registry.of_topic(topic)
        for log in logs:
            self._registry.remove(log)
        offline = self._registry.forget_offline(topic)
        self.housekeeping.forget([*(log.topic_partition for log in logs), *offline])
        by_directory: dict[LogDir, list[Log]] = {}
        for log in logs:
            by_directory.setdefault(self.log_dir_of(log), []).append(log)
        return [
            TopicDeletion(
                log_dir,
                by_directory.get(log_dir, ()),
                offline,
                self._folders,
                self.failures.report,
            )
            for log_dir in self._directories.online
            if offline or log_dir in by_directory
        ]

    def finish_delete(self, deletion: TopicDeletion, now_ms: int) -> None:
        """Queue the renamed folders of a deleted topic for their removal."""
        for log in deletion.renamed:
            self._deletions.add(
                now_ms + log.config.file_delete_delay_ms,
                deletion.log_dir,
                log.directory,
                log.segment_bytes_total,
                partial(remove_directory_tree, self._file_system, log.directory),
            )
        for path in deletion.renamed_folders:
            self._queue_folder(deletion.log_dir, path, now_ms)

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Put new settings of a topic into force (MGR-5)."""
        for log in self._registry.of_topic(topic):
            if log.config != config:
                log.update_config(config)

    def update_config(self, config: BrokerConfig, catalog: TopicCatalog) -> None:
        """Put new settings of the broker into force, also for topics that fall back to them."""
        self._config = config
        self._directories.update_config(config)
        self.housekeeping.update_config(config)
        for topic in catalog.topics():
            self.update_topic_config(topic.name, config.log_config(topic.configs))

    def _make_missing(self, catalog: TopicCatalog, now_ms: int) -> None:
        """Create partitions that a crash left out, unless an offline directory may hold them."""
        for topic in catalog.topics():
            missing = [
                topic_partition
                for topic_partition in (
                    TopicPartition(topic.name, number) for number in range(topic.partition_count)
                )
                if topic_partition not in self._registry.offline
                and self._registry.get(topic_partition) is None
            ]
            if not missing:
                continue
            if not self.are_all_there:
                self._registry.set_offline(missing, self._where_missing_may_be())
                continue
            missing = [each for each in missing if not self._is_left_in_copies(each, topic)]
            if not missing:
                continue
            logger.warning("event=partitions-missing topic=%s count=%d", topic.name, len(missing))
            try:
                config = self._config.log_config(topic.configs)
                self.add_logs(self.make_logs(missing, config, topic.topic_id, now_ms))
            except StorageError as error:
                self._registry.set_offline(missing, str(error))

    def _is_left_in_copies(self, topic_partition: TopicPartition, topic: CatalogTopic) -> bool:
        """Whether records of a partition are left in copies alone; it is offline then.

        An empty partition in its place would take records, and the old ones could not be put back.
        """
        copies = self._startup.copies_of(topic_partition, topic.topic_id)
        if not copies:
            return False
        own = f"{parent_directory(copies[0])}/{partition_directory_name(topic_partition)}"
        reason = (
            f"its records are only in {' and '.join(copies)}, a copy that was being moved between"
            f" data directories; stop the broker and rename {copies[0]} to {own} to serve them, or"
            " move it away to begin empty"
        )
        logger.error("event=only-copy-left log=%s reason=%r", topic_partition, reason)
        self._registry.set_offline([topic_partition], reason)
        return True

    def _where_missing_may_be(self) -> str:
        if not self._startup.away:
            return "it may be in a log directory that is offline"
        return (
            f"it may be in {' or '.join(self._startup.away)}, which is not in log.dirs any more;"
            " put that back, or, if it is lost, start once with one more directory that holds an"
            f" empty {META_PROPERTIES}"
        )

    def _queue_folder(self, log_dir: LogDir, path: str, now_ms: int) -> None:
        remove = partial(remove_directory_tree, self._file_system, path)
        self._deletions.add(now_ms, log_dir, path, 0, remove)
