"""Exchanging segments: compacted (or split) ones take the place of their sources, crash-safe.

A crash leaves either all old or all new segments, because the loader can tell from the suffixes how
far the exchange had come:

    .cleaned files are there           it had not begun: they are dropped, with any .swap above them
    only .swap files are there         the new segments are complete: they take their place
    neither                            it was finished

New files are renamed from ``.cleaned`` to ``.swap`` from the highest base offset down, so that a
``.swap`` file without a ``.cleaned`` one below it means that all of them are complete.

The loader takes away the old segments that begin below the end of the new ones. Where the records
of the last sources are all gone the new ones end too early for that; an empty segment with the base
offset of the last source then goes along through the states, and is dropped when the old ones are
renamed.
"""

import logging
from collections.abc import Sequence

from seglog.broker.storage.errors import (
    AccessDeniedError,
    DiskFullError,
    FileError,
    MissingFileError,
)
from seglog.broker.storage.files import FileSystem
from seglog.broker.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    segment_path,
)
from seglog.broker.storage.segment import LogSegment
from seglog.broker.storage.segments import LogSegments

logger = logging.getLogger(__name__)


def swap_segments(
    file_system: FileSystem,
    directory: str,
    segments: LogSegments,
    new: Sequence[LogSegment],
    old: Sequence[LogSegment],
) -> list[LogSegment]:
    """Replace segments on disk and in the map; the caller calls ``sync_directory`` afterwards.

    Until then a power cut may bring the old segments back: their files must stay.

    Args:
        new: with the suffix ``.cleaned``, ascending, complete and on disk.
        old: what they replace; segments that are not in the map any more are left out (SEG-7).

    Returns:
        The old segments, renamed ``.deleted``. If none of them is left in the map, the new ones
        hold nothing that the log still has, and are deleted.

    Raises:
        DiskFullError: a directory has no room for a name; nothing has been exchanged, and the
            caller calls ``discard_new_segments``.
        FileError: files have other names than the log knows, or may be taken for those of the
            next exchange; the directory must not be used until the next start, which resolves it.
            That holds whatever the reason was, so none of the kinds is raised that stand for files
            which somebody has changed by hand.
    """
    present = [each for each in old if segments.get(each.base_offset) is each]
    if not present:
        for segment in new:
            segment.delete_files()
        return []
    end_mark = _announce(file_system, directory, new, present[-1].base_offset)
    try:
        for segment in present:
            take_away(segment)
        if end_mark is not None:
            file_system.unlink(end_mark)
        for segment in new:
            segment.change_suffix(SWAP_SUFFIX, "")
    except (DiskFullError, FileError) as error:
        raise _left_half_done(error) from error
    for segment in present:
        segments.remove(segment.base_offset)
    for segment in new:
        segments.add(segment)
    return present


def _announce(
    file_system: FileSystem, directory: str, new: Sequence[LogSegment], last_source: int
) -> str | None:
    """Give the new segments the suffix ``.swap``; returns the path of the end mark, if any."""
    end_mark = None
    try:
        end_mark = _mark_end(file_system, directory, new, last_source)
        for segment in reversed(new):
            segment.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
    except DiskFullError:
        if end_mark is not None:
            file_system.unlink(end_mark)
        raise
    except FileError as error:
        raise _left_half_done(error) from error
    return end_mark


def _left_half_done(error: DiskFullError | FileError) -> FileError:
    return FileError(error.operation, error.path, f"{error.reason}; the exchange is half done")


def take_away(segment: LogSegment) -> None:
    """Give the files of a segment that leaves its log the suffix ``.deleted``.

    An index that cannot be renamed stays behind; without its data file the next start removes it.

    Raises:
        FileError, DiskFullError: the data file could not be renamed; the segment is as it was.
    """
    try:
        segment.change_suffix("", DELETED_SUFFIX)
    except MissingFileError as error:
        # Somebody has removed it by hand, which is what was to be done.
        logger.warning("event=segment-file-gone error=%s", error)
    except (AccessDeniedError, DiskFullError) as error:
        if segment.files.suffix != DELETED_SUFFIX:
            raise
        logger.warning("event=index-not-renamed error=%s", error)


def discard_new_segments(new: Sequence[LogSegment]) -> None:
    """Remove new segments whose exchange has failed for want of room.

    The next pass must not find the files, and a crash must find those that are called ``.swap``
    only with the ``.cleaned`` ones below them: so the highest go first.
    """
    for segment in reversed(new):
        files = segment.files
        segment.delete_files()
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            remove_segment_files(files.file_system, files.directory, files.base_offset, suffix)


def _mark_end(
    file_system: FileSystem, directory: str, new: Sequence[LogSegment], last_source: int
) -> str | None:
    """An empty ``.swap`` data file for the last source, if the new segments end before that."""
    if new and new[-1].next_offset() > last_source:
        return None
    if any(segment.base_offset == last_source for segment in new):
        return None
    cleaned = segment_path(directory, last_source, LOG_SUFFIX + CLEANED_SUFFIX)
    swap = segment_path(directory, last_source, LOG_SUFFIX + SWAP_SUFFIX)
    file_system.write_file(cleaned, b"", sync=False)
    file_system.rename(cleaned, swap)
    return swap


def remove_segment_files(
    file_system: FileSystem, directory: str, base_offset: int, state: str = ""
) -> None:
    """Remove files that a new segment would find under its name (ROLL-11)."""
    for suffix in SEGMENT_SUFFIXES:
        path = segment_path(directory, base_offset, suffix + state)
        if file_system.unlink(path, missing_ok=True):
            logger.warning("event=leftover-file-deleted path=%s", path)
