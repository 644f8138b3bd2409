"""TopicCatalog: which topics exist, with their ids, partition counts and settings.

It also keeps the broker settings that were made at run time, and which producer ids were handed
out. Its methods block while they write, so they are called from a worker, one at a time; readers on
other threads see the state before or after a change, never between, since a change ends with the
assignment of one attribute.

When a topic is created the catalog is written before its folders are made, and when it is deleted
before its folders are renamed: the next start puts the traces of a crash right, from the
catalog (missing folders are made, folders of deleted topics go).
"""

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from seglog.broker.storage.directories.catalog_file import (
    CATALOG_COPY,
    CATALOG_FILE,
    CatalogState,
    CatalogTopic,
    encode_catalog,
    read_catalog,
)
from seglog.broker.storage.errors import (
    CorruptFileError,
    FileError,
    InvalidTopicNameError,
    StorageError,
)
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import check_topic_name, colliding_topic
from seglog.broker.storage.identifiers import random_id

__all__ = ["CatalogTopic", "TopicCatalog", "UnreadableCatalogError"]

logger = logging.getLogger(__name__)

_NAMES: Final = (CATALOG_FILE, CATALOG_COPY)
UNREADABLE_SUFFIX: Final = ".unreadable"
"""Of copies that could not be read: they are kept, since they may hold unique settings."""


class UnreadableCatalogError(StorageError):
    """There is a catalog, and no copy of it can be read."""

    def __init__(self, faults: Sequence[StorageError]) -> None:
        super().__init__(
            "no copy of the topic catalog can be read, so the settings of the topics are unknown: "
            + "; ".join(str(fault) for fault in faults)
            + f"; let user id {os.getuid()} read them, put a good copy back, or remove these files "
            "to keep all data of the topics without their settings"
        )
        self.faults = tuple(faults)


CopyJob = Callable[[], StorageError | None]


class RunEach(Protocol):
    """Runs a job for each of several directories, side by side if it can.

    Once one has written, those whose disk hangs need not be waited for: they are left out of the
    result, and their jobs go on.
    """

    def __call__(self, jobs: Mapping[str, CopyJob], /) -> Mapping[str, StorageError | None]:
        """The outcome of those that are done, by directory."""
        ...


