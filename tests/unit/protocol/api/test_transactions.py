"""Transactions: single and batched form, and errors by version."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from support.kafka_messages import read_request, written_response

TOPICS = [{"name": "t", "partitions": [1, 2]}]


def test_single_and_batched_transactions_are_mixed_up() -> None:
    """Clients name one transaction up to version 3, brokers several from version 4 on."""
    old = read_request(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=6,
        v3_and_below_topics=TOPICS,
    )
    expected = api.TransactionPartitions("tx", 5, 6, [("t", 1), ("t", 2)])
    assert old.transactions == [expected]
    named = {"transactional_id": "tx", "producer_id": 5, "producer_epoch": 6, "topics": TOPICS}
    new = read_request(
        ApiKey.ADD_PARTITIONS_TO_TXN, 4, transactions=[{**named, "verify_only": True}]
    )
    expected.verify_only = True
    assert new.transactions == [expected]


def test_error_of_the_whole_request_is_lost_in_old_versions() -> None:
    """They have no place for it but the partitions."""
    results = [api.AddPartitionsToTxnResult("t", 1)]
    response = api.AddPartitionsToTxnResponse(
        [api.TransactionPartitionsResult("tx", results)], ErrorCode.NOT_COORDINATOR
    )
    for version in range(6):
        message = written_response(ApiKey.ADD_PARTITIONS_TO_TXN, response, version)
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
    for key, response in (
        (ApiKey.END_TXN, api.EndTxnResponse(error)),
        (ApiKey.ADD_OFFSETS_TO_TXN, api.AddOffsetsToTxnResponse(error)),
    ):
        assert written_response(key, response, version).error_code == expected


def test_epoch_is_bumped_for_an_old_client() -> None:
    """It would go on with the epoch it has, and be fenced."""
    asked = {"transactional_id": "tx", "producer_id": 1, "producer_epoch": 2, "committed": True}
    assert not read_request(ApiKey.END_TXN, 4, **asked).bumps_epoch
    assert read_request(ApiKey.END_TXN, 5, **asked).bumps_epoch
