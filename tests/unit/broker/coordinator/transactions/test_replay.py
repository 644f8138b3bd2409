"""The log of transactions is read back: every field, the last word of each id, damage left out."""

from dataclasses import replace

import pytest

from seglog.broker.coordinator.transactions.records import (
    restored_transaction,
    transaction_record,
    transaction_tombstone,
)
from seglog.broker.coordinator.transactions.replay import TransactionReplay
from seglog.broker.coordinator.transactions.state import TransactionMetadata, TransactionState
from seglog.protocol.errors import ProtocolError
from seglog.protocol.kafka.codec import decode_versioned
from seglog.protocol.kafka.messages.transaction_log import TransactionLogValue
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.control import ControlType, build_marker

EVERYTHING = TransactionMetadata(
    "x",
    7,
    3,
    60_000,
    TransactionState.PREPARE_COMMIT,
    frozenset({("t", 1), ("t", 0), ("u", 5)}),
    previous_producer_id=4,
    next_producer_id=9,
    started_ms=100,
    updated_ms=200,
    client_version=2,
)
KAFKA_VALUE = bytes.fromhex(
    # version 1: producer id, epoch, timeout, status 1, ["t": [0]], updated, started, tags 0 and 2
    "0001" "0000000000000007" "0003" "0000ea60" "01" "02" "0274" "02" "00000000" "00"
    "00000000000000c8" "0000000000000064" "02" "00" "08" "0000000000000004" "02" "02" "0002"
)  # fmt: skip


def batch_at(offset: int, *records: tuple[bytes, bytes | None]) -> bytes:
    return bytes(build_batch([(0, key, value, ()) for key, value in records], base_offset=offset))


def read(data: bytes) -> TransactionReplay:
    replay = TransactionReplay("p")
    replay.feed(data)
    return replay


def test_a_field_is_forgotten() -> None:
    """All but the last epoch, for which Kafka's record has no place."""
    for state in TransactionState:
        metadata = replace(EVERYTHING, state=state)
        if state is TransactionState.EMPTY:
            metadata = replace(metadata, partitions=frozenset())
        replay = read(batch_at(0, transaction_record(metadata)))
        if state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
            assert (replay.transactions, replay.faults) == ({}, 1)
        else:
            assert replay.transactions == {"x": metadata}


def test_a_record_of_kafka_is_read_otherwise() -> None:
    """Its bytes, put together from the declared layout by hand."""
    value = decode_versioned(TransactionLogValue, KAFKA_VALUE)
    assert restored_transaction("x", value) == TransactionMetadata(
        "x",
        7,
        3,
        60_000,
        TransactionState.ONGOING,
        frozenset({("t", 0)}),
        previous_producer_id=4,
        started_ms=100,
        updated_ms=200,
        client_version=2,
    )
    with pytest.raises(ProtocolError, match="never stored"):
        restored_transaction("x", TransactionLogValue(**{**_plain(value), "transaction_status": 9}))


def _plain(value: TransactionLogValue) -> dict[str, object]:
    return {each.name: getattr(value, each.name) for each in value.__fields__}


def test_an_old_word_wins() -> None:
    later = replace(EVERYTHING, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
    other = replace(EVERYTHING, transactional_id="other")
    data = batch_at(0, transaction_record(EVERYTHING), transaction_record(other))
    data += batch_at(2, transaction_record(later)) + batch_at(3, transaction_tombstone("other"))
    assert read(data).transactions == {"x": later}


def test_damage_ends_the_reading() -> None:
    """One record costs one transactional id; a marker that somebody wrote here says nothing."""
    key, value = transaction_record(EVERYTHING)
    marker = build_marker(
        ControlType.ABORT,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=3,
    )
    rotten = bytearray(batch_at(4, (key, value)))
    rotten[-1] ^= 1
    data = batch_at(0, (key, value), (b"", b""), (b"\0\7", b"x")) + bytes(marker) + bytes(rotten)
    replay = read(data)
    assert (replay.transactions, replay.faults) == ({"x": EVERYTHING}, 2)
