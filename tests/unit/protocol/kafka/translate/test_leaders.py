"""Who leads a partition, told beside the error: only versions with a place for it say so."""

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages import fetch as fetch_wire
from seglog.protocol.kafka.messages import produce as produce_wire
from seglog.protocol.kafka.translate.fetch import FETCH
from seglog.protocol.kafka.translate.produce import PRODUCE

BROKER = api.BrokerMetadata(7, "there", 9092, "rack")


@pytest.mark.parametrize("version", FETCH.versions.versions())
def test_fetch_of_an_old_leader_keeps_the_new_one_to_itself(version: int) -> None:
    """KIP-951: from version 16 on, so that the client need not ask for metadata."""
    result = api.FetchPartitionResult(
        "t", 0, ErrorCode.FENCED_LEADER_EPOCH, topic_id=bytes(16), current_leader=(7, 3)
    )
    parts = FETCH.encode(api.FetchResponse([result], leaders=[BROKER]), version)
    data = memoryview(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type] # all are bytes
    message, _ = codec.decode(fetch_wire.FetchResponse, version, data)
    leader = message.responses[0].partitions[0].current_leader
    if version < 16:
        assert leader is None
        assert message.node_endpoints == []
    else:
        assert leader == fetch_wire.LeaderIdAndEpoch(leader_id=7, leader_epoch=3)
        assert message.node_endpoints == [
            fetch_wire.NodeEndpoint(node_id=7, host="there", port=9092, rack="rack")
        ]


@pytest.mark.parametrize("version", PRODUCE.versions.versions())
def test_produce_to_an_old_leader_keeps_the_new_one_to_itself(version: int) -> None:
    """KIP-951: from version 10 on."""
    result = api.ProducePartitionResult(
        "t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, topic_id=bytes(16), current_leader=(7, 3)
    )
    parts = PRODUCE.encode(api.ProduceResponse([result], leaders=[BROKER]), version)
    data = memoryview(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type] # all are bytes
    message, _ = codec.decode(produce_wire.ProduceResponse, version, data)
    leader = message.responses[0].partition_responses[0].current_leader
    if version < 10:
        assert leader is None
        assert message.node_endpoints == []
    else:
        assert leader == produce_wire.LeaderIdAndEpoch(leader_id=7, leader_epoch=3)
        assert message.node_endpoints == [
            produce_wire.NodeEndpoint(node_id=7, host="there", port=9092, rack="rack")
        ]
