"""Checks the folder of one partition: every file in it, and how they fit together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seglog.broker.storage.errors import CorruptFileError, MissingFileError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    parse_segment_file_name,
    segment_path,
)
from seglog.broker.storage.log.producer_snapshot_files import WINDOW_SUFFIX
from seglog.broker.tools.findings import Findings
from seglog.broker.tools.segment_check import SegmentRole, SegmentSummary, check_segment
from seglog.broker.tools.small_files import Line, reader_of

_ATTEMPTS: Final = 3
_LEFTOVERS: Final = {
    DELETED_SUFFIX: "wait for their deletion",
    CLEANED_SUFFIX: "are of a compaction that runs or did not end; a start removes them",
    SWAP_SUFFIX: "are of a compaction that a start brings to its end",
    TEMPORARY_SUFFIX: "are of a write that did not end; a start removes them",
}


@dataclass(frozen=True)
class FolderState:
    """The state of the data folder around a partition.

    Attributes:
        is_running: whether a broker holds it.
        is_clean: whether the last broker stopped in order.
        checkpoints: by file name, the offset of this partition in each.
    """

    is_running: bool = False
    is_clean: bool = True
    checkpoints: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to be mended by a broker."""
        return self.is_clean and not self.is_running


@dataclass
class PartitionSummary:
    """The contents of a partition's folder, from its first segment to its last batch."""

    path: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    first_offset: int = 0
    end_offset: int = 0

    def add(self, segment: SegmentSummary) -> None:
        """Count a segment; they come in order."""
        if self.segments == 0:
            self.first_offset = segment.base_offset
        self.segments += 1
        self.batches += segment.batches
        self.records += segment.records
        self.size_bytes += segment.size_bytes
        self.end_offset = max(self.end_offset, segment.base_offset, segment.next_offset)

    def as_json(self) -> dict[str, Any]:
        """The summary for scripts."""
        return {
            "path": self.path,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "size_bytes": self.size_bytes,
            "first_offset": self.first_offset,
            "end_offset": self.end_offset,
        }


def check_partition(
    file_system: FileSystem,
    path: str,
    state: FolderState,
    findings: Findings,
    *,
    recovery_point: int = 0,
) -> PartitionSummary:
    """Check a partition's folder.

    Args:
        path: of the folder.
        state: of the data folder.
        findings: grows.
        recovery_point: below it everything was put on disk; 0 if that is not known.

    Raises:
        FileError: the folder or a file in it cannot be read.
    """
    names = file_system.list_directory(path)
    bases = _sort_names(path, names, state, findings)
    lines = _read_small_files(file_system, path, names, state, findings)
    summary = PartitionSummary(path)
    for number, base_offset in enumerate(bases):
        is_active = number + 1 == len(bases)
        following = None if is_active else bases[number + 1]
        is_flushed = following is not None and following <= recovery_point
        role = SegmentRole(is_active, is_doubtful=not state.is_settled and not is_flushed)
        segment = _check_segment(file_system, path, base_offset, role, state, findings)
        if segment is None:
            _report_missing(path, base_offset, state, findings)
            continue
        if following is not None and segment.next_offset > following:
            findings.fault(
                segment_path(path, base_offset, LOG_SUFFIX),
                f"it ends with offset {segment.next_offset - 1}, but the next segment begins at "
                f"{following}",
            )
        summary.add(segment)
    if bases:
        _check_small_files(path, lines, summary, state, findings)
    return summary


def _check_segment(
    file_system: FileSystem,
    path: str,
    base_offset: int,
    role: SegmentRole,
    state: FolderState,
    findings: Findings,
) -> SegmentSummary | None:
    """Check a segment; again if a running broker may have replaced its files meanwhile.

    1. The index is read. 2. A compaction swaps in new files of the same names. 3. The data is read,
    and the index of before does not fit it.
    """
    attempts = _ATTEMPTS if state.is_running else 1
    while True:
        attempts -= 1
        found = Findings()
        segment = check_segment(file_system, path, base_offset, role, found)
        if attempts == 0 or not found.has_faults:
            findings.all += found.all
            return segment


