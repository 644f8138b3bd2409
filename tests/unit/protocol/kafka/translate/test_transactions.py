"""Transactions: single and batched form, and errors by version."""

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages import transaction_steps as wire
from seglog.protocol.kafka.translate import transactions

TOPICS = [wire.AddPartitionsToTxnTopic(name="t", partitions=[1, 2])]


def test_single_and_batched_transactions_are_mixed_up() -> None:
    """Clients name one transaction up to version 3, brokers several from version 4 on."""
    old = wire.AddPartitionsToTxnRequest(
        transactions=[],
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=6,
        v3_and_below_topics=TOPICS,
    )
    expected = api.TransactionPartitions("tx", 5, 6, [("t", 1), ("t", 2)])
    assert transactions.read_add_partitions(old, 3).transactions == [expected]
    new = wire.AddPartitionsToTxnRequest(
        transactions=[
            wire.AddPartitionsToTxnTransaction(
                transactional_id="tx",
                producer_id=5,
                producer_epoch=6,
                verify_only=True,
                topics=TOPICS,
            )
        ],
        v3_and_below_transactional_id="",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[],
    )
    expected.verify_only = True
    assert transactions.read_add_partitions(new, 4).transactions == [expected]


def test_error_of_the_whole_request_is_lost_in_old_versions() -> None:
    """They have no place for it but the partitions."""
    results = [api.AddPartitionsToTxnResult("t", 1)]
    response = api.AddPartitionsToTxnResponse(
        [api.TransactionPartitionsResult("tx", results)], ErrorCode.NOT_COORDINATOR
    )
    for version in range(6):
        message = transactions.write_add_partitions(response, version)
        codec.encode(message, version)
        if version < 4:
            (topic,) = message.results_by_topic_v3_and_below
            code = topic.results_by_partition[0].partition_error_code
        else:
            code = message.error_code
        assert code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_fenced_client_gets_an_error_it_does_not_know(
    error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    """Older versions are told what stood for an error before it existed."""
    assert transactions.write_end(api.EndTxnResponse(error), version).error_code == expected
    offsets = transactions.write_add_offsets(api.AddOffsetsToTxnResponse(error), version)
    assert offsets.error_code == expected


def test_epoch_is_bumped_for_an_old_client() -> None:
    """It would go on with the epoch it has, and be fenced."""
    message = wire.EndTxnRequest(
        transactional_id="tx", producer_id=1, producer_epoch=2, committed=True
    )
    assert not transactions.read_end(message, 4).bumps_epoch
    assert transactions.read_end(message, 5).bumps_epoch
