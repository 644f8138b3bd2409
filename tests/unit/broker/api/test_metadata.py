"""Metadata: who the broker says it is, and which requests create topics."""

import pytest

from seglog.protocol.api import (
    AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    FetchPartition,
    FetchRequest,
    MetadataRequest,
    TopicMetadata,
)
from seglog.protocol.errors import ErrorCode
from support.broker_parts import CONTEXT, BrokerParts


async def topics_of(
    broker: BrokerParts, request: MetadataRequest
) -> dict[str | None, TopicMetadata]:
    response = await broker.ask(request)
    return {topic.name: topic for topic in response.topics}


async def test_broker_is_named_as_the_asked_listener_reaches_it(broker: BrokerParts) -> None:
    await broker.create_topic("t", 2)
    response = await broker.ask(MetadataRequest())
    (only,) = response.brokers
    assert (only.host, only.port) == (CONTEXT.host, CONTEXT.port)
    assert response.controller_id == only.node_id == broker.services.config.node_id
    assert response.cluster_id == broker.services.cluster_id
    assert [part.partition for part in response.topics[0].partitions] == [0, 1]
    part = response.topics[0].partitions[1]
    assert (part.leader_id, part.leader_epoch, part.replica_ids, part.isr_ids) == (
        only.node_id,
        0,
        [only.node_id],
        [only.node_id],
    )


async def test_null_means_all_topics_and_an_empty_list_none(broker: BrokerParts) -> None:
    await broker.create_topic("a")
    await broker.create_topic("b")
    assert set(await topics_of(broker, MetadataRequest())) == {"a", "b"}
    assert await topics_of(broker, MetadataRequest([])) == {}


async def test_a_topic_named_again_and_again_is_described_as_often(broker: BrokerParts) -> None:
    """C034: some kilobytes would ask for a response of gigabytes; Kafka says it once."""
    topic_id = await broker.create_topic("a", 3)
    request = MetadataRequest(["a", "b", "a"] * 1000, [topic_id] * 1000)
    response = await broker.ask(request)
    assert [topic.name for topic in response.topics] == ["a", "b", "a"]


async def test_who_asks_what_it_may_do_is_told_nothing(broker: BrokerParts) -> None:
    """KIP-430: without access control it is everything, in the bits that Kafka answers with."""
    await broker.create_topic("a")
    plain = await broker.ask(MetadataRequest())
    assert plain.authorized_operations == AUTHORIZED_OPERATIONS_NOT_REQUESTED
    assert plain.topics[0].authorized_operations == AUTHORIZED_OPERATIONS_NOT_REQUESTED
    asked = await broker.ask(
        MetadataRequest(
            ["a", "ghost"],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
    )
    assert asked.authorized_operations == 8096
    assert [topic.authorized_operations for topic in asked.topics] == [
        3576,
        AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    ]


async def test_topics_are_found_by_id(broker: BrokerParts) -> None:
    topic_id = await broker.create_topic("a")
    other = bytes(15) + b"\x07"
    topics = await topics_of(broker, MetadataRequest([], [topic_id, other]))
    assert topics["a"].topic_id == topic_id
    assert (topics[None].error, topics[None].topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, other)


@pytest.mark.parametrize("enabled", [True, False])
async def test_only_asking_by_name_with_the_flag_creates(
    broker: BrokerParts, enabled: bool
) -> None:
    """C045"""
    again = await broker.restart({"auto.create.topics.enable": str(enabled).lower()})
    without_flag = await topics_of(again, MetadataRequest(["ghost"]))
    assert without_flag["ghost"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await again.ask(MetadataRequest(None, allow_auto_topic_creation=True))
    await again.ask(FetchRequest(0, 1, 100, [FetchPartition("ghost", 0, 0, 100)]))
    assert again.services.catalog.get("ghost") is None
    with_flag = await topics_of(again, MetadataRequest(["ghost"], allow_auto_topic_creation=True))
    assert (again.services.catalog.get("ghost") is not None) == enabled
    assert with_flag["ghost"].error == (0 if enabled else 3)


async def test_deleted_topic_stays_deleted_while_readers_ask_for_it(broker: BrokerParts) -> None:
    """C045"""
    await broker.create_topic("t")
    await broker.delete_topic("t")
    for _ in range(3):
        topics = await topics_of(broker, MetadataRequest(["t"]))
        assert topics["t"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.services.catalog.get("t") is None


@pytest.mark.parametrize("name", ["", "a/b", "__consumer_offsets", "x" * 250])
async def test_names_that_must_not_be_created_are_not(broker: BrokerParts, name: str) -> None:
    topics = await topics_of(broker, MetadataRequest([name], allow_auto_topic_creation=True))
    expected = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name == "__consumer_offsets"
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    assert topics[name].error == expected
    assert broker.services.catalog.get(name) is None