class TopicCatalog:
    """The topics and run-time settings of one broker; ``open`` reads it.

    Args:
        file_system: where it is kept.
        directories: the data directories; one that fails is left out from then on.
        state: its contents.

    Attributes:
        is_fallback: whether a damaged copy may have been newer, and have known more topics.
        needs_save: whether a copy is damaged, missing or older than this one.
        check_directory: called before a directory is written to; raises ``StorageError`` if it is
            not the one that was locked.
        failures: directories in which no copy could be read, with the error.
        report: told a directory and the error of its disk, from any thread.
        write_to_free_space: writes in a directory although its disk is full, see ``DiskReserve``.
        run_each: runs a job for each of several directories, see ``RunEach``.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directories: Sequence[str],
        state: CatalogState,
        *,
        is_fallback: bool = False,
        needs_save: bool = False,
    ) -> None:
        self.is_fallback = is_fallback
        self.needs_save = needs_save
        self.check_directory: Callable[[str], None] = lambda _directory: None
        self.failures: list[tuple[str, StorageError]] = []
        self.report: Callable[[str, StorageError], None] = _ignore
        self.run_each: RunEach = _run_in_order
        self.write_to_free_space: Callable[[str, Callable[[], None]], None] = _write_plainly
        self._newest: tuple[int, bytes] = (0, b"")
        self._file_system = file_system
        self._directories = list(directories)
        self._state = state
        self._unreadable: dict[str, StorageError] = {}

    @classmethod
    def open(cls, file_system: FileSystem, directories: Sequence[str]) -> "TopicCatalog | None":
        """Read the newest good copy; None if there has never been a catalog.

        Copies that cannot be read, and older ones, are replaced by the next change, or by ``save``;
        the former are kept under another name, since they may know more.

        Raises:
            UnreadableCatalogError: there are copies, and none can be read.
        """
        copies = _read_copies(file_system, directories)
        best = max(copies.found, key=lambda state: state.generation, default=None)
        if best is None:
            if copies.faults:
                raise UnreadableCatalogError(list(copies.faults.values()))
            return None
        for path, fault in copies.faults.items():
            logger.warning(
                "event=catalog-copy-damaged file=%s reason=%r action=use-another generation=%d",
                path,
                str(fault),
                best.generation,
            )
        has_first_copy = any(state == best for state in copies.first)
        catalog = cls(
            file_system,
            directories,
            best,
            # First copies are written before second ones, and a change counts with the first.
            is_fallback=bool(copies.faults) and not has_first_copy,
            needs_save=bool(copies.faults or copies.missing)
            or any(state.generation != best.generation for state in copies.found),
        )
        catalog._unreadable.update(copies.faults)
        for directory, _ in copies.failures:
            catalog.leave_out(directory)
        catalog.failures = copies.failures
        return catalog

    @property
    def state(self) -> CatalogState:
        """Everything it holds."""
        return self._state

    @property
    def dynamic(self) -> Mapping[str, str]:
        """Settings made at run time for this broker, key to text."""
        return self._state.dynamic

    @property
    def dynamic_defaults(self) -> Mapping[str, str]:
        """Settings made at run time for all brokers, key to text."""
        return self._state.dynamic_defaults

    def get(self, name: str) -> CatalogTopic | None:
        """The topic of a name, None if there is none."""
        return self._state.topics.get(name)

    def topics(self) -> Collection[CatalogTopic]:
        """All topics."""
        return self._state.topics.values()

    def check_new_name(self, name: str) -> None:
        """Check whether a topic of this name could be created.

        Raises:
            InvalidTopicNameError: the name is illegal, taken, or collides with another one.
        """
        check_topic_name(name)
        topics = self._state.topics
        if name in topics:
            raise InvalidTopicNameError(name, "there is a topic of this name")
        collision = colliding_topic(name, topics)
        if collision is not None:
            raise InvalidTopicNameError(
                name, f"it collides with {collision!r}: '.' and '_' are the same in metric names"
            )

    def create_topic(
        self,
        name: str,
        topic_id: bytes | None,
        partition_count: int,
        configs: Mapping[str, str],
    ) -> CatalogTopic:
        """Add a topic, with a random id if it has none; durable when this returns.

        Raises:
            InvalidTopicNameError: see ``check_new_name``.
            StorageError: no data directory took the change, and nothing has changed.
        """
        self.check_new_name(name)
        assert partition_count > 0, partition_count
        topic = CatalogTopic(
            name, topic_id or random_id(), partition_count, MappingProxyType(dict(configs))
        )
        self._put_topic(topic)
        return topic

    def grow_topic(self, name: str, partition_count: int) -> CatalogTopic:
        """Give a topic more partitions; durable when this returns."""
        topic = self._state.topics[name]
        assert partition_count > topic.partition_count, (topic, partition_count)
        topic = replace(topic, partition_count=partition_count)
        self._put_topic(topic)
        return topic

    def shrink_topic(self, name: str, partition_count: int) -> CatalogTopic:
        """Take back a growth whose folders could not be made; durable when this returns."""
        topic = self._state.topics[name]
        assert 0 < partition_count < topic.partition_count, (topic, partition_count)
        topic = replace(topic, partition_count=partition_count)
        self._put_topic(topic)
        return topic

    def alter_topic(
        self, name: str, configs: Mapping[str, str], *, frees_space: bool = False
    ) -> CatalogTopic:
        """Replace all settings of a topic; durable when this returns.

        Args:
            frees_space: whether more may be deleted by the new ones; then a full disk takes them.
        """
        topic = replace(self._state.topics[name], configs=MappingProxyType(dict(configs)))
        self._put_topic(topic, frees_space=frees_space)
        return topic

    def delete_topic(self, name: str) -> CatalogTopic:
        """Take a topic out; durable when this returns. Its folders are renamed after that."""
        topics = dict(self._state.topics)
        topic = topics.pop(name)
        self._change(
            replace(
                self._state,
                topics=MappingProxyType(topics),
                deleting=self._state.deleting | {topic.topic_id},
            ),
            frees_space=True,
        )
        return topic

    def folders_are_gone(self, topic_id: bytes) -> None:
        """Note that the folders of a deleted topic are renamed; written with the next change."""
        self._state = replace(self._state, deleting=self._state.deleting - {topic_id})

    def alter_broker(
        self,
        dynamic: Mapping[str, str],
        dynamic_defaults: Mapping[str, str],
        *,
        frees_space: bool = False,
    ) -> None:
        """Replace the broker settings made at run time; durable when this returns.

        Args:
            frees_space: as for ``alter_topic``.
        """
        self._change(
            replace(
                self._state,
                dynamic=MappingProxyType(dict(dynamic)),
                dynamic_defaults=MappingProxyType(dict(dynamic_defaults)),
            ),
            frees_space=frees_space,
        )

    def reserve_producer_ids(self, count: int, floor: int) -> int:
        """Take a block of producer ids out of those that are left; durable when this returns.

        Args:
            count: how many.
            floor: ids below it must not be handed out.

        Returns:
            The first id of the block.
        """
        first = max(self._state.next_producer_id, floor)
        self._change(replace(self._state, next_producer_id=first + count))
        return first

    def adopt(
        self,
        topics: Collection[CatalogTopic],
        cluster_id: str,
        directories: Mapping[bytes, str],
    ) -> None:
        """Take over topics found in the data directories; durable when this returns."""
        known = {**self._state.topics, **{topic.name: topic for topic in topics}}
        self._change(
            replace(
                self._state,
                topics=MappingProxyType(known),
                cluster_id=cluster_id,
                directories=MappingProxyType(dict(directories)),
            )
        )

    def save(self) -> None:
        """Write all copies anew, for example because one is damaged.

        Raises:
            StorageError: no data directory took it.
        """
        self._change(self._state)

    def leave_out(self, directory: str) -> None:
        """Keep no copy in a directory that has failed."""
        if directory in self._directories:
            self._directories.remove(directory)

    def _put_topic(self, topic: CatalogTopic, *, frees_space: bool = False) -> None:
        topics = {**self._state.topics, topic.name: topic}
        state = replace(self._state, topics=MappingProxyType(topics))
        self._change(state, frees_space=frees_space)

    def _change(self, state: CatalogState, *, frees_space: bool = False) -> None:
        """Write a new state everywhere and put it into force once one directory has it."""
        state = replace(state, generation=self._state.generation + 1)
        self._newest = state.generation, encode_catalog(state)
        directories = tuple(self._directories)
        if not directories:
            raise StorageError(
                "no data directory takes a change of topics: each is offline or read-only"
            )
        outcomes = self.run_each(
            {
                directory: partial(self._write_newest, directory, frees_space=frees_space)
                for directory in directories
            }
        )
        if None not in outcomes.values():
            stopped = StorageError("the broker is stopping and changes no topics any more")
            raise next((error for error in outcomes.values() if error is not None), stopped)
        self._state = state
        self.needs_save = False

    def _write_newest(self, directory: str, *, frees_space: bool) -> StorageError | None:
        """Write the newest state in a directory; for one thread of each, which may be late."""
        _, content = self._newest
        try:
            self._write(directory, content, frees_space=frees_space)
        except StorageError as error:
            logger.warning("event=catalog-not-written directory=%s error=%s", directory, error)
            self.report(directory, error)
            return error
        return None

    def _write(self, directory: str, content: bytes, *, frees_space: bool) -> None:
        self.check_directory(directory)
        for name in _NAMES:
            self._keep_unreadable(f"{directory}/{name}")
        write = partial(
            self._file_system.replace_atomically, f"{directory}/{CATALOG_FILE}", content
        )
        if frees_space:
            self.write_to_free_space(directory, write)
        else:
            write()
        try:
            self._file_system.write_file(f"{directory}/{CATALOG_COPY}", content, sync=False)
        except StorageError as error:
            # The first copy holds; the second is only for the day that it is damaged.
            logger.warning("event=catalog-copy-not-written directory=%s error=%s", directory, error)

    def _keep_unreadable(self, path: str) -> None:
        """Move a copy that could not be read out of the way of the one that replaces it."""
        if path not in self._unreadable:
            return
        kept = path + UNREADABLE_SUFFIX
        self._file_system.rename(path, kept)
        logger.warning("event=catalog-copy-kept file=%s kept_as=%s", path, kept)
        del self._unreadable[path]


def _run_in_order(jobs: Mapping[str, CopyJob]) -> Mapping[str, StorageError | None]:
    return {directory: job() for directory, job in jobs.items()}


def _write_plainly(_directory: str, write: Callable[[], None]) -> None:
    write()


def _ignore(_directory: str, _error: StorageError) -> None:
    return


class _Copies:
    """The copies of the catalog over all data directories.

    Attributes:
        found: the readable copies.
        first: the same of first copies alone.
        missing: how many are not there.
        faults: why others cannot be read, by path.
        failures: directories of which no copy can be read because the disk refused.
    """

    def __init__(self) -> None:
        self.found: list[CatalogState] = []
        self.first: list[CatalogState] = []
        self.missing = 0
        self.faults: dict[str, StorageError] = {}
        self.failures: list[tuple[str, StorageError]] = []


def _read_copies(file_system: FileSystem, directories: Sequence[str]) -> _Copies:
    copies = _Copies()
    for directory in directories:
        refusals: list[FileError] = []
        for name in _NAMES:
            path = f"{directory}/{name}"
            try:
                state = read_catalog(file_system, path)
            except (CorruptFileError, FileError) as fault:
                copies.faults[path] = fault
                if isinstance(fault, FileError):
                    refusals.append(fault)
                continue
            if state is None:
                copies.missing += 1
                continue
            copies.found.append(state)
            if name == CATALOG_FILE:
                copies.first.append(state)
        if len(refusals) == len(_NAMES):
            copies.failures.append((directory, refusals[0]))
    return copies
