"""Odd requests that Apache Kafka 4.4 answers in a certain way, which clients rely on."""

from pathlib import Path

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import ConfigResourceType
from support.broker_parts import BrokerParts, batch_of
from support.group_broker import GroupBroker
from support.kafka_messages import written_response
from support.transactions import transaction_broker


async def test_an_empty_list_of_keys_asks_for_all_settings(broker: BrokerParts) -> None:
    """kafka-python sends ``configs=[]`` for a resource without a list."""
    await broker.create_topic("t")
    found = []
    for keys in (None, [], ["retention.ms"]):
        resource = api.ConfigResource(ConfigResourceType.TOPIC, "t", keys)
        found += (await broker.ask(api.DescribeConfigsRequest([resource]))).resources
    whole, empty, one = found
    assert len(whole.entries) > 20
    assert empty.entries == whole.entries
    assert [entry.name for entry in one.entries] == ["retention.ms"]


async def test_an_id_of_zeros_is_an_unknown_id(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    produced = await broker.ask(
        api.ProduceRequest(1, 5000, [api.ProducePartition("", 0, batch_of(b"x"))])
    )
    assert produced.partitions[0].error is ErrorCode.UNKNOWN_TOPIC_ID
    fetched = await broker.fetch([("", 0, 0)])
    assert fetched.partitions[0].error is ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_topic_to_delete_needs_a_name_or_an_id(broker: BrokerParts) -> None:
    response = await broker.ask(api.DeleteTopicsRequest([], topic_ids=[api.ZERO_TOPIC_ID]))
    assert response.topics[0].error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
async def test_endpoint_types_that_are_not_here_have_two_errors(
    broker: BrokerParts, endpoint_type: int, code: ErrorCode
) -> None:
    response = await broker.ask(api.DescribeClusterRequest(endpoint_type=endpoint_type))
    assert response.error is code
    assert str(endpoint_type) in response.error_message


async def test_a_group_without_a_name_has_plain_commits_only(tmp_path: Path) -> None:
    broker: GroupBroker = await transaction_broker(tmp_path)
    entry = api.OffsetCommitPartition("t", 0, 1)
    await broker.parts.create_topic("t", 1)
    plain = await broker.ask(api.OffsetCommitRequest("", [entry]))
    assert plain.partitions[0].error is ErrorCode.NONE
    deleted = await broker.ask(api.OffsetDeleteRequest("", [("t", 0)]))
    assert deleted.error is ErrorCode.INVALID_GROUP_ID
    transactional = await broker.ask(api.TxnOffsetCommitRequest("x", "", 1, 0, [entry]))
    assert transactional.partitions[0].error is ErrorCode.INVALID_GROUP_ID
    await broker.stop()


def test_older_clients_are_told_of_an_outdated_epoch_in_words_that_they_know() -> None:
    response = api.TxnOffsetCommitResponse(
        [api.OffsetCommitResult("t", 0, ErrorCode.PRODUCER_FENCED)]
    )
    codes = {
        version: written_response(api.ApiKey.TXN_OFFSET_COMMIT, response, version)
        .topics[0]
        .partitions[0]
        .error_code
        for version in (5, 6)
    }
    assert codes == {
        5: ErrorCode.INVALID_PRODUCER_EPOCH,
        6: ErrorCode.PRODUCER_FENCED,
    }
