"""Deleting a topic: the blocking part between serving it no more and removing its folders."""

from collections.abc import Sequence

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log import Log
from seglog.broker.storage.log_dir import LogDir
from seglog.broker.storage.log_housekeeping import LogDirJob
from seglog.broker.storage.partition_folders import PartitionFolders
from seglog.protocol.types import TopicPartition


class TopicDeletion:
    """What a worker does for the deletion of one topic.

    Args:
        logs: its partitions that were served.
        offline: its partitions that were not, of which a folder may be there all the same.

    Attributes:
        renamed: the logs whose folders have been renamed, once ``run`` has returned.
        renamed_folders: those of partitions that were offline, with their directory.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        offline: Sequence[TopicPartition],
        folders: PartitionFolders,
        checkpoints: Sequence[LogDirJob],
    ) -> None:
        self.renamed: list[Log] = []
        self.renamed_folders: list[tuple[LogDir, str]] = []
        self._logs = logs
        self._offline = offline
        self._folders = folders
        self._checkpoints = checkpoints

    def run(self) -> None:
        """Rename the folders, then write the checkpoints without them. Does not raise."""
        self.renamed = self._folders.mark_deleted(self._logs)
        self.renamed_folders = self._folders.mark_offline_deleted(self._offline)
        for log_dir, write in self._checkpoints:
            try:
                write()
            except StorageError as error:
                self._folders.failed(log_dir, error)
