"""Sends what the accumulator holds: grouped by leader, retried, never out of order.

One task decides what leaves; each request is a task of its own. With an idempotent
``ProducerIdentity`` batches carry its id, epoch and sequence numbers.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from seglog.clients.cluster import Cluster
from seglog.clients.config import ProducerConfig
from seglog.clients.errors import (
    BrokerError,
    ClientError,
    ConfigurationError,
    DeliveryTimeoutError,
    InvalidRecordError,
    broker_error,
)
from seglog.clients.producer.accumulator import PartitionQueue, RecordAccumulator
from seglog.clients.producer.batch import Outcome, ProducerBatch
from seglog.clients.producer.records import RecordFields, size_of
from seglog.clients.retry import Backoff
from seglog.protocol.api import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import HEADER_BYTES, RecordBatch
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import (
    INT32_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Acks,
    TopicPartition,
)

_FAILURES_KEPT: Final = 1000
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@dataclass
class ProducerIdentity:
    """Who writes, for the broker to recognize a batch that it has already; none by default."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    next_sequences: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_idempotent(self) -> bool:
        """Whether batches are numbered."""
        return self.producer_id != NO_PRODUCER_ID

    def number(self, batch: ProducerBatch) -> None:
        """Give a batch that leaves for the first time its sequence numbers; a retry keeps them."""
        if self.is_idempotent and batch.base_sequence == NO_SEQUENCE:
            batch.base_sequence = self.next_sequences.get(batch.partition, 0)
            following = batch.base_sequence + batch.record_count
            self.next_sequences[batch.partition] = following & INT32_MAX


