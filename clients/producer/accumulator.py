"""The producer's buffer: records waiting in batches, a queue for each partition. No I/O.

Any thread appends, under one lock that is held for a few instructions. The loop's thread takes
batches out. A batch stays in its queue until its outcome is known.

A thread may come here while it is in here: Python runs signal handlers and ``__del__`` wherever it
likes, one of them logs, and a handler of the log sends. Such a record gets a batch of its own,
which is put into its queue when the thread leaves.
"""

import itertools
import operator
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from seglog.clients.config import ProducerConfig
from seglog.clients.errors import ClientClosedError, ConfigurationError, RecordTooLargeError
from seglog.clients.producer.batch import Outcome, ProducerBatch
from seglog.clients.producer.futures import BulkDelivery
from seglog.clients.producer.partition_queue import PartitionQueue
from seglog.clients.producer.partitioner import StickyPartitioner, partition_for_key
from seglog.clients.producer.records import BulkItem, RecordFields, measured_item
from seglog.protocol.records.batch import HEADER_BYTES
from seglog.protocol.types import NO_SEQUENCE, TopicPartition
from seglog.protocol.wording import count_text


class Target(NamedTuple):
    """Where records go: a topic with so many partitions, and one of them or None for the rules."""

    topic: str
    partition_count: int
    partition: int | None


class Progress(Enum):
    """Why ``append_many`` came back."""

    DONE = 1
    NO_ROOM = 2
    PAUSE = 3


class TopicQueues:
    """The queues of one topic, and the partition for its records without a key."""

    __slots__ = ("queues", "sticky")

    def __init__(self, turn_bytes: int) -> None:
        self.queues: dict[int, PartitionQueue] = {}
        self.sticky = StickyPartitioner(turn_bytes)


