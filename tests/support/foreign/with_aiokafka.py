"""aiokafka: the client for asyncio; its loop runs in a thread."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    TopicPartition,
)

from support.foreign.shape import CODECS, Read, Sent

WAIT_SECONDS = 20.0
ResultT = TypeVar("ResultT")


class AiokafkaClient:
    """Drives aiokafka."""

    name = "aiokafka"
    codecs = CODECS
    null_header_values = True
    static_members = True

    def __init__(self, address: str) -> None:
        self.address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT], seconds: float = 3 * WAIT_SECONDS) -> ResultT:
        """Run a coroutine on the client's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        """Send records in order with acks=all; their offsets."""
        return self.run(self._produce(topic, records, codec, partition))

    async def _produce(
        self, topic: str, records: Sequence[Sent], codec: str, partition: int
    ) -> list[int]:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(
            bootstrap_servers=self.address, compression_type=compression, acks="all", linger_ms=20
        ) as producer:
            promises = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [(await promise).offset for promise in promises]

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
        place = TopicPartition(topic, partition)
        return self.run(self._consume(place, count, start, isolation))

    async def _consume(
        self, place: TopicPartition, count: int, start: int, isolation: str
    ) -> list[Read]:
        found: list[Read] = []
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.address,
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            isolation_level=isolation,
        )
        consumer.assign([place])
        async with consumer, asyncio.timeout(WAIT_SECONDS):
            consumer.seek(place, start)
            while len(found) < count:
                found.append(to_read(await consumer.getone()))
        return found

    def offset_at(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """Offset of the first record at or after a time."""
        return self.run(self._offset_at(TopicPartition(topic, partition), timestamp_ms))

    async def _offset_at(self, question: TopicPartition, timestamp_ms: int) -> int | None:
        async with AIOKafkaConsumer(bootstrap_servers=self.address) as consumer:
            found = (await consumer.offsets_for_times({question: timestamp_ms}))[question]
        return None if found is None else found.offset

    def member(self, group: str, topic: str, **options: Any) -> "AiokafkaMember":
        """Join a group."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.address,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 100,
            "session_timeout_ms": options.get("session_timeout_ms", 6000),
            "heartbeat_interval_ms": 200,
        }
        if "instance_id" in options:
            settings["group_instance_id"] = options["instance_id"]
        if "partitions" in options:
            settings["group_id"] = None
            return AiokafkaMember(self, topic, settings, options["partitions"])
        return AiokafkaMember(self, topic, settings)

    def close(self) -> None:
        """End the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        self._loop.close()


class AiokafkaMember:
    """A consumer in a group, or of chosen partitions, on the client's loop."""

    def __init__(
        self,
        client: AiokafkaClient,
        topic: str,
        settings: dict[str, Any],
        chosen: Iterable[int] = (),
    ) -> None:
        self._client = client
        self._seen: list[Read] = []
        self._assigned: set[int] = set()
        self._joins = 0
        self._consumer, self._task = client.run(self._start(topic, settings, [*chosen]))

    async def _start(
        self, topic: str, settings: dict[str, Any], chosen: Sequence[int]
    ) -> tuple[AIOKafkaConsumer, "asyncio.Task[None]"]:
        consumer = AIOKafkaConsumer(**settings)
        if chosen:
            consumer.assign([TopicPartition(topic, each) for each in chosen])
        else:
            consumer.subscribe([topic], listener=_Listener(self))
        await consumer.start()
        return consumer, asyncio.create_task(self._read(consumer))

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        async for record in consumer:
            self._seen.append(to_read(record))

    def on_assigned(self, partitions: Iterable[int]) -> None:
        """Note the whole assignment."""
        self._assigned = set(partitions)
        self._joins += 1

    def on_revoked(self) -> None:
        """Note that everything was taken away."""
        self._assigned = set()

    def seen(self) -> list[Read]:
        """What was delivered so far."""
        return list(self._seen)

    def assigned(self) -> set[int]:
        """The partitions that it has now."""
        return set(self._assigned)

    def joins(self) -> int:
        """How many times it was assigned anything."""
        return self._joins

    def commit(self) -> None:
        """Commit what was delivered."""
        self._client.run(self._consumer.commit())

    def close(self) -> None:
        """Leave the group."""
        self._client.run(self._stop())

    async def _stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._consumer.stop()


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: AiokafkaMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.on_assigned(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member.on_revoked()


def to_read(record: ConsumerRecord[Any, Any]) -> Read:
    """One record in our shape."""
    return Read(
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )
