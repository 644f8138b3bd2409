"""Idempotence and open transactions of one log."""

import tracemalloc

import pytest

from seglog.broker.storage.log.open_transactions import CompletedTransaction
from seglog.broker.storage.log.producer_entry import ProducerEntry, RetainedBatch
from seglog.broker.storage.log.producer_state import AppendOrigin, ProducerState, TransactionMarker
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import BatchHeader

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
INT32_MAX = 2**31 - 1
ABORT = TransactionMarker(is_abort=True, coordinator_epoch=4)
COMMIT = TransactionMarker(is_abort=False, coordinator_epoch=4)


def header(
    sequence: int = 0,
    count: int = 1,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    transactional: bool = False,
    control: bool = False,
    timestamp_ms: int = NOW_MS,
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=(0x10 if transactional else 0) | (0x20 if control else 0),
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


class Appender:
    """Checks and records batches as a log does."""

    def __init__(self) -> None:
        self.state = ProducerState("t-0", DAY_MS)
        self.next_offset = 0

    def append(
        self, batch: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> RetainedBatch | int:
        """The base offset of the batch, or the stored batch that it repeats."""
        duplicate = self.state.check_batch(batch, origin)
        if duplicate is not None:
            return duplicate
        base_offset = self.next_offset
        self.next_offset += batch.last_offset_delta + 1
        self.state.record_batch(batch._replace(base_offset=base_offset), NOW_MS)
        return base_offset

    def end(
        self,
        marker: TransactionMarker,
        *,
        producer_id: int = 7,
        epoch: int = 0,
        transaction_version: int = 0,
    ) -> CompletedTransaction | None:
        batch = header(-1, producer_id=producer_id, epoch=epoch, transactional=True, control=True)
        self.state.check_marker(batch, marker, transaction_version)
        stored = batch._replace(base_offset=self.next_offset)
        completed = self.state.record_marker(stored, marker, NOW_MS)
        self.next_offset += 1
        if completed is not None:
            self.state.transactions.complete(completed)
        return completed

    def refused(self, batch: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT) -> ErrorCode:
        with pytest.raises(RecordError) as refusal:
            self.append(batch, origin)
        return refusal.value.code


@pytest.fixture
def log() -> Appender:
    return Appender()


def test_any_of_the_last_five_batches_is_recognised_when_it_comes_again(log: Appender) -> None:
    """IDEM-2, IDEM-4, C050: the sixth last is refused, not stored."""
    for sequence in range(0, 18, 3):
        log.append(header(sequence, 3))
    for sequence in range(3, 18, 3):
        duplicate = log.append(header(sequence, 3))
        assert isinstance(duplicate, RetainedBatch)
        assert (duplicate.first_offset, duplicate.last_offset) == (sequence, sequence + 2)
        assert duplicate.timestamp_ms == NOW_MS
    assert log.refused(header(0, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batch_that_overlaps_a_stored_one_only_partly_is_refused(log: Appender) -> None:
    """IDEM-3."""
    log.append(header(0, 5))
    for overlapping in (header(0, 4), header(3, 5), header(4, 1)):
        assert log.refused(overlapping) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_gap_in_the_sequence_is_refused_and_leaves_no_trace(log: Appender) -> None:
    """C048, IDEM-15."""
    log.append(header(0, 15))
    assert log.refused(header(20)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(header(15)) == 15


def test_unknown_producer_may_start_at_any_sequence(log: Appender) -> None:
    """IDEM-8, C048."""
    assert log.append(header(7, 8)) == 0
    assert log.append(header(15)) == 8


def test_sequence_wraps_inside_a_batch_and_between_batches(log: Appender) -> None:
    """IDEM-5, IDEM-16."""
    wrapping = header(INT32_MAX - 10, 21)
    assert wrapping.last_sequence == 9
    log.append(wrapping)
    assert isinstance(log.append(wrapping), RetainedBatch)
    assert log.append(header(10)) == 21
    other = header(INT32_MAX, producer_id=8)
    log.append(other)
    assert log.append(header(0, producer_id=8)) == 23


def test_old_epoch_is_fenced(log: Appender) -> None:
    """IDEM-6."""
    log.append(header(0, epoch=5))
    assert log.refused(header(1, epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH
    coordinator = AppendOrigin.COORDINATOR
    assert log.refused(header(1, epoch=4), coordinator) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_new_epoch_starts_at_zero_and_forgets_the_old_batches(log: Appender) -> None:
    """IDEM-7."""
    log.append(header(0, 3))
    assert log.refused(header(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(header(0, 3, epoch=1)) == 3
    entry = log.state.get(7)
    assert entry is not None
    assert len(entry.batches) == 1


def test_replicated_batches_are_recorded_unchecked(log: Appender) -> None:
    """IDEM-10."""
    for offset, sequence in enumerate((5, 5, 99)):
        stored = header(sequence, epoch=5)._replace(base_offset=offset)
        log.state.record_batch(stored, NOW_MS)
    entry = log.state.get(7)
    assert entry is not None
    assert [batch.first_offset for batch in entry.batches] == [0, 1, 2]


def test_coordinator_appends_skip_sequence_checks(log: Appender) -> None:
    """IDEM-11."""
    coordinator = AppendOrigin.COORDINATOR
    log.append(header(5), coordinator)
    assert log.append(header(5), coordinator) == 1


def test_producer_expires_after_silence_but_not_with_open_transaction(log: Appender) -> None:
    """IDEM-13."""
    log.append(header(0))
    log.append(header(0, producer_id=8, transactional=True))
    assert log.state.expire(NOW_MS + DAY_MS - 1) == 0
    assert log.state.expire(NOW_MS + DAY_MS) == 1
    assert log.state.get(7) is None
    assert log.state.get(8) is not None


def test_import_of_old_data_keeps_its_protection(log: Appender) -> None:
    """Deviation from Kafka: the broker's clock decides, not the record timestamps."""
    old = header(0, timestamp_ms=NOW_MS - 3650 * DAY_MS)
    log.append(old)
    assert log.state.expire(NOW_MS + 1) == 0
    assert isinstance(log.append(old), RetainedBatch)


def test_first_transactional_batch_opens_a_transaction(log: Appender) -> None:
    """TXN-1, TXN-3."""
    log.append(header(0, 10))
    log.append(header(0, 3, producer_id=8, transactional=True))
    log.append(header(3, 3, producer_id=8, transactional=True))
    assert log.state.transactions.first_unstable_offset() == 10
    assert log.state.transactions.in_order() == [(8, 10)]
    completed = log.end(COMMIT, producer_id=8)
    assert completed == CompletedTransaction(8, 10, 16, is_abort=False)
    assert log.state.transactions.in_order() == []


def test_plain_batch_inside_a_transaction_is_refused(log: Appender) -> None:
    """TXN-2."""
    log.append(header(0, transactional=True))
    assert log.refused(header(1)) is ErrorCode.INVALID_TXN_STATE


def test_marker_without_transaction_closes_nothing(log: Appender) -> None:
    """TXN-3."""
    log.append(header(0))
    assert log.end(ABORT) is None
    assert log.state.transactions.first_unstable_offset() is None


def test_marker_of_an_old_epoch_or_coordinator_is_fenced(log: Appender) -> None:
    """TXN-4, TXN-5."""
    log.append(header(0, epoch=5, transactional=True))
    with pytest.raises(RecordError) as refusal:
        log.end(COMMIT, epoch=4)
    assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    log.end(COMMIT, epoch=5)
    with pytest.raises(RecordError) as refusal:
        log.end(TransactionMarker(is_abort=False, coordinator_epoch=3), epoch=5)
    assert refusal.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_second_version_of_transactions_wants_a_higher_marker_epoch(log: Appender) -> None:
    """TXN-4: an equal epoch is a retry only when no transaction is open."""
    log.append(header(0, epoch=5, transactional=True))
    with pytest.raises(RecordError):
        log.end(COMMIT, epoch=5, transaction_version=2)
    assert log.end(COMMIT, epoch=6, transaction_version=2) is not None
    assert log.end(COMMIT, epoch=6, transaction_version=2) is None


def test_marker_that_bumps_the_epoch_restarts_the_sequence(log: Appender) -> None:
    """TXN-6, IDEM-9."""
    log.append(header(0, 3, transactional=True))
    log.end(ABORT, epoch=1)
    refused = log.refused(header(3, epoch=1, transactional=True))
    assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(header(0, epoch=1, transactional=True)) == 4


def test_marker_of_the_same_epoch_keeps_the_sequence(log: Appender) -> None:
    log.append(header(0, 3, transactional=True))
    log.end(COMMIT)
    assert log.append(header(3, transactional=True)) == 4


def test_closed_transaction_is_unstable_until_the_high_watermark_passes_its_marker(
    log: Appender,
) -> None:
    """TXN-8, HW-6."""
    log.append(header(0, 3, transactional=True))
    log.end(ABORT)
    assert log.state.transactions.first_unstable_offset() == 0
    log.state.transactions.acknowledge(3)
    assert log.state.transactions.first_unstable_offset() == 0
    log.state.transactions.acknowledge(4)
    assert log.state.transactions.first_unstable_offset() is None
    assert not log.state.transactions


def test_last_stable_after_abort_is_the_earliest_other_transaction(log: Appender) -> None:
    """TXN-7."""
    log.append(header(0, transactional=True, producer_id=1))
    log.append(header(0, transactional=True, producer_id=2))
    log.append(header(0, transactional=True, producer_id=3))
    transactions = log.state.transactions
    assert transactions.last_stable_after(CompletedTransaction(1, 0, 3, is_abort=True)) == 1
    assert transactions.last_stable_after(CompletedTransaction(2, 1, 3, is_abort=True)) == 0
    log.end(ABORT, producer_id=1)
    log.end(ABORT, producer_id=3)
    assert transactions.last_stable_after(CompletedTransaction(2, 1, 5, is_abort=True)) == 6


def test_compaction_learns_the_newest_trace_of_each_producer(log: Appender) -> None:
    """KEEP-9."""
    log.append(header(0, 3, transactional=True))
    log.end(COMMIT, producer_id=9, epoch=2)
    records = log.state.last_records()
    assert (records[7].last_data_offset, records[7].producer_epoch) == (2, 0)
    assert (records[9].last_data_offset, records[9].producer_epoch) == (-1, 2)


def test_reset_restores_open_transactions_in_offset_order(log: Appender) -> None:
    """SNAP-3."""
    entries = [
        ProducerEntry(1, 0, open_transaction_offset=50),
        ProducerEntry(2, 0, open_transaction_offset=30),
        ProducerEntry(3, 0),
    ]
    log.append(header(0, transactional=True))
    log.state.reset(60, entries)
    assert log.state.transactions.in_order() == [(2, 30), (1, 50)]
    assert log.state.end_offset == 60
    assert len(log.state) == 3


def test_producers_that_send_one_batch_fill_the_memory() -> None:
    """C048: each connection of some programs is a new producer: a hundred thousand a day."""
    appender = Appender()
    tracemalloc.start()
    try:
        for producer_id in range(1000):
            appender.append(header(producer_id=producer_id))
        used_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used_bytes / 1000 < 700
