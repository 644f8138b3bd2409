"""The log of one partition: the single owner of its segments, offsets and producer state.

Synchronous and without locks: every method runs on the thread that owns the log, except for objects
handed out to other threads (`FlushTicket.run`, file slices, sealed segments). The log decides first
and writes second, so that a refused append leaves nothing on disk or in memory.

The parts: ``append`` prepares a batch, ``writer`` writes it, ``reader`` reads, ``timestamp_lookup``
finds by time, ``flush`` syncs, ``exchange`` exchanges segments, ``loader`` opens a log.
"""

import logging
from collections.abc import Sequence

from seglog.broker.storage.errors import DiskFullError, OffsetOutOfRangeError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import LEADER_EPOCH_CHECKPOINT
from seglog.broker.storage.log.append import AppendInfo, PreparedAppend, prepare_append
from seglog.broker.storage.log.exchange import Exchange, take_away
from seglog.broker.storage.log.exchanges import LogExchanges
from seglog.broker.storage.log.flush import LogFlusher
from seglog.broker.storage.log.flush_ticket import FlushTicket
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.broker.storage.log.reader import FetchData, FetchIsolation, LogReader
from seglog.broker.storage.log.removed_names import RemovedNames
from seglog.broker.storage.log.retention import DeletionReason, RetentionBounds, deletable_segments
from seglog.broker.storage.log.roll_policy import RollReason, is_overdue_for_compaction
from seglog.broker.storage.log.timestamp_lookup import TimestampLookup
from seglog.broker.storage.log.truncation import LogTruncator, Truncation
from seglog.broker.storage.log.writer import LogWriter
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.time_index import TimestampOffset
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.config.log_config import LogConfig
from seglog.protocol.types import TopicPartition

__all__ = ["AppendInfo", "AppendOrigin", "FetchData", "FetchIsolation", "FlushTicket", "Log"]

logger = logging.getLogger(__name__)


