"""PartitionMaking: the folders of new partitions, made in all their data directories at once.

owner:    jobs = making.begin()            chooses directories; a job for each of them
workers:  job.run()                        blocks
owner:    jobs = making.next()             refused or late folders go elsewhere
...                                        until there are no jobs
owner:    logs = making.finish()           all logs; or the error, and ``undo`` removes the rest
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from seglog.broker.storage.directories.data_directories import DataDirectories
from seglog.broker.storage.directories.log_dir import LogDir, LogDirJob
from seglog.broker.storage.directories.partition_folders import NewPartitions, PartitionFolders
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.layout import parent_directory
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class _Attempt:
    """Some partitions in one directory; ``logs`` or ``error`` is there once its job has ended."""

    def __init__(self, log_dir: LogDir, names: Sequence[TopicPartition]) -> None:
        self.log_dir = log_dir
        self.names = names
        self.logs: list[Log] = []
        self.error: StorageError | None = None


class PartitionMaking:
    """The new partitions of one topic.

    Args:
        partition_counts: how many partitions each data directory has, by path.
        report: told the directory and error of a disk that refuses.
        before: work in a directory before the folders of partitions are made there.
    """

    def __init__(
        self,
        folders: PartitionFolders,
        directories: DataDirectories,
        names: Sequence[TopicPartition],
        new: NewPartitions,
        partition_counts: Mapping[str, int],
        *,
        report: Callable[[LogDir, StorageError], None],
        before: Callable[[LogDir, Collection[TopicPartition]], Sequence[Callable[[], None]]],
    ) -> None:
        self._folders = folders
        self._directories = directories
        self._new = new
        self._counts = dict(partition_counts)
        self._report = report
        self._before = before
        self._missing: list[TopicPartition] = list(names)
        self._made: list[Log] = []
        self._refused: set[LogDir] = set()
        self._running: list[_Attempt] = []
        self._given_up: list[_Attempt] = []
        self._error: StorageError | None = None

    def begin(self, avoid: Collection[LogDir] = ()) -> list[LogDirJob]:
        """Place missing partitions, each in the directory with the fewest; a job a directory.

        Args:
            avoid: directories that hang; they are taken only if there are no others.

        Raises:
            NoUsableDirectoryError: no directory takes new partitions.
        """
        candidates = self._directories.candidates({*avoid, *self._refused})
        places: dict[LogDir, list[TopicPartition]] = {}
        for name in self._missing:
            log_dir = min(candidates, key=lambda each: self._counts.get(each.path, 0))
            self._counts[log_dir.path] = self._counts.get(log_dir.path, 0) + 1
            places.setdefault(log_dir, []).append(name)
        self._missing = []
        self._running = [_Attempt(log_dir, names) for log_dir, names in places.items()]
        return [
            LogDirJob(
                each.log_dir, partial(self._run, each, self._before(each.log_dir, each.names))
            )
            for each in self._running
        ]

    def next(
        self, late: Collection[LogDir] = (), avoid: Collection[LogDir] = ()
    ) -> list[LogDirJob]:
        """Take the new folders; returns jobs for those that go elsewhere, none if all is decided.

        Args:
            late: directories whose job has not ended and is given up; ``undo_late`` follows.
            avoid: as for ``begin``.
        """
        for attempt in self._running:
            if attempt.log_dir in late:
                self._given_up.append(attempt)
            elif attempt.error is None:
                self._made += attempt.logs
                continue
            else:
                self._error = attempt.error
            self._refused.add(attempt.log_dir)
            self._missing += attempt.names
        self._running = []
        if not self._missing or not self._may_go_elsewhere():
            return []
        return self.begin(avoid)

    def elsewhere(self, avoid: Collection[LogDir]) -> list[LogDir]:
        """Where partitions could go that the running jobs do not make."""
        return [
            log_dir
            for log_dir in self._directories.writable
            if log_dir not in self._refused and log_dir not in avoid
        ]

    def finish(self) -> list[Log]:
        """All logs, in the order of their partitions.

        Raises:
            StorageError: some could not be made; ``undo`` removes the others.
        """
        if self._missing:
            raise self._error or StorageError(f"no data directory has made {self._missing[0]}")
        return sorted(self._made, key=lambda log: log.topic_partition)

    def _may_go_elsewhere(self) -> bool:
        try:
            candidates = self._directories.candidates(self._refused)
        except StorageError as error:
            self._error = self._error or error
            return False
        return not self._refused.issuperset(candidates)

    def _run(self, attempt: _Attempt, before: Sequence[Callable[[], None]]) -> None:
        """Make the folders of one attempt; in a worker, and raises nothing."""
        try:
            for write in before:
                write()
            attempt.logs = self._folders.make(attempt.log_dir, attempt.names, self._new)
        except StorageError as error:
            attempt.error = error
            logger.warning("event=folder-failed directory=%s error=%s", attempt.log_dir.path, error)
            self._report(attempt.log_dir, error)

    def undo(self) -> list[LogDirJob]:
        """Jobs that remove the new folders, after a ``finish`` that raised."""
        by_directory: dict[LogDir, list[Log]] = {}
        for log in self._made:
            log_dir = self._directories.find(parent_directory(log.directory))
            by_directory.setdefault(log_dir, []).append(log)
        return self._removals(by_directory)

    def undo_late(self, log_dir: LogDir) -> list[LogDirJob]:
        """Jobs that remove the folders of a job that was given up, once it has ended."""
        given_up = [each for each in self._given_up if each.log_dir is log_dir]
        return self._removals({log_dir: [log for each in given_up for log in each.logs]})

    def _removals(self, by_directory: Mapping[LogDir, Sequence[Log]]) -> list[LogDirJob]:
        return [
            LogDirJob(log_dir, partial(self._folders.discard, logs))
            for log_dir, logs in by_directory.items()
            if logs
        ]
