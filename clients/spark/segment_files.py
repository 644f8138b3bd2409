"""Finding segments in data folders, and reading the batches of one, with no broker running.

A data folder holds a folder ``<topic>-<partition>`` for each log, and in it a file for each
segment, named after its first offset. The active segment may end in the middle of a batch, or in
zeros where space was reserved; a crash may have left worse.
"""

import glob
import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.arrow_batches import RecordsArea
from seglog.clients.spark.planning import LOG
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import LENGTH_POSITION, LOG_OVERHEAD, iter_batches
from seglog.protocol.types import INT64_MAX, TopicPartition

_LOG_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_SEGMENT: Final = re.compile(r"(?P<base>\d{20})\.log")
_START_OFFSETS: Final = "log-start-offset-checkpoint"
_CHUNK_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class SegmentFile:
    """One segment of a log, as it was when the load was planned.

    Attributes:
        start: records below are deleted.
        end: where the next segment begins.
        size_bytes: what is written later is not read.
    """

    path: str
    partition: TopicPartition
    start: int
    end: int
    size_bytes: int


def find_segments(paths: tuple[str, ...], topics: frozenset[str] | None) -> list[SegmentFile]:
    """The segments in data folders or folders of logs; each path may be a pattern.

    Raises:
        ConfigurationError: a path matches nothing, or nothing with logs in it.
    """
    logs: dict[str, TopicPartition] = {}
    for path in paths:
        found = {
            str(folder): partition
            for match in glob.glob(path)
            for folder in _log_folders(Path(match))
            if (partition := _partition_of(folder)) is not None
        }
        if not found:
            raise ConfigurationError(f"there is no data folder with logs at {path}")
        logs.update(found)
    return [
        segment
        for folder, partition in sorted(logs.items())
        if topics is None or partition.topic in topics
        for segment in _segments_of(Path(folder), partition)
    ]


def _log_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    if _partition_of(folder) is not None and any(folder.glob("*.log")):
        return [folder]
    return [each for each in folder.iterdir() if each.is_dir()]


def _partition_of(folder: Path) -> TopicPartition | None:
    match = _LOG_FOLDER.fullmatch(folder.name)
    return None if match is None else TopicPartition(match["topic"], int(match["partition"]))


def _segments_of(folder: Path, partition: TopicPartition) -> list[SegmentFile]:
    unfinished = sorted(folder.glob("*.swap"))
    if unfinished:
        LOG.warning(
            "%s: a compaction was not finished; a broker must start on it once, or records that "
            "are only there are missing",
            unfinished[0],
        )
    first_offset = _start_offsets(folder.parent).get(partition, 0)
    bases = {
        int(match["base"]): entry
        for entry in folder.iterdir()
        if (match := _SEGMENT.fullmatch(entry.name)) is not None
    }
    ordered = sorted(bases)
    return [
        SegmentFile(str(bases[base]), partition, first_offset, end, bases[base].stat().st_size)
        for base, end in zip(ordered, [*ordered[1:], INT64_MAX], strict=True)
        if end > first_offset
    ]


def _start_offsets(folder: Path) -> dict[TopicPartition, int]:
    """What was deleted by offset: lines of topic, partition and first offset behind two others."""
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


def read_segment(segment: SegmentFile, *, check_crcs: bool) -> Generator[list[RecordsArea]]:
    """Yield the batches of a segment; those of markers and without records are left out.

    Raises:
        CorruptSegmentError: with what was yielded before, the rest makes no sense.
    """
    position, wanted = 0, _CHUNK_BYTES
    with open(segment.path, "rb", buffering=0) as file:
        while position < segment.size_bytes:
            data = os.pread(file.fileno(), min(wanted, segment.size_bytes - position), position)
            if not data or _is_reserved(data, file.fileno(), position, segment):
                return
            areas: list[RecordsArea] = []
            consumed = 0
            failure: RecordError | None = None
            try:
                for batch in iter_batches(data):
                    if check_crcs:
                        batch.check()
                    header = batch.header
                    if not header.is_control and header.record_count:
                        areas.append(RecordsArea(header, batch.records_area()))
                    consumed += header.size_bytes
            except RecordError as error:
                failure = error
            if areas:
                yield areas
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
