"""Metadata and the way to a broker."""

import asyncio
import contextlib
import socket

import pytest

from seglog.clients import (
    BrokerUnreachableError,
    ClientClosedError,
    ConfigurationError,
    UnknownTopicOrPartitionError,
)
from seglog.clients.cluster import Cluster
from seglog.clients.config import ClientConfig
from seglog.clients.errors import BrokerConnectionError, BrokerError, InvalidTopicError
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    BrokerMetadata,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    TopicMetadata,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition
from support.fake_broker import HANG_UP, FakeBroker

CONFIG = ClientConfig(retry_backoff_ms=1, retry_backoff_max_ms=5)


@pytest.fixture
async def cluster(broker):
    made = Cluster(broker.address, CONFIG)
    await made.start()
    yield made
    await made.close()


async def test_what_is_known_of_a_topic(broker, cluster):
    broker.create("topic", 3)
    known = await cluster.find_topic("topic", 1)
    assert (known.name, known.partition_count) == ("topic", 3)
    assert cluster.leader_of(TopicPartition("topic", 2)) == 0
    assert cluster.leader_of(TopicPartition("topic", 3)) is None
    assert dict(known.leaders) == {0: 0, 1: 0, 2: 0}
    assert await cluster.find_topic("topic", 1) is known
    with pytest.raises(TypeError):
        cluster.topics["topic"] = None


async def test_a_broker_that_has_moved_is_found_through_the_bootstrap_address(broker, cluster):
    """The advertised address may have changed while it was away."""
    other = FakeBroker()
    other.create("topic")
    async with other:
        broker.metadata = other.metadata
        await cluster.refresh(1)
        await cluster.find_topic("topic", 1)
        assert cluster.leader_of(TopicPartition("topic", 0)) == 0
        response = await cluster.request(MetadataRequest(topics=[]), 1, 0)
        assert response.cluster_id == "fake"
        assert other.requests
    assert (await cluster.retry(MetadataRequest(topics=[]), 5)).cluster_id == "fake"


async def test_a_broker_that_came_back_elsewhere_is_only_found_when_metadata_is_old(broker):
    """Nobody answers at its address: the other bootstrap servers are asked at once."""
    async with FakeBroker() as other:
        cluster = Cluster(f"{broker.address},{other.address}", CONFIG)
        try:
            await cluster.start()
            await broker.stop()
            learned = cluster.learned
            with contextlib.suppress(BrokerConnectionError):  # It may not be known to be broken.
                await cluster.request(MetadataRequest(topics=[]), 5, 0)
            with pytest.raises(BrokerUnreachableError, match=broker.address):
                await cluster.request(MetadataRequest(topics=[]), 5, 0)
            async with asyncio.timeout(10):
                while cluster.learned == learned:  # noqa: ASYNC110 - the background task's doing
                    await asyncio.sleep(0.005)
            asked = len(other.requests)
            await cluster.request(MetadataRequest(topics=[]), 5, 0)
            assert len(other.requests) == asked + 1
        finally:
            await cluster.close()


async def test_a_silent_first_address_takes_the_time_of_the_others(broker):
    """A proxy or a paused process accepts, and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = ClientConfig(request_timeout_ms=2000)
        cluster = Cluster(f"127.0.0.1:{silent.getsockname()[1]},{broker.address}", config)
        try:
            await cluster.start()
        finally:
            await cluster.close()


async def test_an_error_about_a_topic_that_does_not_pass_is_raised_at_once(broker, cluster):
    def invalid(request):
        answer = TopicMetadata("bad name", ZERO_TOPIC_ID, [], ErrorCode.INVALID_TOPIC_EXCEPTION)
        brokers = [BrokerMetadata(0, broker.host, broker.port)]
        return MetadataResponse(brokers, "fake", 0, [answer])

    broker.script = invalid
    with pytest.raises(InvalidTopicError, match="bad name"):
        await cluster.find_topic("bad name", 5)


async def test_a_topic_that_takes_a_moment_to_appear_is_waited_for(broker, cluster):
    finding = asyncio.create_task(cluster.find_topic("topic", 5))
    await asyncio.sleep(0.02)
    broker.create("topic")
    assert (await finding).partition_count == 1


async def test_a_topic_that_nobody_has_is_believed_to_be_unknown_after_a_while(broker, cluster):
    with pytest.raises(UnknownTopicOrPartitionError):
        await asyncio.wait_for(cluster.find_topic("nowhere", 30), 3)


async def test_what_is_not_watched_is_not_asked_for(broker, cluster):
    broker.create("one")
    broker.create("two")
    await cluster.find_topic("one", 1)
    await cluster.find_topic("two", 1)
    cluster.unwatch(["one"])
    assert list(cluster.topics) == ["two"]
    await cluster.refresh(1)
    assert broker.requests[-1].topics == ["two"]
    await cluster.find_topic("one", 1)
    await cluster.refresh(1)
    assert broker.requests[-1].topics == ["one", "two"]


async def test_a_refused_request_leaves_the_connection_open(broker, cluster):
    with pytest.raises(BrokerError):
        await cluster.request(object_without_an_answer(), 1, 7)
    assert (await cluster.request(MetadataRequest(topics=[]), 1, 0)).cluster_id == "fake"
    assert broker.connection_count == 1


def object_without_an_answer():
    """A request to a broker that does not exist."""
    return ListOffsetsRequest([])


async def test_requests_that_may_be_repeated_are(broker, cluster):
    hangs = [1, 1]
    broker.script = lambda _: HANG_UP if hangs and hangs.pop() else None
    response = await cluster.retry(MetadataRequest(topics=[]), 10)
    assert response.cluster_id == "fake"
    await broker.stop()
    with pytest.raises(BrokerUnreachableError):
        await cluster.retry(MetadataRequest(topics=[]), 0.2)


async def test_a_closed_client_answers_nothing(broker):
    cluster = Cluster(broker.address, CONFIG)
    await cluster.start()
    await cluster.close()
    await cluster.close()
    for work in (
        cluster.start(),
        cluster.request(MetadataRequest(), 1),
        cluster.find_topic("t", 1),
    ):
        with pytest.raises(ClientClosedError):
            await work


async def test_an_address_that_nobody_has_typed_is_told_with_its_source(broker):
    """U51: the advertised address alone says nothing to who named another one."""
    metadata = broker.metadata

    def elsewhere(*arguments):
        response = metadata(*arguments)
        response.brokers = [BrokerMetadata(0, "127.0.0.1", 1)]
        return response

    broker.metadata = elsewhere
    cluster = Cluster(broker.address, CONFIG)
    try:
        await cluster.start()
        with pytest.raises(BrokerUnreachableError) as caught:
            await cluster.request(MetadataRequest(topics=[]), 5, 0)
        assert str(caught.value).startswith("127.0.0.1:1: cannot connect: ")
        assert str(caught.value).endswith(
            f" (the address is what {broker.address} says of itself: advertised.listeners)"
        )
    finally:
        await cluster.close()


def test_a_mapping_in_the_place_of_addresses_is_refused():
    """U52: its keys were looked up as hosts."""
    with pytest.raises(ConfigurationError, match="bootstrap_servers is a mapping"):
        Cluster({"bootstrap.servers": "127.0.0.1:9092"}, CONFIG)
