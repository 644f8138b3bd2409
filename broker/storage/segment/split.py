"""Splitting a segment whose offsets span more than 2^31-1 (REC-5).

Such segments come from old brokers: their indexes cannot express the later offsets. The batches are
copied, byte for byte, to new segments with the suffix ``.cleaned``; the loader swaps them in with
the protocol of a compaction.
"""

from collections.abc import Iterator
from typing import Final

from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.types import INT32_MAX

_COPY_BYTES: Final = 1 << 20


def split_segment(
    file_system: FileSystem, segment: LogSegment, config: LogConfig, now_ms: int
) -> list[LogSegment]:
    """Copies the batches to segments that each span at most 2^31-1 offsets.

    Returns:
        The new segments in order, sealed and on disk. The first has the base offset of the source,
        which is left as it is.

    Raises:
        DiskFullError, FileError: the copy failed; its files are gone.
        CorruptLogError: the source cannot be walked; the copy's files are gone.
    """
    parts: list[LogSegment] = []
    is_complete = False
    try:
        for base_offset, position, headers in _runs(segment):
            if not parts or parts[-1].base_offset != base_offset:
                parts.append(
                    LogSegment.create(
                        file_system,
                        segment.files.directory,
                        base_offset,
                        config,
                        now_ms,
                        suffix=CLEANED_SUFFIX,
                    )
                )
            size = sum(header.size_bytes for header in headers)
            parts[-1].append(segment.log.read(position, size), headers)
        for part in parts:
            part.on_become_inactive()
            part.flush()
            part.files.set_modified_ms(segment.files.modified_ms)
        is_complete = True
    finally:
        if not is_complete:
            for part in parts:
                part.delete_files()
    return parts


def _runs(segment: LogSegment) -> Iterator[tuple[int, int, list[BatchHeader]]]:
    """Batches to copy at once: the base offset of their new segment, file position, headers."""
    base_offset = segment.base_offset
    start = end = 0
    headers: list[BatchHeader] = []
    for header, position in segment.batches():
        overflows = header.last_offset - base_offset > INT32_MAX
        if headers and (overflows or end + header.size_bytes - start > _COPY_BYTES):
            yield base_offset, start, headers
            headers = []
        if overflows:
            base_offset = header.base_offset
        if not headers:
            start = position
        headers.append(header)
        end = position + header.size_bytes
    if headers:
        yield base_offset, start, headers