class RecordAccumulator:
    """Collects records into batches, within a bound on their bytes.

    Args:
        config: sizes and times.
        clock: seconds, monotonic.
        time_ns: nanoseconds since the epoch, for records without a timestamp.
        wake: called from any thread when there may be something to send.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Callable[[], float],
        time_ns: Callable[[], int],
        wake: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._time_ns = time_ns
        self._wake = wake
        self._lock = threading.RLock()
        # Whether the thread that holds the lock is at work already. Set after the lock was taken
        # and cleared before it is let go: an interruption in between finds all in order.
        self._is_inside = False
        self._late: deque[tuple[Target, ProducerBatch, int]] = deque()
        self._topics: dict[str, TopicQueues] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self._room_waiters: list[Callable[[], object]] = []
        self._buffered_bytes = 0
        self._is_closed = False
        self._batch_bytes = config.batch_bytes
        self._buffer_bytes = config.buffer_bytes
        self._record_bytes_max = config.max_request_bytes - HEADER_BYTES
        self._linger_s = config.linger_ms / 1000
        self._in_flight_max = config.batches_in_flight_max
        self._delivery_timeout_s = config.delivery_timeout_ms / 1000

    # Any thread.

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the records that are neither acknowledged nor given up."""
        return self._buffered_bytes

    @property
    def has_room(self) -> bool:
        """Whether a record may be appended now."""
        return self._buffered_bytes < self._buffer_bytes

    def append(
        self, target: Target, record: RecordFields, size: int
    ) -> tuple[ProducerBatch, int] | None:
        """Put a record of ``size`` bytes into the batch of its partition.

        Returns:
            The batch and the record's index in it; None if there is no room.

        Raises:
            RecordTooLargeError: it would not fit into any request.
            ConfigurationError: there is no such partition.
            ClientClosedError: the producer is closed.
        """
        placed, is_wanted = None, False
        with self._lock:
            if self._is_inside:
                return self._append_late(target, record, size), 0
            self._is_inside = True
            try:
                if self.has_room or self._is_closed:
                    batch, index, is_wanted = self._place(target, record, size)
                    placed = batch, index
            finally:
                self._is_inside = False
                if self._late:
                    is_wanted = self._place_late()
        if is_wanted:
            self._wake()
        return placed

    def append_many(
        self,
        target: Target,
        items: Iterator[BulkItem],
        delivery: BulkDelivery,
        max_records: int,
    ) -> Progress:
        """Append records until ``items`` ends, the buffer is full or ``max_records`` are taken.

        The lock is taken for each record, not for the run: ``items`` is the application's and may
        take its time, while the batch that is being filled must be able to leave.

        Raises:
            The errors of ``append`` and ``measured_item``; records taken before stay appended.
        """
        if not self.has_room:
            return Progress.NO_ROOM
        lock, time_ns, batch_bytes = self._lock, self._time_ns, self._batch_bytes
        sticky = self._topic(target.topic).sticky
        is_one_partition = target.partition is not None or target.partition_count == 1
        batch: ProducerBatch | None = None
        for taken, item in enumerate(items, 1):
            record, size = measured_item(item, time_ns)
            is_wanted = False
            with lock:
                if self._is_inside:
                    delivery.add(self._append_late(target, record, size), 0)
                    continue
                self._is_inside = True
                try:
                    if (
                        batch is not None
                        and batch.is_filling
                        and batch.size_bytes + size <= batch_bytes
                        and (is_one_partition or (record[1] is None and size <= sticky.bytes_left))
                    ):
                        # The same batch as before, as nearly always: ``_place`` in short.
                        sticky.bytes_left -= size
                        index = batch.record_count
                        batch.records.append(record)
                        batch.record_count = index + 1
                        batch.size_bytes += size
                        self._buffered_bytes += size
                    else:
                        batch, index, is_wanted = self._place(target, record, size)
                    delivery.add(batch, index)
                finally:
                    self._is_inside = False
                    if self._late:
                        is_wanted = self._place_late()
            if is_wanted:
                self._wake()
            if self._buffered_bytes >= self._buffer_bytes:
                return Progress.NO_ROOM
            if taken >= max_records:
                return Progress.PAUSE
        return Progress.DONE

    def _place(
        self, target: Target, record: RecordFields, size: int
    ) -> tuple[ProducerBatch, int, bool]:
        """Under the lock: the batch, the index in it, and whether the sender must hear of it."""
        self._check(size, target)
        queue = self._queue_for(target, record[1], size)
        batch = queue.batches[-1] if queue.batches else None
        is_wanted = False
        if batch is None or not batch.is_filling or batch.size_bytes + size > self._batch_bytes:
            # A batch that is full now must leave as well as the new one at its time.
            is_one_full = batch is not None and batch.is_filling
            batch = self._begin_batch(queue)
            is_wanted = not queue.in_flight or (
                is_one_full and queue.in_flight < self._in_flight_max
            )
        index = batch.record_count
        batch.records.append(record)
        batch.record_count = index + 1
        batch.size_bytes += size
        self._buffered_bytes += size
        return batch, index, is_wanted

    def _check(self, size: int, target: Target) -> None:
        """Refuse what can never be sent."""
        if self._is_closed:
            raise ClientClosedError("the producer is closed")
        if size > self._record_bytes_max:
            raise RecordTooLargeError(
                f"a record of {size} bytes for {target.topic}; max_request_bytes allows "
                f"{self._record_bytes_max}"
            )
        if target.partition is not None and not 0 <= target.partition < target.partition_count:
            raise ConfigurationError(
                f"topic {target.topic} has "
                f"{count_text(target.partition_count, 'partition')}, no {target.partition}"
            )

    def put(self, batch: ProducerBatch) -> None:
        """Queue a batch that is encoded already; it is no matter of room."""
        batch.is_filling = False
        with self._inside():
            queue = self._queue_of(batch.partition)
            self._queue(queue, batch)
            self._buffered_bytes += batch.size_bytes - HEADER_BYTES

    def _append_late(self, target: Target, record: RecordFields, size: int) -> ProducerBatch:
        """A batch for one record of a thread that interrupts itself in here; raises as ``append``.

        There is always room: waiting for it would be waiting for the very thread that waits.
        """
        self._check(size, target)
        place = TopicPartition(target.topic, target.partition or 0)
        now_s = self._clock()
        batch = ProducerBatch(place, now_s + self._delivery_timeout_s, now_s + self._linger_s)
        batch.is_filling = False
        batch.records.append(record)
        batch.record_count = 1
        batch.size_bytes += size
        self._late.append((target, batch, size))
        return batch

    def _place_late(self) -> bool:
        """Under the lock, on the way out: queue the batches of ``_append_late``; True."""
        while self._late:
            self._is_inside = True
            while self._late:
                target, batch, size = self._late.popleft()
                queue = self._queue_for(target, batch.records[0][1], size)
                batch.partition = queue.partition
                self._queue(queue, batch)
                self._buffered_bytes += size
            # What comes from here on places itself; what came just before is seen above.
            self._is_inside = False
        return True

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Hold the lock, for work once a batch."""
        is_wanted = False
        with self._lock:
            is_nested, self._is_inside = self._is_inside, True
            try:
                yield
            finally:
                if not is_nested:
                    self._is_inside = False
                    if self._late:
                        is_wanted = self._place_late()
        if is_wanted:
            self._wake()

    def _queue_for(self, target: Target, key: bytes | None, size: int) -> PartitionQueue:
        topic = self._topic(target.topic)
        partition = target.partition
        if partition is None:
            if key is None:
                partition = topic.sticky.partition_for(size, target.partition_count)
            else:
                partition = partition_for_key(key, target.partition_count)
        queue = topic.queues.get(partition)
        return queue or self._queue_of(TopicPartition(target.topic, partition))

    def _queue_of(self, partition: TopicPartition) -> PartitionQueue:
        queues = self._topic(partition.topic).queues
        queue = queues.get(partition.partition)
        if queue is None:
            queue = queues[partition.partition] = PartitionQueue(partition)
        return queue

    def _topic(self, name: str) -> TopicQueues:
        topic = self._topics.get(name)
        if topic is None:
            # Two threads may come here at once: whichever is first, both get the same object.
            fresh = TopicQueues(self._batch_bytes - HEADER_BYTES)
            topic = self._topics.setdefault(name, fresh)
        return topic

    def _begin_batch(self, queue: PartitionQueue) -> ProducerBatch:
        now_s = self._clock()
        batch = ProducerBatch(
            queue.partition, now_s + self._delivery_timeout_s, now_s + self._linger_s
        )
        self._queue(queue, batch)
        return batch

    def _queue(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if queue.batches:
            queue.batches[-1].is_filling = False
        queue.batches.append(batch)
        self._active[queue.partition] = queue

    def wait_for_room(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once, from any thread, when there is room or the producer closes."""
        with self._inside():
            must_wait = not self.has_room and not self._is_closed
            if must_wait:
                self._room_waiters.append(callback)
        if must_wait:
            self._wake()  # Batches do not linger while a sender waits for their room.
        else:
            callback()

    def wait_no_longer(self, callback: Callable[[], object]) -> None:
        """Forget a callback that waits for room."""
        with self._inside():
            if callback in self._room_waiters:
                self._room_waiters.remove(callback)

    # The loop's thread.

    @property
    def is_empty(self) -> bool:
        """Whether every record is acknowledged or given up."""
        return not self._active

    def close(self) -> None:
        """Take no more records; the buffered ones should leave at once."""
        with self._inside():
            self._is_closed = True
            for queue in self._active.values():
                queue.batches[-1].is_filling = False
            waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            waiter()

    def pending(self) -> list[ProducerBatch]:
        """Every batch without an outcome; from now on they are not waited with any more."""
        with self._inside():
            batches = [batch for queue in self._active.values() for batch in queue.batches]
            for batch in batches:
                batch.ready_at_s = 0.0
        return batches

    def ready(self, now_s: float) -> tuple[list[PartitionQueue], float]:
        """Queues of which a batch may leave, oldest first, and when to look again at the latest."""
        ready: list[tuple[float, PartitionQueue]] = []
        look_again_at_s = float("inf")
        with self._inside():
            is_urgent = self._is_closed or not self.has_room
            for queue in self._active.values():
                # Batches are queued in the order of their deadlines.
                look_again_at_s = min(look_again_at_s, queue.batches[0].deadline_s)
                departure = queue.next_departure(now_s, self._in_flight_max, is_urgent=is_urgent)
                if departure is None:
                    continue
                batch, at_s = departure
                if at_s <= now_s:
                    ready.append((batch.deadline_s, queue))
                else:
                    look_again_at_s = min(look_again_at_s, at_s)
        ready.sort(key=operator.itemgetter(0))
        return [queue for _, queue in ready], look_again_at_s

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """The next batch of a ready queue; it stays where it is, closed to further records."""
        with self._inside():
            return queue.take()

    def release(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        retry_at_s: float = 0.0,
        *,
        must_drain: bool = False,
    ) -> None:
        """The request with ``batch`` has ended; the next may leave at that time.

        If the batch has to leave again, or if ``must_drain``, all others under way end before.
        """
        with self._inside():
            queue.release(batch, self._clock(), retry_at_s, must_drain=must_drain)

    def numbered(self, queue: PartitionQueue) -> list[ProducerBatch]:
        """The batches of a queue that have sequence numbers, in order."""
        with self._inside():
            return [batch for batch in queue.batches if batch.base_sequence != NO_SEQUENCE]

    def expired(self, now_s: float) -> list[ProducerBatch]:
        """The batches whose delivery timeout is over, under way or not."""
        with self._inside():
            return [
                batch
                for queue in self._active.values()
                for batch in itertools.takewhile(
                    lambda batch: batch.deadline_s <= now_s, queue.batches
                )
            ]

    def finish(self, batch: ProducerBatch, outcome: Outcome) -> None:
        """Take a batch out of its queue and resolve its futures."""
        self._remove(batch, ())
        batch.finish(outcome)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Put ``parts``, which hold the same records, in the place of a batch."""
        self._remove(batch, parts)
        batch.split_into(parts)

    def _remove(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        with self._inside():
            queue = self._active.get(batch.partition)
            if queue is None or not queue.replace(batch, parts):
                return
            if not queue.batches:
                del self._active[batch.partition]
            self._buffered_bytes -= batch.size_bytes - HEADER_BYTES
            self._buffered_bytes += sum(part.size_bytes - HEADER_BYTES for part in parts)
            waiters: list[Callable[[], object]] = []
            if self.has_room:
                waiters, self._room_waiters = self._room_waiters, []
        for waiter in waiters:
            waiter()
