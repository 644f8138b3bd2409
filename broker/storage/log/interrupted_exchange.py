"""Tidying a log's folder before it is opened: deleted files, and swaps that a crash has cut short.

The rules are in docs/storage-format.md, section 12; ``exchange`` explains which step leaves which
traces.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from seglog.broker.storage.errors import CorruptFileError, SegmentOverflowError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    SegmentFileName,
    parse_segment_file_name,
    segment_path,
)
from seglog.broker.storage.segment.batch_walk import VerifiedBatches
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig

logger = logging.getLogger(__name__)

_STATES_IN_SWAP: Final = (CLEANED_SUFFIX, SWAP_SUFFIX)


def tidy_folder(
    file_system: FileSystem, directory: str, config: LogConfig, now_ms: int
) -> list[str]:
    """Finish half-done deletions and swaps; returns the remaining names.

    Raises:
        FileError: the folder cannot be read or changed.
    """
    names = file_system.list_directory(directory)
    # Most folders have no such name, and a start takes no name apart twice.
    swaps = [name for name in names if name.endswith(_STATES_IN_SWAP)]
    if any(parse_segment_file_name(name) is not None for name in swaps):
        files = [parsed for name in names if (parsed := parse_segment_file_name(name)) is not None]
        _InterruptedSwap(file_system, directory, config, now_ms).resolve(files)
        names = file_system.list_directory(directory)
    left = [name for name in names if not name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX))]
    if len(left) == len(names):
        return names
    for name in sorted(set(names).difference(left)):
        _remove_file(file_system, f"{directory}/{name}")
    return file_system.list_directory(directory)


def _remove_file(file_system: FileSystem, path: str) -> None:
    """Remove a file; a folder of such a name is foreign, and stays."""
    try:
        file_system.unlink(path, missing_ok=True)
    except CorruptFileError:
        logger.warning("event=foreign-folder-ignored path=%s", path)


class _End(NamedTuple):
    next_offset: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class _InterruptedSwap:
    """One folder in which a swap was cut short."""

    file_system: FileSystem
    directory: str
    config: LogConfig
    now_ms: int

    def resolve(self, files: Sequence[SegmentFileName]) -> None:
        """End the swap, or undo it; whichever it is, it is so on disk afterwards."""
        complete = self._drop_incomplete(files)
        swapped = sorted(file for file in complete if file.state == SWAP_SUFFIX)
        bases = [file.base_offset for file in swapped if file.suffix == LOG_SUFFIX]
        ends = [self._end_of(base_offset, SWAP_SUFFIX) for base_offset in bases]
        fault = _fault_of(bases, ends)
        if fault is not None and self._bring_sources_back(bases[0], complete, fault):
            self._drop(swapped)
        elif swapped:
            self._finish(complete, swapped, bases, ends, fault)
        self.file_system.sync_directory(self.directory)

    def _path(self, file: SegmentFileName) -> str:
        return segment_path(self.directory, file.base_offset, file.suffix + file.state)

    def _drop_incomplete(self, files: Sequence[SegmentFileName]) -> list[SegmentFileName]:
        """Drop ``.cleaned`` files and the ``.swap`` files of the same, unfinished swap.

        A ``.swap`` file is complete once no ``.cleaned`` one is below it: so the latter go last.
        """
        cleaned = [file.base_offset for file in files if file.state == CLEANED_SUFFIX]
        if not cleaned:
            return list(files)
        first_cleaned = min(cleaned)
        kept: list[SegmentFileName] = []
        dropped: list[SegmentFileName] = []
        for file in files:
            is_unfinished = file.state == SWAP_SUFFIX and file.base_offset >= first_cleaned
            is_dropped = file.state == CLEANED_SUFFIX or is_unfinished
            (dropped if is_dropped else kept).append(file)
        for state in (SWAP_SUFFIX, CLEANED_SUFFIX):
            going = [file for file in dropped if file.state == state]
            for file in going:
                logger.info("event=unfinished-swap-dropped path=%s", self._path(file))
                self.file_system.unlink(self._path(file))
            if going:
                # If the .cleaned files went first, the .swap files would count as complete.
                self.file_system.sync_directory(self.directory)
        return kept

    def _end_of(self, base_offset: int, suffix: str) -> _End:
        """The offset behind the last good batch of a segment, and the fault there."""
        segment = LogSegment.open(
            self.file_system, self.directory, base_offset, self.config, self.now_ms, suffix=suffix
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

    # ---- undoing it

    def _bring_sources_back(self, start: int, files: Sequence[SegmentFileName], fault: str) -> bool:
        """Give the sources of a damaged swap their names again; whether they are all there.

        The first source is the first to go: if it is there, under its own name or as ``.deleted``,
        so are the others. A ``.deleted`` file of an earlier swap overlaps with them, and stays.
        """
        data = {state: set[int]() for state in ("", DELETED_SUFFIX)}
        for file in files:
            if file.suffix == LOG_SUFFIX and file.state in data and file.base_offset >= start:
                data[file.state].add(file.base_offset)
        if start in data[""]:
            deleted = data[DELETED_SUFFIX] - data[""]
        elif start in data[DELETED_SUFFIX] and self._end_of(start, DELETED_SUFFIX).fault is None:
            deleted = data[DELETED_SUFFIX]
        else:
            return False
        taken, back = start, []
        for base_offset in sorted(data[""] | deleted):
            if base_offset < taken:
                continue
            state = DELETED_SUFFIX if base_offset in deleted else ""
            taken = max(taken, self._end_of(base_offset, state).next_offset)
            if state:
                logger.warning(
                    "event=swap-source-restored path=%s reason=%r",
                    segment_path(self.directory, base_offset, LOG_SUFFIX),
                    fault,
                )
                back.append(base_offset)
        # The data files are the last, for they say that all are back.
        self._give_names_back(back, INDEX_SUFFIXES)
        self._give_names_back(back, [LOG_SUFFIX])
        return True

    def _give_names_back(self, base_offsets: Sequence[int], suffixes: Sequence[str]) -> None:
        """Rename files of sources, on disk."""
        for base_offset in base_offsets:
            for suffix in suffixes:
                path = segment_path(self.directory, base_offset, suffix)
                if self.file_system.exists(path + DELETED_SUFFIX):
                    self.file_system.rename(path + DELETED_SUFFIX, path)
        self.file_system.sync_directory(self.directory)

    def _drop(self, swapped: Sequence[SegmentFileName]) -> None:
        """Remove the files of a damaged swap, the first of them last.

        As ``.cleaned`` it says that the others are worth nothing, should this be cut short.
        """
        first = next(file for file in swapped if file.suffix == LOG_SUFFIX)
        mark = segment_path(self.directory, first.base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        self.file_system.rename(self._path(first), mark)
        self.file_system.sync_directory(self.directory)
        for file in swapped:
            logger.warning("event=damaged-swap-dropped path=%s", self._path(file))
            if file is not first:
                self.file_system.unlink(self._path(file))
        self.file_system.sync_directory(self.directory)
        self.file_system.unlink(mark)

    # ---- finishing it

    def _finish(
        self,
        files: Sequence[SegmentFileName],
        swapped: Sequence[SegmentFileName],
        bases: Sequence[int],
        ends: Sequence[_End],
        fault: str | None,
    ) -> None:
        """Put complete ``.swap`` files in the place of the segments whose offsets they cover."""
        if bases:
            start, end = bases[0], max(bases[0] + 1, *(each.next_offset for each in ends))
            if any(each.fault is not None for each in ends):
                logger.warning(
                    "event=damaged-swap-promoted path=%s reason=%r",
                    segment_path(self.directory, start, LOG_SUFFIX + SWAP_SUFFIX),
                    fault,
                )
            for file in files:
                is_segment_file = file.suffix in SEGMENT_SUFFIXES and not file.state
                # A segment at the base offset of an end mark is no part of the range, and goes too.
                is_covered = start <= file.base_offset < end or file.base_offset in bases
                if is_segment_file and is_covered:
                    logger.info("event=replaced-file-deleted path=%s", self._path(file))
                    self.file_system.unlink(self._path(file))
        # As in an exchange: the data files from the highest down, and only then the indexes.
        logs = [file for file in swapped if file.suffix == LOG_SUFFIX]
        for file in reversed(logs):
            self.file_system.sync_directory(self.directory)
            self._finish_file(file)
        self.file_system.sync_directory(self.directory)
        for file in swapped:
            if file.suffix != LOG_SUFFIX:
                self._finish_file(file)

    def _finish_file(self, file: SegmentFileName) -> None:
        target = segment_path(self.directory, file.base_offset, file.suffix)
        logger.info("event=interrupted-swap-finished path=%s", target)
        self.file_system.rename(self._path(file), target)


def _fault_of(bases: Sequence[int], ends: Sequence[_End]) -> str | None:
    """Why ``.swap`` files cannot be relied on.

    If all files are empty, they may be complete or may have lost their records.
    """
    for end in ends:
        if end.fault is not None:
            return end.fault
    if bases and all(end.next_offset == base for base, end in zip(bases, ends, strict=True)):
        return "no batch is in it"
    return None
