"""The batches of one partition, and when the next one may leave. No I/O, no lock.

A batch stays in its queue until its outcome is known. Those under way are the oldest ones, and
after a failure no more leave until all of them have ended: that is what keeps the order of a
partition through every retry.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from seglog.clients.producer.batch import ProducerBatch
from seglog.protocol.types import TopicPartition

CONFIRMED_S: Final = 1.0
"""How long after an acknowledgement batches of a partition follow each other without waiting.

The first one after a pause travels alone: a broker that has forgotten the producer takes the first
batch that comes, which must not be the second because the first has failed.
"""
_NEVER: Final = float("inf")


class PartitionQueue:
    """The batches of one partition, oldest first.

    ``in_flight`` counts the requests with a batch of it, also where the batch was given up
    meanwhile: the broker may still be storing it. With ``must_drain`` nothing more leaves until
    that is 0. At ``confirmed_at_s`` the newest batch was acknowledged, if nothing failed since.
    """

    __slots__ = (
        "batches",
        "confirmed_at_s",
        "in_flight",
        "must_drain",
        "partition",
        "retry_at_s",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.confirmed_at_s = -_NEVER
        self.in_flight = 0
        self.must_drain = False
        self.retry_at_s = 0.0

    @property
    def upcoming(self) -> ProducerBatch | None:
        """The next batch to leave, or to leave again."""
        for batch in self.batches:
            if not batch.is_in_flight:
                return batch
        return None

    def next_departure(
        self, now_s: float, in_flight_max: int, *, is_urgent: bool
    ) -> tuple[ProducerBatch, float] | None:
        """The next batch to leave and when it may; None if that depends on those under way.

        Behind a batch under way only a full one leaves: a small one grows meanwhile.

        Args:
            now_s: the time.
            in_flight_max: how many requests may be under way.
            is_urgent: whether nothing lingers.
        """
        batch = self.upcoming
        if batch is None or self.in_flight >= in_flight_max:
            return None
        if self.in_flight and (
            self.must_drain or batch.is_filling or now_s > self.confirmed_at_s + CONFIRMED_S
        ):
            return None
        if batch.is_filling and not is_urgent:
            return batch, max(self.retry_at_s, batch.ready_at_s)
        return batch, self.retry_at_s

    def take(self) -> ProducerBatch:
        """The next batch, which leaves now; it stays where it is, closed to further records."""
        batch = self.upcoming
        assert batch is not None, self.partition
        self.in_flight += 1
        batch.is_in_flight = True
        batch.is_filling = False
        return batch

    def release(
        self, batch: ProducerBatch, now_s: float, retry_at_s: float, *, must_drain: bool
    ) -> None:
        """The request with ``batch`` has ended; see ``RecordAccumulator.release``."""
        self.in_flight -= 1
        batch.is_in_flight = False
        self.retry_at_s = max(self.retry_at_s, retry_at_s)
        is_confirmed = batch.is_done and batch.error is None
        self.confirmed_at_s = now_s if is_confirmed else -_NEVER
        if must_drain or not batch.is_done:
            self.must_drain = True
        if not self.in_flight:
            self.must_drain = False

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> bool:
        """Put ``parts``, mostly none, in the place of a batch; False if it is not there."""
        if batch not in self.batches:
            return False
        place = self.batches.index(batch)
        del self.batches[place]
        for part in reversed(parts):
            self.batches.insert(place, part)
        batch.is_filling = False
        return True
