"""Finding segments in data folders, and reading the batches of one, with no broker running.

A data folder holds a folder ``<topic>-<partition>`` for each log, and in it a file for each
segment, named after its first offset. The active segment may end in the middle of a batch, or in
zeros where space was reserved; a crash may have left worse.
"""

import glob
import os
import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.planning import LOG
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import (
    LENGTH_POSITION,
    LOG_OVERHEAD,
    RecordBatch,
    iter_batches,
)
from seglog.protocol.types import INT64_MAX, TopicPartition

_LOG_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_SEGMENT: Final = re.compile(r"(?P<base>\d{20})\.log")
_START_OFFSETS: Final = "log-start-offset-checkpoint"
_METADATA: Final = "partition.metadata"
_CHUNK_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class SegmentFile:
    """One segment of a log, as it was when the load was planned.

    Attributes:
        base: the first offset that it may have.
        start: records below are not read.
        end: exclusive; where the next segment begins, or another copy takes over.
        size_bytes: the end for reading; later bytes are not read.
    """

    path: str
    partition: TopicPartition
    base: int
    start: int
    end: int
    size_bytes: int


def find_segments(paths: tuple[str, ...], topics: frozenset[str] | None) -> list[SegmentFile]:
    """The segments in data folders or folders of logs; each path may be a pattern.

    Each offset of a partition is in one of them, however many copies of its log there are.

    Raises:
        ConfigurationError: a path matches nothing, or nothing with logs in it; or two folders hold
            different topics of the same name.
    """
    logs: dict[TopicPartition, dict[str, Path]] = {}
    for path in paths:
        matches = [path] if os.path.isdir(path) else glob.glob(path)
        folders = [folder for match in matches for folder in _log_folders(Path(match))]
        if not folders:
            raise ConfigurationError(f"there is no data folder with logs at {path}")
        for folder, partition in folders:
            # By its real path: the same folder may be reached by links and by several patterns.
            logs.setdefault(partition, {})[os.path.realpath(folder)] = folder
    return [
        segment
        for partition, copies in sorted(logs.items())
        if topics is None or partition.topic in topics
        for segment in _segments_once(partition, [copies[real] for real in sorted(copies)])
    ]


def _log_folders(folder: Path) -> list[tuple[Path, TopicPartition]]:
    """A folder of a log itself, or those in a data folder."""
    if not folder.is_dir():
        return []
    partition = _partition_of(folder)
    if partition is not None and any(_SEGMENT.fullmatch(each.name) for each in folder.iterdir()):
        return [(folder, partition)]
    return [
        (each, found)
        for each in sorted(folder.iterdir())
        if each.is_dir() and (found := _partition_of(each)) is not None
    ]


def _partition_of(folder: Path) -> TopicPartition | None:
    match = _LOG_FOLDER.fullmatch(folder.name)
    return None if match is None else TopicPartition(match["topic"], int(match["partition"]))


def _segments_once(partition: TopicPartition, folders: list[Path]) -> list[SegmentFile]:
    """The segments of copies of one log (replicas, backups), of each offset only one.

    The copy that goes furthest is read whole, others where it does not reach: a backup may have
    records that were deleted since for their age. Records deleted by offset in one copy are read in
    none.
    """
    if len(folders) == 1:
        return _segments_of(folders[0], partition, _first_offset(folders[0], partition))
    ids = {topic_id: folder for folder in folders if (topic_id := _topic_id(folder))}
    if len(ids) > 1:
        raise ConfigurationError(
            f"{' and '.join(str(each) for each in ids.values())} are logs of different topics with "
            "one name: load them one by one"
        )
    first_offset = max(_first_offset(folder, partition) for folder in folders)
    copies = [_segments_of(folder, partition, first_offset) for folder in folders]
    copies.sort(key=lambda segments: [(each.base, each.size_bytes) for each in segments[-1:]])
    LOG.warning(
        "%s is in %d folders; each of its records is read once, where they differ that of %s",
        partition,
        len(folders),
        Path(copies[-1][0].path).parent if copies[-1] else folders[0],
    )
    chosen: list[SegmentFile] = []
    free_end = INT64_MAX
    for segments in reversed(copies):
        chosen += [
            replace(each, end=min(each.end, free_end)) for each in segments if each.base < free_end
        ]
        free_end = min([free_end, *(each.base for each in segments)])
    return sorted(chosen, key=lambda each: each.base)


