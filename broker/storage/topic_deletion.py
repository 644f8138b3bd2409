"""Deleting a topic: the blocking part between serving it no more and removing its folders."""

from collections.abc import Sequence

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log import Log
from seglog.broker.storage.log_housekeeping import LogDirJob
from seglog.broker.storage.partition_folders import PartitionFolders


class TopicDeletion:
    """What a worker does for the deletion of one topic.

    Attributes:
        renamed: the logs whose folders have been renamed, once ``run`` has returned.
    """

    def __init__(
        self, logs: Sequence[Log], folders: PartitionFolders, checkpoints: Sequence[LogDirJob]
    ) -> None:
        self.renamed: list[Log] = []
        self._logs = logs
        self._folders = folders
        self._checkpoints = checkpoints

    def run(self) -> None:
        """Rename the folders, then write the checkpoints without them. Does not raise."""
        self.renamed = self._folders.mark_deleted(self._logs)
        for log_dir, write in self._checkpoints:
            try:
                write()
            except StorageError as error:
                self._folders.failed(log_dir, error)
