"""Checks a whole data folder: its own files, every partition, and whether they know each other."""

import os.path
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from seglog.broker.storage.directories.catalog_file import CATALOG_COPY, CATALOG_FILE
from seglog.broker.storage.directories.directory_lock import holder_of
from seglog.broker.storage.directories.disk_reserve import RESERVE_FILE
from seglog.broker.storage.errors import CorruptFileError, InvalidDirectoryNameError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEAN_SHUTDOWN_MARKER,
    LOCK_FILE,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SKIPPED_DIRECTORIES,
    TEMPORARY_SUFFIX,
    DirectoryState,
    parse_partition_directory,
    parse_segment_file_name,
)
from seglog.broker.tools.findings import Findings
from seglog.broker.tools.partition_check import FolderState, PartitionSummary, check_partition
from seglog.broker.tools.small_files import OFFSET_CHECKPOINTS, Line, reader_of
from seglog.protocol.types import TopicPartition

_NOT_OURS: Final = frozenset({"lost+found"})


@dataclass
class DataFolder:
    """A data folder and the contents of its own files.

    Attributes:
        holder: the broker that runs on it, empty if that is not known, None if none does.
        is_clean: whether the last one stopped in order.
        lines: content of the small files, by name.
        checkpoints: by name of the file, the offset of each partition.
    """

    path: str
    holder: str | None
    is_clean: bool
    lines: dict[str, list[Line]] = field(default_factory=dict)
    checkpoints: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    @property
    def state_text(self) -> str:
        """In what state the folder is, as a sentence."""
        if self.holder is not None:
            name = f" ({self.holder})" if self.holder else ""
            return f"a broker is running on it{name}: the data that it writes now is not judged"
        if self.is_clean:
            return "the last broker stopped in order"
        return "the last broker did not stop in order: the next one will recover it"

    def state_for(self, topic_partition: TopicPartition | None) -> FolderState:
        """The state that a check of one partition needs."""
        checkpoints = {
            name: offsets[topic_partition]
            for name, offsets in self.checkpoints.items()
            if topic_partition is not None and topic_partition in offsets
        }
        return FolderState(self.holder is not None, self.is_clean, checkpoints)


def is_partition_folder(file_system: FileSystem, path: str) -> bool:
    """Whether a folder is that of a partition and not a data folder."""
    return any(
        parsed is not None and parsed.suffix == LOG_SUFFIX
        for parsed in map(parse_segment_file_name, file_system.list_directory(path))
    )


def read_data_folder(file_system: FileSystem, path: str, findings: Findings) -> DataFolder:
    """Read the files that lie in the data folder itself.

    Raises:
        FileError: the folder or a file cannot be read.
    """
    names = file_system.list_directory(path)
    folder = DataFolder(path, holder_of(path), CLEAN_SHUTDOWN_MARKER in names)
    for name in names:
        if os.path.isdir(f"{path}/{name}"):
            continue
        reader = reader_of(name)
        if name.endswith(TEMPORARY_SUFFIX):
            findings.note(f"{path}/{name}", "is left of a write that did not end")
        elif reader is None:
            if name not in (LOCK_FILE, RESERVE_FILE):
                findings.note(f"{path}/{name}", "it is none of a broker's files")
        else:
            try:
                folder.lines[name] = reader(file_system, f"{path}/{name}")
            except CorruptFileError as error:
                findings.fault(error.path, error.reason)
    for name in OFFSET_CHECKPOINTS:
        folder.checkpoints[name] = {
            TopicPartition(line.fields["topic"], line.fields["partition"]): line.fields["offset"]
            for line in folder.lines.get(name, ())
        }
    if META_PROPERTIES not in names:
        findings.note(path, f"there is no {META_PROPERTIES} in it")
    return folder


def check_data_folder(
    file_system: FileSystem, folder: DataFolder, findings: Findings
) -> Iterator[PartitionSummary]:
    """Check every partition, one after the other, and at last whether any is unknown or missing.

    Raises:
        FileError: something cannot be read.
    """
    live: dict[TopicPartition, str] = {}
    for name in file_system.list_directory(folder.path):
        path = f"{folder.path}/{name}"
        if name in SKIPPED_DIRECTORIES or name in _NOT_OURS or not os.path.isdir(path):
            continue
        try:
            found = parse_partition_directory(name)
        except InvalidDirectoryNameError as error:
            findings.fault_unless(
                name.startswith("."), path, f"it is not the folder of a partition: {error.reason}"
            )
            continue
        if found.state is DirectoryState.DELETED:
            findings.note(path, "waits for its deletion")
        elif found.state is not DirectoryState.LIVE:
            findings.note(path, f"a partition in the state {found.state.name.lower()}, not checked")
        else:
            live[found.topic_partition] = path
    for topic_partition, path in live.items():
        yield check_partition(
            file_system,
            path,
            folder.state_for(topic_partition),
            findings,
            recovery_point=folder.checkpoints[RECOVERY_POINT_CHECKPOINT].get(topic_partition, 0),
        )
    _check_catalog(file_system, folder, live, findings)
    _check_checkpoints(folder, live, findings)


def _check_catalog(
    file_system: FileSystem,
    folder: DataFolder,
    live: dict[TopicPartition, str],
    findings: Findings,
) -> None:
    """Compare the folders with the catalog; a partition may lie in another data folder."""
    copies = [folder.lines[name] for name in (CATALOG_FILE, CATALOG_COPY) if name in folder.lines]
    newest = max(copies, key=lambda lines: lines[0].fields["generation"], default=None)
    if newest is None:
        return
    topics = {line.fields["topic"]: line.fields for line in newest if line.kind == "topic"}
    for topic_partition, path in live.items():
        topic = topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= topic["partitions"]:
            findings.note(path, "the catalog does not know this partition")
            continue
        reader = reader_of(PARTITION_METADATA)
        assert reader is not None
        try:
            lines = reader(file_system, f"{path}/{PARTITION_METADATA}")
        except CorruptFileError:
            continue  # reported with the partition
        topic_id = lines[0].fields["topicId"] if lines else None
        if topic_id is not None and topic_id != topic["topicId"]:
            findings.fault(
                f"{path}/{PARTITION_METADATA}",
                f"the topic id is {topic_id}, in the catalog {topic['topicId']}",
            )


def _check_checkpoints(
    folder: DataFolder, live: dict[TopicPartition, str], findings: Findings
) -> None:
    for name, offsets in folder.checkpoints.items():
        for topic_partition in offsets:
            if topic_partition not in live:
                findings.note(
                    f"{folder.path}/{name}", f"there is no folder for {topic_partition} in it"
                )
