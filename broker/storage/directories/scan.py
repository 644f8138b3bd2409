"""Looking through a data directory at the start: which folders are partitions."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from seglog.broker.storage.directories.catalog_file import CATALOG_COPY, CATALOG_FILE
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import InvalidDirectoryNameError, StorageError, error_from_os
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    CLOSED_LOGS,
    LEADER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_FLOOR,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    SKIPPED_DIRECTORIES,
    TEMPORARY_SUFFIX,
    DirectoryState,
    parse_partition_directory,
    parse_segment_file_name,
)
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

_LOST_AND_FOUND: Final = "lost+found"
_NOT_OURS: Final = frozenset(
    {
        _LOST_AND_FOUND,
        "System Volume Information",
        "#recycle",
        "#snapshot",
        "$RECYCLE.BIN",
        "@eaDir",
    }
)
"""Folders that systems and appliances make in an empty disk of theirs."""
_OUR_FILES: Final = frozenset(
    {
        META_PROPERTIES,
        CATALOG_FILE,
        CATALOG_COPY,
        CLEAN_SHUTDOWN_MARKER,
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        REPLICATION_OFFSET_CHECKPOINT,
        CLEANER_OFFSET_CHECKPOINT,
        LEADER_EPOCH_FLOOR,
        CLOSED_LOGS,
        *SKIPPED_DIRECTORIES,
    }
)

_HALF_WRITTEN: Final = frozenset(
    name + TEMPORARY_SUFFIX for name in _OUR_FILES.difference(SKIPPED_DIRECTORIES)
)


class NoDataDirectoryError(StorageError):
    """A folder that is full of something else, and was surely not meant."""


class DuplicatePartitionError(StorageError):
    """Two data directories hold the same partition, and it is unknown which one counts."""


@dataclass
class LogDirScan:
    """The folders of one data directory.

    Attributes:
        live: names of the folders of partitions, by partition.
        deleted: names of folders that are to be removed.
        unreachable: names of links to folders of partitions that are not there (a disk that is not
            mounted), by partition.
        copies: paths of folders of copies of partitions that were on their way into this directory,
            by partition; Kafka takes the mark off once a copy is complete.
    """

    log_dir: LogDir
    live: dict[TopicPartition, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unreachable: dict[TopicPartition, str] = field(default_factory=dict)
    copies: dict[TopicPartition, list[str]] = field(default_factory=dict)


def check_is_data_directory(file_system: FileSystem, path: str) -> None:
    """Make sure, before anything is written, that a folder is a data directory or may become one.

    It may if nothing is in it but files, folders of the system and those named like partitions.

    Raises:
        NoDataDirectoryError: it holds folders of others, and nothing of a broker.
        FileError: it cannot be read.
    """
    if not file_system.exists(path) or file_system.exists(f"{path}/{META_PROPERTIES}"):
        return
    names = file_system.list_directory(path)
    if not _OUR_FILES.isdisjoint(names):
        return
    foreign: list[str] = []
    for name in names:
        if name in _NOT_OURS or name.startswith(".") or not os.path.isdir(f"{path}/{name}"):
            continue
        if not _is_named_like_a_partition(name):
            foreign.append(name)
        elif holds_a_log(file_system, f"{path}/{name}"):
            return
    if foreign:
        raise NoDataDirectoryError(
            f"{path} is no data directory: it holds {foreign[0]!r} ({len(foreign)} such folders)"
            f" and nothing of a broker; if it is to be one, make an empty {path}/{META_PROPERTIES}"
        )


def holds_a_log(file_system: FileSystem, path: str) -> bool:
    """Whether a folder has files of a partition in it.

    Raises:
        FileError: it cannot be read.
    """
    return any(
        name in (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT)
        or parse_segment_file_name(name) is not None
        for name in file_system.list_directory(path)
    )


def holds_records(file_system: FileSystem, path: str) -> bool:
    """Whether there are bytes of records in the folder of a partition.

    Raises:
        FileError: it cannot be read.
    """
    for name in file_system.list_directory(path):
        parsed = parse_segment_file_name(name)
        is_data = parsed is not None and (parsed.suffix, parsed.state) == (LOG_SUFFIX, "")
        if is_data and file_system.size(f"{path}/{name}"):
            return True
    return False


def _is_named_like_a_partition(name: str) -> bool:
    try:
        parse_partition_directory(name)
    except InvalidDirectoryNameError:
        return False
    return True


def scan_log_dir(file_system: FileSystem, log_dir: LogDir) -> LogDirScan:
    """List the folders of a data directory; foreign ones are named in a warning.

    Half-written state files of a broker that was killed are removed.

    Raises:
        FileError: the directory cannot be read, or a file in it cannot be removed.
    """
    scan = LogDirScan(log_dir)
    folders = _folders_in(log_dir.path)
    for name in file_system.list_directory(log_dir.path):
        if name in _HALF_WRITTEN and name not in folders:
            # Killed between write and rename. The next write of that file would replace it, but a
            # checkpoint in which nothing changes is not written again.
            file_system.unlink(f"{log_dir.path}/{name}", missing_ok=True)
            continue
        is_broken_link = folders.get(name)
        if name in SKIPPED_DIRECTORIES or is_broken_link is None:
            continue
        path = f"{log_dir.path}/{name}"
        try:
            found = parse_partition_directory(name)
        except InvalidDirectoryNameError as error:
            if name.startswith(".") or name == _LOST_AND_FOUND or is_broken_link:
                continue  # the trash of a desktop, snapshots of a file system
            # Perhaps a partition whose name was damaged: the operator has to hear of it.
            logger.warning("event=foreign-folder-ignored path=%s reason=%r", path, error.reason)
            continue
        if is_broken_link and found.state is DirectoryState.LIVE:
            scan.unreachable[found.topic_partition] = name
        elif found.state is DirectoryState.LIVE:
            scan.live[found.topic_partition] = name
        elif found.state is DirectoryState.DELETED:
            scan.deleted.append(name)
        else:
            if found.state is DirectoryState.FUTURE and not is_broken_link:
                scan.copies.setdefault(found.topic_partition, []).append(path)
            logger.info("event=folder-skipped folder=%s reason=%s", path, found.state.name.lower())
    return scan


def _folders_in(path: str) -> dict[str, bool]:
    """The folders in a directory, each with whether it is a link to nowhere."""
    folders: dict[str, bool] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders[entry.name] = False
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    folders[entry.name] = True
    except OSError as error:
        raise error_from_os("list", path, error) from error
    return folders


def is_untouched(file_system: FileSystem, path: str) -> bool:
    """Whether the folder of a partition is as it was made: nothing was ever appended.

    Raises:
        FileError: it cannot be read.
    """
    for name in file_system.list_directory(path):
        parsed = parse_segment_file_name(name)
        is_data = parsed is not None and parsed.suffix == LOG_SUFFIX
        if parsed and is_data and (parsed.base_offset or file_system.size(f"{path}/{name}")):
            return False
    return True


class Double(NamedTuple):
    """A folder of a partition that has another one, which counts."""

    log_dir: LogDir
    path: str
    topic_partition: TopicPartition


def settle_duplicates(
    scans: Sequence[LogDirScan],
    is_left_over: Callable[[TopicPartition, str], bool],
    is_untouched_folder: Callable[[str], bool],
) -> list[Double]:
    """Decide which folder counts where a partition lies in two data directories.

    A creation that failed, and could not be undone on a disk that had failed, leaves a folder
    without a record, while its partition was made in another directory. It is taken out of its scan
    and returned.

    Args:
        is_left_over: whether the folder of a partition is that of a topic which was deleted, while
            its directory was away. Asked only where there are two.
        is_untouched_folder: whether nothing was ever appended to the log in a folder. Asked only
            where there are two.

    Raises:
        DuplicatePartitionError: both hold records, and neither is known to be the right one.
    """
    seen: dict[TopicPartition, LogDirScan] = {}
    doubles: list[Double] = []
    for scan in scans:
        for topic_partition, name in list(scan.live.items()):
            first = seen.setdefault(topic_partition, scan)
            path = f"{scan.log_dir.path}/{name}"
            if first is scan or is_left_over(topic_partition, path):
                continue
            other = f"{first.log_dir.path}/{first.live[topic_partition]}"
            if is_left_over(topic_partition, other):
                seen[topic_partition] = scan
            elif is_untouched_folder(path):
                del scan.live[topic_partition]
                doubles.append(Double(scan.log_dir, path, topic_partition))
            elif is_untouched_folder(other):
                del first.live[topic_partition]
                seen[topic_partition] = scan
                doubles.append(Double(first.log_dir, other, topic_partition))
            else:
                raise DuplicatePartitionError(
                    f"partition {topic_partition} is in {first.log_dir.path} and in "
                    f"{scan.log_dir.path}, with records in both; move one of the two folders away"
                )
    return doubles
