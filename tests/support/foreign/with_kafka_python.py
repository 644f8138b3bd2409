"""kafka-python: the Kafka client in pure Python."""

import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from support.foreign.polling import PollingMember
from support.foreign.shape import CODECS, Read, Sent

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaConnectionError

WAIT_SECONDS = 20.0


class KafkaPythonClient:
    """Drives kafka-python."""

    name = "kafka-python"
    codecs = CODECS
    null_header_values = False
    static_members = True

    def __init__(self, address: str) -> None:
        self._address = address

    def producer(self, **options: Any) -> KafkaProducer:
        """A producer with settings of the library."""
        return KafkaProducer(bootstrap_servers=self._address, **options)

    def consumer(self, **options: Any) -> KafkaConsumer:
        """A consumer that commits nothing by itself."""
        return KafkaConsumer(
            bootstrap_servers=self._address,
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **options,
        )

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        """Send records in order with acks=all; their offsets."""
        compression = None if codec == "none" else codec
        producer = self.producer(compression_type=compression, acks="all", linger_ms=20)
        try:
            promises = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [promise.get(timeout=WAIT_SECONDS).offset for promise in promises]
        finally:
            producer.close(timeout=WAIT_SECONDS)

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
            consumer.assign([TopicPartition(topic, partition)])
            consumer.seek(TopicPartition(topic, partition), start)
            return poll_for(consumer, count)
        finally:
            consumer.close()

    def offset_at(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """Offset of the first record at or after a time."""
        consumer = self.consumer()
        try:
            question = TopicPartition(topic, partition)
            found = consumer.offsets_for_times({question: timestamp_ms})[question]
        finally:
            consumer.close()
        return None if found is None else found.offset

    def member(self, group: str, topic: str, **options: Any) -> PollingMember:
        """Join a group."""
        settings: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": options.get("session_timeout_ms", 6000),
            "heartbeat_interval_ms": 200,
            # By itself it waits up to 30 s before it connects again.
            "reconnect_backoff_max_ms": 1000,
        }
        if "instance_id" in options:
            settings["group_instance_id"] = options["instance_id"]

        def open_consumer(member: PollingMember) -> KafkaConsumer:
            consumer = self.consumer(**settings)
            if "partitions" in options:
                consumer.assign([TopicPartition(topic, each) for each in options["partitions"]])
            else:
                consumer.subscribe([topic], listener=_Listener(member))
            return consumer

        return PollingMember(open_consumer, _poll, _assignment, KafkaConsumer.commit, _close)

    def close(self) -> None:
        """Nothing is kept open."""


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: PollingMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.count_join()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """What is left is read from the consumer."""


def poll_for(consumer: KafkaConsumer, count: int, seconds: float = WAIT_SECONDS) -> list[Read]:
    """The next ``count`` records of a consumer."""
    deadline = time.monotonic() + seconds
    found: list[Read] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records in {seconds} s"
        found += _poll(consumer)
    return found


def _poll(consumer: KafkaConsumer) -> list[Read]:
    # Not less: 3.0.12 stays without partitions for good if a poll ends just when it is given some.
    try:
        answer = consumer.poll(timeout_ms=500)
    except KafkaConnectionError:
        # It lets that out while it looks for the coordinator of a broker that is away, and goes on
        # when it is asked again, as applications do.
        return []
    return [
        Read(
            each.partition,
            each.offset,
            each.timestamp,
            each.key,
            each.value,
            tuple(each.headers),
        )
        for records in answer.values()
        for each in records
    ]


def _assignment(consumer: KafkaConsumer) -> Iterable[int]:
    return (each.partition for each in consumer.assignment())


def _close(consumer: KafkaConsumer) -> None:
    consumer.close()
