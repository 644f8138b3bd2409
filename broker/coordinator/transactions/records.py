"""The records of ``__transaction_state``: one a transactional id, with all that is known of it."""

from typing import Final

from seglog.broker.coordinator.internal_topics.records import Place, StoredRecord
from seglog.broker.coordinator.transactions.state import TransactionMetadata, TransactionState
from seglog.protocol.errors import ProtocolError
from seglog.protocol.kafka.codec import encode_record_key, encode_versioned
from seglog.protocol.kafka.messages.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

_VALUE_VERSION: Final = 1
_STATE_NUMBERS: Final = {state: number for number, state in enumerate(TransactionState)}
_STATES: Final = dict(enumerate(TransactionState))


def transaction_record(metadata: TransactionMetadata) -> StoredRecord:
    """The record that stores the state of a transactional id.

    Raises:
        ProtocolError: its name is too long for its field.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=-1,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=_STATE_NUMBERS[metadata.state],
        # As in Kafka: an empty list where there may be partitions, null where there cannot.
        transaction_partitions=(
            None
            if metadata.state is TransactionState.EMPTY
            else [
                PartitionsSchema(topic=topic, partition_ids=partitions)
                for topic, partitions in topics.items()
            ]
        ),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.started_ms,
        client_transaction_version=metadata.client_version,
    )
    return _key(metadata.transactional_id), encode_versioned(value, _VALUE_VERSION)


def transaction_tombstone(transactional_id: str) -> StoredRecord:
    """The record that deletes a transactional id."""
    return _key(transactional_id), None


def restored_transaction(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """A transactional id as its record has it.

    Raises:
        ProtocolError: its state is none that is ever stored.
    """
    state = _STATES.get(value.transaction_status)
    if state in (None, TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise ProtocolError(
            f"transaction status {value.transaction_status} of {transactional_id!r} is never stored"
        )
    assert state is not None
    places: frozenset[Place] = frozenset(
        (entry.topic, partition)
        for entry in value.transaction_partitions or ()
        for partition in entry.partition_ids
    )
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        places,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _key(transactional_id: str) -> bytes:
    return encode_record_key(TransactionLogKey(transactional_id=transactional_id))
