"""Exchanging segments: compacted (or split) ones take the place of their sources, crash-safe.

A crash leaves either all old or all new segments, because the loader can tell from the suffixes how
far the exchange had come:

    .cleaned files are there           it had not begun: they are dropped, with any .swap above them
    .log.swap files are there          the new segments are complete: they take their place
    neither                            it was finished; indexes may lack their final names

A disk may keep any part of the renames that no sync of the folder covers, in any order. So there is
a sync between any two of them whose order matters, and a worker makes it, while the owner of the
log goes on. Sources stand still from the first step to the last.

    owner    begin                                  sources stay uncut and undeleted from here on
    worker   announce: sync; .cleaned to .swap      the lowest segment last, after a sync; sync
    owner    new ones into the map; sources' .log to .log.deleted
    worker   sync
    owner    indexes of the sources to .deleted, the end mark goes
    worker   sync
    owner    .log.swap to .log                      from the highest down, a sync after each
    worker   sync
    owner    indexes from .swap to their names
    worker   sync                                   then the sources may be removed

For any part of one of these steps on disk, with all of the steps before it:

- While the lowest segment has a ``.cleaned`` file, everything above is dropped. All files had their
  names on disk before, so none of them can be missing where the last ``.cleaned`` one is gone.
- While data files of sources go, all new files are called ``.swap``, and the end mark is there: the
  loader removes each old file that is left, or gives all of them their names back if it has to: for
  that, the indexes stay until the data files are gone.
- While their indexes go, no data file of a source is left: the rest are indexes without a data
  file, or under the data file of a new segment, whose own ``.swap`` replace them or not: the loader
  removes all that have the base offset of a ``.log.swap``.
- While new data files get their names, their indexes are called ``.swap``. If an index without
  suffix could stand beside a ``.log.swap``, the loader could not tell whether it is an old or a new
  one.
- Then only indexes are called ``.swap``, and they get their names.

The loader takes away the old segments that begin below the end of the new ones. Where the records
of the last sources are all gone the new ones end too early for that; an empty data file with the
base offset of the last source, the end mark, then goes along through the states, and is dropped
when no data file of a source is left.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from seglog.broker.storage.errors import (
    AccessDeniedError,
    DiskFullError,
    FileError,
    MissingFileError,
    StorageError,
)
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    segment_path,
)
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.segment.segment import LogSegment

logger = logging.getLogger(__name__)

_STATES: Final = (SWAP_SUFFIX, CLEANED_SUFFIX)


class ExchangeUnderWayError(StorageError):
    """Segments of the log are being exchanged, and their sources have to stand still."""

    def __init__(self, log_name: str) -> None:
        super().__init__(f"segments of {log_name} are being exchanged; try again after that")


class Exchange:
    """One exchange of segments.

    Args:
        segments: the map of the log, which only the steps of the owner touch.
        new: with the suffix ``.cleaned``, ascending, complete, their content on disk.
        old: the segments that they replace, all of them in the map.
        put_in: called when the map has the new segments.

    Attributes:
        old: the sources, which are called ``.deleted`` at the end.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        segments: LogSegments,
        new: Sequence[LogSegment],
        old: Sequence[LogSegment],
        put_in: Callable[[], None] = lambda: None,
    ) -> None:
        self.old = list(old)
        self._file_system = file_system
        self._directory = directory
        self._segments = segments
        self._new = list(new)
        self._was_put_in = put_in
        self._base_offsets = [segment.base_offset for segment in new]
        self._mark = _end_mark(new, old[-1].base_offset)

    # ---- the work of a worker

    def announce(self) -> None:
        """Give the new files the suffix ``.swap``, on disk; blocks.

        Raises:
            DiskFullError: the directory has no room for a name; the new files are gone.
            FileError: it is unknown which names are on disk; the directory must not be used until
                the next start, which resolves it.
        """
        lowest = self._base_offsets[:1]
        others = [each for each in self._base_offsets[1:] if each != self._mark]
        try:
            if self._mark is not None:
                path = segment_path(self._directory, self._mark, LOG_SUFFIX + CLEANED_SUFFIX)
                self._file_system.write_file(path, b"", sync=False)
                others.append(self._mark)
            # The empty round syncs the .cleaned names: no .swap may reach the disk before all of
            # them. The lowest comes last: its .cleaned file tells the loader that the exchange had
            # not begun.
            for base_offsets in ([], sorted(others, reverse=True), lowest):
                for base_offset in base_offsets:
                    self._rename_to_swap(base_offset)
                self.sync()
        except DiskFullError:
            self.discard()
            raise
        except FileError as error:
            raise _left_half_done(error) from error

    def _rename_to_swap(self, base_offset: int) -> None:
        for kind in SEGMENT_SUFFIXES:
            path = segment_path(self._directory, base_offset, kind)
            try:
                self._file_system.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
            except MissingFileError:
                if kind == LOG_SUFFIX:
                    raise

    def discard(self) -> None:
        """Remove the new files of an exchange that has not been announced; blocks.

        The next pass must not find them, and a crash must find those that are called ``.swap`` only
        with a ``.cleaned`` one below them: so these go last.

        Raises:
            FileError: a file could not be removed.
        """
        base_offsets = {*self._base_offsets, *([] if self._mark is None else [self._mark])}
        for suffix in _STATES:
            for base_offset in sorted(base_offsets, reverse=True):
                remove_segment_files(self._file_system, self._directory, base_offset, suffix)
            self.sync()

    def sync(self) -> None:
        """Put the names of a step on disk; blocks.

        Raises:
            FileError: it is unknown which names are on disk.
        """
        self._file_system.sync_directory(self._directory)

    # ---- the steps of the owner

    def steps(self) -> Iterator[Callable[[], None]]:
        """The steps of the owner after ``announce``; ``sync`` follows on each.

        Each of them raises a ``FileError`` if files have other names than the log knows; the
        directory must not be used until the next start, which resolves it. That holds for any
        reason, so the steps raise none of the errors that stand for files which an operator has
        changed.
        """
        yield self._put_in
        yield partial(_all_or_offline, self._take_indexes_away)
        for segment in reversed(self._new):
            yield partial(
                _all_or_offline, partial(segment.files.change_log_suffix, SWAP_SUFFIX, "")
            )
        yield partial(_all_or_offline, self._name_indexes)

    def _put_in(self) -> None:
        for segment in self._new:
            segment.files.take_suffix(SWAP_SUFFIX)
        # Before the map changes: a failed rename leaves the log with its sources.
        _all_or_offline(self._take_logs_away)
        for segment in self.old:
            self._segments.remove(segment.base_offset)
        for segment in self._new:
            self._segments.add(segment)
        self._was_put_in()

    def _take_logs_away(self) -> None:
        for segment in self.old:
            _forgive_missing(partial(segment.files.change_log_suffix, "", DELETED_SUFFIX))

    def _take_indexes_away(self) -> None:
        for segment in self.old:
            segment.files.change_index_suffixes("", DELETED_SUFFIX)
        # The mark goes once no data file of a source is left: the loader removes sources up to it.
        if self._mark is not None:
            self._file_system.unlink(
                segment_path(self._directory, self._mark, LOG_SUFFIX + SWAP_SUFFIX)
            )

    def _name_indexes(self) -> None:
        for segment in self._new:
            segment.files.change_index_suffixes(SWAP_SUFFIX, "")


