"""Checks one segment: every batch and record, and every index entry against the data file."""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from seglog.broker.storage.errors import CorruptIndexError, MissingFileError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from seglog.broker.storage.segment.transaction_index import TransactionIndex
from seglog.broker.tools.findings import Findings
from seglog.broker.tools.index_file import INDEX_READERS, order_fault
from seglog.broker.tools.log_scan import LogScan, ScannedBatch, TailKind
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.types import NO_TIMESTAMP


class SegmentRole(NamedTuple):
    """The expected state of a segment.

    Attributes:
        is_active: whether it is the last of its log: its indexes then have a reserve of zeros, and
            the data file may end in preallocated zeros.
        is_doubtful: whether a broker writes to it now, or will recover it at its next start: a torn
            end is then no fault.
    """

    is_active: bool
    is_doubtful: bool


@dataclass
class SegmentSummary:
    """The contents of a segment; offsets are -1 where there is no batch."""

    base_offset: int
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    next_offset: int = -1
    max_timestamp_ms: int = NO_TIMESTAMP

    def add(self, header: BatchHeader) -> None:
        """Count a batch."""
        self.batches += 1
        self.records += header.record_count
        if self.first_offset < 0:
            self.first_offset = header.base_offset
        self.next_offset = max(self.next_offset, header.next_offset)
        self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp)


def check_segment(
    file_system: FileSystem,
    directory: str,
    base_offset: int,
    role: SegmentRole,
    findings: Findings,
    state: str = "",
) -> SegmentSummary | None:
    """Check a segment's files; None if a running broker has taken them away meanwhile.

    Args:
        state: the suffix of files in the middle of a swap, e.g. ``.swap``.

    Raises:
        FileError: a file cannot be read.
    """
    # Read the indexes first: the broker writes the data before its index entries.
    checks = [
        _IndexCheck(
            file_system, directory, base_offset, suffix, role=role, findings=findings, state=state
        )
        for suffix in INDEX_READERS
    ]
    path = segment_path(directory, base_offset, LOG_SUFFIX + state)
    try:
        file = file_system.open_log(path)
    except MissingFileError:
        return None
    summary = SegmentSummary(base_offset, file.size)
    scan = LogScan(file, base_offset)
    try:
        for scanned in scan:
            if scanned.fault is not None:
                findings.fault(path, scanned.fault, scanned.position)
            if scanned.has_right_checksum:
                greatest_before_ms = summary.max_timestamp_ms
                summary.add(scanned.header)
                is_greatest = summary.max_timestamp_ms > greatest_before_ms
                for check in checks:
                    check.see(scanned, summary.max_timestamp_ms, is_greatest)
            else:
                for check in checks:
                    check.pass_over(scanned)
    finally:
        file.close()
    _report_tail(path, scan, role, findings)
    for check in checks:
        check.finish(summary)
    _check_transactions(file_system, directory, base_offset, summary, findings, state)
    return summary


def _report_tail(path: str, scan: LogScan, role: SegmentRole, findings: Findings) -> None:
    tail = scan.tail
    if tail is None:
        return
    if tail.kind is TailKind.ZEROS:
        findings.fault_unless(role.is_active or role.is_doubtful, path, tail.text, tail.position)
    else:
        findings.fault_unless(
            role.is_doubtful and tail.kind is TailKind.TORN, path, tail.text, tail.position
        )


def _check_transactions(
    file_system: FileSystem,
    directory: str,
    base_offset: int,
    summary: SegmentSummary,
    findings: Findings,
    state: str,
) -> None:
    path = segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX + state)
    index = TransactionIndex(file_system, path, base_offset)
    try:
        index.sanity_check()
        entries = index.all()
    except CorruptIndexError as error:
        findings.fault(path, error.reason)
        return
    for entry in entries:
        if entry.last_offset >= max(summary.next_offset, base_offset):
            findings.fault(path, f"{entry} is behind the last batch of the segment")


