"""A log manager with its catalog, started and stopped as a broker does it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from seglog.broker.storage.directories.log_dir import LogDirJob
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.directories.retention_plan import RetentionFinding
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem, OsFileSystem
from seglog.broker.storage.log.log import Log
from seglog.config import BrokerConfig
from seglog.protocol.types import TopicPartition
from support.log_builder import NOW_MS

ResultT = TypeVar("ResultT")


def run_in_order(jobs: Sequence[Callable[[], ResultT]], /) -> Sequence[ResultT]:
    """Run one job after the other; takes the place of threads."""
    return [job() for job in jobs]


def collected(steps: Callable[[list[LogDirJob]], Iterator[None]]) -> list[LogDirJob]:
    """The jobs that housekeeping collects, all steps taken."""
    jobs: list[LogDirJob] = []
    for _ in steps(jobs):
        pass
    return jobs


class ManagedLogs:
    """The logs of one broker on some data directories; small indexes, no time limit.

    Attributes:
        free_bytes: what the file system of every directory is said to have left.
    """

    def __init__(
        self,
        *directories: Path,
        file_system: FileSystem | None = None,
        load: bool = True,
        **settings: Any,
    ) -> None:
        self.config = BrokerConfig(
            log_dirs=tuple(str(path) for path in directories),
            **{"log_index_size_max_bytes": 4096, "log_retention_ms": -1, **settings},
        )
        self.free_bytes = 1 << 40
        self.manager = LogManager(
            self.config, file_system or OsFileSystem(), free_bytes_of=lambda path: self.free_bytes
        )
        self.catalog: TopicCatalog = self.manager.open()
        if load:
            self.manager.load(run_in_order, NOW_MS)

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> list[Log]:
        """Create a topic as the broker does: catalog first, then the folders."""
        topic = self.catalog.create_topic(name, None, partitions, configs or {})
        names = [TopicPartition(name, number) for number in range(partitions)]
        log_config = self.config.log_config(topic.configs)
        logs = self.manager.make_logs(names, log_config, topic.topic_id, NOW_MS)
        self.manager.add_logs(logs)
        return logs

    def delete_topic(self, name: str, now_ms: int = NOW_MS) -> None:
        """Delete a topic as the broker does: catalog first, then the folders."""
        topic = self.catalog.delete_topic(name)
        self.manager.delete_topic(name, now_ms)
        if all(log_dir.is_online for log_dir in self.manager.log_dirs):
            self.catalog.folders_are_gone(topic.topic_id)

    def log(self, topic: str, partition: int = 0) -> Log:
        """The log of a partition that is served."""
        log = self.manager.get(TopicPartition(topic, partition))
        assert log is not None, (topic, partition)
        return log

    def run_retention(
        self, now_ms: int = NOW_MS, *, only: Collection[str] | None = None
    ) -> list[RetentionFinding]:
        """Delete what the rules say, in the steps of a broker; what is gone."""
        retention = self.manager.housekeeping.retention
        findings = retention.run(now_ms, only=only, dry_run=False)
        self.take_segments_away(now_ms)
        if deferred := retention.take_deferred():
            for each in deferred:
                each.work()()
            findings = sorted({*findings, *retention.run(now_ms, only=only, dry_run=False)})
            self.take_segments_away(now_ms)
        return retention.gone(findings)

    def guard_disks(self, now_ms: int = NOW_MS) -> list[RetentionFinding]:
        """Make room as the disk guard says; what is gone."""
        retention = self.manager.housekeeping.retention
        findings = retention.check_disk_guard(now_ms)
        self.take_segments_away(now_ms)
        return retention.gone(findings)

    def take_segments_away(self, now_ms: int) -> None:
        """Put raised log starts on disk and take away what is below them."""
        housekeeping = self.manager.housekeeping
        for log_dir, logs in housekeeping.retention.leaving().items():
            jobs: list[LogDirJob] = []
            for _ in housekeeping.log_start_steps(jobs, only=[log_dir], freeing=[log_dir]):
                pass
            try:
                for job in jobs:
                    job.run()
            except StorageError as error:
                self.manager.failures.report(log_dir, error)
                housekeeping.retention.keep(logs)
            else:
                housekeeping.retention.take_away(logs, now_ms)

    def checkpoint(self) -> None:
        """Write all checkpoints."""
        for job in self.manager.housekeeping.checkpoint_jobs():
            job.run()

    def remove_files(self, now_ms: int) -> int:
        """Do all removals that are due; returns how many."""
        count = 0
        while due := self.manager.housekeeping.take_due_deletions(now_ms):
            for deletion in due:
                deletion.run()
                self.manager.housekeeping.deletion_done(deletion)
                count += 1
        return count

    def stop(self) -> None:
        """Stop in good order."""
        self.manager.close(run_in_order)

    def kill(self) -> None:
        """Stop as after SIGKILL: nothing is written any more."""
        self.manager.close(run_in_order, clean=False)