class Log:
    """One partition's log.

    Attributes:
        topic_partition: whose log it is.
        directory: its folder.
        topic_id: of the topic, None if the folder does not say.
        config: of the topic; see `update_config`.
        offsets: read them, but change them only through the log.
        segments: read them, but change them only through the log.
        leader_epochs: which leader wrote what.
        producer_state: idempotence and open transactions.
        leader_epoch_floor: the least epoch in which this broker leads it; see `LogDir`.
        closed_as: the entry of `closed_logs` that it was opened from, while that holds.
        removed_names: of segments that retention has taken away.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        parts: LogParts,
        *,
        topic_id: bytes | None = None,
        was_closed: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id = topic_id
        self.config = config
        self.segments = parts.segments
        self.offsets = parts.offsets
        self.leader_epochs = parts.leader_epochs
        self.producer_state = parts.producers
        self.leader_epoch_floor = 0
        self.closed_as: bytes | None = None
        self.removed_names = RemovedNames(file_system)
        self._file_system = file_system
        self._parts = parts
        self._snapshots = parts.snapshots
        self._reader = LogReader(self.segments, self.offsets)
        self._lookup = TimestampLookup(
            self.segments, self.offsets, self.leader_epochs, self._reader
        )
        self._flusher = LogFlusher(file_system, parts)
        self._writer = LogWriter(
            file_system, directory, str(topic_partition), config, parts,
            reader=self._reader, flusher=self._flusher,
        )  # fmt: skip
        self._reported_future: LogSegment | None = None
        self._closed_end = parts.offsets.log_end if was_closed else None
        self._closed_active = parts.segments.active
        self._truncator = LogTruncator(
            file_system, str(topic_partition), parts, self._flusher, self._reader, self._writer
        )
        self._exchanges = LogExchanges(
            file_system, str(topic_partition), parts, self._flusher, self._reader
        )
        self.segments.begin_serving()
        parts.update_first_unstable()

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.offsets!r}, segments={len(self.segments)})"

    @property
    def segment_bytes_total(self) -> int:
        """Bytes of batches in all segments."""
        return self.segments.size_bytes

    # ---- appending

    def append(
        self,
        records: memoryview,
        *,
        now_ms: int,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Validate and append the one batch in ``records``; its bytes are changed in place.

        Raises:
            RecordError: the batch was refused; nothing was written.
            DiskFullError: no room; nothing was kept, and the log goes on.
            StorageError: the disk failed.
        """
        prepared = prepare_append(records, self.config, now_ms, origin)
        return self.append_prepared(
            prepared,
            now_ms=now_ms,
            leader_epoch=leader_epoch,
            transaction_version=transaction_version,
        )

    def append_prepared(
        self,
        prepared: PreparedAppend,
        *,
        now_ms: int,
        leader_epoch: int,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append a batch that `prepare_append` has validated; raises as `append` does."""
        self._truncator.check_at_rest()
        return self._writer.append_prepared(
            prepared,
            now_ms=now_ms,
            leader_epoch=leader_epoch,
            transaction_version=transaction_version,
        )

    def append_as_follower(
        self, records: memoryview, *, now_ms: int, leader_epoch: int
    ) -> AppendInfo:
        """Append batches as a leader has written them, with their offsets (APP-20, APP-21).

        Args:
            leader_epoch: of the leader that this replica follows; batches of a newer one wait.

        Raises:
            RecordError: a batch is damaged; nothing was written.
            UnexpectedOffsetError: the offsets do not ascend from the log end.
            StorageError: the disk failed.
        """
        self._truncator.check_at_rest()
        return self._writer.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch)

    def roll(self, now_ms: int) -> LogSegment:
        """Seal the active segment and open the next one; an empty one stays as it is.

        Raises:
            StorageError: the files could not be made; the log goes on with the old segment.
        """
        self._truncator.check_at_rest()
        active = self.segments.active
        if active.size_bytes == 0:
            return active
        return self._writer.roll_to(self.offsets.log_end, now_ms, RollReason.REQUESTED)

    def roll_if_overdue_for_compaction(self, now_ms: int) -> bool:
        """Roll a compacted log whose active segment has passed ``max.compaction.lag.ms`` (CLN-16).

        Nothing else would: without appends no roll for age is ever decided (ROLL-3).
        """
        active = self.segments.active
        if self._truncator.is_under_way or not is_overdue_for_compaction(
            active, self.config, now_ms
        ):
            return False
        self._writer.roll_to(self.offsets.log_end, now_ms, RollReason.AGE)
        return True

    # ---- reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: FetchIsolation,
        min_one_message: bool = True,
    ) -> FetchData:
        """Read batches from an offset on; see `LogReader.read`."""
        return self._reader.read(
            offset, max_bytes, isolation=isolation, min_one_message=min_one_message
        )

    def readable_bytes_from(self, offset: int, isolation: FetchIsolation) -> int:
        """How many bytes a reader at an offset could get (FETCH-5); two searches."""
        return self._reader.readable_bytes_from(offset, isolation)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK
    ) -> TimestampOffset | None:
        """Find an offset by time or by a special value; see `TimestampLookup.find`."""
        return self._lookup.find(
            timestamp_ms, isolation, self.config.max_decompressed_message_bytes
        )

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap ``[from_offset, to_offset)``."""
        return self._reader.aborted_transactions(from_offset, to_offset)

    # ---- bounds

    def set_high_watermark(self, offset: int) -> bool:
        """Set the high watermark, held between log start and log end; True if it changed."""
        changed = self.offsets.set_high_watermark(offset)
        if changed and self.producer_state.transactions:
            self._parts.update_first_unstable()
        return changed

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start to ``offset`` (-1: the high watermark); returns the log start.

        Files go with the next retention pass, and only wholly obsolete ones (DEL-6).

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark or below -1.
        """
        self._raise_log_start(self.log_start_for(offset))
        return self.offsets.log_start

    def log_start_for(self, offset: int) -> int:
        """The log start that ``delete_records_before`` would give; raises the same errors."""
        offsets = self.offsets
        target = offsets.high_watermark if offset == -1 else offset
        if target < 0 or target > offsets.high_watermark:
            raise OffsetOutOfRangeError(offset, offsets.log_start, offsets.high_watermark)
        return max(target, offsets.log_start)

    def follow_log_start(self, offset: int) -> bool:
        """Raise the log start to that of a leader (FOL-7); whether it moved.

        Raises:
            OffsetOutOfRangeError: the leader begins above the end of this log, which has nothing
                in common with it any more and has to begin anew there (`begin_restart`).
        """
        offsets = self.offsets
        if offset > offsets.log_end:
            raise OffsetOutOfRangeError(offset, offsets.log_start, offsets.log_end)
        before = offsets.log_start
        self._raise_log_start(offset)
        return offsets.log_start > before

    def _raise_log_start(self, offset: int) -> None:
        if not self.offsets.advance_log_start(offset):
            return
        self.leader_epochs.truncate_from_start(offset)
        self.producer_state.raise_log_start(offset)
        self._parts.update_first_unstable()

    # ---- retention

    def is_start_in_doubt(self, log_start: int) -> bool:
        """Whether only a checkpoint keeps the log from beginning below an offset at a start.

        That is so within a segment, and while a power cut may bring segments back (DEL-8).
        """
        first, on_disk = self.segments.first, self.removed_names.lowest_on_disk()
        if first is not None and log_start > first.base_offset:
            return True
        return on_disk is not None and log_start > on_disk

    def deletable_segments(self, now_ms: int) -> list[tuple[LogSegment, DeletionReason]]:
        """The segments that retention would delete now, oldest first; changes nothing."""
        offsets = self.offsets
        bounds = RetentionBounds(offsets.log_start, offsets.high_watermark, offsets.log_end)
        found = deletable_segments(tuple(self.segments), self.config, bounds, now_ms)
        if not found:
            self._report_future_timestamps(now_ms)
        return found

    def _report_future_timestamps(self, now_ms: int) -> None:
        """Say, once per segment, that timestamps ahead of the clock hold retention back (RET-5)."""
        first = self.segments.first
        if first is None or first is self._reported_future or self.config.retention_ms < 0:
            return
        if self.config.deletes and first.largest_timestamp_ms > now_ms:
            self._reported_future = first
            logger.warning(
                "event=future-timestamps log=%s base_offset=%d largest_timestamp_ms=%d now_ms=%d",
                self.topic_partition,
                first.base_offset,
                first.largest_timestamp_ms,
                now_ms,
            )

    def pass_over_segments(self, doomed: Sequence[LogSegment], now_ms: int) -> list[LogSegment]:
        """Let the log begin behind segments that are to go, so that no reader looks for them.

        Args:
            doomed: the oldest segments, as `deletable_segments` gives them.

        Returns:
            Those that the log start is above of; not the active one where a full disk leaves no
            room for the next one, none while the segments have to stand still (RET-9).
        """
        if not doomed or self._truncator.is_under_way or self._exchanges.is_under_way:
            return []
        if doomed[-1] is self.segments.active:
            try:
                self.roll(now_ms)
            except DiskFullError as error:
                # The others go, which makes room for a new segment; this one goes the next time.
                logger.warning("event=roll-failed log=%s error=%s", self.topic_partition, error)
                doomed = doomed[:-1]
                if not doomed:
                    return []
        following = self.segments.higher(doomed[-1].base_offset)
        assert following is not None, doomed
        self._snapshots.check_written(following.base_offset)
        self._raise_log_start(following.base_offset)
        return list(doomed)

    def delete_segments(self, doomed: Sequence[LogSegment], now_ms: int) -> list[LogSegment]:
        """Take segments out of the log; their files are renamed ``.deleted`` at once (RET-12).

        Slices in flight stay readable. Of several that go in one turn a power cut may bring any
        part back, so the log start behind them has to be on disk before (``log_retention``).

        Args:
            doomed: the oldest segments; see `pass_over_segments`.

        Returns:
            The removed segments; the caller has to call their ``delete_files`` later. Not all of
            them if a full disk leaves no room for a name.
        """
        doomed = self.pass_over_segments(doomed, now_ms)
        removed: list[LogSegment] = []
        for segment in doomed:
            try:
                take_away(segment)
            except DiskFullError as error:
                logger.warning(
                    "event=retention-failed log=%s error=%s", self.topic_partition, error
                )
                break
            self.segments.remove(segment.base_offset)
            self.removed_names.note(segment.base_offset)
            self._flusher.segment_removed(segment)
            self._snapshots.remove(segment.base_offset)
            removed.append(segment)
        self.closed_as = None
        self._reader.forget()
        return removed

    # ---- truncation

    @property
    def truncations(self) -> int:
        """How often its end was cut since it was opened (T10).

        Work on sealed segments in another thread compares it, since a segment that was cut may have
        grown again.
        """
        return self._truncator.count

    def begin_truncation(self, offset: int, now_ms: int) -> Truncation:
        """Begin to cut the log so that it ends at ``offset``; see `LogTruncator.begin`."""
        self._exchanges.check_at_rest()
        return self._truncator.begin(self.directory, self.config, offset, now_ms)

    def begin_restart(self, offset: int, now_ms: int, log_start: int | None = None) -> Truncation:
        """Begin to drop everything; see `LogTruncator.begin_restart`."""
        self._exchanges.check_at_rest()
        return self._truncator.begin_restart(self.directory, self.config, offset, now_ms, log_start)

    def finish_truncation(self, truncation: Truncation) -> None:
        """Go on with the rest that a finished truncation has left."""
        self._truncator.finish(truncation)

    # ---- compaction

    def begin_exchange(
        self, new: Sequence[LogSegment], old: Sequence[LogSegment]
    ) -> Exchange | None:
        """Begin to put compacted segments in the place of others; see `LogExchanges.begin`."""
        self._truncator.check_at_rest()
        self.closed_as = None
        return self._exchanges.begin(self.directory, new, old)

    def end_exchange(self, exchange: Exchange) -> None:
        """Go on after an exchange, or after one that has left nothing."""
        self._exchanges.end(exchange)

    # ---- flushing

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether records have waited for ``flush.ms`` (FLUSH-1)."""
        return self._flusher.is_due(now_ms, self.config.flush_ms)

    def begin_flush(self, upto: int | None = None) -> FlushTicket:
        """Collect the files to sync so that everything below ``upto`` (None: all) is on disk.

        A part of it where that is a lot: the ticket says how far it goes (``continues_to``).

        Raises:
            StorageError: a file cannot be opened.
        """
        up_to = self.offsets.log_end if upto is None else min(upto, self.offsets.log_end)
        return self._flusher.begin(self.directory, up_to)

    def finish_flush(self, ticket: FlushTicket) -> bool:
        """Take a ticket back that was run, failed or was given up, and move the recovery point.

        Returns:
            Whether everything below ``ticket.up_to`` is on disk now (FLUSH-3).
        """
        return self._flusher.finish(ticket)

    # ---- life cycle

    def update_config(self, config: LogConfig) -> None:
        """Take other settings from now on."""
        self.config = self._writer.config = config
        for segment in self.segments:
            segment.update_config(config)
        self._writer.choose_jitter()

    def moved(self, directory: str) -> None:
        """Take note that the log's folder was renamed."""
        self.directory = self._writer.directory = directory
        self.leader_epochs.moved(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        self._snapshots.moved(directory)
        for segment in self.segments:
            segment.files.moved(directory)

    @property
    def is_as_it_was_closed(self) -> bool:
        """Whether the disk has all that a start without recovery needs: nothing was written."""
        return (
            self._closed_end == self.offsets.log_end == self.offsets.recovery_point
            and self._closed_active is self.segments.active
            and self.truncations == 0
            and not self.leader_epochs.has_unwritten_changes
        )

    def hand_over(self) -> None:
        """Let the thread own the log that changes it next; see `ownership`."""
        self._parts.hand_over()

    def close(self) -> None:
        """Write everything that a start without recovery needs, and let the files go (FLUSH-6).

        Blocks. The log is of no further use, whether or not this succeeds.

        Raises:
            StorageError: something is not on disk; the next start has to recover.
        """
        try:
            if self.is_as_it_was_closed:
                return
            self.closed_as = None
            self._writer.keep_snapshot()
            self.segments.active.on_become_inactive()
            self._flusher.flush_for_close(self.directory)
        finally:
            self.segments.close()

    def abandon(self) -> None:
        """Let the files go as they are, after the disk has failed."""
        self._flusher.abandon()
        for segment in self.segments:
            segment.files.close()

    def delete(self) -> None:
        """Remove the folder with all that is in it; blocks. Slices in flight stay readable.

        Raises:
            StorageError: something could not be removed.
        """
        self.abandon()
        for name in self._file_system.list_directory(self.directory):
            self._file_system.unlink(f"{self.directory}/{name}", missing_ok=True)
        self._file_system.remove_directory(self.directory)
