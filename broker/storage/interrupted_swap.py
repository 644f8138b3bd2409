"""Tidying a log's folder before it is opened: deleted files, and swaps that a crash has cut short.

The rules are in docs/storage-format.md, section 12; ``log_swap`` says what leaves which traces.
"""

import logging
from typing import Final, NamedTuple

from seglog.broker.storage.batch_walk import VerifiedBatches
from seglog.broker.storage.errors import CorruptFileError, SegmentOverflowError
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
        ends = [_end_of(file_system, directory, base, config, now_ms) for base in bases]
        sources_are_there = SegmentFileName(bases[0], LOG_SUFFIX, "") in files
        is_doubtful = any(end.fault is not None for end in ends) or all(
            end.next_offset == base for base, end in zip(bases, ends, strict=True)
        )
        if sources_are_there and is_doubtful:
            # The first source is the first to go: with it, all are there, and better than this. Of
            # files that are all empty nobody can tell whether nothing was to stay, or they lost it.
            for file in swapped:
                logger.warning("event=damaged-swap-dropped path=%s", _path(directory, file))
                file_system.unlink(_path(directory, file))
            return
        start, end = bases[0], max(bases[0] + 1, *(end.next_offset for end in ends))
        for file in files:
            is_segment_file = file.suffix in SEGMENT_SUFFIXES and not file.state
            if is_segment_file and start <= file.base_offset < end:
                logger.info("event=replaced-file-deleted path=%s", _path(directory, file))
                file_system.unlink(_path(directory, file))
    for file in swapped:
        target = segment_path(directory, file.base_offset, file.suffix)
        logger.info("event=interrupted-swap-finished path=%s", target)
        file_system.rename(_path(directory, file), target)


class _End(NamedTuple):
    next_offset: int
    fault: str | None


def _end_of(
    file_system: FileSystem, directory: str, base_offset: int, config: LogConfig, now_ms: int
) -> _End:
    """The offset behind the last good batch of a ``.swap`` segment, and what is wrong there."""
    segment = LogSegment.open(
        file_system, directory, base_offset, config, now_ms, suffix=SWAP_SUFFIX
    )
    next_offset = base_offset
    try:
        batches = VerifiedBatches(segment.log, base_offset)
        for header, _position in batches:
            next_offset = header.next_offset
    except SegmentOverflowError as error:
        return _End(next_offset, str(error))
    finally:
        segment.files.close()
    return _End(next_offset, batches.fault)
