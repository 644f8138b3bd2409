"""Opening a log from what the clean stop before has said of it, and saying it at a stop.

Nothing is opened or listed: a look at the times of the files tells whether they are as they were
left (`closed_logs`). Where anything is not, ``load_log`` does the work.

An ordinary start after a clean stop looks at the last batches of a log as well. Here the first
append does (``LogSegment.check_end``); a read compares what it gives out in any case.
"""

import os.path
from collections.abc import Iterable
from typing import Final

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.checkpoint import LeaderEpochCheckpointFile
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from seglog.broker.storage.log.closed_logs import ClosedLog, ClosedLogs, ClosedSegment
from seglog.broker.storage.log.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.offsets import LogOffsets
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.log.producer_replay import replay_producers
from seglog.broker.storage.log.producer_snapshot_files import WINDOW_SUFFIX, ProducerSnapshotFiles
from seglog.broker.storage.log.producer_state import ProducerState
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.types import TopicPartition

_SEGMENTS_MAX: Final = 16
"""A log of more segments has enough to do at its start that a look at its folder costs nothing."""
_PRODUCERS_MAX: Final = 16
"""More than so many are read from their snapshot."""


def reopen_log(
    file_system: FileSystem,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    closed_logs: ClosedLogs,
    *,
    now_ms: int,
    log_start_checkpoint: int,
    topic_id: bytes,
    producer_expiration_ms: int,
) -> Log | None:
    """Make the log of a folder whose files are as the clean stop has left them; None if not.

    The arguments are those of `load_log`, after which the log is as after that.

    Raises:
        FileError: the disk refused.
    """
    folder = os.path.basename(directory)
    closed = closed_logs.find(folder)
    if closed is None or closed.topic_id != topic_id:
        return None
    log_start = max(log_start_checkpoint, closed.segments[0].base_offset)
    log_end = closed.log_end
    if log_start > log_end or not closed.is_unchanged(file_system, directory):
        return None
    segments = _segments_of(closed, file_system, directory, config, now_ms)
    snapshots = ProducerSnapshotFiles(file_system, directory, offsets=closed.snapshot_offsets)
    snapshots.remove_stray(segments.base_offsets)
    producers = ProducerState(str(topic_partition), producer_expiration_ms)
    if closed.producers is None:
        replay_producers(producers, snapshots, segments, log_end=log_end, now_ms=now_ms)
    else:
        known = [each for each in closed.producers if not producers.is_expired(each, now_ms)]
        producers.reset(log_end, known)
    file = LeaderEpochCheckpointFile(file_system, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    leader_epochs = LeaderEpochCache(file, closed.epochs)
    leader_epochs.truncate_from_start(log_start)
    offsets = LogOffsets(log_start=log_start, log_end=log_end, recovery_point=log_end)
    parts = LogParts(segments, offsets, leader_epochs, producers, snapshots)
    log = Log(
        file_system,
        directory,
        topic_partition,
        config,
        parts,
        topic_id=topic_id,
        was_closed=True,
    )
    if snapshots.offsets == closed.snapshot_offsets:
        log.closed_as = closed_logs.entries[folder]
    return log


def _segments_of(
    closed: ClosedLog, file_system: FileSystem, directory: str, config: LogConfig, now_ms: int
) -> LogSegments:
    segments = LogSegments()
    index_sizes = closed.transaction_index_sizes()
    for base_offset, size_bytes, has_transaction_index in closed.segments:
        segment = LogSegment.open(
            file_system, directory, base_offset, config, now_ms, known_size=size_bytes
        )
        if not has_transaction_index:
            segment.transaction_index.note_absent()
        segment.transaction_index.expect(index_sizes.get(base_offset, 0))
        segment.files.assume_synced()
        segments.add(segment)
    segments.active.assume_end(closed.log_end)
    return segments


def entry_of(file_system: FileSystem, log: Log) -> bytes | None:
    """What the next start is to know of a log that was closed; None if it has to look itself.

    It has where the folder holds more than the log, as files that are to be deleted.
    """
    if log.segments.active.is_torn:
        return None
    if log.closed_as is not None:
        return log.closed_as
    if log.topic_id is None or len(log.segments) > _SEGMENTS_MAX:
        return None
    try:
        closed = _describe(file_system, log, log.topic_id)
    except StorageError:
        return None  # it is closed, and the next start reports the fault
    return None if closed is None else closed.encode()


def _describe(file_system: FileSystem, log: Log, topic_id: bytes) -> ClosedLog | None:
    directory, log_end = log.directory, log.offsets.log_end
    # The folder first: what changes in it after that shows.
    stamps = {"": file_system.stamp(directory)}
    names = set(file_system.list_directory(directory))
    base_offsets = log.segments.base_offsets
    snapshot_offsets = ProducerSnapshotFiles(file_system, directory, names).offsets
    data = _names(base_offsets, LOG_SUFFIX)
    needed = {PARTITION_METADATA, *data, *_names(base_offsets, OFFSET_INDEX_SUFFIX)}
    transactions = _names(base_offsets, TRANSACTION_INDEX_SUFFIX)
    read = {PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT, *data, *transactions}
    known = needed | read | {*_names(base_offsets, TIME_INDEX_SUFFIX)}
    for suffix in (SNAPSHOT_SUFFIX, WINDOW_SUFFIX):
        known.update(_names(snapshot_offsets, suffix))
    epochs = log.leader_epochs.entries
    has_epochs = bool(epochs) or log_end == base_offsets[0]
    if not (needed <= names <= known and has_epochs):
        return None
    for name in sorted(read & names):
        stamps[name] = file_system.stamp(f"{directory}/{name}")
    segments = [
        ClosedSegment(segment.base_offset, segment.size_bytes, transactions[number] in names)
        for number, segment in enumerate(log.segments)
    ]
    if any(stamps[name].size != size for name, (_, size, _) in zip(data, segments, strict=True)):
        return None
    producers = log.producer_state
    inline = list(producers) if len(producers) <= _PRODUCERS_MAX else None
    return ClosedLog(topic_id, stamps, log_end, segments, epochs, snapshot_offsets, inline)


def _names(offsets: Iterable[int], suffix: str) -> list[str]:
    return [f"{offset:020d}{suffix}" for offset in offsets]
