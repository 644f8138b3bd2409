"""A transactional producer of each client, in one shape."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from support.foreign.programs import ProgramClient, ProgramError, to_texts
from support.foreign.shape import Sent

WAIT_SECONDS: Final = 20.0
LONG_TIMEOUT_MS: Final = 60_000
_FENCED_WORDS: Final = ("fenced", "epoch", "mapping", "txnstate")
"""What the errors of all clients have in their names once a newer producer, or the coordinator
itself, has ended their transaction."""


class FencedError(Exception):
    """A newer producer has taken over, or the coordinator has given this one up."""


class TransactionalProducer(Protocol):
    """A producer with a transactional id; ``open_producer`` makes it, ready to begin.

    What it is asked raises ``FencedError`` where it is no longer the one.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        """Send to partition 0 and wait until it is acknowledged."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 for a group, as part of the transaction."""

    def commit(self) -> None:
        """End it: keep what was sent."""

    def abort(self) -> None:
        """End it: hide what was sent."""

    def close(self) -> None:
        """Let go of it without ending anything; may be called where it is fenced."""


def open_producer(
    client: Any, transactional_id: str, timeout_ms: int = LONG_TIMEOUT_MS
) -> TransactionalProducer:
    """A producer of a client that ``open_client`` has started."""
    producer: TransactionalProducer = _MAKERS[client.name](client, transactional_id, timeout_ms)
    return producer


class _Confluent:
    def __init__(self, client: Any, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        self._producer = client.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=5,
            reconnect_backoff_max_ms=500,
        )
        self._guarded(self._producer.init_transactions, WAIT_SECONDS)

    def begin(self) -> None:
        self._guarded(self._producer.begin_transaction)

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        errors: list[Any] = []
        for value in values:
            self._guarded(
                lambda value=value: self._producer.produce(
                    topic, value, partition=0, on_delivery=lambda error, _: errors.append(error)
                )
            )
        assert self._producer.flush(WAIT_SECONDS) == 0
        for error in errors:
            if error is not None:
                raise _translated(Exception(error.name(), error.str()))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._client.consumer(group_id=group)
        try:
            self._guarded(
                self._producer.send_offsets_to_transaction,
                [TopicPartition(topic, 0, offset)],
                consumer.consumer_group_metadata(),
                WAIT_SECONDS,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        self._guarded(self._producer.commit_transaction, WAIT_SECONDS)

    def abort(self) -> None:
        self._guarded(self._producer.abort_transaction, WAIT_SECONDS)

    def close(self) -> None:
        self._producer.purge()
        with contextlib.suppress(FencedError):
            self._guarded(self._producer.flush, 1)

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> None:
        from confluent_kafka import KafkaException

        try:
            work(*arguments)
        except KafkaException as error:
            raise _translated(error) from error


class _KafkaPython:
    def __init__(self, client: Any, transactional_id: str, timeout_ms: int) -> None:
        self._producer = client.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=5,
            reconnect_backoff_max_ms=500,
        )
        try:
            self._guarded(self._producer.init_transactions)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self._guarded(self._producer.begin_transaction)

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        promises = [
            self._guarded(self._producer.send, topic, each, None, None, 0) for each in values
        ]
        for promise in promises:
            self._guarded(promise.get, WAIT_SECONDS)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._guarded(self._producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._guarded(self._producer.commit_transaction)

    def abort(self) -> None:
        self._guarded(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> Any:
        from kafka.errors import KafkaError

        try:
            return work(*arguments)
        except KafkaError as error:
            raise _translated(error) from error


class _Aiokafka:
    def __init__(self, client: Any, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        self._producer = client.run(self._start(transactional_id, timeout_ms))

    async def _start(self, transactional_id: str, timeout_ms: int) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=self._client.address,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=5,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        self._run(self._send(topic, values))

    async def _send(self, topic: str, values: Sequence[bytes]) -> None:
        promises = [await self._producer.send(topic, each, partition=0) for each in values]
        for promise in promises:
            await promise

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        from aiokafka import TopicPartition

        offsets = {TopicPartition(topic, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._client.run(self._stop())

    async def _stop(self) -> None:
        # ``stop`` would first wait until an open transaction has ended.
        await self._producer._sender.close()
        await self._producer.client.close()
        self._producer._closed = True

    def _run(self, work: Any) -> None:
        from aiokafka.errors import KafkaError

        try:
            self._client.run(work)
        except KafkaError as error:
            raise _translated(error) from error


class _Program:
    _count = 0

    def __init__(self, client: ProgramClient, transactional_id: str, timeout_ms: int) -> None:
        self._client = client
        _Program._count += 1
        self._name = f"producer-{_Program._count}"
        self._ask("open", transactionalId=transactional_id, timeout=timeout_ms)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        self._ask("send", topic=topic, records=to_texts([Sent(None, each) for each in values]))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._ask("offset", group=group, topic=topic, offset=offset)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close")

    def _ask(self, step: str, **arguments: Any) -> None:
        try:
            self._client.ask("transaction", producer=self._name, step=step, **arguments)
        except ProgramError as error:
            raise _translated(error) from error


def _translated(error: Exception) -> Exception:
    """``FencedError`` where it is one, else the error itself."""
    text = f"{type(error).__name__} {error}".lower()
    if any(word in text for word in _FENCED_WORDS):
        return FencedError(text)
    return error


_MAKERS: Final[dict[str, Callable[[Any, str, int], TransactionalProducer]]] = {
    "confluent-kafka": _Confluent,
    "kafka-python": _KafkaPython,
    "aiokafka": _Aiokafka,
    "kafkajs": _Program,
    "java": _Program,
}
