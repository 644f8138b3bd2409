"""Pass one: the last offset of every key in the dirty part of a log (CMAP-6..8)."""

from collections.abc import Iterable

from seglog.broker.storage.cleaner.chunks import Account, ChunkReader
from seglog.broker.storage.cleaner.plan import CleaningPlan, CleaningStatistics, SourceSegment
from seglog.broker.storage.cleaner.transactions import CleanedTransactions
from seglog.broker.storage.errors import CorruptLogError
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.compaction import SkimpyOffsetMap, WalkStop, map_batches, map_records
from seglog.protocol.records.control import read_control_type


def build_key_map(
    keys: SkimpyOffsetMap,
    plan: CleaningPlan,
    *,
    buffer_bytes: int,
    account: Account,
    statistics: CleaningStatistics,
) -> None:
    """Fill ``keys`` from the first dirty offset on, until the end or until it is full.

    Raises:
        CorruptLogError, RecordError: a batch cannot be read.
    """
    # With nothing dirty the pass still goes over the clean part: tombstones may be due (KEEP-11).
    keys.latest_offset = plan.first_dirty_offset - 1
    builder = _KeyMapBuilder(keys, plan, ChunkReader(buffer_bytes, account), statistics)
    builder.run(plan.dirty_segments)
    statistics.keys = keys.size


class _KeyMapBuilder:
    def __init__(
        self,
        keys: SkimpyOffsetMap,
        plan: CleaningPlan,
        reader: ChunkReader,
        statistics: CleaningStatistics,
    ) -> None:
        self._keys = keys
        self._start_offset = plan.first_dirty_offset
        self._transactions = CleanedTransactions(plan.aborted)
        self._reader = reader
        self._statistics = statistics

    def run(self, segments: Iterable[SourceSegment]) -> None:
        for segment in segments:
            if self._is_full_after(segment):
                self._statistics.end_offset = self._keys.latest_offset + 1
                self._statistics.is_map_full = True
                return
            # Offsets may be missing at the end of a segment: they are behind us all the same.
            self._keys.latest_offset = max(self._keys.latest_offset, segment.end_offset - 1)

    def _is_full_after(self, segment: SourceSegment) -> bool:
        position = 0
        while position < segment.size_bytes:
            view = self._reader.read(segment.log, position, segment.size_bytes)
            done, is_full = self._map_chunk(segment, position, view)
            self._statistics.bytes_mapped += done
            if is_full:
                return True
            if done == 0:
                self._reader.grow_for(segment.log, position, view, segment.size_bytes)
            position += done
        return False

    def _map_chunk(
        self, segment: SourceSegment, position: int, view: memoryview
    ) -> tuple[int, bool]:
        """Map the whole batches of a chunk: their size, and whether the map is full."""
        done = 0
        while True:
            done, why = map_batches(self._keys, view, done, self._start_offset)
            if why == WalkStop.SPECIAL:
                batch = RecordBatch(view[done:])
                why = self._map_special(batch)
                done += batch.header.size_bytes
                if why == WalkStop.END:
                    continue
            if why == WalkStop.CORRUPT:
                raise CorruptLogError(
                    segment.log.path, position + done, "a batch fails its checks; see dump-log"
                )
            return done, why == WalkStop.FULL

    def _map_special(self, batch: RecordBatch) -> int:
        batch.check()
        header = batch.header
        keys = self._keys
        if header.is_control:
            control_type = None
            if header.record_count:
                record = batch.records(from_offset=header.base_offset)[0]
                control_type = read_control_type(record.key)
            self._transactions.is_marker_needless(header, control_type)
        elif not self._transactions.is_aborted(header) and header.record_count:
            return map_records(keys, batch.records_area(), header, self._start_offset)
        keys.latest_offset = max(keys.latest_offset, header.last_offset)
        return WalkStop.END
