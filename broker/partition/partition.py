"""A partition: the face that one log shows to requests.

The log itself is synchronous and knows no waiting and no other replicas. The partition adds the
effects of an append: it asks for a sync when ``flush.messages`` says so or a segment was rolled,
and the append counts as done once all promises of its acknowledgement hold. The high watermark
moves (``move_high_watermark``) when the log has grown, or with ``flush.messages=1`` when a sync is
done, as far as the replicas allow; then readers that wait are woken.

Everything runs on the event-loop thread. Nothing here suspends; long work is a future.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from seglog.broker.errors import RequestError
from seglog.broker.partition.counters import BrokerCounters, TopicCounters
from seglog.broker.partition.group_commit import GroupCommit
from seglog.broker.partition.replicas import ReplicaState
from seglog.broker.partition.waiters import FetchWaiters, OffsetWaiters
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.layout import INTERNAL_TOPICS
from seglog.broker.storage.log.append import AppendInfo, PreparedAppend
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT32_MAX, NO_LEADER_EPOCH, Acks, TopicPartition

logger = logging.getLogger(__name__)

_WARNING_INTERVAL_MS: Final = 60_000


class PartitionServices:
    """What all partitions of a broker share.

    Args:
        sync_pool_of: the threads that sync segments in a data directory, by its path.
        counters: of the broker.
        on_storage_failure: told when the disk under a partition fails, or is full.
    """

    __slots__ = ("counters", "on_storage_failure", "sync_pool_of")

    def __init__(
        self,
        sync_pool_of: Callable[[str], WorkerPool],
        counters: BrokerCounters,
        on_storage_failure: Callable[["Partition", StorageError], None],
    ) -> None:
        self.sync_pool_of = sync_pool_of
        self.counters = counters
        self.on_storage_failure = on_storage_failure


class Partition:
    """One partition that this broker leads.

    Attributes:
        log: its log; reads go there directly.
        log_dir: the data directory of the log.
        damage: damage that a read has found in its log; empty if there is none.
        is_closed: whether it was deleted or its directory has failed.
        leader_epoch: the term in which this broker leads it.
        fetch_waiters: parked fetches.
        counters: of its topic.
        is_internal: whether only the broker itself may write to it.
    """

    __slots__ = (
        "_closed_because",
        "_commit_waiters",
        "_group_commit",
        "_services",
        "_warned_ms",
        "counters",
        "damage",
        "fetch_waiters",
        "is_closed",
        "is_internal",
        "leader_epoch",
        "log",
        "log_dir",
        "replicas",
    )

    def __init__(
        self,
        log: Log,
        log_dir: LogDir,
        replicas: ReplicaState,
        counters: TopicCounters,
        services: PartitionServices,
    ) -> None:
        self.log = log
        self.log_dir = log_dir
        self.damage = ""
        self.is_closed = False
        self._closed_because: Exception | None = None
        self.replicas = replicas
        self.counters = counters
        self.is_internal = log.topic_partition.topic in INTERNAL_TOPICS
        self.leader_epoch = max(log.leader_epoch_floor, log.leader_epochs.latest_epoch)
        self.fetch_waiters = FetchWaiters()
        self._commit_waiters = OffsetWaiters()
        self._services = services
        self._warned_ms = 0
        self._group_commit = GroupCommit(
            log,
            services.sync_pool_of(log_dir.path),
            self._synced,
            self._sync_failed,
            services.counters,
        )
        # After a kill the end of the log may be in memory only: readers have to wait for a sync.
        self.settings_changed()

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        return self.log.topic_partition

    @property
    def min_in_sync_count(self) -> int:
        """How many replicas acks=all needs in sync: no more than there are (APP-27)."""
        return min(self.log.config.min_insync_replicas, len(self.replicas.replica_ids))

    def append(
        self,
        records: memoryview,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append one batch of a client or a coordinator, and move its waiters along.

        Raises:
            RecordError: the batch was refused; nothing was written.
            DiskFullError: no room for this batch; the log goes on.
            StorageError: the disk failed, and the log directory is offline from now on.
        """
        self._check_writable(acks)
        try:
            info = self.log.append(
                records, now_ms=now_ms, leader_epoch=self.leader_epoch, origin=origin
            )
        except StorageError as error:
            self._storage_failed(error)
            raise
        self._appended(info, now_ms)
        self.move_high_watermark()
        return info

    def append_marker(
        self, marker: memoryview, now_ms: int, transaction_version: int
    ) -> AppendInfo:
        """Append the control batch that ends a transaction; raises as ``append`` does.

        Args:
            marker: one batch.
            now_ms: wall clock.
            transaction_version: from 2 on its epoch has to be above that of the records (TXN-4).
        """
        self._check_writable(Acks.ALL)
        try:
            info = self.log.append(
                marker,
                now_ms=now_ms,
                leader_epoch=self.leader_epoch,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=transaction_version,
            )
        except StorageError as error:
            self._storage_failed(error)
            raise
        self._appended(info, now_ms)
        self.move_high_watermark()
        return info

    def append_prepared(self, prepared: PreparedAppend, acks: int, now_ms: int) -> AppendInfo:
        """Append a batch that was validated elsewhere; raises as ``append`` does."""
        self._check_writable(acks)
        try:
            info = self.log.append_prepared(prepared, now_ms=now_ms, leader_epoch=self.leader_epoch)
        except StorageError as error:
            self._storage_failed(error)
            raise
        self._appended(info, now_ms)
        self.move_high_watermark()
        return info

    def acknowledgement(self, info: AppendInfo, acks: int) -> "asyncio.Future[None] | None":
        """The future that the answer to an append has to wait for; None if it may be given at once.

        With ``flush.messages`` = N an answer is given only while fewer than N records are not on
        disk, so 1 means that an acknowledged record is. For acks=all the high watermark has to pass
        the batch as well. The future may be shared: do not cancel it.
        """
        flushed = self._group_commit.commit() if self._has_to_flush else None
        end = info.last_offset + 1
        # If the replicas allow it already, the sync moves the high watermark behind the batch.
        if acks != Acks.ALL or self.replicas.high_watermark(end) >= end:
            return flushed
        committed = self._commit_waiters.wait_for(end)
        return committed if flushed is None else _both(flushed, committed)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Judge the leader epoch that a client believes in, -1 if it does not say (FETCH-7).

        Raises:
            RequestError: it is older or newer than this partition's.
        """
        if current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        is_old = current_leader_epoch < self.leader_epoch
        raise RequestError(
            ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"the leader epoch of {self.topic_partition} is {self.leader_epoch}, "
            f"not {current_leader_epoch}",
        )

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to ``epoch`` and the offset where it ended; (-1, -1) if unknown."""
        log_end = self.log.offsets.log_end
        epochs = self.log.leader_epochs
        if epoch == self.leader_epoch:
            # Noted with its first batch only; a reader of a log that has none has missed nothing.
            return epoch, log_end
        latest = epochs.latest_epoch
        if latest < epoch < self.leader_epoch:
            # A power cut has taken all that was written in it, or retention. Its reader is to go on
            # at the end, not to hear of an unknown offset and begin at the start of the log.
            return epoch if latest == NO_LEADER_EPOCH else latest, log_end
        found = epochs.end_offset_for(epoch, log_end)
        return found.epoch, found.start_offset

    def available_bytes(self, offset: int, max_bytes: int, isolation: FetchIsolation) -> int:
        """How much a reader at ``offset`` could be given now, at most ``max_bytes``.

        An offset outside of the log counts as more than any reader asks for: the reader has to hear
        of it at once.
        """
        offsets = self.log.offsets
        if not offsets.log_start <= offset <= offsets.log_end:
            return INT32_MAX
        try:
            return min(max_bytes, self.log.readable_bytes_from(offset, isolation))
        except StorageError as error:
            # Its reader looks for itself, and is told; the append that has moved us is not.
            logger.debug("event=fetch-woken log=%s error=%s", self.topic_partition, error)
            return INT32_MAX

    def flush(self) -> "asyncio.Future[None]":
        """Sync everything that was appended so far."""
        return self._group_commit.flush()

    def flush_if_due(self, now_ms: int) -> None:
        """Sync records that have waited for ``flush.ms``, or found no room the last time."""
        if self.log.is_flush_due(now_ms) or self._group_commit.found_no_room:
            self._group_commit.flush()

    def roll(self, now_ms: int) -> int:
        """Begin a new segment; the base offset of the active one, unchanged if that is empty.

        Raises:
            StorageError: the files could not be made.
        """
        self._check_open()
        try:
            segment = self.log.roll(now_ms)
        except StorageError as error:
            self._storage_failed(error)
            raise
        self._rolled()
        self.fetch_waiters.recount()
        return segment.base_offset

    def roll_if_overdue(self, now_ms: int) -> None:
        """Begin a new segment where only time asks for it (``max.compaction.lag.ms``)."""
        if self.is_closed:
            return
        try:
            rolled = self.log.roll_if_overdue_for_compaction(now_ms)
        except StorageError as error:
            logger.warning("event=roll-failed log=%s error=%s", self.topic_partition, error)
            self._storage_failed(error)
            return
        if rolled:
            self._rolled()

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset, -1 for the high watermark; returns the new one.

        Raises:
            OffsetOutOfRangeError: the offset is above the high watermark or below -1.
        """
        low_watermark = self.log.delete_records_before(offset)
        # A reader that waits below the new start has to hear of it.
        self.fetch_waiters.recount()
        return low_watermark

    def move_high_watermark(self) -> None:
        """Show safe records to readers: to be called when log, disk or replicas have moved.

        With ``flush.messages=1`` records on disk are safe. A reader that got more would go on
        behind records which a power cut takes away, and never hear of those that take their place.
        The high watermark never moves back: the shown records were safe by the rules of then.
        """
        log = self.log
        offsets = log.offsets
        is_synced_first = log.config.flush_messages == 1
        own_end = offsets.recovery_point if is_synced_first else offsets.log_end
        high_watermark = self.replicas.high_watermark(own_end)
        if high_watermark > offsets.high_watermark and log.set_high_watermark(high_watermark):
            self._commit_waiters.advance(offsets.high_watermark)
            if self.fetch_waiters:
                self.fetch_waiters.recount()

    def settings_changed(self) -> None:
        """Look again at what ``flush.messages`` asks for."""
        if self._has_to_flush:
            self._group_commit.flush()
        self.move_high_watermark()

    def close(self, error: Exception) -> None:
        """Let everything go that waits; readers look again and find what happened."""
        self.is_closed = True
        self._closed_because = error
        self.fetch_waiters.wake_all()
        self._commit_waiters.fail(error)
        self._group_commit.close(error)

    @property
    def _has_to_flush(self) -> bool:
        offsets = self.log.offsets
        unsynced_records = offsets.log_end - offsets.recovery_point
        return unsynced_records >= self.log.config.flush_messages

    def _check_open(self) -> None:
        # What waited for a sync is woken by the close, and would go on with the next append or
        # roll on the loop while a worker closes the log.
        if self._closed_because is not None:
            raise self._closed_because

    def _check_writable(self, acks: int) -> None:
        self._check_open()
        refusal = self.log_dir.refusal
        if refusal is not None:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, refusal)
        if acks != Acks.ALL:
            return
        wanted = self.min_in_sync_count
        if self.replicas.in_sync_count < wanted:
            raise RequestError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {self.replicas.in_sync_count} replicas in sync, "
                f"{wanted} are needed by min.insync.replicas",
            )

    def _appended(self, info: AppendInfo, now_ms: int) -> None:
        if info.is_duplicate:
            return
        log = self.log
        counters = self.counters
        counters.messages_in += info.record_count
        counters.bytes_in += info.bytes
        if info.rolled:
            self._rolled()
        age_ms = now_ms - info.max_timestamp_ms
        if age_ms < 0 or age_ms > log.config.retention_ms:
            self._count_odd_timestamp(info, now_ms)

    def _rolled(self) -> None:
        # ROLL-10: the sealed segment goes to disk soon, and no append waits for it.
        self._services.counters.segment_rolls += 1
        self._group_commit.flush_below(self.log.segments.active.base_offset)

    def _count_odd_timestamp(self, info: AppendInfo, now_ms: int) -> None:
        """Count records whose timestamps keep them for ever, or have already expired them."""
        config = self.log.config
        if info.max_timestamp_ms > now_ms:
            self.counters.future_records += info.record_count
            finding = "future"
        elif (
            config.retention_ms >= 0
            and info.max_timestamp_ms >= 0
            and "delete" in config.cleanup_policy
        ):
            self.counters.expired_records += info.record_count
            finding = "expired-on-arrival"
        else:
            return
        if now_ms - self._warned_ms >= _WARNING_INTERVAL_MS:
            self._warned_ms = now_ms
            logger.warning(
                "event=odd-timestamps finding=%s partition=%s offset=%d timestamp_ms=%d now_ms=%d",
                finding,
                self.topic_partition,
                info.first_offset,
                info.max_timestamp_ms,
                now_ms,
            )

    def _storage_failed(self, error: StorageError) -> None:
        # The folder of a deleted topic is renamed under a sync that is still running. A file that
        # this sync then misses says nothing about the disk.
        if not self.is_closed:
            self._services.on_storage_failure(self, error)

    def _synced(self) -> None:
        if self.log.config.flush_messages == 1:
            self.move_high_watermark()

    def _sync_failed(self, error: BaseException) -> None:
        if isinstance(error, StorageError):
            self._storage_failed(error)


def _both(first: "asyncio.Future[None]", second: "asyncio.Future[None]") -> "asyncio.Future[None]":
    """Done when both are, without cancelling either; fails as soon as one does."""
    both: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(done: "asyncio.Future[None]") -> None:
        if both.done():
            return
        error = done.exception()
        if error is not None:
            both.set_exception(error)
        elif first.done() and second.done():
            both.set_result(None)

    first.add_done_callback(look)
    second.add_done_callback(look)
    return both
