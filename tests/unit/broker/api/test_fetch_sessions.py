"""Fetch sessions, against real logs. Statement ids are those of the behaviour reference."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seglog.broker.api import fetch_sessions
from seglog.broker.api.fetch import PARTITIONS_PER_FETCH_MAX
from seglog.broker.api.fetch_session_cache import FetchSession
from seglog.broker.requests.context import Pending
from seglog.protocol.api import FetchPartition, FetchRequest, FetchResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT32_MAX
from support.broker_parts import CONTEXT, BrokerParts, batch_of

FOREVER_MS = 60_000
Position = tuple[str, int, int]


class Client:
    """Fetches as a consumer with a session does."""

    def __init__(self, broker: BrokerParts) -> None:
        self.broker = broker
        self.session_id = 0
        self.epoch = 0

    def request(
        self,
        positions: Sequence[Position] = (),
        forgotten: Sequence[tuple[str, list[int]]] = (),
        *,
        topic_ids: dict[str, bytes] | None = None,
        **options: Any,
    ) -> FetchRequest:
        ids = topic_ids or {}
        entries = [
            FetchPartition(
                "" if topic in ids else topic,
                partition,
                offset,
                1_000_000,
                topic_id=ids.get(topic, bytes(16)),
            )
            for topic, partition, offset in positions
        ]
        given = {"session_id": self.session_id, "session_epoch": self.epoch, **options}
        return FetchRequest(
            given.pop("max_wait_ms", 0),
            1,
            50_000_000,
            entries,
            forgotten=[
                (ids.get(topic, bytes(16)), "" if topic in ids else topic, numbers)
                for topic, numbers in forgotten
            ],
            uses_topic_ids=topic_ids is not None,
            **given,
        )

    async def fetch(self, *arguments: Any, **options: Any) -> FetchResponse:
        """Ask within the session, and follow it."""
        response = await self.broker.ask(self.request(*arguments, **options))
        assert isinstance(response, FetchResponse)
        if response.error == ErrorCode.NONE:
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if self.session_id else 0
        return response

    async def told(self, *arguments: Any, **options: Any) -> list[tuple[str, int, int]]:
        """The same; topic, partition and records bytes of each result, which is released."""
        response = await self.fetch(*arguments, **options)
        assert response.error == ErrorCode.NONE
        return [
            (part.topic, part.partition, len(self.broker.bytes_of(part)))
            for part in response.partitions
        ]


@pytest.fixture
async def client(broker: BrokerParts) -> Client:
    await broker.create_topic("t", 4)
    return Client(broker)


async def begin(client: Client, partitions: int = 3) -> None:
    """A session over partitions of ``t`` that are read to their ends."""
    told = await client.told([("t", number, 0) for number in range(partitions)])
    assert [number for _, number, _ in told] == list(range(partitions))
    assert client.session_id > 0


async def put(client: Client, *partitions: int) -> int:
    """A record for each of these partitions of ``t``; its size."""
    batch = batch_of(b"value")
    await client.broker.produce([("t", number, batch_of(b"value")) for number in partitions])
    return len(batch)


async def test_full_fetch_begins_a_session(client: Client) -> None:
    """SESS-1, SESS-4, SESS-6"""
    await put(client, 0)
    await client.told([("t", 0, 0), ("t", 1, 0)])
    assert client.session_id > 0
    assert await client.told([("t", 0, 1)]) == []
    size = await put(client, 1)
    assert await client.told() == [("t", 1, size)]
    assert await client.told([("t", 1, 1)]) == []
    assert client.epoch == 4


async def test_fetch_without_session_is_answered_in_full_each_time(client: Client) -> None:
    """SESS-2"""
    for _ in range(2):
        response = await client.fetch([("t", 0, 0), ("t", 1, 0)], session_epoch=-1)
        assert response.session_id == 0
        assert len(response.partitions) == 2
    assert client.broker.services.counters.fetch_sessions == 0


async def test_final_epoch_closes_the_session(client: Client) -> None:
    """SESS-2"""
    await begin(client)
    session_id = client.session_id
    assert len(await client.told([("t", 0, 0)], session_epoch=-1)) == 1
    assert client.session_id == 0
    response = await client.fetch(session_id=session_id, session_epoch=1)
    assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert response.partitions == []


async def test_full_fetch_within_a_session_begins_another(client: Client) -> None:
    """SESS-3"""
    await begin(client)
    old_id = client.session_id
    client.epoch = 0
    assert len(await client.told([("t", 3, 0)])) == 1
    assert client.session_id not in (0, old_id)
    response = await client.fetch(session_id=old_id, session_epoch=1)
    assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.broker.services.counters.fetch_sessions == 1


@pytest.mark.parametrize("epoch", [2, INT32_MAX, -2])
async def test_wrong_epoch_is_refused_and_changes_nothing(client: Client, epoch: int) -> None:
    """SESS-4, SESS-10"""
    await begin(client)
    response = await client.fetch([("t", 3, 0)], session_epoch=epoch)
    assert response.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert response.partitions == []
    size = await put(client, 0, 3)
    assert await client.told() == [("t", 0, size)]


async def test_repeated_request_is_refused(client: Client) -> None:
    """SESS-10: an accepted request has moved the epoch on by one."""
    await begin(client)
    assert await client.told() == []
    response = await client.fetch(session_epoch=1)
    assert response.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert await client.told() == []


def test_epoch_after_the_last_is_one() -> None:
    """SESS-4"""
    session = FetchSession(1, {}, 0, is_follower=False, uses_topic_ids=False)
    session.epoch = INT32_MAX
    assert session.advance() == session.epoch == 1
    assert session.advance() == 2


async def test_unknown_session(broker: BrokerParts) -> None:
    """SESS-4"""
    for session_id, epoch in ((7, 1), (0, 1), (7, INT32_MAX)):
        request = FetchRequest(0, 1, 1000, [], session_id=session_id, session_epoch=epoch)
        response = await broker.ask(request)
        assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert response.session_id == 0


async def test_topic_ids_are_used_always_or_never(client: Client) -> None:
    """SESS-5"""
    await begin(client)
    response = await client.fetch(topic_ids={})
    assert response.error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert await client.told() == []
    topic_ids = {"t": client.broker.log("t", 0).topic_id or b""}
    by_id = Client(client.broker)
    await by_id.told([("t", 0, 0)], topic_ids=topic_ids)
    response = await by_id.fetch()
    assert response.error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert await by_id.told(topic_ids=topic_ids) == []


async def test_added_forgotten_and_changed_partitions(client: Client) -> None:
    """SESS-4"""
    await begin(client)
    assert await client.told([("t", 3, 0)], [("t", [0, 9]), ("ghost", [0])]) == [("t", 3, 0)]
    size = await put(client, 0, 1, 3)
    assert await client.told([("t", 1, 1)]) == [("t", 1, 0), ("t", 3, size)]
    assert client.broker.services.counters.fetch_session_partitions == 3


async def test_partition_that_is_added_and_forgotten_is_not_fetched(client: Client) -> None:
    await begin(client)
    await put(client, 3)
    assert await client.told([("t", 3, 0)], [("t", [3])]) == []


async def test_moved_bounds_are_news(client: Client) -> None:
    """SESS-6: high watermark and log start, each without a record."""
    await put(client, 0, 1)
    await client.told([("t", 0, 1), ("t", 1, 1)])
    await put(client, 0)
    assert await client.told([("t", 0, 2)]) == [("t", 0, 0)]
    await client.broker.delete_records("t", 1, 1)
    response = await client.fetch()
    assert [(part.partition, part.log_start_offset) for part in response.partitions] == [(1, 1)]
    assert await client.told() == []


async def test_error_is_told_each_time_and_so_is_its_end(client: Client) -> None:
    """SESS-6"""
    await put(client, 0)
    await client.told([("t", 0, 1), ("t", 1, 0)])
    for _ in range(2):
        response = await client.fetch([("t", 0, 99)], max_wait_ms=FOREVER_MS)
        (part,) = response.partitions
        assert part.error == ErrorCode.OFFSET_OUT_OF_RANGE
    response = await client.fetch([("t", 0, 1)])
    (part,) = response.partitions
    assert (part.error, part.records, part.high_watermark) == (0, None, 1)
    assert await client.told() == []


async def test_diverging_epoch_is_news(client: Client) -> None:
    """SESS-6"""
    await begin(client, 1)
    request = client.request()
    request.partitions = [FetchPartition("t", 0, 0, 1000, last_fetched_epoch=7)]
    response = await client.broker.ask(request)
    assert len(response.partitions) == 1


async def test_who_got_records_is_served_last(client: Client) -> None:
    """SESS-7, FETCH-3"""
    await begin(client)
    size = await put(client, 0)
    assert await client.told() == [("t", 0, size)]
    size = await put(client, 0, 1, 2)
    told = await client.told([("t", 0, 1)])
    assert told == [("t", 1, size), ("t", 2, size), ("t", 0, size)]


async def test_bounds_without_records_do_not_change_the_order(client: Client) -> None:
    """SESS-7"""
    await begin(client)
    await put(client, 0)
    assert await client.told([("t", 0, 1)]) == [("t", 0, 0)]
    size = await put(client, 0, 1)
    assert await client.told([("t", 0, 1)]) == [("t", 0, size), ("t", 1, size)]


async def test_session_without_partitions_is_closed(client: Client) -> None:
    """SESS-8"""
    await begin(client, 2)
    session_id = client.session_id
    response = await client.fetch([], [("t", [0, 1])], max_wait_ms=FOREVER_MS)
    assert (response.error, response.session_id, response.partitions) == (0, 0, [])
    response = await client.fetch(session_id=session_id, session_epoch=2)
    assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.broker.services.counters.fetch_session_partitions == 0


async def test_no_slots_no_session(tmp_path: Path) -> None:
    """SESS-1, SESS-9: the answer is complete all the same."""
    settings = {"max.incremental.fetch.session.cache.slots": "0"}
    broker = await BrokerParts.start(tmp_path, settings)
    await broker.create_topic("t")
    client = Client(broker)
    assert await client.told([("t", 0, 0)]) == [("t", 0, 0)]
    assert client.session_id == 0
    await broker.stop()


async def test_parked_fetch_of_a_session_is_answered_with_what_came(client: Client) -> None:
    await begin(client)
    pending = client.broker.handlers.handle(client.request(max_wait_ms=FOREVER_MS), CONTEXT)
    assert isinstance(pending, Pending)
    size = await put(client, 1)
    response = await pending.future
    assert response.session_id == client.session_id
    (part,) = response.partitions
    assert (part.partition, len(client.broker.bytes_of(part))) == (1, size)


async def test_second_request_on_the_way_outdates_the_first(client: Client) -> None:
    """SESS-10: a client that did not wait for the answer is told, and no file stays open."""
    await begin(client)
    first = client.broker.handlers.handle(client.request(max_wait_ms=FOREVER_MS), CONTEXT)
    assert isinstance(first, Pending)
    client.epoch += 1
    second = client.broker.handlers.handle(client.request(max_wait_ms=FOREVER_MS), CONTEXT)
    assert isinstance(second, Pending)
    size = await put(client, 0)
    response = await first.future
    assert response.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert response.partitions == []
    (part,) = (await second.future).partitions
    assert len(client.broker.bytes_of(part)) == size


async def test_session_that_is_closed_while_a_fetch_waits(client: Client) -> None:
    """The fetch is answered; the next one of that session is not found."""
    await begin(client)
    pending = client.broker.handlers.handle(client.request(max_wait_ms=FOREVER_MS), CONTEXT)
    assert isinstance(pending, Pending)
    await client.broker.ask(client.request([("t", 3, 0)], session_epoch=-1))
    size = await put(client, 0)
    (part,) = (await pending.future).partitions
    assert len(client.broker.bytes_of(part)) == size
    response = await client.fetch(session_epoch=2)
    assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_topic_that_appears_later_is_found_by_its_id(client: Client) -> None:
    """SESS-11, FETCH-11: unknown at first, then deleted and made again under another id."""
    broker = client.broker
    unknown, known = b"\1" * 16, broker.log("t", 0).topic_id or b""
    response = await client.fetch(
        [("ghost", 0, 0), ("t", 0, 0)], topic_ids={"ghost": unknown, "t": known}
    )
    assert [part.error for part in response.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID, 0]
    response = await client.fetch(topic_ids={})
    assert [part.topic_id for part in response.partitions] == [unknown]
    await broker.create_topic("late")
    names = broker.services.partitions._topic_names
    names[unknown] = "late"
    broker.log("late", 0).topic_id = unknown
    response = await client.fetch(topic_ids={})
    (part,) = response.partitions
    assert (part.topic, part.error, part.high_watermark) == ("late", 0, 0)
    assert await client.told(topic_ids={}) == []
    await broker.delete_topic("t")
    response = await client.fetch(topic_ids={})
    (part,) = response.partitions
    assert part.topic_id == known
    assert part.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await broker.create_topic("t")
    response = await client.fetch(topic_ids={})
    assert [part.error for part in response.partitions] == [ErrorCode.INCONSISTENT_TOPIC_ID]


async def test_session_does_not_grow_without_bound(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_PER_SESSION_MAX", 3)
    await begin(client, 2)
    await client.fetch([("t", 2, 0)])
    response = await client.fetch([("t", 3, 0)])
    assert response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.broker.services.counters.fetch_sessions == 0


async def test_too_many_partitions_at_once_leave_the_session_alone(client: Client) -> None:
    await begin(client)
    request = client.request()
    request.partitions = [FetchPartition("t", 0, 0, 1)] * (PARTITIONS_PER_FETCH_MAX + 1)
    assert (await client.broker.ask(request)).error == ErrorCode.INVALID_REQUEST
    assert await client.told() == []


async def test_idle_session_makes_room(tmp_path: Path) -> None:
    """SESS-9, with the broker's own clock: not the wall clock, which may jump."""
    settings = {"max.incremental.fetch.session.cache.slots": "1"}
    broker = await BrokerParts.start(tmp_path, settings)
    await broker.create_topic("t")
    first, second = Client(broker), Client(broker)
    await first.told([("t", 0, 0)])
    clock: Any = broker.services.clock
    clock.jump_wall(10_000_000)
    await second.told([("t", 0, 0)])
    assert second.session_id == 0
    clock.advance(120_001)
    await second.told([("t", 0, 0)])
    assert second.session_id > 0
    assert (await first.fetch()).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    await broker.stop()
