"""confluent-kafka: the Python face of librdkafka."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    Message,
    Producer,
    TopicPartition,
)

from support.foreign.polling import PollingMember
from support.foreign.shape import CODECS, Read, Sent

WAIT_SECONDS = 20.0


class ConfluentClient:
    """Drives librdkafka."""

    name = "confluent-kafka"
    codecs = CODECS
    null_header_values = True
    static_members = True

    def __init__(self, address: str) -> None:
        self._address = address
        self._common = {"bootstrap.servers": address, "log_level": 0}

    def producer(self, **options: Any) -> Producer:
        """A producer with settings by their names, dots as underscores."""
        return Producer(self._common | _dotted(options))

    def consumer(self, **options: Any) -> Consumer:
        """A consumer that commits nothing by itself."""
        settings = {"group.id": "nobody", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        return Consumer(self._common | settings | _dotted(options))

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        """Send records in order with acks=all; their offsets."""
        offsets: list[int] = []

        def delivered(error: Any, message: Message) -> None:
            assert error is None, error
            offsets.append(message.offset())

        producer = self.producer(compression_type=codec, acks="all", linger_ms=20)
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        assert producer.flush(WAIT_SECONDS) == 0
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int = 0,
        isolation: str = "read_uncommitted",
    ) -> list[Read]:
        """Read ``count`` records from an offset on, without a group."""
        consumer = self.consumer(isolation_level=isolation)
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            return poll_for(consumer, count)
        finally:
            consumer.close()

    def offset_at(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """Offset of the first record at or after a time."""
        consumer = self.consumer()
        try:
            question = TopicPartition(topic, partition, timestamp_ms)
            (found,) = consumer.offsets_for_times([question], timeout=WAIT_SECONDS)
        finally:
            consumer.close()
        assert found.error is None
        return None if found.offset == OFFSET_END else found.offset

    def member(self, group: str, topic: str, **options: Any) -> PollingMember:
        """Join a group."""
        settings: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": options.get("session_timeout_ms", 6000),
            "heartbeat_interval_ms": 200,
            "partition_assignment_strategy": options.get("strategy", "range"),
        }
        if "instance_id" in options:
            settings["group_instance_id"] = options["instance_id"]

        def open_consumer(member: PollingMember) -> Consumer:
            consumer = self.consumer(**settings)
            if "partitions" in options:
                chosen = options["partitions"]
                consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in chosen])
            else:
                consumer.subscribe([topic], on_assign=lambda *_: member.count_join())
            return consumer

        return PollingMember(open_consumer, _poll, _assignment, _commit, Consumer.close)

    def close(self) -> None:
        """Nothing is kept open."""


def poll_for(consumer: Consumer, count: int, seconds: float = WAIT_SECONDS) -> list[Read]:
    """The next ``count`` records of a consumer."""
    deadline = time.monotonic() + seconds
    found: list[Read] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records in {seconds} s"
        found += _poll(consumer)
    return found


def to_read(message: Message) -> Read:
    """One message in our shape."""
    assert message.error() is None, message.error()
    headers = tuple((key, value) for key, value in message.headers() or ())
    return Read(
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers,
    )


def _poll(consumer: Consumer) -> Iterable[Read]:
    return [to_read(each) for each in consumer.consume(500, timeout=0.05)]


def _assignment(consumer: Consumer) -> Iterable[int]:
    return (each.partition for each in consumer.assignment())


def _commit(consumer: Consumer) -> None:
    results = consumer.commit(asynchronous=False)
    assert all(each.error is None for each in results or ()), results


def _dotted(options: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in options.items()}
