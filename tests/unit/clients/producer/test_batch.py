"""What becomes of the records of a batch."""

import pytest

from seglog.clients import InvalidRecordError, RequestTimeoutError
from seglog.clients.errors import RecordTooLargeError
from seglog.clients.producer.batch import Outcome, ProducerBatch
from seglog.clients.producer.futures import BulkDelivery, BulkFuture, DeliveryFuture
from seglog.protocol.types import TopicPartition


def batch_of(count):
    batch = ProducerBatch(TopicPartition("t", 2), 0.0, 0.0)
    batch.records = [(index, None, b"", ()) for index in range(count)]
    batch.record_count = count
    return batch


def test_every_record_learns_its_own_offset():
    batch = batch_of(3)
    futures = [DeliveryFuture(batch, index, 1000 + index) for index in range(3)]
    assert not futures[0].done()
    batch.finish(Outcome(base_offset=40))
    assert [future.result(0) for future in futures] == [
        ("t", 2, 40, 1000),
        ("t", 2, 41, 1001),
        ("t", 2, 42, 1002),
    ]
    assert batch.records == []


def test_the_brokers_clock_counts_where_it_stamps():
    batch = batch_of(1)
    batch.finish(Outcome(base_offset=7, log_append_time_ms=5555))
    assert DeliveryFuture(batch, 0, 1).result(0).timestamp_ms == 5555


def test_without_acknowledgement_there_is_no_offset():
    batch = batch_of(2)
    batch.finish(Outcome())
    assert DeliveryFuture(batch, 1, 1).result(0).offset == -1


def test_a_refused_record_is_told_from_those_that_fell_with_it():
    """C018: the error names the index that is at fault."""
    batch = batch_of(3)
    refusal = InvalidRecordError("compacted topic", record_errors=[(1, "record has no key")])
    batch.finish(Outcome(error=refusal))
    errors = [DeliveryFuture(batch, index, 0).exception(0) for index in range(3)]
    assert all(type(error) is InvalidRecordError for error in errors)
    assert "record 1 of its batch: record has no key" in str(errors[1])
    assert "in a batch with records that were refused" in str(errors[0])
    assert errors[1].record_errors == ((1, "record has no key"),)


def test_parts_decide_for_their_records():
    batch = batch_of(5)
    first, second = batch_of(2), batch_of(3)
    batch.split_into([first, second])
    assert not batch.is_done
    first.finish(Outcome(base_offset=10))
    inner = [batch_of(1), batch_of(2)]
    second.split_into(inner)
    inner[0].finish(Outcome(error=RecordTooLargeError("one record")))
    inner[1].finish(Outcome(base_offset=12))
    assert batch.is_done
    assert [batch.metadata_of(index, 0).offset for index in (0, 1, 3, 4)] == [10, 11, 12, 13]
    assert [batch.error_of(index) is None for index in range(5)] == [True, True, False, True, True]
    assert batch.failed_count == 1
    assert isinstance(batch.error, RecordTooLargeError)


def test_an_error_counts_as_seen_once_somebody_looked():
    batch = batch_of(1)
    batch.finish(Outcome(error=RequestTimeoutError("late")))
    assert not batch.is_error_seen
    with pytest.raises(RequestTimeoutError):
        DeliveryFuture(batch, 0, 0).result()
    assert batch.is_error_seen


def test_the_sum_of_many_batches():
    delivery = BulkDelivery()
    future = BulkFuture(delivery)
    batches = [batch_of(4) for _ in range(3)]
    for batch in batches:
        for index in (0, 1, 3):
            delivery.add(batch, index)
    delivery.complete()
    refusal = InvalidRecordError("no", record_errors=[(2, "not ours")])
    batches[0].finish(Outcome(base_offset=0))
    batches[1].finish(Outcome(error=refusal))
    assert not future.done()
    batches[2].finish(Outcome(base_offset=4))
    assert future.done()
    assert future.delivered_count == 6
    with pytest.raises(InvalidRecordError):
        future.result(0)
    assert batches[1].is_error_seen


def test_the_sum_of_nothing_is_there_at_once():
    delivery = BulkDelivery()
    delivery.complete()
    assert BulkFuture(delivery).result(0) == 0
