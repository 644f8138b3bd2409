"""Topics that are created and deleted while clients come and go."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from seglog.broker.requests.context import Pending
from seglog.protocol.api import CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from support.broker_parts import CONTEXT, BrokerParts, batch_of


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerParts]:
    """A broker over an empty folder."""
    parts = await BrokerParts.start(tmp_path)
    yield parts
    await parts.stop()


async def test_topic_is_created_whole_although_its_client_goes_away(broker: BrokerParts) -> None:
    """A connection that closes cancels what it waits for."""
    pending = broker.handlers.handle(CreateTopicsRequest([NewTopic("t", 3)]), CONTEXT)
    assert isinstance(pending, Pending)
    await asyncio.sleep(0)
    pending.future.cancel()
    assert await broker.services.finish_works(5)
    for number in range(3):
        await broker.produce([("t", number, batch_of(b"x"))])
        assert broker.values("t", number) == [b"x"]


async def test_requests_that_race_for_a_name_make_one_topic(broker: BrokerParts) -> None:
    answers = await asyncio.gather(
        *(broker.ask(CreateTopicsRequest([NewTopic("t", count)])) for count in range(1, 9))
    )
    assert sorted(answer.topics[0].error for answer in answers) == [0] + [36] * 7


async def test_deletions_and_creations_of_a_name_follow_each_other(broker: BrokerParts) -> None:
    requests: list[object] = []
    for _ in range(5):
        requests += [CreateTopicsRequest([NewTopic("t")]), DeleteTopicsRequest(["t"])]
    answers = await asyncio.gather(*(broker.ask(request) for request in requests))
    assert [answer.topics[0].error for answer in answers] == [0] * 10
    assert len({answer.topics[0].topic_id for answer in answers}) == 5
    assert broker.services.catalog.get("t") is None
