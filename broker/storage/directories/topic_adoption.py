"""Folders of partitions that the topic catalog does not know: whose they are, and taking them over.

A folder that is named like a partition but holds nothing of a log (``backup-2023``) is foreign, and
is ignored. The others are taken into the catalog where there never was one (a broker of Kafka's) or
where the newest copy was damaged.

Topics that are taken over have lost their settings; so that no default deletes records that were
meant to stay, they get no limits of age and size, which an operator may then set.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from seglog.broker.storage.directories.catalog_file import CatalogTopic
from seglog.broker.storage.directories.scan import LogDirScan, holds_a_log
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.errors import (
    DiskFullError,
    InvalidDirectoryNameError,
    InvalidTopicNameError,
    StorageError,
)
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    INTERNAL_TOPICS,
    check_topic_name,
    parse_partition_directory,
)
from seglog.broker.storage.identifiers import random_id

logger = logging.getLogger(__name__)

PARTITIONS_MAX: Final = 100_000
"""Topics with a folder of a higher number are not taken over: ``t-20231201`` is a copy by hand,
and all partitions below it would be made."""

_NO_LIMITS: Final = MappingProxyType({"retention.ms": "-1", "retention.bytes": "-1"})
_COMPACTED: Final = MappingProxyType({"cleanup.policy": "compact"})


class FoundTopic(NamedTuple):
    """A topic that only its folders tell of; ``topic_id`` is None where they do not say."""

    name: str
    topic_id: bytes | None
    partition_count: int


def leave_out_foreign(
    file_system: FileSystem, scans: Iterable[LogDirScan], catalog: TopicCatalog | None
) -> None:
    """Take folders out of the scans that only look like those of partitions; they stay as they are.

    One that cannot be looked into may be a partition only where there is no catalog to say so.
    """
    for scan in scans:
        for topic_partition, name in list(scan.live.items()):
            topic = None if catalog is None else catalog.get(topic_partition.topic)
            if topic is not None and topic_partition.partition < topic.partition_count:
                continue
            path = f"{scan.log_dir.path}/{name}"
            if topic_partition.topic.startswith(".") or not _holds_a_log(
                file_system, path, if_unreadable=catalog is None
            ):
                logger.warning("event=foreign-folder-ignored path=%s", path)
                del scan.live[topic_partition]


def unknown_topics(
    scans: Iterable[LogDirScan],
    catalog: TopicCatalog,
    topic_id_of: Callable[[str], bytes | None],
) -> list[FoundTopic]:
    """Topics that a newer catalog may have known; not those that are being deleted.

    Args:
        topic_id_of: reads the id of its topic from a folder.
    """
    folders: dict[str, dict[int, str]] = {}
    for scan in scans:
        for (topic, partition), name in scan.live.items():
            folders.setdefault(topic, {})[partition] = f"{scan.log_dir.path}/{name}"
    found = []
    for name, partitions in folders.items():
        known = catalog.get(name)
        count = max(partitions) + 1
        if known is not None and count <= known.partition_count:
            continue
        ids = (topic_id_of(path) for path in partitions.values())
        topic_id = next((each for each in ids if each is not None), None)
        if topic_id in catalog.state.deleting:
            continue
        if known is None or topic_id == known.topic_id:
            found.append(FoundTopic(name, topic_id, count))
    return _without_copies(found, folders)


def adopt(
    catalog: TopicCatalog,
    cluster_id: str,
    directories: Mapping[bytes, str],
    found: Collection[FoundTopic],
) -> None:
    """Take topics over that were found, cluster id and data directories; not if the disk is full.

    Args:
        directories: id to path of those that may hold partitions.
        found: the topics.
    """
    topics = [
        _to_adopt(topic, catalog.get(topic.name)) for topic in found if _may_be_adopted(topic)
    ]
    for topic in topics:
        logger.warning(
            "event=topic-adopted topic=%s partitions=%d configs=%r",
            topic.name,
            topic.partition_count,
            dict(topic.configs),
        )
    try:
        catalog.adopt(topics, cluster_id, directories)
    except DiskFullError as error:
        # The next start finds the same folders again.
        logger.warning("event=catalog-not-written error=%s", error)


def _holds_a_log(file_system: FileSystem, path: str, *, if_unreadable: bool) -> bool:
    try:
        return holds_a_log(file_system, path)
    except StorageError as error:
        logger.warning("event=folder-not-listed path=%s error=%s", path, error)
        return if_unreadable


def _without_copies(
    found: Sequence[FoundTopic], folders: Mapping[str, Mapping[int, str]]
) -> list[FoundTopic]:
    """Leave out copies of folders: ``t-0-20231201`` beside ``t-0``, with the id of its topic."""
    ids = {topic.name: topic.topic_id for topic in found}
    originals = []
    for topic in found:
        try:
            original, _ = parse_partition_directory(topic.name)
        except InvalidDirectoryNameError:
            originals.append(topic)
            continue
        is_there = original.partition in folders.get(original.topic, {})
        if is_there and topic.topic_id is not None and ids.get(original.topic) == topic.topic_id:
            logger.warning("event=copy-not-adopted topic=%s original=%s", topic.name, original)
        else:
            originals.append(topic)
    return originals


def _may_be_adopted(topic: FoundTopic) -> bool:
    reason = None
    try:
        check_topic_name(topic.name)
    except InvalidTopicNameError as error:
        reason = error.reason
    if topic.partition_count > PARTITIONS_MAX:
        reason = f"a folder of it has the number {topic.partition_count - 1}"
    if reason is not None:
        logger.warning("event=topic-not-adopted topic=%s reason=%r", topic.name, reason)
    return reason is None


def _to_adopt(topic: FoundTopic, known: CatalogTopic | None) -> CatalogTopic:
    configs = _COMPACTED if topic.name in INTERNAL_TOPICS else _NO_LIMITS
    return CatalogTopic(
        topic.name,
        topic.topic_id or random_id(),
        topic.partition_count,
        configs if known is None else known.configs,
    )
