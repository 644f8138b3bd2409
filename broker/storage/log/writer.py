"""The writing side of a log: appends, rolls, producer snapshots.

A batch is checked completely before anything changes; then it is one write, and the state follows
the bytes.
"""

import logging
from collections.abc import Iterable
from typing import Final

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.append import AppendInfo, PreparedAppend
from seglog.broker.storage.log.exchange import remove_segment_files
from seglog.broker.storage.log.flush import LogFlusher
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.log.producer_entry import RetainedBatch
from seglog.broker.storage.log.producer_replay import (
    aborted_transaction,
    record_stored_batch,
    stored_marker,
)
from seglog.broker.storage.log.producer_state import AppendOrigin, TransactionMarker
from seglog.broker.storage.log.reader import LogReader
from seglog.broker.storage.log.replica_append import split_replicated
from seglog.broker.storage.log.roll_policy import (
    RollBounds,
    RollReason,
    roll_bounds,
    segment_jitter_ms,
    should_roll,
)
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import BatchHeader, assign_offsets
from seglog.protocol.types import INT32_MAX, NO_TIMESTAMP

logger = logging.getLogger(__name__)

_PRODUCERS_AT_ONCE_MAX: Final = 500
"""So many are written where the log is rolled, which takes some 2 ms."""


class LogWriter:
    """Appends to one log; a part of `Log`, which documents the operations.

    Attributes:
        directory: of the log.
        config: of the topic.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        log_name: str,
        config: LogConfig,
        parts: LogParts,
        *,
        reader: LogReader,
        flusher: LogFlusher,
    ) -> None:
        self.directory = directory
        self.config = config
        self._file_system = file_system
        self._log_name = log_name
        self._parts = parts
        self._segments = parts.segments
        self._offsets = parts.offsets
        self._leader_epochs = parts.leader_epochs
        self._producers = parts.producers
        self._reader = reader
        self._flusher = flusher
        self._jitter_ms = 0
        self._roll_bounds: RollBounds | None = None
        self.choose_jitter()

    def append_prepared(
        self,
        prepared: PreparedAppend,
        *,
        now_ms: int,
        leader_epoch: int,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append a batch that `prepare_append` has validated; see `Log.append_prepared`."""
        view, header, origin, append_time_ms, marker, _ = prepared
        if view is None:
            return self._nothing_appended()
        if header.producer_id >= 0:
            duplicate = self._check_producer(header, origin, marker, transaction_version)
            if duplicate is not None:
                return self._duplicate_found(duplicate)
        offsets = self._offsets
        first_offset = offsets.log_end
        last_offset = first_offset + header.last_offset_delta
        rolled = self._roll_if_due(len(view), header.max_timestamp, last_offset, now_ms)
        if leader_epoch != self._leader_epochs.latest_epoch:
            # Not written yet: until the next flush, recovery finds it in the batches.
            self._leader_epochs.note(leader_epoch, first_offset)
        # After all checks: this changes the received bytes, and only the write can fail now.
        header = assign_offsets(view, header, first_offset, leader_epoch)
        # After the roll, which may have made another segment the active one.
        segment = self._segments.active
        if marker is None:
            position = segment.append(view, (header,))
        else:
            position = self._append_marker(segment, view, header, marker)
        # IDEM-15: the state follows the bytes. Before them, a failed write would make a repetition
        # of this batch a duplicate, and acknowledge records that were never stored.
        self._appended(segment, position, header, now_ms)
        if header.producer_id >= 0:
            record_stored_batch(self._producers, header, marker, now_ms, None)
            self._parts.update_first_unstable()
        return AppendInfo(
            first_offset,
            last_offset,
            append_time_ms,
            header.max_timestamp,
            header.record_count,
            len(view),
            False,
            rolled,
            offsets.log_start,
        )

    def append_as_follower(
        self, records: memoryview, *, now_ms: int, leader_epoch: int
    ) -> AppendInfo:
        """Append batches as a leader has written them; see `Log.append_as_follower`."""
        view, headers = split_replicated(records, leader_epoch, self._offsets.log_end)
        if not headers:
            return self._nothing_appended()
        max_timestamp_ms = max(header.max_timestamp for header in headers)
        first_offset, last_offset = headers[0].base_offset, headers[-1].last_offset
        rolled = self._roll_if_due(len(view), max_timestamp_ms, last_offset, now_ms, first_offset)
        for header in headers:
            if header.partition_leader_epoch > self._leader_epochs.latest_epoch:
                self._leader_epochs.note(header.partition_leader_epoch, header.base_offset)
        segment = self._segments.active
        position = segment.append(view, headers)
        self._appended(segment, position, headers[-1], now_ms)
        self._record_replicated(segment, position, headers, now_ms)
        return AppendInfo(
            first_offset,
            last_offset,
            NO_TIMESTAMP,
            max_timestamp_ms,
            sum(header.record_count for header in headers),
            len(view),
            False,
            rolled,
            self._offsets.log_start,
        )

    def _check_producer(
        self,
        header: BatchHeader,
        origin: AppendOrigin,
        marker: TransactionMarker | None,
        transaction_version: int,
    ) -> RetainedBatch | None:
        if not header.is_control:
            return self._producers.check_batch(header, origin)
        if marker is not None:
            self._producers.check_marker(header, marker, transaction_version)
        return None

    def _append_marker(
        self, segment: LogSegment, view: memoryview, header: BatchHeader, marker: TransactionMarker
    ) -> int:
        """Write a marker; the index entry of an abort comes first.

        The other way round a disk that is full in between would leave a marker without an entry,
        and a clean restart would show aborted records to readers.
        """
        closed = self._producers.closed_by(header, marker)
        if closed is None or not closed.is_abort:
            return segment.append(view, (header,))
        segment.transaction_index.append(aborted_transaction(self._producers, closed))
        try:
            return segment.append(view, (header,))
        except StorageError:
            segment.transaction_index.truncate_to(header.base_offset)
            raise

    def _appended(self, segment: LogSegment, position: int, last: BatchHeader, now_ms: int) -> None:
        """Move the log end behind ``last``; the bytes that start at ``position`` are written."""
        log_end = last.base_offset + last.last_offset_delta + 1
        self._reader.remember(self._offsets.log_end, segment, position)
        self._offsets.advance_log_end(log_end)
        self._producers.end_offset = log_end
        self._flusher.appended(now_ms)

    def _record_replicated(
        self, segment: LogSegment, position: int, headers: Iterable[BatchHeader], now_ms: int
    ) -> None:
        for header in headers:
            if header.producer_id >= 0:
                marker = stored_marker(segment, header, position) if header.is_control else None
                record_stored_batch(self._producers, header, marker, now_ms, segment)
            position += header.size_bytes
        self._parts.update_first_unstable()

    def _nothing_appended(self) -> AppendInfo:
        log_start = self._offsets.log_start
        return AppendInfo(-1, -1, NO_TIMESTAMP, NO_TIMESTAMP, 0, 0, False, False, log_start)

    def _duplicate_found(self, batch: RetainedBatch) -> AppendInfo:
        return AppendInfo(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp_ms if self.config.stamps_on_append else NO_TIMESTAMP,
            batch.timestamp_ms,
            0,
            0,
            True,
            False,
            self._offsets.log_start,
        )

    def _roll_if_due(
        self,
        incoming_bytes: int,
        max_timestamp_ms: int,
        last_offset: int,
        now_ms: int,
        first_offset: int = 0,
    ) -> bool:
        segment = self._segments.active
        bounds = self._roll_bounds
        if (
            bounds is not None
            and segment.size_bytes + incoming_bytes <= bounds.max_size_bytes
            and last_offset <= bounds.max_offset
            and max_timestamp_ms <= bounds.max_timestamp_ms
            and not segment.is_index_full
        ):
            return False
        if bounds is None:
            # After a clean start its indexes are as they were sealed, without a slot to spare.
            segment.check_end()
            segment.prepare_for_appends()
        reason = should_roll(
            segment,
            self.config,
            incoming_bytes=incoming_bytes,
            incoming_max_timestamp_ms=max_timestamp_ms,
            incoming_last_offset=last_offset,
            jitter_ms=self._jitter_ms,
            now_ms=now_ms,
        )
        if reason is None:
            self._roll_bounds = roll_bounds(segment, self.config, self._jitter_ms)
            return False
        # Behind a gap, too, the new segment is named by the end of the one before, so that recovery
        # can tell a lost end from a gap; unless the offsets would not fit then.
        log_end = self._offsets.log_end
        fits = last_offset - log_end <= INT32_MAX
        self.roll_to(log_end if fits else first_offset, now_ms, reason)
        return True

    def roll_to(self, base_offset: int, now_ms: int, reason: RollReason) -> LogSegment:
        """Seal the active segment and open one at an offset; raises as `Log.roll` does."""
        sealed = self._segments.active
        assert base_offset > sealed.base_offset, (base_offset, sealed)
        # ROLL-11: an index of this name, left by a crash, would describe other data.
        remove_segment_files(self._file_system, self.directory, base_offset)
        created = LogSegment.create(
            self._file_system, self.directory, base_offset, self.config, now_ms
        )
        # Sealed only once its successor exists: on a full disk it stays the active one.
        try:
            sealed.on_become_inactive()
        except StorageError:
            # Left behind, it would come between the old segment, which records go on into, and the
            # next one: a start would count those records as damage, for being at its offsets.
            created.delete_files()
            raise
        self._segments.add(created)
        self._offsets.advance_log_end(base_offset)
        self._producers.end_offset = base_offset
        self.keep_snapshot()
        self._flusher.segment_sealed(sealed)
        self.choose_jitter()
        logger.info(
            "event=segment-rolled log=%s base_offset=%d reason=%r sealed_bytes=%d",
            self._log_name,
            base_offset,
            reason.value,
            sealed.size_bytes,
        )
        return created

    def choose_jitter(self) -> None:
        """Take note of another active segment or configuration."""
        self._roll_bounds = None
        self._jitter_ms = segment_jitter_ms(
            self.config, self._log_name, self._segments.active.base_offset
        )

    def keep_snapshot(self) -> None:
        """Put the producers' state on disk as it is now, without sync; many by the next flush."""
        producers, snapshots = self._producers, self._parts.snapshots
        if len(producers) > _PRODUCERS_AT_ONCE_MAX:
            snapshots.plan(producers.end_offset, producers.freeze())
        else:
            snapshots.write(producers.end_offset, list(producers))
