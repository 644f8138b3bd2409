"""``AsyncProducer``: sends records in batches."""

import asyncio
import copy
import logging
import threading
import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from seglog.clients.clock import fine_clock
from seglog.clients.cluster import Cluster
from seglog.clients.config import ProducerConfig, ProducerOptions, make_config
from seglog.clients.errors import (
    BufferFullError,
    ClientClosedError,
    ClientError,
    ConfigurationError,
    FlushTimeoutError,
    RecordsDroppedError,
)
from seglog.clients.models import RecordMetadata
from seglog.clients.producer.accumulator import Progress, RecordAccumulator, Target
from seglog.clients.producer.batch import Outcome, ProducerBatch
from seglog.clients.producer.dispatcher import Dispatcher
from seglog.clients.producer.futures import AsyncBulkFuture, AsyncDeliveryFuture, BulkDelivery
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.producer.records import BulkItem, BytesLike, HeadersLike, measured_record
from seglog.clients.producer.sender import Sender
from seglog.clients.producer.transactional_steps import TransactionalSteps
from seglog.protocol.records.kernel import warn_if_slow
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    # A program that sends outside of transactions must not pay for them.
    from seglog.clients.producer.transactions import Transactions

_logger = logging.getLogger("seglog.clients")
RECORDS_PER_TURN: Final = 1000
"""How many records ``send_many`` takes before other tasks of the loop get their turn."""