def swap_segments(
    file_system: FileSystem,
    directory: str,
    segments: LogSegments,
    new: Sequence[LogSegment],
    old: Sequence[LogSegment],
) -> list[LogSegment]:
    """All steps of an exchange, by an owner that may wait for the disk; blocks.

    Returns:
        The old segments, renamed ``.deleted``.

    Raises:
        DiskFullError, FileError: as the steps of an `Exchange`.
    """
    exchange = Exchange(file_system, directory, segments, new, old)
    exchange.announce()
    for step in exchange.steps():
        step()
        exchange.sync()
    return exchange.old


def _end_mark(new: Sequence[LogSegment], last_source: int) -> int | None:
    """The base offset of the end mark; None if the new segments reach the last source."""
    if any(segment.base_offset == last_source for segment in new):
        return None
    return None if new and new[-1].next_offset() > last_source else last_source


def _all_or_offline(action: Callable[[], None]) -> None:
    try:
        action()
    except (DiskFullError, FileError) as error:
        raise _left_half_done(error) from error


def _left_half_done(error: DiskFullError | FileError) -> FileError:
    return FileError(error.operation, error.path, f"{error.reason}; the exchange is half done")


def _forgive_missing(action: Callable[[], None]) -> None:
    try:
        action()
    except MissingFileError as error:
        # Removed by hand: there is nothing left to rename.
        logger.warning("event=segment-file-gone error=%s", error)


def take_away(segment: LogSegment) -> None:
    """Give the files of a segment that leaves its log the suffix ``.deleted``.

    An index that cannot be renamed stays behind; without its data file the next start removes it.

    Raises:
        FileError, DiskFullError: the data file could not be renamed; the segment is as it was.
    """
    try:
        segment.change_suffix("", DELETED_SUFFIX)
    except MissingFileError as error:
        # Removed by hand: there is nothing left to rename.
        logger.warning("event=segment-file-gone error=%s", error)
    except (AccessDeniedError, DiskFullError) as error:
        if segment.files.suffix != DELETED_SUFFIX:
            raise
        logger.warning("event=index-not-renamed error=%s", error)


def remove_segment_files(
    file_system: FileSystem, directory: str, base_offset: int, state: str = ""
) -> None:
    """Remove files that a new segment would find under its name (ROLL-11)."""
    for suffix in SEGMENT_SUFFIXES:
        path = segment_path(directory, base_offset, suffix + state)
        if file_system.unlink(path, missing_ok=True):
            logger.warning("event=leftover-file-deleted path=%s", path)
