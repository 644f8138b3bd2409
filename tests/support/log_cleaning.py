"""A log under a cleaner without a broker around, and what consumers of committed data get."""

from collections.abc import Iterator
from pathlib import Path

from seglog.broker.storage.cleaner.candidates import look_at, make_plan
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import CleaningResult, SegmentSwap
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import RecordBatch, iter_batches
from seglog.protocol.records.control import ControlType, read_marker
from seglog.protocol.records.record import Record
from seglog.protocol.types import INT32_MAX
from support.exchanges import replace_segments
from support.log_builder import NOW_MS, flush_log, open_log, reopen

_DISK = OsFileSystem()


class CompactedLog:
    """A log that is cleaned when a test says so; it remembers how far it is clean.

    Args:
        map_bytes: memory of the key map.
        buffer_bytes: what a pass reads at once, to begin with.
    """

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        *,
        map_bytes: int = 1 << 16,
        buffer_bytes: int = 4096,
    ) -> None:
        self.log: Log = open_log(directory, config)
        self.first_dirty: int | None = None
        self.map_bytes = map_bytes
        self._buffer_bytes = buffer_bytes

    def clean(self, now_ms: int = NOW_MS, *, roll: bool = True) -> CleaningResult:
        """One pass; by default over everything that is decided, the active segment included."""
        if roll:
            self.log.roll(now_ms)
        log = self.log
        flush_log(log)  # as a roll has it done: what is not on disk is left alone
        plan = make_plan(log, look_at(log, self.first_dirty, now_ms), now_ms)
        cleaner = Cleaner(
            _DISK,
            map_bytes=self.map_bytes,
            map_load_factor=0.9,
            buffer_bytes=self._buffer_bytes,
        )
        result = cleaner.clean(
            plan, account=lambda _bytes: None, hand_over=lambda swap: self._swap_in(swap, now_ms)
        )
        self.first_dirty = result.end_offset
        return result

    def restart(self, *, clean: bool, now_ms: int = NOW_MS) -> None:
        """Open the log again, after a clean stop or after a kill; a lone replica leads at once."""
        self.log = reopen(self.log, clean=clean, now_ms=now_ms)
        self.log.set_high_watermark(self.log.offsets.log_end)

    def _swap_in(self, swap: SegmentSwap, now_ms: int) -> None:
        log = self.log
        new = [
            LogSegment.open(_DISK, log.directory, base, log.config, now_ms, suffix=CLEANED_SUFFIX)
            for base in swap.new_base_offsets
        ]
        found = [log.segments.get(base) for base in swap.old_base_offsets]
        for removed in replace_segments(log, new, [each for each in found if each is not None]):
            removed.delete_files()


def stored_batches(log: Log, offset: int | None = None) -> Iterator[RecordBatch]:
    """Every batch from an offset (the log start) to the log end, checked."""
    position = log.offsets.log_start if offset is None else offset
    while True:
        data = log.read(position, INT32_MAX, isolation=FetchIsolation.LOG_END)
        if data.slice is None:
            return
        content = data.slice.read()
        data.slice.release()
        for batch in iter_batches(content):
            batch.check()
            yield batch
            position = batch.header.next_offset


def read_committed(
    log: Log, offset: int | None = None, *, max_bytes: int = INT32_MAX
) -> list[Record]:
    """What a consumer with ``isolation.level=read_committed`` gets, decided as in Java."""
    position = log.offsets.log_start if offset is None else offset
    records: list[Record] = []
    while True:
        data = log.read(position, max_bytes, isolation=FetchIsolation.TXN_COMMITTED)
        if data.slice is None:
            return records
        content = data.slice.read()
        data.slice.release()
        coming = sorted(data.aborted_transactions or [], key=lambda each: each[1])
        aborted: set[int] = set()
        for batch in iter_batches(content):
            header = batch.header
            while coming and coming[0][1] <= header.last_offset:
                aborted.add(coming.pop(0)[0])
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None and marker.control_type is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                records += batch.records(from_offset=position)
            position = max(position, header.next_offset)
