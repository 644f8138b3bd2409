"""A fetch session by frames of the Kafka dialect, as the Java client and librdkafka lead it."""

from collections.abc import Iterator
from typing import Any

import pytest

from seglog.clients import Admin
from seglog.clients.testing import running_broker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import fetch
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

    def name(self, topic: str) -> Any:
        """The field that names a topic."""
        return {"topic": topic} if self.version < BY_ID else {"topic_id": self.topic_ids[topic]}

    def fetch(
        self,
        offsets: dict[tuple[str, int], int],
        forgotten: dict[str, list[int]] | None = None,
        max_wait_ms: int = 0,
    ) -> fetch.FetchResponse:
        request = fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                fetch.FetchTopic(
                    **self.name(topic),
                    partitions=[
                        fetch.FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
            forgotten_topics_data=[
                fetch.ForgottenTopic(**self.name(topic), partitions=partitions)
                for topic, partitions in (forgotten or {}).items()
            ],
        )
        answer = self.wire.ask(request, self.version, fetch.FetchResponse)
        if answer.error_code == ErrorCode.NONE:
            self.session_id = answer.session_id
            self.epoch += 1
        return answer

    def told(self, *arguments: object, **options: object) -> list[tuple[str, int, int]]:
        """Topic, partition and number of record bytes of each result."""
        answer = self.fetch(*arguments, **options)  # type: ignore[arg-type]  # as fetch has them
        assert answer.error_code == ErrorCode.NONE
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        found = []
        for topic in answer.responses:
            for result in topic.partitions:
                records = result.records
                assert isinstance(records, memoryview), "null, on which kafka-python fails"
                name = topic.topic or names[topic.topic_id]
                found.append((name, result.partition_index, len(records)))
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
        assert session.fetch({}).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.epoch -= 1
        session.version = NAMED + BY_ID - version
        assert session.fetch({}).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.version = version
        assert session.told({}) == []

        old_id = session.session_id
        assert session.told({}, {b: [0, 1]}) == []
        assert session.session_id == 0
        session.session_id = old_id
        assert session.fetch({}).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
