"""An idempotent producer of each client that sends numbered records while a test does harm."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from support.foreign.everyone import open_client
from support.foreign.shape import Sent

DELIVERY_SECONDS = 60
PAUSE_SECONDS = 0.002


def _sent(number: int) -> Sent:
    return Sent(None, b"%d" % number)


class NumberStream:
    """Sends ``count`` numbers to partition 0 of a topic, in a thread, some hundred a second.

    Raises:
        UnavailableError: the client is not to be had.
    """

    def __init__(self, name: str, address: str, topic: str, count: int) -> None:
        self._client: Any = open_client(name, address)
        self._topic = topic
        self._count = count
        self._error: BaseException | None = None
        self.sent = 0
        work: Callable[[], None] = getattr(self, "_" + name.replace("-", "_"))
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def is_sending(self) -> bool:
        """Whether not everything was given to the client yet."""
        return self.sent < self._count and self._thread.is_alive()

    def finish(self) -> None:
        """Wait until all is acknowledged; raises what the client raised."""
        self._thread.join(2 * DELIVERY_SECONDS)
        assert not self._thread.is_alive(), "the producer does not end"
        self._client.close()
        if self._error is not None:
            raise self._error

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            self._error = error

    def _numbers(self) -> Any:
        for number in range(self._count):
            yield number
            self.sent = number + 1
            time.sleep(PAUSE_SECONDS)

    def _confluent_kafka(self) -> None:
        errors: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        producer = self._client.producer(
            enable_idempotence=True,
            linger_ms=5,
            message_timeout_ms=DELIVERY_SECONDS * 1000,
            reconnect_backoff_max_ms=500,
        )
        for number in self._numbers():
            producer.produce(self._topic, b"%d" % number, partition=0, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(DELIVERY_SECONDS) == 0
        assert not errors, errors[:3]

    def _kafka_python(self) -> None:
        producer = self._client.producer(
            linger_ms=5, delivery_timeout_ms=DELIVERY_SECONDS * 1000, reconnect_backoff_max_ms=500
        )
        try:
            promises = [
                producer.send(self._topic, b"%d" % number, partition=0)
                for number in self._numbers()
            ]
            for promise in promises:
                promise.get(timeout=DELIVERY_SECONDS)
        finally:
            producer.close(timeout=5)

    def _aiokafka(self) -> None:
        self._client.run(self._send_with_aiokafka(), DELIVERY_SECONDS * 2)

    async def _send_with_aiokafka(self) -> None:
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(
            bootstrap_servers=self._client.address, enable_idempotence=True, linger_ms=5
        ) as producer:
            promises = []
            for number in range(self._count):
                promises.append(await producer.send(self._topic, b"%d" % number, partition=0))
                self.sent = number + 1
                await asyncio.sleep(PAUSE_SECONDS)
            async with asyncio.timeout(DELIVERY_SECONDS):
                await asyncio.gather(*promises)

    def _java(self) -> None:
        for start in range(0, self._count, 25):
            chunk = [_sent(each) for each in range(start, min(start + 25, self._count))]
            self._client.begin_stream(self._topic, chunk, linger_ms="5")
            self.sent = start + len(chunk)
            time.sleep(PAUSE_SECONDS * len(chunk))
        self._client.finish_stream()

    def _kafkajs(self) -> None:
        for start in range(0, self._count, 25):
            chunk = [_sent(each) for each in range(start, min(start + 25, self._count))]
            self._client.begin_stream(self._topic, chunk)
            self.sent = start + len(chunk)
            time.sleep(PAUSE_SECONDS * len(chunk))
        self._client.finish_stream()