def _report_missing(path: str, base_offset: int, state: FolderState, findings: Findings) -> None:
    file = segment_path(path, base_offset, LOG_SUFFIX)
    if state.is_running:
        findings.note(file, "the broker has removed it meanwhile")
    else:
        findings.fault(file, "it has disappeared")


def _sort_names(path: str, names: list[str], state: FolderState, findings: Findings) -> list[int]:
    """The base offsets of the segments; reports files that do not belong to one."""
    bases: set[int] = set()
    indexed: dict[int, str] = {}
    for end, text in _LEFTOVERS.items():
        count = sum(name.endswith(end) for name in names)
        if count:
            findings.note(path, f"files that end in {end} ({count}) {text}")
    for name in names:
        parsed = parse_segment_file_name(name)
        if name.endswith(tuple(_LEFTOVERS)):
            continue
        if parsed is None:
            if reader_of(name) is None:
                findings.note(f"{path}/{name}", "it is none of a broker's files")
        elif parsed.suffix == LOG_SUFFIX:
            bases.add(parsed.base_offset)
        elif parsed.suffix in INDEX_SUFFIXES:
            indexed[parsed.base_offset] = name
    for base_offset, name in sorted(indexed.items()):
        if base_offset not in bases:
            findings.fault_unless(
                state.is_running,
                f"{path}/{name}",
                f"there is no data file for it: records from offset {base_offset} on are missing",
            )
    if not bases and names:
        findings.note(path, "there are no segments in it")
    return sorted(bases)


def _read_small_files(
    file_system: FileSystem, path: str, names: list[str], state: FolderState, findings: Findings
) -> dict[str, list[Line]]:
    lines: dict[str, list[Line]] = {}
    for name in names:
        reader = reader_of(name)
        if reader is None:
            continue
        try:
            lines[name] = reader(file_system, f"{path}/{name}")
        except CorruptFileError as error:
            # Snapshots are written without a sync: one that a power cut has torn is done without.
            is_tolerable = not state.is_settled and name.endswith((SNAPSHOT_SUFFIX, WINDOW_SUFFIX))
            findings.fault_unless(is_tolerable, error.path, error.reason)
        except MissingFileError:
            findings.fault_unless(state.is_running, f"{path}/{name}", "it has disappeared")
    return lines


def _check_small_files(
    path: str,
    lines: Mapping[str, list[Line]],
    summary: PartitionSummary,
    state: FolderState,
    findings: Findings,
) -> None:
    """Compare the offsets of the small files with the beginning and end of the log."""
    begin, end = summary.first_offset, summary.end_offset
    tolerable = not state.is_settled
    for name, entries in lines.items():
        file = f"{path}/{name}"
        if name == LEADER_EPOCH_CHECKPOINT and entries:
            start = entries[-1].fields["startOffset"]
            if start > end:
                findings.fault_unless(
                    tolerable, file, f"the last epoch starts at {start}, the log ends at {end}"
                )
        elif name.endswith(SNAPSHOT_SUFFIX):
            offset = int(name.removesuffix(SNAPSHOT_SUFFIX))
            if offset > end:
                findings.fault_unless(
                    tolerable, file, f"it is of offset {offset}, the log ends at {end}"
                )
            for entry in entries:
                if entry.fields["lastOffset"] >= offset:
                    findings.fault(
                        file,
                        f"producer {entry.fields['producerId']} has written offset "
                        f"{entry.fields['lastOffset']}, which is behind the snapshot",
                    )
    for name, offset in state.checkpoints.items():
        # A running broker writes checkpoints after the log, never before.
        if offset > end or offset < 0:
            findings.fault_unless(
                tolerable,
                f"{path.rpartition('/')[0] or '.'}/{name}",
                f"it says {offset} of {path.rpartition('/')[2]}, which holds {begin} to {end}",
            )
