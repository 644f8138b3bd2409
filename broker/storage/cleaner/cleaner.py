"""Pass two, and the whole of a cleaning: it copies the remaining batches to ``.cleaned`` files.

The cleaner runs in a thread of its own and touches nothing but sealed data files and files that it
makes. Each finished group of segments is handed over to the owner of the log, which swaps it in.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from seglog.broker.storage.cleaner.batch_retention import BatchRetention
from seglog.broker.storage.cleaner.chunks import Account, ChunkReader
from seglog.broker.storage.cleaner.cleaned_segment import CleanedSegments
from seglog.broker.storage.cleaner.key_map_builder import build_key_map
from seglog.broker.storage.cleaner.pass_walk import PassWalk
from seglog.broker.storage.cleaner.plan import (
    CleaningPlan,
    CleaningResult,
    CleaningStatistics,
    SegmentSwap,
    SourceSegment,
)
from seglog.broker.storage.cleaner.transaction_walk import EndedTransaction
from seglog.broker.storage.files.file_system import FileSystem
from seglog.protocol.records.batch import RecordBatch, read_header
from seglog.protocol.records.compaction import SkimpyOffsetMap, WalkStop, filter_batches
from seglog.protocol.types import INT32_MAX

HandOver = Callable[[SegmentSwap], None]
"""Gives finished files to the owner of the log and returns when they are swapped in."""

_RECORD_GROWTH: Final = 5  # a record of 7 bytes, the smallest, may grow by 24 when it is rebased


class Cleaner:
    """Cleans one log at a time; keeps its key map and buffers from one to the next.

    Args:
        file_system: where the segments are.
        map_bytes: memory for the key map.
        map_load_factor: how full the map may get (CMAP-2).
        buffer_bytes: size to begin with of the read buffer, and of the write buffer.
    """

    def __init__(
        self,
        file_system: FileSystem,
        *,
        map_bytes: int,
        map_load_factor: float,
        buffer_bytes: int,
    ) -> None:
        self._file_system = file_system
        self._buffer_bytes = buffer_bytes
        self._keys = SkimpyOffsetMap(map_bytes, map_load_factor)

    def clean(
        self,
        plan: CleaningPlan,
        *,
        account: Account,
        hand_over: HandOver,
        statistics: CleaningStatistics | None = None,
    ) -> CleaningResult:
        """Clean the log of a plan; ``statistics`` may be looked at from outside meanwhile.

        Raises:
            StorageError, RecordError: a batch cannot be read or the disk failed; groups that were
                handed over before stay cleaned, nothing else is left.
            Exception: from ``account`` or ``hand_over``, to end the pass.
        """
        statistics = CleaningStatistics() if statistics is None else statistics
        self._keys.clear()
        build_key_map(
            self._keys,
            plan,
            buffer_bytes=self._buffer_bytes,
            account=account,
            statistics=statistics,
        )
        end_offset = self._keys.latest_offset + 1
        reached = [each for each in plan.segments if each.base_offset < end_offset]
        filtering = _Filtering(
            self._file_system,
            plan,
            self._keys,
            ChunkReader(self._buffer_bytes, account),
            account,
            statistics,
        )
        for group in group_segments(reached, plan.segment_bytes, plan.segment_index_bytes):
            hand_over(filtering.clean_group(group))
        return CleaningResult(max(end_offset, plan.first_dirty_offset), statistics)


class _Filtering:
    """Pass two over the groups of one plan; transactions are followed from one to the next."""

    def __init__(
        self,
        file_system: FileSystem,
        plan: CleaningPlan,
        keys: SkimpyOffsetMap,
        reader: ChunkReader,
        account: Account,
        statistics: CleaningStatistics,
    ) -> None:
        self._file_system = file_system
        self._plan = plan
        self._keys = keys
        self._walk = PassWalk(reader, plan.log_start, plan.aborted)
        self._account = account
        self._statistics = statistics
        self._retention = BatchRetention(plan, keys, statistics)
        self._protected: array[int] = self._retention.protected_offsets
        self._out = bytearray(1)

    def clean_group(self, group: Sequence[SourceSegment]) -> SegmentSwap:
        """Write the remaining batches of a group; on any failure no file of it is left."""
        output = CleanedSegments(self._file_system, self._plan, group[0].base_offset)
        self._output = output
        is_finished = False
        try:
            for segment in group:
                self._walk.visit(segment, self)
            output.finish(group[-1].modified_ms)
            is_finished = True
        finally:
            if not is_finished:
                output.discard()
        return SegmentSwap(
            self._plan.topic_partition,
            tuple(segment.base_offset for segment in group),
            output.base_offsets,
        )

    # ---- called by the walk

    def plain(self, view: memoryview, position: int) -> tuple[int, int]:
        """Write the remaining records of the plain batches of a chunk."""
        plan, statistics = self._plan, self._statistics
        written = 0
        while True:
            position, written, why, total, kept, invalid = filter_batches(
                self._keys, view, position, self._out, written,
                now_ms=plan.now_ms, horizon_ms=plan.horizon_ms, protected_offsets=self._protected,
            )  # fmt: skip
            statistics.records_read += total
            statistics.records_kept += kept
            statistics.records_without_key += invalid
            self._write(memoryview(self._out)[:written])
            written = 0
            if why != WalkStop.NO_SPACE:
                return position, why
            self._grow_out(read_header(view, position).size_bytes)

    def data(self, batch: RecordBatch, *, is_aborted: bool) -> int:
        """Write the remaining records of a data batch."""
        self._write(memoryview(self._retention.data(batch, is_aborted=is_aborted)))
        return WalkStop.END

    def control(self, batch: RecordBatch, ended: EndedTransaction | None, /) -> None:
        """Write a control batch, if it stays, with its entry of the transaction index."""
        stays = self._retention.control(batch, ended)
        self._write(memoryview(stays))
        if stays and ended is not None and ended.has_batches and ended.aborted is not None:
            self._output.add_aborted(ended.aborted)

    def walked(self, byte_count: int) -> None:
        """Count the bytes of the walk."""
        self._statistics.bytes_read += byte_count

    def _write(self, batches: memoryview) -> None:
        if not batches:
            return
        self._output.append(batches)
        self._statistics.bytes_written += len(batches)
        self._account(len(batches))

    def _grow_out(self, batch_bytes: int) -> None:
        """Room for at least one batch, however much its records grow."""
        needed = _RECORD_GROWTH * batch_bytes + (1 << 20)
        # Less would make a loop of it: the kernel asks for no more than such a batch can grow to.
        assert len(self._out) < needed, (len(self._out), batch_bytes)
        self._out = bytearray(needed)


def group_segments(
    segments: Iterable[SourceSegment], max_bytes: int, max_index_bytes: int
) -> list[list[SourceSegment]]:
    """Neighbours that together stay within the size of one segment, of its indexes and its offsets.

    A segment over the limits by itself is a group of its own. An empty segment joins regardless of
    its offsets, so that empty ones do not pile up.
    """
    groups: list[list[SourceSegment]] = []
    for segment in segments:
        if groups and _fits(groups[-1], segment, max_bytes, max_index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: list[SourceSegment], segment: SourceSegment, max_bytes: int, max_index_bytes: int
) -> bool:
    joined = [*group, segment]
    if sum(each.size_bytes for each in joined) > max_bytes:
        return False
    if sum(each.offset_index_bytes for each in joined) > max_index_bytes:
        return False
    if sum(each.time_index_bytes for each in joined) > max_index_bytes:
        return False
    last_offset = segment.end_offset - 1
    return segment.size_bytes == 0 or last_offset - group[0].base_offset <= INT32_MAX
