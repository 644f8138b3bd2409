"""Pass one: the last offset of every key in the dirty part of a log (CMAP-6..8)."""

from seglog.broker.storage.cleaner.chunks import Account, ChunkReader
from seglog.broker.storage.cleaner.pass_walk import PassWalk
from seglog.broker.storage.cleaner.plan import CleaningPlan, CleaningStatistics
from seglog.broker.storage.cleaner.transaction_walk import EndedTransaction
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.compaction import SkimpyOffsetMap, WalkStop, map_batches, map_records


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
        CorruptLogError: a batch cannot be read.
    """
    # With nothing dirty the pass still goes over the clean part: tombstones may be due (KEEP-11).
    keys.latest_offset = plan.first_dirty_offset - 1
    walk = PassWalk(ChunkReader(buffer_bytes, account), plan.log_start, plan.aborted)
    visitor = _KeyMapping(keys, plan, statistics)
    for segment in plan.dirty_segments:
        if not walk.visit(segment, visitor):
            statistics.end_offset = keys.latest_offset + 1
            statistics.is_map_full = True
            break
        # Offsets may be missing at the end of a segment: they are behind us all the same.
        keys.latest_offset = max(keys.latest_offset, segment.end_offset - 1)
    statistics.keys = keys.size


class _KeyMapping:
    """Takes the keys of committed records into the map."""

    def __init__(
        self, keys: SkimpyOffsetMap, plan: CleaningPlan, statistics: CleaningStatistics
    ) -> None:
        self._keys = keys
        self._start_offset = plan.first_dirty_offset
        self._max_decompressed_bytes = plan.max_decompressed_bytes
        self._statistics = statistics

    def plain(self, view: memoryview, position: int) -> tuple[int, int]:
        return map_batches(self._keys, view, position, self._start_offset)

    def data(self, batch: RecordBatch, *, is_aborted: bool) -> int:
        if not is_aborted and batch.header.record_count:
            area = batch.records_area(self._max_decompressed_bytes)
            return map_records(self._keys, area, batch.header, self._start_offset)
        self._pass_over(batch)
        return WalkStop.END

    def control(self, batch: RecordBatch, _ended: EndedTransaction | None, /) -> None:
        self._pass_over(batch)

    def walked(self, byte_count: int) -> None:
        self._statistics.bytes_mapped += byte_count

    def _pass_over(self, batch: RecordBatch) -> None:
        self._keys.latest_offset = max(self._keys.latest_offset, batch.header.last_offset)
