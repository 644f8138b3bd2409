"""Who leads a partition, told beside the error: only versions with a place for it say so."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from support.kafka_messages import written_response

BROKER = api.BrokerMetadata(7, "there", 9092, "rack")


@pytest.mark.parametrize("version", OPERATION_OF_KEY[ApiKey.FETCH].versions.versions())
def test_fetch_of_an_old_leader_keeps_the_new_one_to_itself(version: int) -> None:
    """KIP-951: from version 16 on, so that the client need not ask for metadata."""
    result = api.FetchPartitionResult(
        "t", 0, ErrorCode.FENCED_LEADER_EPOCH, topic_id=bytes(16), current_leader=(7, 3)
    )
    message = written_response(ApiKey.FETCH, api.FetchResponse([result], leaders=[BROKER]), version)
    leader = message.responses[0].partitions[0].current_leader
    if version < 16:
        assert leader is None
        assert message.node_endpoints == []
    else:
        assert (leader.leader_id, leader.leader_epoch) == (7, 3)
        (node,) = message.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (7, "there", 9092, "rack")


@pytest.mark.parametrize("version", OPERATION_OF_KEY[ApiKey.PRODUCE].versions.versions())
def test_produce_to_an_old_leader_keeps_the_new_one_to_itself(version: int) -> None:
    """KIP-951: from version 10 on."""
    result = api.ProducePartitionResult(
        "t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, topic_id=bytes(16), current_leader=(7, 3)
    )
    message = written_response(
        ApiKey.PRODUCE, api.ProduceResponse([result], leaders=[BROKER]), version
    )
    leader = message.responses[0].partition_responses[0].current_leader
    if version < 10:
        assert leader is None
        assert message.node_endpoints == []
    else:
        assert (leader.leader_id, leader.leader_epoch) == (7, 3)
        (node,) = message.node_endpoints
        assert (node.node_id, node.host, node.port, node.rack) == (7, "there", 9092, "rack")
