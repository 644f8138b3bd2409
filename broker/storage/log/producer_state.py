"""Idempotence and open transactions of one log.

For each producer id the log keeps its epoch, its last five batches and where its open transaction
starts. A batch is checked before it is written (`check_batch`, `check_marker`) and recorded after
it was written (`record_batch`, `record_marker`), so a refused or failed append leaves no trace.
Replicated and replayed batches are recorded without a check: they were accepted once already.

The rules are Apache Kafka's, with one deliberate difference: a producer expires
``producer.id.expiration.ms`` after the *broker's* clock last saw it, not after its last record
timestamp, so that an idempotent import of old data keeps its protection against duplicates.
"""

import logging
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from seglog.broker.storage.log.open_transactions import CompletedTransaction, OpenTransactions
from seglog.broker.storage.log.producer_entry import (
    LastProducerRecord,
    ProducerEntry,
    RetainedBatch,
    next_sequence,
)
from seglog.broker.storage.ownership import Owned, owner_only
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.types import NO_PRODUCER_EPOCH

logger = logging.getLogger(__name__)


class AppendOrigin(Enum):
    """The origin of an append to a leader: a client, or a coordinator of this broker."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class TransactionMarker(NamedTuple):
    """The outcome that a control batch states for its producer's open transaction."""

    is_abort: bool
    coordinator_epoch: int