class AsyncProducer(TransactionalSteps):
    """Sends records, in batches, to the partitions of topics.

    Records of one partition keep the order in which they were sent, also when requests fail and
    are tried again, and each is stored once (see ``enable_idempotence``).
    Use it as ``async with``, or call ``start`` and ``close``.

    With ``transactional_id`` everything is sent in transactions: ``async with
    producer.transaction()``, or ``begin_transaction`` and ``commit_transaction``.

    Args:
        bootstrap_servers: "host:port" of a broker, several with commas or as a sequence.
        **options: see ``ProducerConfig``.

    Raises:
        ConfigurationError: an option that cannot be right.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], **options: Unpack[ProducerOptions]
    ) -> None:
        warn_if_slow()
        self.config = make_config(ProducerConfig, options)
        self.cluster = Cluster(bootstrap_servers, self.config)
        self.accumulator = RecordAccumulator(
            self.config, self._now_s, time.time_ns, self._wake_sender
        )
        self._identity = ProducerIdentity(
            is_idempotent=self.config.is_idempotent,
            is_transactional=self.config.transactional_id is not None,
        )
        self._transactions = self._make_transactions()
        self._dispatcher = Dispatcher(
            self.config,
            self.cluster.metadata,
            self.accumulator,
            self._identity,
            self.cluster.warn,
            None if self._transactions is None else self._transactions.progress,
        )
        self._clock: Callable[[], float] = time.monotonic
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._sender: Sender | None = None
        self._refusal = ""

    def _make_transactions(self) -> "Transactions | None":
        if self.config.transactional_id is None:
            return None
        from seglog.clients.producer.transactions import Transactions

        return Transactions(
            self.config, self.cluster, self._identity, self.accumulator, self._wake_sender
        )

    async def start(self) -> Self:
        """Connect, and take over the transactional id if there is one; idempotent.

        Raises:
            BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
            BrokerError: the broker does not give the transactional id.
        """
        await self.cluster.start()
        if self._sender is None:
            if self._transactions is not None:
                await self._transactions.own()
            self._loop = asyncio.get_running_loop()
            self._thread_id = threading.get_ident()
            self._clock = fine_clock(self._loop)
            self._sender = Sender(self.config, self.cluster, self._dispatcher, self._clock)
            self.cluster.add_listener(self._sender.wake)
            self.cluster.add_failure_listener(self._fail)
            self.cluster.tasks.spawn(self._sender.run(), "seglog-sender", is_vital=True)
        return self

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close(0)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        dropped = await self.close()
        if kind is None:
            self.raise_unseen_error()
            if dropped:
                raise RecordsDroppedError(dropped)

    async def send(
        self,
        topic: str,
        value: BytesLike | None = None,
        *,
        key: BytesLike | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
    ) -> AsyncDeliveryFuture:
        """Put a record into the buffer and return the coming acknowledgement, to be awaited.

        Args:
            topic: where to; the broker may create it, if it is set up to do so.
            value: the content; None is a tombstone.
            key: decides the partition as Kafka's clients do; records of one key stay in order.
            timestamp_ms: milliseconds since the epoch; None is now.
            headers: names with values; names may repeat.
            partition: overrides the key.

        Raises:
            BufferFullError: no room within ``max_block_ms``.
            UnknownTopicOrPartitionError, MetadataTimeoutError: no such topic.
            RecordTooLargeError: the record is over ``max_request_bytes``.
            ConfigurationError: an argument of the wrong type, or no such partition.
            TransactionStateError, TransactionAbortedError: with a transactional id, where no
                transaction is open or the one that is has failed.
        """
        record, size = measured_record(key, value, timestamp_ms, headers, time.time_ns)
        target = self.known_target(topic, partition) or await self.find_target(topic, partition)
        self.cluster.check_loop()
        placed = self.accumulator.append(target, record, size)
        if placed is None:
            deadline_s = self._clock() + self.config.max_block_ms / 1000
            while placed is None:
                await self._wait_for_room(deadline_s)
                placed = self.accumulator.append(target, record, size)
        return AsyncDeliveryFuture(*placed, record[0])

    async def send_and_wait(
        self,
        topic: str,
        value: BytesLike | None = None,
        *,
        key: BytesLike | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """Send a record and return where it was stored; raises what ``send`` and its future do."""
        return await (
            await self.send(
                topic,
                value,
                key=key,
                timestamp_ms=timestamp_ms,
                headers=headers,
                partition=partition,
            )
        )

    async def send_many(
        self,
        topic: str,
        records: Iterable[BulkItem] | AsyncIterable[BulkItem],
        *,
        partition: int | None = None,
    ) -> AsyncBulkFuture:
        """Put many records into the buffer; much cheaper than many ``send``.

        Args:
            topic: where to.
            records: (key, value) pairs, or (key, value, timestamp_ms[, headers]); taken as room
                becomes free, so it may be endless or larger than memory.
            partition: overrides the keys.

        Returns:
            The coming acknowledgement of all of them; awaited, it gives their number.

        Raises:
            The errors of ``send`` and of ``records``; records taken before are sent.
        """
        target = self.known_target(topic, partition) or await self.find_target(topic, partition)
        self.cluster.check_loop()
        delivery = BulkDelivery()
        try:
            if isinstance(records, AsyncIterable):
                async for item in records:
                    await self._append_all(target, iter((item,)), delivery)
            else:
                await self._append_all(target, iter(records), delivery)
        finally:
            delivery.complete()
        return AsyncBulkFuture(delivery)

    async def _append_all(
        self, target: Target, items: Iterator[BulkItem], delivery: BulkDelivery
    ) -> None:
        while True:
            progress = self.accumulator.append_many(target, items, delivery, RECORDS_PER_TURN)
            if progress is Progress.DONE:
                return
            if progress is Progress.PAUSE:
                await asyncio.sleep(0)
            else:
                await self._wait_for_room(self._clock() + self.config.max_block_ms / 1000)

    async def flush(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - more than giving up happens then
    ) -> None:
        """Send the buffered records now, without lingering, and wait for their outcome.

        Args:
            timeout: seconds; None waits until the delivery timeout has decided everything.

        Raises:
            FlushTimeoutError: not everything is decided in time.
            ClientError: the first error since the last ``flush`` that was not read.
        """
        self.cluster.check_loop()
        batches = self.accumulator.pending()
        self._wake_sender()
        if not await _wait_for(batches, timeout):
            waiting = sum(batch.record_count for batch in batches if not batch.is_done)
            raise FlushTimeoutError(
                f"{count_text(waiting, 'record')} not acknowledged within {timeout} s"
            )
        self.raise_unseen_error()

    async def close(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - more than giving up happens then
    ) -> int:
        """Send the buffered records, then disconnect; idempotent.

        A transaction that is open is aborted.

        Args:
            timeout: seconds to wait for acknowledgements; None waits until the delivery timeout
                has decided everything.

        Returns:
            How many records were dropped: in the buffer, but never acknowledged.
        """
        self.cluster.check_loop()
        batches: list[ProducerBatch] = []
        try:
            if self._transactions is not None and self._sender is not None and not self._refusal:
                await self._transactions.abandon(timeout)
            self.refuse("the producer is closed")
            self.accumulator.close()
            batches = self.accumulator.pending()
            if self._sender is not None:
                self._sender.wake()
                await _wait_for(batches, timeout)
        finally:
            # A caller that is cancelled here stops waiting for records, and leaves nothing behind.
            self.refuse("the producer is closed")
            self.accumulator.close()
            await self.cluster.close()
            self._drop_pending("the producer is closed")
            dropped = self._dropped_of(batches)
        return dropped

    def _drop_pending(self, reason: str) -> None:
        for batch in self.accumulator.pending():
            error = ClientClosedError(
                f"{count_text(batch.record_count, 'record')} for {batch.partition} dropped: "
                f"{reason}"
            )
            batch.mark_error_seen()
            self.accumulator.finish(batch, Outcome(error=error))

    def _dropped_of(self, batches: Iterable[ProducerBatch]) -> int:
        dropped = sum(batch.failed_count for batch in batches)
        if dropped:
            # Not held back by other trouble a moment ago: at the end of a program it is the only
            # word about lost records.
            _logger.warning("producer: closed with %s dropped", count_text(dropped, "record"))
        return dropped

    def raise_unseen_error(self) -> None:
        """Raise the first unread error of a record; it counts as read then."""
        outcomes = self._dispatcher.outcomes
        failed, outcomes.failed_batches = outcomes.failed_batches, []
        unseen = [batch for batch in failed if not batch.is_error_seen]
        for batch in unseen:
            batch.mark_error_seen()
        error = next((batch.error for batch in unseen if batch.error is not None), None)
        if error is not None:
            raise copy.copy(error)

    # Shared with the blocking facade.

    def refuse(self, reason: str) -> None:
        """Take no more records; ``send`` raises ``ClientClosedError`` with the reason."""
        self._refusal = self._refusal or reason

    def known_target(self, topic: str, partition: int | None) -> Target | None:
        """Where to send, if metadata knows; from any thread.

        Raises:
            ClientClosedError: the producer is closed or was not started.
        """
        if self._refusal:
            raise ClientClosedError(self._refusal)
        if self._sender is None:
            raise ClientClosedError("the producer is not started")
        if self._transactions is not None:
            self._transactions.progress.check_open()
        if type(topic) is not str:
            raise ConfigurationError(f"topic {topic!r}: expected a string")
        if partition is not None and type(partition) is not int:
            raise ConfigurationError(f"partition {partition!r}: expected an integer, or None")
        known = self.cluster.metadata.topics.get(topic)
        if known is None or (partition is not None and partition >= known.partition_count):
            return None
        return Target(topic, known.partition_count, partition)

    async def find_target(self, topic: str, partition: int | None) -> Target:
        """Where to send, after asking the broker."""
        timeout_s = self.config.max_block_ms / 1000
        known = await self.cluster.find_topic(topic, timeout_s, create=True)
        if partition is not None and partition >= known.partition_count:
            # Perhaps the topic has grown since.
            await self.cluster.refresh(min(timeout_s, self.config.request_timeout_ms / 1000))
            known = self.cluster.topics.get(topic, known)
        return Target(topic, known.partition_count, partition)

    def room_error(self) -> ClientError:
        """The error of a sender that waited for room in vain."""
        message = (
            f"no room for a record: the buffer was full for max_block_ms={self.config.max_block_ms}"
            f", buffer_bytes={self.config.buffer_bytes}"
        )
        trouble = self._dispatcher.last_trouble
        return BufferFullError(message if trouble is None else f"{message}; last error: {trouble}")

    def _fail(self) -> None:
        """No task is left to time records out: a bug, or the loop has ended."""
        self.refuse(self.cluster.failure)
        self.accumulator.close()
        batches = self.accumulator.pending()
        self._drop_pending(self.cluster.failure)
        self._dropped_of(batches)

    async def _wait_for_room(self, deadline_s: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.accumulator.wait_for_room(wake)
        try:
            async with asyncio.timeout(max(0.0, deadline_s - self._clock())):
                await waiter
        except TimeoutError as error:
            raise self.room_error() from error
        finally:
            self.accumulator.wait_no_longer(wake)

    def _now_s(self) -> float:
        return self._clock()

    def _wake_sender(self) -> None:
        if self._sender is None or self._loop is None:
            return
        if threading.get_ident() == self._thread_id:
            self._sender.wake()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._sender.wake)


async def _wait_for(batches: list[ProducerBatch], timeout_s: float | None) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            for batch in batches:
                await batch.wait_async()
    except TimeoutError:
        return False
    return True
