"""Making and renaming the folders of partitions: blocking work for a worker thread.

A new folder holds ``partition.metadata`` before anything is appended. A folder whose partition is
deleted is renamed ``-delete`` at once, so that its name is free again, and removed later.
"""

import logging
import os.path
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seglog.broker.storage.directories.log_dir import LogDir, remove_directory_tree
from seglog.broker.storage.errors import (
    CorruptCheckpointError,
    DiskFullError,
    InvalidTopicNameError,
    NameTooLongError,
    StorageError,
)
from seglog.broker.storage.files.checkpoint import PartitionMetadataFile
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    FILE_NAME_LENGTH_MAX,
    PARTITION_METADATA,
    DirectoryState,
    marked_directory_name,
    partition_directory_name,
)
from seglog.broker.storage.identifiers import random_id
from seglog.broker.storage.log.loader import load_log
from seglog.broker.storage.log.log import Log
from seglog.config import LogConfig
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class NewPartitions(NamedTuple):
    """The common state of new partitions of a topic; ``now_ms`` is the wall clock."""

    config: LogConfig
    topic_id: bytes
    producer_expiration_ms: int
    now_ms: int


class PartitionFolders:
    """Folders of partitions; each method is for one data directory, and blocks."""

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system

    def make(
        self, log_dir: LogDir, topic_partitions: Sequence[TopicPartition], new: NewPartitions
    ) -> list[Log]:
        """Make the folders of new partitions, all or none, and open their empty logs.

        Their names are on disk when this returns: later syncs in them are found again.

        Raises:
            DiskFullError: there is no room for them.
            StorageError: the disk refused.
        """
        made: list[Log] = []
        try:
            for topic_partition in topic_partitions:
                path = f"{log_dir.path}/{partition_directory_name(topic_partition)}"
                made.append(self._make(log_dir, path, topic_partition, new))
                # The names inside are synced with the first records: a sync for each of a thousand
                # folders would take a thousand times as long as one (U16).
            self._file_system.sync_directory(log_dir.path)
        except StorageError:
            self.discard(made)
            raise
        for log in made:
            # A partition that is made in the place of a lost one must not fall behind the epoch
            # that clients have seen: they take no older one for true, and ask for it for ever.
            log.leader_epoch_floor = log_dir.leader_epoch_floor
        return made

    def discard(self, logs: Iterable[Log]) -> None:
        """Remove the folders of new partitions that are not wanted after all."""
        for log in logs:
            log.abandon()
            self._discard(log.directory)

    def mark_deleted(self, log_dir: LogDir, log: Log) -> None:
        """Rename the folder of a log that is not served any more; ``Log.delete`` removes it.

        Raises:
            StorageError: the disk refused.
        """
        log.abandon()
        path, name = log.directory, log.topic_partition
        log.moved(self._rename_to_free(log_dir, path, name))

    def mark_offline_deleted(self, log_dir: LogDir, topic_partition: TopicPartition) -> str | None:
        """Rename the folder of a partition whose log could not be opened, or was given up.

        Otherwise it would stay on the disk, and block its name.

        Returns:
            The new path, None if the directory has no such folder.

        Raises:
            StorageError: the disk refused.
        """
        path = f"{log_dir.path}/{partition_directory_name(topic_partition)}"
        if not self._file_system.exists(path):
            return None
        return self._rename_to_free(log_dir, path, topic_partition)

    def _rename_to_free(self, log_dir: LogDir, path: str, name: TopicPartition) -> str:
        """Rename a folder that is to be removed, even where its longer name finds no room."""
        targets: list[str] = []
        log_dir.reserve.write_to_free_space(
            lambda: targets.append(self.rename(log_dir, path, name, DirectoryState.DELETED)),
        )
        return targets[0]

    def sync_names(self, log_dir: LogDir) -> None:
        """Put the names of all folders of a directory on disk."""
        self._file_system.sync_directory(log_dir.path)

    def rename(
        self,
        log_dir: LogDir,
        path: str,
        topic_partition: TopicPartition,
        state: DirectoryState,
    ) -> str:
        """Give a folder a name that tells its new state; returns the new path."""
        # As long as the folder's own name, if the file system takes less than others (eCryptfs).
        for length_max in (FILE_NAME_LENGTH_MAX, len(os.path.basename(path))):
            name = marked_directory_name(topic_partition, state, random_id().hex(), length_max)
            target = f"{log_dir.path}/{name}"
            try:
                self._file_system.rename(path, target)
            except NameTooLongError as error:
                too_long = error
            else:
                return target
        raise too_long

    def topic_id_of(self, path: str) -> bytes | None:
        """The id of the topic a folder belongs to; None if it does not say, or is damaged."""
        try:
            return PartitionMetadataFile(self._file_system, f"{path}/{PARTITION_METADATA}").read()
        except CorruptCheckpointError as error:
            logger.warning(
                "event=file-damaged file=%s reason=%r action=write-anew", error.path, error.reason
            )
            return None

    def write_topic_id(self, path: str, topic_id: bytes) -> None:
        """Note in a folder which topic it belongs to; a full disk is passed over."""
        file = PartitionMetadataFile(self._file_system, f"{path}/{PARTITION_METADATA}")
        try:
            file.write(topic_id)
        except DiskFullError as error:
            # The catalog knows the id; the next start tries again.
            logger.warning("event=topic-id-not-written folder=%s error=%s", path, error)

    def _make(
        self,
        log_dir: LogDir,
        path: str,
        topic_partition: TopicPartition,
        new: NewPartitions,
    ) -> Log:
        log_dir.check_same()
        if self._file_system.exists(path):
            if os.path.basename(path) not in self._file_system.list_directory(log_dir.path):
                # macOS, for example: it is the folder of a topic that is served.
                raise InvalidTopicNameError(
                    topic_partition.topic,
                    "the file system does not tell it from a topic with other upper-case letters",
                )
            # Left by a creation that failed and could not be undone; it was never served.
            self.rename(log_dir, path, topic_partition, DirectoryState.STRAY)
        self._file_system.make_directory(path)
        try:
            return self._fill(path, topic_partition, new)
        except StorageError:
            self._discard(path)
            raise

    def _fill(self, path: str, topic_partition: TopicPartition, new: NewPartitions) -> Log:
        metadata = PartitionMetadataFile(self._file_system, f"{path}/{PARTITION_METADATA}")
        # Not synced: the catalog knows the id, and a start after a loss of power writes it anew.
        # Two syncs for each of a thousand partitions would take seconds.
        metadata.write(new.topic_id, durable=False)
        return load_log(
            self._file_system,
            path,
            topic_partition,
            new.config,
            now_ms=new.now_ms,
            topic_id=new.topic_id,
            producer_expiration_ms=new.producer_expiration_ms,
        )

    def _discard(self, path: str) -> None:
        try:
            remove_directory_tree(self._file_system, path)
        except StorageError as error:
            logger.warning("event=folder-not-removed folder=%s error=%s", path, error)
