"""Names of files and folders, as Apache Kafka gives them; the only module that knows them.

A log directory holds one folder for each partition, ``<topic>-<partition>``; a folder on its way
out (or in) is ``<topic>-<partition>.<32 hex digits>`` followed by ``-delete``, ``-stray`` or
``-future``. A partition's folder holds segment files named by 20-digit base offset and suffix;
``.cleaned``, ``.swap`` and ``.deleted`` come after the ordinary suffix.
"""

import os.path
import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from seglog.broker.storage.errors import InvalidDirectoryNameError, InvalidTopicNameError
from seglog.protocol.types import INT32_MAX, INT64_MAX, TopicPartition

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_SUFFIX: Final = ".deleted"
TEMPORARY_SUFFIX: Final = ".tmp"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
LEADER_EPOCH_FLOOR: Final = "seglog-leader-epoch"
CLOSED_LOGS: Final = "seglog-closed-logs"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
SKIPPED_DIRECTORIES: Final = frozenset({"remote-log-index-cache", f"{CLUSTER_METADATA_TOPIC}-0"})

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
TOPIC_NAME_LENGTH_MAX: Final = 249
FILE_NAME_LENGTH_MAX: Final = 255

_OFFSET_DIGITS: Final = 20
_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_MARKED_DIRECTORY: Final = re.compile(r"(\S+)-(\S+)\.(\S+)(-delete|-future|-stray)")
_PARTITION_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


# ---- segment files


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """The path of a segment's file, e.g. suffix ``.log`` or ``.index.swap``.

    >>> segment_path("/data/t-0", 42, ".log")
    '/data/t-0/00000000000000000042.log'
    """
    return f"{directory}/{base_offset:020d}{suffix}"


class SegmentFileName(NamedTuple):
    """A file name taken apart: ``<base offset><suffix><state>``, state e.g. ``.swap`` or empty."""

    base_offset: int
    suffix: str
    state: str


def parse_segment_file_name(name: str) -> SegmentFileName | None:
    """Takes the name of a segment file or snapshot apart; None for any other file.

    >>> parse_segment_file_name("00000000000000000042.index.swap")
    SegmentFileName(base_offset=42, suffix='.index', state='.swap')
    """
    stem, dot, rest = name.partition(".")
    if not dot or len(stem) != _OFFSET_DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    suffix, dot, state = rest.partition(".")
    suffix = "." + suffix
    state = dot + state
    if suffix not in SEGMENT_SUFFIXES and suffix != SNAPSHOT_SUFFIX:
        return None
    if state not in ("", CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX):
        return None
    base_offset = int(stem)
    if base_offset > INT64_MAX:
        return None  # twenty digits have room for more than an offset has
    return SegmentFileName(base_offset, suffix, state)


# ---- partition folders


class DirectoryState(Enum):
    """The purpose of a partition's folder; the value is the end of its name."""

    LIVE = ""
    DELETED = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class PartitionDirectory(NamedTuple):
    """The folder of a partition, as its name says."""

    topic_partition: TopicPartition
    state: DirectoryState


def partition_directory_name(topic_partition: TopicPartition) -> str:
    """The folder of a live partition."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def marked_directory_name(
    topic_partition: TopicPartition,
    state: DirectoryState,
    unique: str,
    length_max: int = FILE_NAME_LENGTH_MAX,
) -> str:
    """The folder of a partition that is being deleted, moved, or is a stray.

    Args:
        unique: 32 hexadecimal digits of a random UUID, so that the name is free again at once.
        length_max: longest name of the file system.

    The topic is shortened where the name would exceed ``length_max`` (MGR-4), except for
    ``-future`` folders, which become live ones again.
    """
    end = f"-{topic_partition.partition}.{unique}{state.value}"
    if state is DirectoryState.FUTURE:
        return topic_partition.topic + end
    return topic_partition.topic[: max(1, length_max - len(end))] + end


def parse_partition_directory(name: str) -> PartitionDirectory:
    """The partition that a folder belongs to.

    Raises:
        InvalidDirectoryNameError: it is not the folder of a partition.
    """
    if "-" not in name:
        raise InvalidDirectoryNameError(name, "there is no '-' in it")
    state = DirectoryState.LIVE
    stem = name
    for marked in (DirectoryState.DELETED, DirectoryState.FUTURE, DirectoryState.STRAY):
        if name.endswith(marked.value):
            if _MARKED_DIRECTORY.fullmatch(name) is None:
                raise InvalidDirectoryNameError(
                    name,
                    f"one that ends in {marked.value} is <topic>-<partition>.<id>{marked.value}",
                )
            state = marked
            stem = name.rpartition(".")[0]
    topic, _, partition = stem.rpartition("-")
    if not topic:
        raise InvalidDirectoryNameError(name, "the topic is empty")
    if _PARTITION_NUMBER.fullmatch(partition) is None or int(partition) > INT32_MAX:
        raise InvalidDirectoryNameError(name, f"{partition!r} is no partition number")
    return PartitionDirectory(TopicPartition(topic, int(partition)), state)


def parent_directory(path: str) -> str:
    """The folder that a file or folder is in."""
    return os.path.dirname(path) or "."


# ---- topic names


def check_topic_name(topic: str) -> None:
    """Checks a name by Kafka's rules.

    Raises:
        InvalidTopicNameError: it is empty, ``.``, ``..``, longer than 249 characters, or has
            characters other than ASCII letters and digits, ``.``, ``_`` and ``-``, or is the one
            under which Kafka keeps its metadata.
    """
    if not topic:
        raise InvalidTopicNameError(topic, "it is empty")
    if topic in (".", ".."):
        raise InvalidTopicNameError(topic, "'.' and '..' are folders")
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopicNameError(
            topic, f"it has {len(topic)} characters, the limit is {TOPIC_NAME_LENGTH_MAX}"
        )
    if _LEGAL_TOPIC.fullmatch(topic) is None:
        raise InvalidTopicNameError(
            topic, "only ASCII letters and digits, '.', '_' and '-' are allowed"
        )
    if topic == CLUSTER_METADATA_TOPIC:
        # The start passes over its folder: the records would be gone with each restart.
        raise InvalidTopicNameError(topic, "Kafka keeps its own metadata under that name")


def collision_key(topic: str) -> str:
    """The form of a name that must be unique: metric names do not tell ``.`` from ``_``."""
    return topic.replace(".", "_")


def colliding_topic(topic: str, existing: Iterable[str]) -> str | None:
    """The existing topic that ``topic`` would be confused with in metric names, if any."""
    key = collision_key(topic)
    for other in existing:
        if other != topic and collision_key(other) == key:
            return other
    return None
