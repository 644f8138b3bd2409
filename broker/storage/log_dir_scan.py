"""Looking through a data directory at the start: which folders are partitions."""

import logging
import os.path
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from seglog.broker.storage.errors import InvalidDirectoryNameError, StorageError
from seglog.broker.storage.files import FileSystem
from seglog.broker.storage.layout import (
    SKIPPED_DIRECTORIES,
    DirectoryState,
    parse_partition_directory,
)
from seglog.broker.storage.log_dir import LogDir
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

_NOT_OURS: Final = frozenset({"lost+found"})


class DuplicatePartitionError(StorageError):
    """Two data directories hold the same partition, and nobody can say which one counts."""


@dataclass
class LogDirScan:
    """The folders of one data directory.

    Attributes:
        live: names of the folders of partitions, by partition.
        deleted: names of folders that are to be removed.
        unreachable: names of links to folders of partitions that are not there (a disk that is not
            mounted), by partition.
    """

    log_dir: LogDir
    live: dict[TopicPartition, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unreachable: dict[TopicPartition, str] = field(default_factory=dict)


def scan_log_dir(file_system: FileSystem, log_dir: LogDir) -> LogDirScan:
    """List the folders of a data directory.

    Raises:
        InvalidDirectoryNameError: a folder is not one of ours. It is not passed over, since it may
            be a partition whose name was damaged, or the directory may be the wrong one.
        FileError: the directory cannot be read.
    """
    scan = LogDirScan(log_dir)
    for name in file_system.list_directory(log_dir.path):
        path = f"{log_dir.path}/{name}"
        if name in SKIPPED_DIRECTORIES or name in _NOT_OURS:
            continue
        is_broken_link = os.path.islink(path) and not os.path.exists(path)
        if not os.path.isdir(path) and not is_broken_link:
            continue
        try:
            found = parse_partition_directory(name)
        except InvalidDirectoryNameError as error:
            if name.startswith(".") or is_broken_link:
                continue  # the trash of a desktop, snapshots of a file system
            raise InvalidDirectoryNameError(
                name, f"{error.reason}; move {path} out of the data directory {log_dir.path}"
            ) from error
        if is_broken_link and found.state is DirectoryState.LIVE:
            scan.unreachable[found.topic_partition] = name
        elif found.state is DirectoryState.LIVE:
            scan.live[found.topic_partition] = name
        elif found.state is DirectoryState.DELETED:
            scan.deleted.append(name)
        else:
            logger.info("event=folder-skipped folder=%s reason=%s", path, found.state.name.lower())
    return scan


def check_no_duplicates(
    scans: list[LogDirScan], is_left_over: Callable[[TopicPartition, str], bool]
) -> None:
    """Check that no partition lies in two data directories.

    Args:
        is_left_over: whether the folder of a partition is that of a topic which was deleted, while
            its directory was away. Asked only where there are two.

    Raises:
        DuplicatePartitionError: one does.
    """
    seen: dict[TopicPartition, LogDirScan] = {}
    for scan in scans:
        for topic_partition, name in scan.live.items():
            first = seen.setdefault(topic_partition, scan)
            if first is scan or is_left_over(topic_partition, f"{scan.log_dir.path}/{name}"):
                continue
            other = first.log_dir.path
            if is_left_over(topic_partition, f"{other}/{first.live[topic_partition]}"):
                seen[topic_partition] = scan
            else:
                raise DuplicatePartitionError(
                    f"partition {topic_partition} is in {other} and in {scan.log_dir.path}; "
                    "move one of the two folders away"
                )
