"""A fetch session by frames of the Kafka dialect, as the Java client and librdkafka lead it."""

from collections.abc import Iterator

import pytest

from seglog.clients import Admin
from seglog.clients.testing import running_broker
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT32_MAX
from support.broker_parts import batch_of
from support.wires import KafkaWire

NAMED, BY_ID = 12, 17
"""Versions with names and with ids of topics; both are flexible."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_broker() as broker:
        yield broker.address


class SessionWire:
    """Fetches of one session over one connection."""

    def __init__(self, wire: KafkaWire, version: int, topic_ids: dict[str, bytes]) -> None:
        self.wire = wire
        self.version = version
        self.topic_ids = topic_ids
        self.session_id = self.epoch = 0

    def named(self, topic: str) -> tuple[str, bytes]:
        """Name and id of a topic, as far as the version says them."""
        return (topic, bytes(16)) if self.version < BY_ID else ("", self.topic_ids[topic])

    def fetch(
        self,
        offsets: dict[tuple[str, int], int],
        forgotten: dict[str, list[int]] | None = None,
        max_wait_ms: int = 0,
    ) -> api.FetchResponse:
        partitions = []
        for (topic, partition), offset in offsets.items():
            name, topic_id = self.named(topic)
            partitions.append(
                api.FetchPartition(name, partition, offset, 1 << 20, topic_id=topic_id)
            )
        request = api.FetchRequest(
            max_wait_ms,
            1,
            INT32_MAX,
            partitions,
            session_id=self.session_id,
            session_epoch=self.epoch,
            forgotten=[
                (*reversed(self.named(topic)), numbers)
                for topic, numbers in (forgotten or {}).items()
            ],
        )
        answer = self.wire.ask(request, self.version, api.FetchResponse)
        if answer.error == ErrorCode.NONE:
            self.session_id = answer.session_id
            self.epoch += 1
        return answer

    def told(self, *arguments: object, **options: object) -> list[tuple[str, int, int]]:
        """Topic, partition and number of record bytes of each result."""
        answer = self.fetch(*arguments, **options)  # type: ignore[arg-type]  # as fetch has them
        assert answer.error == ErrorCode.NONE
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        found = []
        for result in answer.partitions:
            records = result.records
            assert isinstance(records, memoryview), "null, on which kafka-python fails"
            name = result.topic or names[result.topic_id]
            found.append((name, result.partition, len(records)))
        return found


@pytest.mark.parametrize("version", [NAMED, BY_ID])
def test_session_by_frames(address: str, version: int) -> None:
    """SESS-1, 4, 5, 6, 7, 8"""
    a, b = f"a{version}", f"b{version}"
    port = int(address.rsplit(":", 1)[1])
    with Admin(address) as admin:
        admin.create_topic(a, partitions=2)
        admin.create_topic(b, partitions=2)
        topic_ids = {name: topic.topic_id for name, topic in admin.describe_topics([a, b]).items()}
    size = len(batch_of(b"value"))
    with KafkaWire(port) as wire, KafkaWire(port) as producer:
        session = SessionWire(wire, version, topic_ids)
        places = [(a, 0), (a, 1), (b, 0)]
        told = session.told(dict.fromkeys(places, 0))
        assert told == [(*place, 0) for place in places]
        assert session.session_id > 0
        assert session.told({}) == []

        producer.produce(a, batch_of(b"value"), partition=1)
        assert session.told({}, max_wait_ms=10_000) == [(a, 1, size)]
        for topic, partition in places:
            producer.produce(topic, batch_of(b"value"), partition=partition)
        told = session.told({(a, 1): 1})
        assert told == [(a, 0, size), (b, 0, size), (a, 1, size)]

        told = session.told({(b, 1): 0, (b, 0): 1}, {a: [0, 1]})
        assert told == [(b, 1, 0)]

        session.epoch += 1
        assert session.fetch({}).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch -= 1
        session.version = NAMED + BY_ID - version
        assert session.fetch({}).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.version = version
        assert session.told({}) == []

        old_id = session.session_id
        assert session.told({}, {b: [0, 1]}) == []
        assert session.session_id == 0
        session.session_id = old_id
        assert session.fetch({}).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
