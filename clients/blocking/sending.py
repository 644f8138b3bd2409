"""What a blocking producer does by hand: appending, without a step to the other thread."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from seglog.clients.blocking.facade import EXIT_TIMEOUT_S, BlockingClient
from seglog.clients.completion import wait_for_event
from seglog.clients.errors import RecordsDroppedError
from seglog.clients.producer.accumulator import Progress, Target
from seglog.clients.producer.futures import BulkDelivery, BulkFuture, DeliveryFuture
from seglog.clients.producer.producer import AsyncProducer
from seglog.clients.producer.records import BulkItem, BytesLike, HeadersLike, measured_record

_RECORDS_PER_TURN = 1 << 62


class BlockingSender(BlockingClient[AsyncProducer]):
    """Base of ``Producer``; everything else there is made from ``AsyncProducer``."""

    def send(
        self,
        topic: str,
        value: BytesLike | None = None,
        *,
        key: BytesLike | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
    ) -> DeliveryFuture:
        """Put a record into the buffer and return the coming acknowledgement.

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
        twin = self._twin
        record, size = measured_record(key, value, timestamp_ms, headers, time.time_ns)
        target = twin.known_target(topic, partition) or self._find_target(topic, partition)
        placed = twin.accumulator.append(target, record, size)
        if placed is None:
            deadline_s = time.monotonic() + twin.config.max_block_ms / 1000
            while placed is None:
                self._wait_for_room(deadline_s)
                placed = twin.accumulator.append(target, record, size)
        return DeliveryFuture(*placed, record[0])

    def send_many(
        self, topic: str, records: Iterable[BulkItem], *, partition: int | None = None
    ) -> BulkFuture:
        """Put many records into the buffer; much cheaper than many ``send``.

        Args:
            topic: where to.
            records: (key, value) pairs, or (key, value, timestamp_ms[, headers]); taken as room
                becomes free, so it may be endless or larger than memory.
            partition: overrides the keys.

        Returns:
            The coming acknowledgement of all of them; its result is their number.

        Raises:
            The errors of ``send`` and of ``records``; records taken before are sent.
        """
        twin = self._twin
        target = twin.known_target(topic, partition) or self._find_target(topic, partition)
        delivery = BulkDelivery()
        try:
            self._append_all(target, iter(records), delivery)
        finally:
            delivery.complete()
        return BulkFuture(delivery)

    def _append_all(
        self, target: Target, items: Iterator[BulkItem], delivery: BulkDelivery
    ) -> None:
        twin = self._twin
        append_many = twin.accumulator.append_many
        while append_many(target, items, delivery, _RECORDS_PER_TURN) is not Progress.DONE:
            self._wait_for_room(time.monotonic() + twin.config.max_block_ms / 1000)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction around a block: committed at its end, aborted if it raises."""
        manager = self._twin.transaction()
        self._call(manager.__aenter__())
        try:
            yield
        except BaseException as error:
            self._call(manager.__aexit__(type(error), error, error.__traceback__))
            raise
        self._call(manager.__aexit__(None, None, None))

    def close(self, timeout: float | None = None) -> int:
        """Send the buffered records, then disconnect; idempotent.

        A transaction that is open is aborted.

        Args:
            timeout: seconds to wait for acknowledgements; None waits until the delivery timeout
                has decided everything.

        Returns:
            How many records were dropped: in the buffer, but never acknowledged.
        """
        return 0 if self._is_closed else self._end(self._twin.close(timeout))

    def leave_to_parent(self) -> None:
        """This process was forked: the client and its connection belong to the other one."""
        super().leave_to_parent()
        self._twin.refuse("the client was made before this process was forked")

    def close_at_exit(self) -> None:
        """Close, because the interpreter ends: buffered records get a moment."""
        self.close(EXIT_TIMEOUT_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        dropped = self.close()
        if kind is None:
            self._twin.raise_unseen_error()
            if dropped:
                raise RecordsDroppedError(dropped)

    def _find_target(self, topic: str, partition: int | None) -> Target:
        return self._call(self._twin.find_target(topic, partition))

    def _wait_for_room(self, deadline_s: float) -> None:
        self._thread.check()
        has_room = threading.Event()
        accumulator, wake = self._twin.accumulator, has_room.set
        accumulator.wait_for_room(wake)
        try:
            if not wait_for_event(has_room, max(0.0, deadline_s - time.monotonic())):
                raise self._twin.room_error()
        finally:
            accumulator.wait_no_longer(wake)
