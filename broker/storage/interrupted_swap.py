"""Tidying a log's folder before it is opened: deleted files, and swaps that a crash has cut short.

The rules are in docs/storage-format.md, section 12; ``log_swap`` says what leaves which traces.
"""

import logging
from typing import Final

from seglog.broker.storage.errors import CorruptFileError, CorruptLogError
from seglog.broker.storage.files import FileSystem
from seglog.broker.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    SegmentFileName,
    parse_segment_file_name,
    segment_path,
)
from seglog.broker.storage.segment import LogSegment
from seglog.config.log_config import LogConfig

logger = logging.getLogger(__name__)

_STATES_IN_SWAP: Final = (CLEANED_SUFFIX, SWAP_SUFFIX)


def tidy_folder(
    file_system: FileSystem, directory: str, config: LogConfig, now_ms: int
) -> list[str]:
    """Finish what deletions and swaps have left half done; returns the names that are left.

    Raises:
        FileError: the folder cannot be read or changed.
    """
    files: list[SegmentFileName] = []
    for name in file_system.list_directory(directory):
        parsed = parse_segment_file_name(name)
        if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
            _remove_file(file_system, f"{directory}/{name}")
        elif parsed is not None:
            files.append(parsed)
    if any(file.state in _STATES_IN_SWAP for file in files):
        complete = _drop_incomplete(file_system, directory, files)
        _finish_swap(file_system, directory, complete, config, now_ms)
        file_system.sync_directory(directory)
    return file_system.list_directory(directory)


def _remove_file(file_system: FileSystem, path: str) -> None:
    """Remove a file; a folder of such a name is somebody else's, and stays."""
    try:
        file_system.unlink(path, missing_ok=True)
    except CorruptFileError:
        logger.warning("event=foreign-folder-ignored path=%s", path)


def _path(directory: str, file: SegmentFileName) -> str:
    return segment_path(directory, file.base_offset, file.suffix + file.state)


def _drop_incomplete(
    file_system: FileSystem, directory: str, files: list[SegmentFileName]
) -> list[SegmentFileName]:
    """Drop ``.cleaned`` files and the ``.swap`` files of the same, unfinished swap."""
    cleaned = [file.base_offset for file in files if file.state == CLEANED_SUFFIX]
    if not cleaned:
        return files
    first_cleaned = min(cleaned)
    kept: list[SegmentFileName] = []
    for file in files:
        is_unfinished = file.state == SWAP_SUFFIX and file.base_offset >= first_cleaned
        if file.state == CLEANED_SUFFIX or is_unfinished:
            logger.info("event=unfinished-swap-dropped path=%s", _path(directory, file))
            file_system.unlink(_path(directory, file))
        else:
            kept.append(file)
    return kept


def _finish_swap(
    file_system: FileSystem,
    directory: str,
    files: list[SegmentFileName],
    config: LogConfig,
    now_ms: int,
) -> None:
    """Put complete ``.swap`` files in the place of the segments whose offsets they cover."""
    swapped = sorted(file for file in files if file.state == SWAP_SUFFIX)
    bases = [file.base_offset for file in swapped if file.suffix == LOG_SUFFIX]
    if bases:
        start, end = bases[0], bases[0] + 1
        for base_offset in bases:
            end = max(end, _next_offset(file_system, directory, base_offset, config, now_ms))
        for file in files:
            is_segment_file = file.suffix in SEGMENT_SUFFIXES and not file.state
            if is_segment_file and start <= file.base_offset < end:
                logger.info("event=replaced-file-deleted path=%s", _path(directory, file))
                file_system.unlink(_path(directory, file))
    for file in swapped:
        target = segment_path(directory, file.base_offset, file.suffix)
        logger.info("event=interrupted-swap-finished path=%s", target)
        file_system.rename(_path(directory, file), target)


def _next_offset(
    file_system: FileSystem, directory: str, base_offset: int, config: LogConfig, now_ms: int
) -> int:
    """The offset behind the last batch of a ``.swap`` segment, by its headers."""
    segment = LogSegment.open(
        file_system, directory, base_offset, config, now_ms, suffix=SWAP_SUFFIX
    )
    next_offset = base_offset
    try:
        for header, _position in segment.batches():
            next_offset = header.next_offset
    except CorruptLogError as error:
        logger.warning("event=damaged-swap-segment error=%s", error)
    finally:
        segment.files.close()
    return next_offset
