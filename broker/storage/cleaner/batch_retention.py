"""BatchRetention: the remaining records of batches that need a closer look.

That is: compressed and transactional batches, markers, batches that are empty already, and those
that become empty although a producer or the high watermark needs them.
"""

from array import array

from seglog.broker.storage.cleaner.plan import CleaningPlan, CleaningStatistics
from seglog.broker.storage.cleaner.transaction_walk import EndedTransaction
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    BatchHeader,
    RecordBatch,
)
from seglog.protocol.records.builder import finish_batch
from seglog.protocol.records.compaction import SkimpyOffsetMap, filter_records
from seglog.protocol.records.rebuild import rebuild_batch


class BatchRetention:
    """Decides on whole batches of one pass (KEEP-8..10, KEEP-13..17)."""

    def __init__(
        self, plan: CleaningPlan, keys: SkimpyOffsetMap, statistics: CleaningStatistics
    ) -> None:
        self._plan = plan
        self._keys = keys
        self._statistics = statistics
        offsets = {record.last_data_offset for record in plan.last_records.values()}
        offsets.add(plan.high_watermark - 1)
        self.protected_offsets: array[int] = array("q", sorted(offsets))
        """Last offsets of batches that may not vanish, ascending."""

    def data(self, batch: RecordBatch, *, is_aborted: bool) -> bytes | bytearray | memoryview:
        """The rest of a data batch: unchanged, rebuilt, emptied, or nothing.

        Raises:
            RecordError: the batch cannot be read.
        """
        self._statistics.records_read += batch.header.record_count
        if is_aborted or batch.header.record_count == 0:
            return self._emptied(batch)
        return self._filtered(batch)

    def control(
        self, batch: RecordBatch, ended: EndedTransaction | None
    ) -> bytes | bytearray | memoryview:
        """A marker goes when nothing of its transaction is left, in two steps (KEEP-16).

        It never goes in part: consumers of several clients (aiokafka, kafka-python) look into the
        record of every control batch, and do not get past one without.
        """
        header = batch.header
        if ended is None or ended.has_batches:
            return batch.view
        if header.record_count and header.delete_horizon_ms is None:
            return rebuild_batch(batch.view, delete_horizon_ms=self._plan.horizon_ms)
        is_due = header.record_count == 0 or self._plan.now_ms >= header.base_timestamp
        return b"" if is_due and not self._is_needed(header) else batch.view

    def _filtered(self, batch: RecordBatch) -> bytes | bytearray | memoryview:
        header = batch.header
        plan = self._plan
        result = filter_records(
            self._keys,
            batch.records_area(plan.max_decompressed_bytes),
            header,
            plan.now_ms,
            plan.horizon_ms,
        )
        if result is None:
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the records of the batch at offset {header.base_offset} are not well formed",
            )
        kept, _, invalid, has_horizon, base_timestamp, max_timestamp, records = result
        self._statistics.records_kept += kept
        self._statistics.records_without_key += invalid
        if kept == 0:
            return self._emptied(batch)
        if records is None:
            return batch.view
        attributes = header.attributes | (DELETE_HORIZON_BIT if has_horizon else 0)
        codec = header.codec
        return finish_batch(
            header._replace(
                attributes=attributes,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                record_count=kept,
            ),
            bytearray(HEADER_BYTES) + records,
            codec,
            None if codec is Codec.NONE else plan.compression_levels.get(codec.name.lower()),
        )

    def _emptied(self, batch: RecordBatch) -> bytes | bytearray | memoryview:
        """The 61 bytes that keep a producer's last sequence or the log's end, or nothing."""
        if not self._is_needed(batch.header):
            return b""
        return (
            batch.view
            if batch.header.record_count == 0
            else rebuild_batch(
                batch.view, keep=(), max_decompressed_bytes=self._plan.max_decompressed_bytes
            )
        )

    def _is_needed(self, header: BatchHeader) -> bool:
        if header.next_offset == self._plan.high_watermark:
            return True
        last = self._plan.last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch
