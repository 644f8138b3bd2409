"""Deleting a topic: the blocking part between serving it no more and removing its folders."""

import logging
from collections.abc import Callable, Iterable, Sequence

from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.partition_folders import PartitionFolders
from seglog.broker.storage.errors import MissingFileError, StorageError
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class TopicDeletion:
    """The work of the deletion of one topic in one data directory.

    Args:
        logs: its partitions that were served from there.
        offline: those that were not, of which a folder may be there all the same.
        report: told the errors of the disk.

    Attributes:
        log_dir: the directory.
        renamed: the logs whose folders have been renamed, once ``run`` has returned.
        renamed_folders: those of partitions that were offline.
    """

    def __init__(
        self,
        log_dir: LogDir,
        logs: Iterable[Log],
        offline: Sequence[TopicPartition],
        folders: PartitionFolders,
        report: Callable[[LogDir, StorageError], None],
    ) -> None:
        self.log_dir = log_dir
        self.renamed: list[Log] = []
        self.renamed_folders: list[str] = []
        self._logs = tuple(logs)
        self._offline = offline
        self._folders = folders
        self._report = report

    def run(self) -> None:
        """Rename the folders; does not raise.

        Without a sync: until one has come, the catalog says whose folders they are.
        """
        for log in self._logs:
            try:
                self._folders.mark_deleted(self.log_dir, log)
            except StorageError as error:
                self._failed(error)
            else:
                self.renamed.append(log)
        for topic_partition in self._offline:
            try:
                path = self._folders.mark_offline_deleted(self.log_dir, topic_partition)
            except StorageError as error:
                self._failed(error)
            else:
                self.renamed_folders += [path] if path is not None else []

    def sync(self) -> bool:
        """Put the new names on disk; whether they are there. Does not raise."""
        if not self.renamed and not self.renamed_folders:
            return True
        try:
            self._folders.sync_names(self.log_dir)
        except StorageError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: StorageError) -> None:
        logger.warning("event=folder-failed directory=%s error=%s", self.log_dir.path, error)
        if isinstance(error, MissingFileError) and self.log_dir.is_there():
            return  # the folder was removed by hand
        self._report(self.log_dir, error)
