"""Segments for tests: batches with chosen offsets and timestamps, appended to real files."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.records.batch import BatchHeader, iter_batches, read_header
from seglog.protocol.records.builder import build_batch

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(index_interval_bytes=200, segment_index_bytes=800)
"""An index entry about every second batch of 100 bytes, and at most 100 entries."""


def batch(
    base_offset: int,
    timestamps_ms: Sequence[int] = (NOW_MS,),
    *,
    value: bytes = b"v" * 24,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = 0,
    codec: Codec = Codec.NONE,
) -> bytes:
    """A batch with one record per timestamp."""
    return bytes(
        build_batch(
            [(timestamp, b"key", value, ()) for timestamp in timestamps_ms],
            base_offset=base_offset,
            offset_deltas=offset_deltas,
            last_offset_delta=last_offset_delta,
            leader_epoch=leader_epoch,
            codec=codec,
        )
    )


def append(segment: LogSegment, *batches: bytes) -> None:
    """Appends each batch by itself."""
    for one in batches:
        segment.append(one, [read_header(one)])


def fill(
    segment: LogSegment, count: int, *, first_offset: int = 0, records: int = 1, step_ms: int = 10
) -> list[bytes]:
    """Appends ``count`` batches of consecutive offsets, stamped ``step_ms`` apart."""
    batches = []
    offset = first_offset
    for _ in range(count):
        stamps = [NOW_MS + step_ms * (offset + number) for number in range(records)]
        batches.append(batch(offset, stamps))
        offset += records
    append(segment, *batches)
    return batches


def new_segment(
    file_system: FileSystem, directory: Path, base_offset: int = 0, config: LogConfig = SMALL
) -> LogSegment:
    """An empty segment."""
    return LogSegment.create(file_system, str(directory), base_offset, config, NOW_MS)


def reopened(
    file_system: FileSystem, directory: Path, base_offset: int = 0, config: LogConfig = SMALL
) -> LogSegment:
    """A segment that is there, as a start of the broker opens it."""
    return LogSegment.open(file_system, str(directory), base_offset, config, NOW_MS)


def headers_in(content: bytes | memoryview) -> list[BatchHeader]:
    """The headers of the whole batches in some bytes."""
    return [one.header for one in iter_batches(content)]


def file_contents(directory: Path, suffixes: Iterable[str] = ("",)) -> dict[str, bytes]:
    """Every file of a folder whose name ends in one of the suffixes."""
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.name.endswith(tuple(suffixes))
    }