class ProducerState(Owned):
    """All producers that one log knows.

    Args:
        log_name: of the log, for messages.
        expiration_ms: how long after its last append a producer is forgotten.

    Attributes:
        transactions: they hold back the last stable offset.
        end_offset: everything below it has been recorded.
    """

    def __init__(self, log_name: str, expiration_ms: int) -> None:
        self._log_name = log_name
        self.expiration_ms = expiration_ms
        self.transactions = OpenTransactions()
        self.end_offset = 0
        self._entries: dict[int, ProducerEntry] = {}
        self._views = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The state of one producer, None if unknown."""
        return self._entries.get(producer_id)

    @owner_only
    def freeze(self) -> tuple[ProducerEntry, ...]:
        """All producers as they are now, for another thread; who goes on gets an entry of its own.

        Costs no copies here: an entry is copied when it changes for the first time after this.
        """
        self._views += 1
        return tuple(self._entries.values())

    # Before the write

    def check_batch(self, header: BatchHeader, origin: AppendOrigin) -> RetainedBatch | None:
        """Check a data batch of a producer; returns the stored batch if it is a duplicate.

        Raises:
            RecordError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        if origin is AppendOrigin.CLIENT:
            duplicate = entry.find_duplicate(
                header.producer_epoch, header.base_sequence, header.last_sequence
            )
            if duplicate is not None:
                return duplicate
        if header.producer_epoch < entry.epoch:
            raise self._stale_epoch(header, entry)
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(header, entry)
        if entry.open_transaction_offset is not None and not header.is_transactional:
            raise RecordError(
                ErrorCode.INVALID_TXN_STATE,
                f"{self._log_name}: producer {header.producer_id} has had an open transaction "
                f"since offset {entry.open_transaction_offset} and sent a batch outside it",
            )
        return None

    def check_marker(
        self, header: BatchHeader, marker: TransactionMarker, transaction_version: int
    ) -> None:
        """Check the end marker of a transaction.

        Raises:
            RecordError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch or (
            transaction_version >= 2
            and header.producer_epoch == entry.epoch
            and entry.open_transaction_offset is not None
        ):
            raise self._stale_epoch(header, entry)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise RecordError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"{self._log_name}: marker of producer {header.producer_id} has coordinator epoch "
                f"{marker.coordinator_epoch}, epoch {entry.coordinator_epoch} was seen before",
            )

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry) -> None:
        first_sequence = header.base_sequence
        if header.producer_epoch != entry.epoch:
            # An entry without epoch carries no history: any sequence starts it.
            if first_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
                raise RecordError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"{self._log_name}: producer {header.producer_id} starts epoch "
                    f"{header.producer_epoch} (was {entry.epoch}) at sequence {first_sequence}, "
                    "expected 0",
                )
            return
        expected = next_sequence(entry.last_sequence)
        if first_sequence != expected:
            raise RecordError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"{self._log_name}: producer {header.producer_id} epoch {header.producer_epoch} "
                f"sent sequences {first_sequence} to {header.last_sequence}, expected {expected}",
            )

    def _stale_epoch(self, header: BatchHeader, entry: ProducerEntry) -> RecordError:
        return RecordError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"{self._log_name}: producer {header.producer_id} sent epoch {header.producer_epoch}, "
            f"epoch {entry.epoch} was seen before",
        )

    # After the write

    @owner_only
    def record_batch(self, header: BatchHeader, seen_ms: int) -> None:
        """Record a data batch that is in the log; ``header`` has its final base offset."""
        entry = self._entry_to_update(header)
        offset_delta = header.last_offset_delta
        last_offset = header.base_offset + offset_delta
        if header.is_transactional and entry.open_transaction_offset is None:
            entry.open_transaction_offset = header.base_offset
            self.transactions.begin(header.producer_id, header.base_offset)
        entry.remember(
            RetainedBatch(header.last_sequence, last_offset, offset_delta, header.max_timestamp)
        )
        entry.last_timestamp_ms = header.max_timestamp
        entry.seen_ms = seen_ms

    @owner_only
    def record_marker(
        self, header: BatchHeader, marker: TransactionMarker, seen_ms: int
    ) -> CompletedTransaction | None:
        """Record a marker that is in the log; returns the transaction that it closes.

        The transaction keeps holding back the last stable offset until it is completed in
        `transactions`, so that a failure to write its index entry cannot show aborted records.
        """
        completed = self.closed_by(header, marker)
        entry = self._entry_to_update(header)
        entry.open_transaction_offset = None
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp
        entry.seen_ms = seen_ms
        return completed

    def _entry_to_update(self, header: BatchHeader) -> ProducerEntry:
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, view=self._views)
            self._entries[header.producer_id] = entry
        elif entry.view != self._views:
            entry = self._entries[header.producer_id] = entry.copy_for(self._views)
        if header.producer_epoch < entry.epoch:
            logger.warning(
                "event=stale-producer-epoch log=%s epoch=%d producer_id=%d known_epoch=%d",
                self._log_name,
                header.producer_epoch,
                header.producer_id,
                entry.epoch,
            )
        entry.set_epoch(header.producer_epoch)
        return entry

    def closed_by(
        self, header: BatchHeader, marker: TransactionMarker
    ) -> CompletedTransaction | None:
        """The transaction that a marker closes once it is recorded, None if none is open."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.open_transaction_offset is None:
            return None
        return CompletedTransaction(
            header.producer_id, entry.open_transaction_offset, header.base_offset, marker.is_abort
        )

    # Bounds

    @owner_only
    def raise_log_start(self, log_start: int) -> None:
        """Forget closed transactions that ended below the log start; producers stay known."""
        self.transactions.acknowledge(log_start)
        self.end_offset = max(self.end_offset, log_start)

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """Whether the producer has been silent for too long and has no open transaction."""
        return (
            entry.open_transaction_offset is None
            and now_ms - max(entry.seen_ms, 0) >= self.expiration_ms
        )

    @owner_only
    def expire(self, now_ms: int) -> int:
        """Forget producers that have been silent for too long; returns how many (IDEM-13)."""
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if self.is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def last_records(self) -> dict[int, LastProducerRecord]:
        """The newest trace of each producer, which compaction has to keep."""
        return {
            entry.producer_id: LastProducerRecord(entry.last_data_offset, entry.epoch)
            for entry in self._entries.values()
        }

    # Replacement

    @owner_only
    def reset(self, end_offset: int, entries: Iterable[ProducerEntry] = ()) -> None:
        """Start from these producers, as they were once everything below ``end_offset`` was in."""
        self._entries = {entry.producer_id: entry for entry in entries}
        self.transactions.reset(
            (entry.open_transaction_offset, entry.producer_id)
            for entry in self._entries.values()
            if entry.open_transaction_offset is not None
        )
        self.end_offset = end_offset
