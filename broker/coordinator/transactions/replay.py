"""Reading ``__transaction_state`` back: what a partition of it says of its transactional ids."""

from seglog.broker.coordinator.internal_topics.reading import TopicReplay
from seglog.broker.coordinator.transactions.records import restored_transaction
from seglog.broker.coordinator.transactions.state import TransactionMetadata
from seglog.protocol.kafka.codec import decode_record_key, decode_versioned
from seglog.protocol.kafka.messages.transaction_log import TransactionLogKey, TransactionLogValue
from seglog.protocol.records.batch import RecordBatch


class TransactionReplay(TopicReplay):
    """The last word of one partition on every transactional id in it.

    Args:
        name: of the partition, for messages.

    Attributes:
        transactions: by transactional id.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.transactions: dict[str, TransactionMetadata] = {}

    def take_marker(self, batch: RecordBatch) -> None:
        """A coordinator writes no control batch here; any other one says nothing of states."""

    def take_record(
        self,
        batch: RecordBatch,  # noqa: ARG002 - part of the signature
        offset: int,  # noqa: ARG002 - part of the signature
        key: bytes,
        value: bytes | None,
    ) -> None:
        """The last word on a transactional id."""
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