def _segments_of(folder: Path, partition: TopicPartition, first_offset: int) -> list[SegmentFile]:
    unfinished = sorted(folder.glob("*.swap"))
    if unfinished:
        LOG.warning(
            "%s: a compaction was not finished; a broker must start on it once, or records that "
            "are only there are missing",
            unfinished[0],
        )
    bases = {
        int(match["base"]): entry
        for entry in folder.iterdir()
        if (match := _SEGMENT.fullmatch(entry.name)) is not None
    }
    ordered = sorted(bases)
    return [
        SegmentFile(str(bases[base]), partition, base, max(base, first_offset), end, size_bytes)
        for base, end in zip(ordered, [*ordered[1:], INT64_MAX], strict=True)
        if end > first_offset and (size_bytes := bases[base].stat().st_size)
    ]


def _topic_id(folder: Path) -> str:
    """The id of the topic that a log belongs to, "" where nothing says it."""
    try:
        lines = (folder / _METADATA).read_text().splitlines()
    except FileNotFoundError:
        return ""
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("topic_id")), ""
    )


def _first_offset(folder: Path, partition: TopicPartition) -> int:
    return _start_offsets(folder.parent).get(partition, 0)


def _start_offsets(folder: Path) -> dict[TopicPartition, int]:
    """Records deleted by offset: lines of topic, partition and first offset behind two others."""
    try:
        lines = (folder / _START_OFFSETS).read_text().splitlines()[2:]
        rows = [line.split() for line in lines if line.strip()]
        return {TopicPartition(topic, int(number)): int(start) for topic, number, start in rows}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        LOG.warning("%s cannot be read: %s", folder / _START_OFFSETS, error)
        return {}


class CorruptSegmentError(RecordError):
    """A segment has bytes that are no batch."""


def read_segment(segment: SegmentFile, *, check_crcs: bool) -> Generator[list[RecordBatch]]:
    """Yield the batches of a segment; those of markers and without records are left out.

    Raises:
        CorruptSegmentError: the rest contradicts the batches yielded before.
    """
    position, wanted = 0, _CHUNK_BYTES
    with open(segment.path, "rb", buffering=0) as file:
        while position < segment.size_bytes:
            data = os.pread(file.fileno(), min(wanted, segment.size_bytes - position), position)
            if not data or _is_reserved(data, file.fileno(), position, segment):
                return
            batches: list[RecordBatch] = []
            consumed = 0
            failure: RecordError | None = None
            try:
                for batch in iter_batches(data):
                    if check_crcs:
                        batch.check()
                    header = batch.header
                    if not header.is_control and header.record_count:
                        batches.append(batch)
                    consumed += header.size_bytes
            except RecordError as error:
                failure = error
            if batches:
                yield batches
            if failure is not None:
                if _is_reserved(data[consumed:], file.fileno(), position + consumed, segment):
                    return
                raise _corrupt(segment, position + consumed, failure.message) from failure
            position += consumed
            wanted = _CHUNK_BYTES
            if not consumed:
                wanted = _batch_bytes(data)
                if wanted > segment.size_bytes - position:
                    raise _corrupt(segment, position, "the file ends in the middle of a batch")


def _batch_bytes(data: bytes) -> int:
    """The size of the batch that begins with ``data``, or more than any file has."""
    end = LENGTH_POSITION + 4
    if len(data) < end:
        return INT64_MAX
    return int.from_bytes(data[LENGTH_POSITION:end], "big") + LOG_OVERHEAD


def _is_reserved(data: bytes, descriptor: int, position: int, segment: SegmentFile) -> bool:
    """Whether only zeros are left: space that a broker has reserved and not written."""
    while data:
        if any(data[:LOG_OVERHEAD]) or data.count(0) != len(data):
            return False
        position += len(data)
        data = os.pread(descriptor, min(_CHUNK_BYTES, segment.size_bytes - position), position)
    return True


def _corrupt(segment: SegmentFile, position: int, reason: str) -> CorruptSegmentError:
    return CorruptSegmentError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{segment.path}: the {segment.size_bytes - position} bytes from {position} on are not "
        f"read: {reason}",
    )