class Sender:
    """Moves batches from the accumulator to the brokers. Belongs to the loop.

    Args:
        config: of the producer.
        cluster: leaders and connections.
        accumulator: where the batches are.
        identity: none, or that of an idempotent producer.
        clock: seconds, monotonic; that of the accumulator. The loop's own time is not fine enough:
            uvloop counts whole milliseconds.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._identity = identity
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._last_errors: dict[TopicPartition, ClientError] = {}
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self.failed: list[ProducerBatch] = []
        """Newest batches that were given up and that perhaps nobody has looked at."""

    def wake(self) -> None:
        """There may be something to do; on the loop's thread."""
        self._wakeup.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wakeup.clear()
            self._give_up_expired()
            queues, look_again_at_s = self._accumulator.ready(self._clock())
            look_again_at_s = min(look_again_at_s, self._dispatch(queues))
            timer = None
            if look_again_at_s != float("inf"):
                delay_s = max(0.0, look_again_at_s - self._clock())
                timer = self._loop.call_later(delay_s, self._wakeup.set)
            try:
                await self._wakeup.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    def _give_up_expired(self) -> None:
        for batch in self._accumulator.expired(self._clock()):
            last_error = self._last_errors.get(batch.partition)
            reason = f"; last error: {last_error}" if last_error is not None else ""
            error = DeliveryTimeoutError(
                f"{batch.record_count} records for {batch.partition} not acknowledged within "
                f"{self._config.delivery_timeout_ms} ms{reason}"
            )
            self.give_up(batch, error)

    def give_up(self, batch: ProducerBatch, error: ClientError) -> None:
        """Fail the records of a batch."""
        self._accumulator.finish(batch, Outcome(error=error))
        self._note_failure(batch)
        self._cluster.warn("producer: %s", error)

    def _note_failure(self, batch: ProducerBatch) -> None:
        self.failed.append(batch)
        if len(self.failed) > _FAILURES_KEPT:
            self.failed = [each for each in self.failed if not each.is_error_seen]
            del self.failed[: -_FAILURES_KEPT // 2]

    def _dispatch(self, queues: Sequence[PartitionQueue]) -> float:
        """Start requests for ready queues; returns when to look for unknown leaders again."""
        by_leader: dict[int, list[PartitionQueue]] = {}
        look_again_at_s = float("inf")
        for queue in queues:
            leader = self._cluster.leader_of(queue.partition)
            if leader is None:
                self._cluster.refresh_soon()
                look_again_at_s = self._clock() + self._backoff.delay_s(2)
            else:
                by_leader.setdefault(leader, []).append(queue)
        for leader, waiting in by_leader.items():
            while waiting and self._has_slot(leader):
                chosen = self._fill_request(waiting)
                if chosen:
                    self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
                    self._cluster.tasks.spawn(
                        self._send(leader, chosen), f"seglog-produce-{leader}"
                    )
        return look_again_at_s

    def _has_slot(self, leader: int) -> bool:
        return self._in_flight.get(leader, 0) < self._config.max_in_flight_requests

    def _fill_request(
        self, waiting: list[PartitionQueue]
    ) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Take heads off ``waiting`` for one request."""
        chosen: list[tuple[PartitionQueue, ProducerBatch]] = []
        total_bytes = 0
        while waiting:
            head = waiting[0].batches[0]
            size = head.size_bytes if head.encoded is None else len(head.encoded)
            if chosen and total_bytes + size > self._config.max_request_bytes:
                break
            queue = waiting.pop(0)
            batch = self._accumulator.take(queue)
            if self._encode(batch):
                chosen.append((queue, batch))
                total_bytes += size
            else:
                self._accumulator.release(queue)
                self._wakeup.set()
        return chosen

    def _encode(self, batch: ProducerBatch) -> bool:
        if batch.encoded is not None:
            return True
        self._identity.number(batch)
        try:
            batch.encoded = build_batch(
                batch.records,
                codec=self._config.codec,
                level=self._config.compression_level,
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.producer_epoch,
                base_sequence=batch.base_sequence,
            )
        except (RecordError, ValueError) as error:
            self.give_up(batch, ConfigurationError(f"{batch.partition}: {error}"))
            return False
        batch.records = []
        return True

    async def _send(
        self, leader: int, chosen: Sequence[tuple[PartitionQueue, ProducerBatch]]
    ) -> None:
        retry_at_s: dict[TopicPartition, float] = {}
        try:
            results = await self._ask(leader, [batch for _, batch in chosen])
        except ClientError as error:
            for _, batch in chosen:
                retry_at_s[batch.partition] = self._handle_error(batch, error)
        else:
            for _, batch in chosen:
                result = results.get(batch.partition)
                retry_at_s[batch.partition] = self._handle_result(batch, result)
        finally:
            self._in_flight[leader] -= 1
            # Without an entry something unforeseen has happened: not again at once.
            later_s = self._clock() + self._config.retry_backoff_max_ms / 1000
            for queue, batch in chosen:
                self._accumulator.release(queue, retry_at_s.get(batch.partition, later_s))
            self._wakeup.set()

    async def _ask(
        self, leader: int, batches: Sequence[ProducerBatch]
    ) -> dict[TopicPartition, ProducePartitionResult]:
        timeout_s = self._config.request_timeout_ms / 1000
        request = ProduceRequest(
            acks=self._config.wire_acks,
            timeout_ms=self._config.request_timeout_ms,
            partitions=[
                ProducePartition(*batch.partition, memoryview(batch.encoded))
                for batch in batches
                if batch.encoded is not None
            ],
        )
        if request.acks == Acks.NONE:
            await self._cluster.send(request, timeout_s, leader)
            return {batch.partition: ProducePartitionResult(*batch.partition) for batch in batches}
        response: ProduceResponse = await self._cluster.request(request, timeout_s, leader)
        return {
            TopicPartition(result.topic, result.partition): result for result in response.partitions
        }

    def _handle_result(self, batch: ProducerBatch, result: ProducePartitionResult | None) -> float:
        if result is None:
            error = broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR, "no answer for the partition", str(batch.partition)
            )
            return self._handle_error(batch, error)
        if result.error is not ErrorCode.NONE:
            return self._handle_error(batch, _error_of(result))
        self._last_errors.pop(batch.partition, None)
        self._accumulator.finish(batch, Outcome(result.base_offset, result.log_append_time_ms))
        return 0.0

    def _handle_error(self, batch: ProducerBatch, error: ClientError) -> float:
        """Decide about a batch that was not stored; returns when its partition may go on."""
        if batch.is_done:
            return 0.0
        if isinstance(error, BrokerError):
            if error.code in _TOO_LARGE and batch.record_count > 1:
                self._split(batch)
                return 0.0
            if error.code.refreshes_metadata:
                self._cluster.refresh_soon()
        if not error.retriable:
            self.give_up(batch, error)
            return 0.0
        self._last_errors[batch.partition] = error
        self._cluster.warn("producer: %s: %s; trying again", batch.partition, error)
        batch.attempts += 1
        return self._clock() + self._backoff.delay_s(batch.attempts)

    def _split(self, batch: ProducerBatch) -> None:
        """Replace a batch over the broker's limit by two of half the records."""
        assert batch.encoded is not None
        records: list[RecordFields] = [
            (record.timestamp_ms, record.key, record.value, record.headers)
            for record in RecordBatch(batch.encoded).records()
        ]
        middle = len(records) // 2
        parts: list[ProducerBatch] = []
        for first, half in ((0, records[:middle]), (middle, records[middle:])):
            part = ProducerBatch(batch.partition, batch.deadline_s, 0.0)
            part.is_filling = False
            part.records = half
            part.record_count = len(half)
            part.size_bytes = HEADER_BYTES + sum(size_of(record) for record in half)
            if batch.base_sequence != NO_SEQUENCE:
                part.base_sequence = (batch.base_sequence + first) & INT32_MAX
            parts.append(part)
        self._accumulator.replace(batch, parts)


def _error_of(result: ProducePartitionResult) -> BrokerError:
    about = f"{result.topic}-{result.partition}"
    error = broker_error(result.error, result.error_message, about)
    if isinstance(error, InvalidRecordError):
        error.record_errors = tuple(result.record_errors)
    return error
