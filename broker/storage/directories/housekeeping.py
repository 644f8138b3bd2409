"""Periodic work on all logs: retention, removals, checkpoints.

The owner of the logs calls these methods; blocking work comes back as jobs for a worker.
"""

import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Final

from seglog.broker.storage.directories.checkpoint_writer import CheckpointWriter
from seglog.broker.storage.directories.data_directories import DataDirectories
from seglog.broker.storage.directories.deletion_queue import Deletion, DeletionQueue
from seglog.broker.storage.directories.log_dir import LogDir, LogDirJob
from seglog.broker.storage.directories.log_registry import LogRegistry
from seglog.broker.storage.directories.log_retention import LogRetention
from seglog.broker.storage.directories.storage_failures import StorageFailures
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import parent_directory
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.removed_names import NameSync
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config import BrokerConfig
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

_LOGS_IN_A_STEP: Final = 50
"""Of so many logs offsets are collected at a time, which takes some 0.2 ms."""


class LogHousekeeping:
    """Housekeeping over all logs of a broker.

    Args:
        failures: told the errors of the disks.
        free_bytes_of: free space of a directory's file system, by path.

    Attributes:
        retention: takes old segments away, and guards the disks.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directories: DataDirectories,
        registry: LogRegistry,
        deletions: DeletionQueue,
        failures: StorageFailures,
        *,
        config: BrokerConfig,
        free_bytes_of: Callable[[str], int],
    ) -> None:
        self.retention = LogRetention(
            directories,
            registry,
            deletions,
            failures,
            config=config,
            free_bytes_of=free_bytes_of,
            schedule_deletion=self.schedule_deletion,
        )
        self._file_system = file_system
        self._directories = directories
        self._registry = registry
        self._deletions = deletions
        self._free_bytes_of = free_bytes_of
        self._wanted_starts: dict[Log, list[int]] = {}

    def update_config(self, config: BrokerConfig) -> None:
        """Take other settings from now on."""
        self.retention.config = config

    # ---- removals

    def schedule_deletion(
        self,
        log: Log,
        segments: Collection[LogSegment],
        now_ms: int,
        *,
        delay_ms: int | None = None,
    ) -> None:
        """Have the files of segments removed that have left their log.

        Args:
            delay_ms: how long they stay; None is the topic's ``file.delete.delay.ms``.
        """
        log_dir = self._directories.find(parent_directory(log.directory))
        delay_ms = log.config.file_delete_delay_ms if delay_ms is None else delay_ms
        if not segments:
            return
        directory = log.directory
        names = log.removed_names.begin_sync(directory)
        self._deletions.add(
            now_ms + delay_ms,
            log_dir,
            ", ".join(segment.log.path for segment in segments),
            sum(segment.size_bytes for segment in segments),
            partial(_remove_files, self._file_system, directory, names, list(segments)),
        )

    def take_due_deletions(
        self, now_ms: int, busy: Collection[LogDir] = frozenset()
    ) -> list[Deletion]:
        """Removals that are due: run each in a worker, then call ``deletion_done``.

        Args:
            busy: directories that get no more, because they have not done the last ones.
        """
        return self._deletions.take_due(now_ms, busy)

    def free_bytes(self, log_dir: LogDir) -> int:
        """Bytes that may still be written in a directory; 0 if its disk does not tell."""
        try:
            return self._free_bytes_of(log_dir.path)
        except StorageError as error:
            logger.warning("event=housekeeping-failed directory=%s error=%s", log_dir.path, error)
            return 0

    def hurry_deletions(self, log_dir: LogDir, now_ms: int) -> None:
        """Make everything due that waits in a directory, because its disk is full."""
        self._deletions.hurry(log_dir, now_ms)

    def deletion_done(self, deletion: Deletion, error: StorageError | None = None) -> None:
        """Note the outcome of a removal."""
        self._deletions.done(deletion, error)

    # ---- checkpoints

    def checkpoint_jobs(self, only: LogDir | None = None) -> list[LogDirJob]:
        """Write all checkpoints that have changed, in all directories or in one; for a stop."""
        jobs: list[LogDirJob] = []
        for log_dir in self._directories.writable if only is None else [only]:
            for writer, offset_of in self._checkpoints_of(log_dir):
                for _ in self._collect(log_dir, writer, offset_of, jobs):
                    pass
        return jobs

    def stale_checkpoints(
        self, log_dir: LogDir, topic_partitions: Collection[TopicPartition]
    ) -> list[Callable[[], None]]:
        """Write the checkpoints that may say something of partitions that are about to be made.

        A topic of the same name was deleted: its offsets must not be taken for those of the new
        one after a crash.
        """
        jobs: list[LogDirJob] = []
        for writer, offset_of in self._checkpoints_of(log_dir):
            if writer.may_know(topic_partitions):
                for _ in self._collect(log_dir, writer, offset_of, jobs):
                    pass
        return [job.run for job in jobs]

    def forget(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Say nothing in checkpoints of partitions that are deleted, begun ones included."""
        for log_dir in self._directories.all:
            for writer, _ in self._checkpoints_of(log_dir):
                writer.forget(topic_partitions)

    def recovery_point_steps(self, jobs: list[LogDirJob]) -> Iterator[None]:
        """Collect recovery points that have moved, some logs with each step.

        After each step others may use and change the logs, and so with the two below.

        Args:
            jobs: the jobs to run are added to it, for reserves that were given up too.
        """
        for log_dir in self._directories.writable:
            yield from self._collect(log_dir, log_dir.recovery_points, _recovery_point_of, jobs)
            jobs += self.reserve_jobs(log_dir)

    def reserve_jobs(self, log_dir: LogDir, *, has_room: bool = False) -> list[LogDirJob]:
        """Make the reserve of a directory anew if it is not there, or too small for its catalog."""
        reserve = log_dir.reserve
        return _jobs_in(log_dir, reserve.enlarge if has_room else reserve.keep)

    def log_start_steps(
        self,
        jobs: list[LogDirJob],
        only: Collection[LogDir] | None = None,
        freeing: Collection[LogDir] = (),
    ) -> Iterator[None]:
        """Collect the log start offsets that have moved and lie within a segment.

        Those of logs from which segments were taken away stay until that is on disk, which is seen
        to first; the next time they are left out.

        Args:
            only: the directories to look at; None for all.
            freeing: directories in which that leads to more space.
        """
        for log_dir in self._directories.writable:
            if only is not None and log_dir not in only:
                continue
            syncs: list[LogDirJob] = []

            def offset_of(
                log: Log, log_dir: LogDir = log_dir, syncs: list[LogDirJob] = syncs
            ) -> int | None:
                if log.removed_names.lowest_on_disk() is not None:
                    sync = log.removed_names.begin_sync(log.directory).run
                    syncs.append(LogDirJob(log_dir, sync))
                return self._log_start_of(log)

            writes: list[LogDirJob] = []
            yield from self._collect(
                log_dir, log_dir.log_starts, offset_of, writes, frees_space=log_dir in freeing
            )
            jobs += [*syncs, *writes]

    def high_watermark_steps(self, jobs: list[LogDirJob]) -> Iterator[None]:
        """Collect the high watermarks that have moved."""
        for log_dir in self._directories.writable:
            yield from self._collect(log_dir, log_dir.high_watermarks, _high_watermark_of, jobs)

    def _collect(
        self,
        log_dir: LogDir,
        writer: CheckpointWriter,
        offset_of: Callable[[Log], int | None],
        jobs: list[LogDirJob],
        *,
        frees_space: bool = False,
    ) -> Iterator[None]:
        """Collect one checkpoint of a directory; `checkpoint_writer` explains what it may mix."""
        ticket = writer.begin()
        was_writable = log_dir.is_writable_now
        offsets: dict[TopicPartition, int] = {}
        for number, log in enumerate(list(self._registry.of_directory(log_dir)), 1):
            # Its topic may have been deleted since the first step, and made anew.
            if self._registry.get(log.topic_partition) is log:
                offset = offset_of(log)
                if offset is not None:
                    offsets[log.topic_partition] = offset
            if number % _LOGS_IN_A_STEP == 0:
                yield
        if was_writable and not log_dir.is_writable_now:
            return  # its logs were released on the way: the collection is incomplete
        if writer is log_dir.log_starts:
            offsets |= self._lost_starts_in(log_dir)
        jobs += _jobs_in(log_dir, writer.job(offsets, ticket, frees_space=frees_space))

    def _checkpoints_of(
        self, log_dir: LogDir
    ) -> list[tuple[CheckpointWriter, Callable[[Log], int | None]]]:
        return [
            (log_dir.recovery_points, _recovery_point_of),
            (log_dir.log_starts, self._log_start_of),
            (log_dir.high_watermarks, _high_watermark_of),
        ]

    @contextlib.contextmanager
    def wanted_starts(self, wanted: Mapping[Log, int]) -> Iterator[None]:
        """Let checkpoints already hold the lower offsets of logs that are about to be cut."""
        for log, start in wanted.items():
            self._wanted_starts.setdefault(log, []).append(start)
        try:
            yield
        finally:
            for log, start in wanted.items():
                self._wanted_starts[log].remove(start)
                if not self._wanted_starts[log]:
                    del self._wanted_starts[log]

    def _lost_starts_in(self, log_dir: LogDir) -> dict[TopicPartition, int]:
        offline, lost = self._registry.offline, log_dir.starts_when_lost
        return {each: start for each, start in lost.items() if each in offline}

    def _log_start_of(self, log: Log) -> int | None:
        start = log.offsets.log_start
        wanted = self._wanted_starts
        if wanted and log in wanted:
            start = max(start, *wanted[log])
        # Of most logs it is 0, below which there is nothing: no look at their segments.
        return start if start > 0 and log.is_start_in_doubt(start) else None


def _recovery_point_of(log: Log) -> int:
    return log.offsets.recovery_point


def _high_watermark_of(log: Log) -> int:
    return log.offsets.high_watermark


def _jobs_in(log_dir: LogDir, write: Callable[[], None] | None) -> list[LogDirJob]:
    """A job that writes files which are made anew; none if there is nothing to write."""
    return [] if write is None else [LogDirJob(log_dir, partial(log_dir.run_inside, write))]


def _remove_files(
    file_system: FileSystem, directory: str, names: NameSync, segments: Collection[LogSegment]
) -> None:
    """Remove the files of segments, once it is on disk that they have left the log.

    Raises:
        StorageError: some are left; the next start removes them.
    """
    names.run()
    for segment in segments:
        segment.delete_files()
    if file_system.exists(directory):
        file_system.sync_directory(directory)
