"""Reading ``__transaction_state`` back: what a partition of it says of its transactional ids."""

import logging
from typing import Final

from seglog.broker.coordinator.transaction_records import restored_transaction
from seglog.broker.coordinator.transaction_state import TransactionMetadata
from seglog.protocol.errors import ProtocolError, RecordError
from seglog.protocol.kafka.codec import decode_record_key, decode_versioned
from seglog.protocol.kafka.messages.transaction_log import TransactionLogKey, TransactionLogValue
from seglog.protocol.records.batch import RecordBatch, iter_batches

logger = logging.getLogger(__name__)

_LOGGED_FAULTS_MAX: Final = 20


class TransactionReplay:
    """The last word of one partition on every transactional id in it.

    Args:
        name: of the partition, for messages.

    Attributes:
        transactions: by transactional id.
        faults: how many batches and records could not be read.
    """

    def __init__(self, name: str) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self.faults = 0
        self._name = name

    def feed(self, data: bytes) -> int | None:
        """See ``BatchReader.feed``."""
        next_offset = None
        try:
            for batch in iter_batches(data):
                self._take_batch(batch)
                next_offset = batch.header.next_offset
        except RecordError as error:
            self.fault("batch", -1 if next_offset is None else next_offset, error)
            return None
        return next_offset

    def _take_batch(self, batch: RecordBatch) -> None:
        header = batch.header
        try:
            batch.check()
            # A coordinator writes no control batch here; whoever did says nothing of states.
            records = [] if header.is_control else batch.records()
        except RecordError as error:
            self.fault("batch", header.base_offset, error)
            return
        for record in records:
            if record.key is None:
                self.fault("record", record.offset, "it has no key")
                continue
            try:
                self._take_record(record.key, record.value)
            except ProtocolError as error:
                self.fault("record", record.offset, error)

    def _take_record(self, key: bytes, value: bytes | None) -> None:
        decoded = decode_record_key(key, TransactionLogKey)
        if decoded is None:
            return
        name = decoded.transactional_id
        if value is None:
            self.transactions.pop(name, None)
        else:
            self.transactions[name] = restored_transaction(
                name, decode_versioned(TransactionLogValue, value)
            )

    def fault(self, what: str, offset: int, reason: object) -> None:
        """Count something that could not be read, and say so."""
        self.faults += 1
        if self.faults <= _LOGGED_FAULTS_MAX:
            logger.warning(
                "event=transaction-%s-damaged partition=%s offset=%d reason=%s action=left-out",
                what,
                self._name,
                offset,
                reason,
            )
