"""The files of a data folder beside segments, read into lines; reading checks them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from seglog.broker.storage.directories.catalog_file import CATALOG_COPY, CATALOG_FILE, read_catalog
from seglog.broker.storage.directories.meta_properties import read_meta_properties
from seglog.broker.storage.errors import CorruptFileError
from seglog.broker.storage.files.checkpoint import (
    LeaderEpochCheckpointFile,
    OffsetCheckpointFile,
    PartitionMetadataFile,
)
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    CLOSED_LOGS,
    LEADER_EPOCH_CHECKPOINT,
    LEADER_EPOCH_FLOOR,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    SNAPSHOT_SUFFIX,
)
from seglog.broker.storage.identifiers import id_text
from seglog.broker.storage.log.closed_logs import ClosedLog, split_closed_logs
from seglog.broker.storage.log.producer_snapshot import (
    CorruptSnapshotError,
    decode_snapshot,
    decode_window,
)
from seglog.broker.storage.log.producer_snapshot_files import WINDOW_SUFFIX

OFFSET_CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


class Line(NamedTuple):
    """One item of a file: its kind, and its fields in order."""

    kind: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return " ".join(f"{name}: {text_of(value)}" for name, value in self.fields.items())


def text_of(value: Any) -> str:
    """A field as text: truth values as Java writes them, bytes as text where they are some."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


Reader = Callable[[FileSystem, str], list[Line]]


def reader_of(name: str) -> Reader | None:
    """The reader of a file of this name; None if it is none of the small files.

    A reader raises ``CorruptFileError`` for a file that is damaged and ``FileError`` for one that
    cannot be read.
    """
    if name.endswith(SNAPSHOT_SUFFIX):
        return _read_snapshot
    if name.endswith(WINDOW_SUFFIX):
        return _read_window
    return _READERS.get(name)


def _read_offsets(file_system: FileSystem, path: str) -> list[Line]:
    return [
        Line("offset", {"topic": topic, "partition": partition, "offset": offset})
        for (topic, partition), offset in OffsetCheckpointFile(file_system, path).read().items()
    ]


def _read_epochs(file_system: FileSystem, path: str) -> list[Line]:
    return [
        Line("leader-epoch", {"leaderEpoch": epoch, "startOffset": start_offset})
        for epoch, start_offset in LeaderEpochCheckpointFile(file_system, path).read()
    ]


def _read_partition_metadata(file_system: FileSystem, path: str) -> list[Line]:
    topic_id = PartitionMetadataFile(file_system, path).read()
    return [] if topic_id is None else [Line("partition", {"topicId": id_text(topic_id)})]


def _read_meta_properties(file_system: FileSystem, path: str) -> list[Line]:
    identity = read_meta_properties(file_system, path.rpartition("/")[0] or ".")
    if identity is None:
        return []
    directory_id = identity.directory_id
    return [
        Line(
            "identity",
            {
                "nodeId": identity.node_id,
                "clusterId": identity.cluster_id,
                "directoryId": None if directory_id is None else id_text(directory_id),
            },
        )
    ]


def _read_leader_epoch_floor(file_system: FileSystem, path: str) -> list[Line]:
    content = file_system.read_file(path).strip()
    if not content.isdigit():
        raise CorruptFileError(path, "it holds no number")
    return [Line("leader-epoch-floor", {"leaderEpoch": int(content)})]


def _read_closed_logs(file_system: FileSystem, path: str) -> list[Line]:
    _, entries = split_closed_logs(path, file_system.read_file(path))
    lines = []
    for folder, entry in entries.items():
        closed = ClosedLog.decode(entry)
        lines.append(
            Line(
                "closed-log",
                {
                    "folder": folder,
                    "topicId": id_text(closed.topic_id),
                    "logEndOffset": closed.log_end,
                    "baseOffsets": [segment.base_offset for segment in closed.segments],
                },
            )
        )
    return lines


def _read_clean_shutdown(file_system: FileSystem, path: str) -> list[Line]:
    # Only its existence counts; content that cannot be read means no epoch.
    try:
        content = json.loads(file_system.read_file(path))
    except ValueError:
        content = None
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return [Line("clean-shutdown", {"brokerEpoch": epoch})]


def _read_catalog_lines(file_system: FileSystem, path: str) -> list[Line]:
    state = read_catalog(file_system, path)
    if state is None:
        return []
    lines = [Line("catalog", {"generation": state.generation, "clusterId": state.cluster_id})]
    lines += [
        Line(
            "topic",
            {
                "topic": topic.name,
                "topicId": id_text(topic.topic_id),
                "partitions": topic.partition_count,
                "configs": dict(topic.configs),
            },
        )
        for topic in state.topics.values()
    ]
    if state.dynamic or state.dynamic_defaults:
        broker = {"broker": dict(state.dynamic), "allBrokers": dict(state.dynamic_defaults)}
        lines.append(Line("broker-configs", broker))
    return lines


def _read_snapshot(file_system: FileSystem, path: str) -> list[Line]:
    try:
        entries = decode_snapshot(file_system.read_file(path))
    except CorruptSnapshotError as error:
        raise CorruptFileError(path, str(error)) from error
    lines = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        lines.append(
            Line(
                "producer",
                {
                    "producerId": entry.producer_id,
                    "producerEpoch": entry.epoch,
                    "coordinatorEpoch": entry.coordinator_epoch,
                    "currentTxnFirstOffset": entry.open_transaction_offset,
                    "lastTimestamp": entry.last_timestamp_ms,
                    "firstSequence": None if last is None else last.first_sequence,
                    "lastSequence": entry.last_sequence,
                    "lastOffset": entry.last_data_offset,
                    "offsetDelta": 0 if last is None else last.offset_delta,
                },
            )
        )
    return lines


def _read_window(file_system: FileSystem, path: str) -> list[Line]:
    try:
        windows = decode_window(file_system.read_file(path))
    except CorruptSnapshotError as error:
        raise CorruptFileError(path, str(error)) from error
    return [
        Line(
            "window",
            {
                "producerId": producer_id,
                "producerEpoch": window.epoch,
                "lastSeen": window.seen_ms,
                "batches": [batch._asdict() for batch in window.batches],
            },
        )
        for producer_id, window in windows.items()
    ]


_READERS: Final[dict[str, Reader]] = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, _read_offsets),
    LEADER_EPOCH_CHECKPOINT: _read_epochs,
    PARTITION_METADATA: _read_partition_metadata,
    META_PROPERTIES: _read_meta_properties,
    CLEAN_SHUTDOWN_MARKER: _read_clean_shutdown,
    LEADER_EPOCH_FLOOR: _read_leader_epoch_floor,
    CLOSED_LOGS: _read_closed_logs,
    CATALOG_FILE: _read_catalog_lines,
    CATALOG_COPY: _read_catalog_lines,
}
