"""The numbers of batches, and what is done when the broker refuses them."""

import pytest

from seglog.clients.config import ProducerConfig
from seglog.clients.producer.batch import ProducerBatch
from seglog.clients.producer.encoding import divide, encode, renumber
from seglog.clients.producer.identity import LAST_EPOCH, ProducerIdentity, Verdict
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.types import TopicPartition

PARTITION = TopicPartition("t", 0)
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FORGOTTEN = ErrorCode.UNKNOWN_PRODUCER_ID
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


def batch_of(count):
    batch = ProducerBatch(PARTITION, 0, 0)
    batch.records = [(number, None, b"%d" % number, ()) for number in range(count)]
    batch.record_count = count
    return batch


@pytest.fixture
def identity():
    known = ProducerIdentity(is_idempotent=True)
    known.assume(7, 0)
    return known


def sent(identity, *counts):
    batches = [batch_of(count) for count in counts]
    for batch in batches:
        identity.number(batch)
    return batches


def test_numbers_belong_to_batches_and_survive_retries(identity):
    """A retry must carry the numbers of the first attempt."""
    batches = sent(identity, 3, 2, 1)
    for batch in batches:
        assert identity.number(batch) is False
    assert [batch.base_sequence for batch in batches] == [0, 3, 5]
    identity.series_of(PARTITION).next_sequence = 2**31 - 1
    assert [batch.base_sequence for batch in sent(identity, 1, 1)] == [2**31 - 1, 0]


def test_a_producer_without_idempotence_numbers_nothing():
    identity = ProducerIdentity()
    assert identity.is_known
    assert [batch.base_sequence for batch in sent(identity, 3)] == [-1]
    assert not identity.must_renew(PARTITION)


def test_a_batch_that_cannot_be_encoded_leaves_no_gap(identity):
    config = ProducerConfig(compression="gzip", compression_level=99)
    batch = batch_of(3)
    with pytest.raises(ValueError, match="level"):
        encode(batch, config, identity)
    assert [batch.base_sequence for batch in (batch, *sent(identity, 1))] == [-1, 0]


def test_a_batch_behind_others_waits_for_them(identity):
    _, second = sent(identity, 1, 1)
    for code in (OUT_OF_ORDER, FORGOTTEN, FENCED):
        assert identity.judge(second, code, is_first=False) is Verdict.WAIT
    assert not identity.must_renew(PARTITION)


def test_what_follows_a_batch_that_was_given_up_is_numbered_anew(identity):
    """The gap is ours: nothing that was promised is missing."""
    first, second = sent(identity, 2, 3)
    identity.given_up(first)
    assert identity.judge(second, OUT_OF_ORDER, is_first=True) is Verdict.RENEW
    assert identity.must_renew(PARTITION)
    series = identity.renew(PARTITION)
    renumber(second, identity, series)
    assert (series.producer_id, series.epoch, second.base_sequence) == (7, 1, 0)
    assert not identity.must_renew(PARTITION)
    assert identity.judge(second, OUT_OF_ORDER, is_first=True) is Verdict.FAIL


def test_a_gap_is_forgotten_when_the_broker_takes_what_follows(identity):
    first, second, third = sent(identity, 1, 1, 1)
    identity.given_up(first)
    identity.stored(second, 10)
    assert identity.judge(third, OUT_OF_ORDER, is_first=True) is Verdict.FAIL
    assert identity.series_of(PARTITION).last_offset == 10


def test_records_that_the_broker_has_lost_are_told_once_and_the_next_are_taken(identity):
    first, second = sent(identity, 1, 1)
    identity.stored(first, 0)
    assert identity.judge(second, OUT_OF_ORDER, is_first=True) is Verdict.FAIL
    identity.given_up(second)
    assert identity.renew(PARTITION).epoch == 1
    assert [batch.base_sequence for batch in sent(identity, 1)] == [0]


@pytest.mark.parametrize("code", [FORGOTTEN, FENCED])
def test_a_broker_that_has_forgotten_us_gets_the_batch_again_once(identity, code):
    (batch,) = sent(identity, 1)
    assert identity.judge(batch, code, is_first=True) is Verdict.RENEW
    if code is FENCED:
        assert identity.renew(PARTITION) is None
        identity.assume(8, 0)
    renumber(batch, identity, identity.renew(PARTITION))
    assert identity.judge(batch, code, is_first=True) is Verdict.FAIL


@pytest.mark.parametrize("code", [FORGOTTEN, FENCED])
def test_what_may_be_stored_is_not_sent_under_another_number(identity, code):
    (batch,) = sent(identity, 1)
    batch.may_be_stored = True
    assert identity.judge(batch, code, is_first=True) is Verdict.FAIL


def test_partitions_have_series_of_their_own(identity):
    (batch,) = sent(identity, 1)
    other = TopicPartition("t", 1)
    identity.series_of(other)
    identity.judge(batch, FORGOTTEN, is_first=True)
    assert not identity.must_renew(other)
    assert identity.renew(PARTITION).epoch == 1
    assert identity.series_of(other).epoch == 0


def test_epochs_end_and_another_id_is_needed(identity):
    identity.series_of(PARTITION).epoch = LAST_EPOCH
    assert identity.renew(PARTITION) is None
    assert not identity.is_known
    identity.assume(9, 0)
    series = identity.renew(PARTITION)
    assert (series.producer_id, series.epoch) == (9, 0)


def test_a_renumbered_batch_is_whole_and_its_first_bytes_are_untouched(identity):
    """The transport of a connection that broke may still refer to them."""
    first, second = sent(identity, 2, 3)
    identity.given_up(first)
    encode(second, ProducerConfig(), identity)
    before = second.encoded
    copy = bytes(before)
    renumber(second, identity, identity.renew(PARTITION))
    assert bytes(before) == copy
    renewed = RecordBatch(second.encoded)
    renewed.check()
    assert renewed.header[9:12] == (7, 1, 0)
    assert [record.value for record in renewed] == [b"0", b"1", b"2"]


def test_the_halves_of_a_batch_share_its_numbers(identity):
    _, batch = sent(identity, 2, 5)
    encode(batch, ProducerConfig(), identity)
    parts = divide(batch)
    assert [(part.base_sequence, part.record_count) for part in parts] == [(2, 2), (4, 3)]