class _IndexCheck:
    """Compares the entries of one index with the batches that pass by."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        suffix: str,
        *,
        role: SegmentRole,
        findings: Findings,
        state: str,
    ) -> None:
        self._path = segment_path(directory, base_offset, suffix + state)
        self._suffix = suffix
        self._role = role
        self._findings = findings
        self._entries: deque[tuple[int, int]] = deque()
        self._last: tuple[int, int] | None = None
        self._is_missing = False
        self._has_gap = False
        try:
            content = INDEX_READERS[suffix](file_system, self._path, base_offset)
        except MissingFileError:
            self._is_missing = True
            return
        if content.odd_bytes:
            findings.fault(self._path, f"it ends with {content.odd_bytes} bytes of an entry")
        if content.reserve_bytes > _entry_bytes(suffix) and not role.is_active:
            findings.fault_unless(
                role.is_doubtful,
                self._path,
                f"{content.reserve_bytes} bytes of zeros are behind the entries, although the "
                "segment is closed",
            )
        self._take(content.entries)

    def _take(self, entries: list[tuple[int, int]]) -> None:
        previous: tuple[int, int] | None = None
        for entry in entries:
            fault = order_fault(entry, previous) if previous is not None else None
            if fault is not None:
                self._findings.fault(self._path, fault)
                # The entries behind it mean nothing any more; one finding is enough.
                return
            self._entries.append(entry)
            previous = entry
        self._last = previous

    def see(self, scanned: ScannedBatch, max_timestamp_ms: int, is_greatest: bool) -> None:
        """A batch passes by.

        Args:
            max_timestamp_ms: the greatest so far, its own included.
            is_greatest: whether it is the first batch that has that.
        """
        header = scanned.header
        if self._suffix == OFFSET_INDEX_SUFFIX:
            while self._entries and self._entries[0][1] <= scanned.position:
                offset, position = self._entries.popleft()
                if position != scanned.position:
                    self._findings.fault(
                        self._path, f"entry ({offset}, {position}): no batch begins there"
                    )
                elif offset != header.last_offset:
                    self._findings.fault(
                        self._path,
                        f"entry ({offset}, {position}): the batch there ends with offset "
                        f"{header.last_offset}",
                    )
            return
        while self._entries and self._entries[0][1] <= header.last_offset:
            timestamp_ms, offset = self._entries.popleft()
            if self._has_gap:
                continue
            if offset < header.base_offset:
                self._findings.fault(
                    self._path, f"entry ({timestamp_ms}, {offset}): no batch has that offset"
                )
            elif timestamp_ms != max_timestamp_ms:
                self._findings.fault(
                    self._path,
                    f"entry ({timestamp_ms}, {offset}): the greatest timestamp up to there is "
                    f"{max_timestamp_ms}",
                )
            elif not is_greatest:
                # A search for that time would begin behind the record that it looks for.
                self._findings.fault(
                    self._path,
                    f"entry ({timestamp_ms}, {offset}): an earlier batch has that timestamp",
                )

    def pass_over(self, scanned: ScannedBatch) -> None:
        """A bad batch passes by: entries about it cannot be judged."""
        self._has_gap = True
        end = scanned.position + scanned.header.size_bytes
        if self._suffix == OFFSET_INDEX_SUFFIX:
            while self._entries and self._entries[0][1] < end:
                self._entries.popleft()

    def finish(self, summary: SegmentSummary) -> None:
        """All batches have passed by."""
        if self._is_missing:
            if summary.batches:
                # Made when it is first needed, or anew at the next start.
                is_tolerable = self._role.is_active or self._role.is_doubtful
                self._findings.fault_unless(is_tolerable, self._path, "there is no such file")
            return
        if self._has_gap and self._suffix == TIME_INDEX_SUFFIX:
            return
        for entry in self._entries:
            self._findings.fault_unless(
                self._role.is_doubtful,
                self._path,
                f"entry {tuple(entry)} is behind the last whole batch",
            )
        is_closed = not self._role.is_active and not self._role.is_doubtful
        if self._suffix == TIME_INDEX_SUFFIX and is_closed and summary.max_timestamp_ms > 0:
            last_ms = self._last[0] if self._last is not None else NO_TIMESTAMP
            if last_ms != summary.max_timestamp_ms:
                self._findings.fault(
                    self._path,
                    f"its last timestamp is {last_ms}, the greatest of the segment is "
                    f"{summary.max_timestamp_ms}",
                )


def _entry_bytes(suffix: str) -> int:
    return 8 if suffix == OFFSET_INDEX_SUFFIX else 12
