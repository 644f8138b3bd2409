"""Sends what the accumulator holds: grouped by leader, retried, never out of order.

One task decides what leaves; each request is a task of its own. Requests to a broker are written
in the order in which they were decided on, also where a connection has to be opened first. With
an idempotent ``ProducerIdentity`` several batches of a partition are under way at a time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from seglog.clients.cluster import Cluster
from seglog.clients.config import ProducerConfig
from seglog.clients.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientError,
    ConfigurationError,
    DeliveryTimeoutError,
    InvalidRecordError,
    broker_error,
)
from seglog.clients.producer.accumulator import RecordAccumulator
from seglog.clients.producer.batch import Outcome, ProducerBatch
from seglog.clients.producer.encoding import divide, encode, renumber
from seglog.clients.producer.identity import SEQUENCE_ERRORS, ProducerIdentity, Verdict
from seglog.clients.producer.partition_queue import PartitionQueue
from seglog.protocol.api import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.types import NO_OFFSET, Acks, TopicPartition
from seglog.protocol.wording import count_text, naming

if TYPE_CHECKING:
    # Who sends outside of transactions must not pay for them.
    from seglog.clients.producer.transaction_progress import TransactionProgress

_FAILURES_KEPT: Final = 1000
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_PERHAPS_STORED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_Chosen = Sequence[tuple[PartitionQueue, ProducerBatch]]


class Sender:
    """Moves batches from the accumulator to the brokers. Belongs to the loop.

    Args:
        config: of the producer.
        cluster: leaders and connections.
        accumulator: where the batches are.
        identity: numbers the batches of an idempotent producer.
        clock: seconds, monotonic; that of the accumulator. The loop's own time is not fine enough:
            uvloop counts whole milliseconds.
        progress: of the transactions in which batches are sent, if they are.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        clock: Callable[[], float],
        progress: "TransactionProgress | None" = None,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._identity = identity
        self._progress = progress
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._introduction: asyncio.Task[None] | None = None
        self._last_errors: dict[TopicPartition, ClientError] = {}
        self._last_introduction_error: ClientError | None = None
        self.failed: list[ProducerBatch] = []
        """Newest batches that were given up and that perhaps nobody has looked at."""

    @property
    def last_trouble(self) -> ClientError | None:
        """What keeps batches from leaving, as far as that is known; from any thread."""
        return next(reversed([*self._last_errors.values()]), self._last_introduction_error)

    def wake(self) -> None:
        """There may be something to do; on the loop's thread."""
        self._wakeup.set()

    async def run(self) -> None:
        """Work until cancelled."""
        self._introduce()
        while True:
            self._wakeup.clear()
            self._give_up_expired()
            look_again_at_s = self._dispatch_all()
            timer = None
            if look_again_at_s != float("inf"):
                delay_s = max(0.0, look_again_at_s - self._clock())
                timer = self._loop.call_later(delay_s, self._wakeup.set)
            try:
                await self._wakeup.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    # Giving up.

    def _give_up_expired(self) -> None:
        for batch in self._accumulator.expired(self._clock()):
            last_error = self._last_errors.get(batch.partition, self._last_introduction_error)
            reason = ""
            if last_error is not None:
                reason = f"; last error: {str(last_error).removeprefix(f'{batch.partition}: ')}"
            error = DeliveryTimeoutError(
                f"{count_text(batch.record_count, 'record')} for {batch.partition} "
                f"not acknowledged within {self._config.delivery_timeout_ms} ms{reason}"
            )
            self.give_up(batch, error)

    def give_up(self, batch: ProducerBatch, error: ClientError) -> None:
        """Fail the records of a batch."""
        self._identity.given_up(batch)
        if self._progress is not None:
            error = self._progress.refused(error)
        self._accumulator.finish(batch, Outcome(error=error))
        self._note_failure(batch)
        self._cluster.warn("producer: %s", naming(batch.partition, error))

    def _note_failure(self, batch: ProducerBatch) -> None:
        self.failed.append(batch)
        if len(self.failed) > _FAILURES_KEPT:
            self.failed = [each for each in self.failed if not each.is_error_seen]
            del self.failed[: -_FAILURES_KEPT // 2]

    # Getting a producer id.

    def _introduce(self) -> None:
        """Ask for a producer id in the background, unless there is one or none is needed."""
        if not self._identity.is_known and self._introduction is None:
            self._introduction = self._cluster.tasks.spawn(
                self._ask_for_identity(), "seglog-producer-id"
            )

    async def _ask_for_identity(self) -> None:
        attempt = 0
        try:
            while not self._identity.is_known:
                attempt += 1
                try:
                    response: InitProducerIdResponse = await self._cluster.request(
                        InitProducerIdRequest(), self._config.request_timeout_ms / 1000
                    )
                    if response.error is not ErrorCode.NONE:
                        raise broker_error(response.error, None, "producer id")
                except ClientError as error:
                    self._last_introduction_error = error
                    if not error.retriable:
                        for batch in self._accumulator.pending():
                            self.give_up(batch, error)
                        return
                    self._cluster.warn("producer: %s; trying again", error)
                    await asyncio.sleep(self._cluster.backoff.delay_s(attempt))
                else:
                    self._identity.assume(response.producer_id, response.producer_epoch)
                    self._last_introduction_error = None
        finally:
            self._introduction = None
            self._wakeup.set()

    # Deciding what leaves.

    def _dispatch_all(self) -> float:
        """Start all requests that can be started; returns when to look again."""
        while True:
            queues, look_again_at_s = self._accumulator.ready(self._clock())
            if queues and not self._identity.is_known:
                self._introduce()
                return look_again_at_s
            if self._progress is not None and not self._progress.may_send:
                return look_again_at_s
            sent, leaders_at_s = self._dispatch(queues)
            if not sent:
                return min(look_again_at_s, leaders_at_s)

    def _dispatch(self, queues: Sequence[PartitionQueue]) -> tuple[int, float]:
        """Start requests with one batch of each ready queue, as far as there are slots.

        Returns:
            How many were started, and when to look for unknown leaders again.
        """
        sent = 0
        by_leader: dict[int, list[PartitionQueue]] = {}
        look_again_at_s = float("inf")
        for queue in queues:
            leader = self._cluster.leader_of(queue.partition)
            if leader is None:
                self._cluster.refresh_soon()
                look_again_at_s = self._clock() + self._cluster.backoff.delay_s(2)
            else:
                by_leader.setdefault(leader, []).append(queue)
        for leader, waiting in by_leader.items():
            while waiting and self._has_slot(leader):
                chosen = self._fill_request(waiting)
                if chosen:
                    sent += 1
                    self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
                    self._cluster.tasks.spawn(
                        self._send(leader, chosen), f"seglog-produce-{leader}"
                    )
        return sent, look_again_at_s

    def _has_slot(self, leader: int) -> bool:
        return self._in_flight.get(leader, 0) < self._config.max_in_flight_requests

    def _fill_request(
        self, waiting: list[PartitionQueue]
    ) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Take a batch of each of ``waiting`` for one request, as many as fit."""
        chosen: list[tuple[PartitionQueue, ProducerBatch]] = []
        total_bytes = 0
        while waiting:
            queue = waiting[0]
            if not self._renew_if_due(queue):
                # Another producer id is needed: the introduction will wake us.
                waiting.clear()
                break
            batch = queue.upcoming
            assert batch is not None, queue.partition
            size = batch.size_bytes if batch.encoded is None else len(batch.encoded)
            if chosen and total_bytes + size > self._config.max_request_bytes:
                break
            del waiting[0]
            batch = self._accumulator.take(queue)
            if self._encode(batch):
                chosen.append((queue, batch))
                total_bytes += size
            else:
                self._accumulator.release(queue, batch)
                self._wakeup.set()
        return chosen

    def _renew_if_due(self, queue: PartitionQueue) -> bool:
        """Begin a new series where that is due; False if that is not possible yet."""
        partition = queue.partition
        if not self._identity.must_renew(partition):
            return True
        series = self._identity.renew(partition)
        if series is None:
            self._introduce()
            return False
        self._cluster.warn(
            "producer: %s: going on as producer %d in epoch %d",
            partition,
            series.producer_id,
            series.epoch,
        )
        for batch in self._accumulator.numbered(queue):
            renumber(batch, self._identity, series)
        return True

    def _encode(self, batch: ProducerBatch) -> bool:
        try:
            encode(batch, self._config, self._identity)
        except (RecordError, ValueError) as error:
            self.give_up(batch, ConfigurationError(f"{batch.partition}: {error}"))
            return False
        if self._progress is not None:
            # Once it is numbered the next transaction has to have another epoch.
            self._progress.has_written = True
        return True

    # One request.

    async def _send(self, leader: int, chosen: _Chosen) -> None:
        retry_at_s: dict[TopicPartition, float] = {}
        try:
            results = await self._ask(leader, [batch for _, batch in chosen])
        except ClientError as error:
            for queue, batch in chosen:
                retry_at_s[batch.partition] = self._handle_error(queue, batch, error)
        else:
            for queue, batch in chosen:
                result = results.get(batch.partition)
                retry_at_s[batch.partition] = self._handle_result(queue, batch, result)
        finally:
            self._in_flight[leader] -= 1
            # Without an entry something unforeseen has happened: not again at once.
            later_s = self._clock() + self._config.retry_backoff_max_ms / 1000
            for queue, batch in chosen:
                self._accumulator.release(
                    queue,
                    batch,
                    retry_at_s.get(batch.partition, later_s),
                    must_drain=self._identity.must_renew(batch.partition),
                )
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
            transactional_id=self._config.transactional_id,
        )
        # Locks are fair: the requests of a leader are written in the order of their tasks.
        turn = self._turns.setdefault(leader, asyncio.Lock())
        if request.acks == Acks.NONE:
            async with turn:
                await self._cluster.send(request, timeout_s, leader)
            return {batch.partition: ProducePartitionResult(*batch.partition) for batch in batches}
        async with turn:
            answer = await self._cluster.begin(request, timeout_s, leader)
        response: ProduceResponse = await answer.wait()
        return {
            TopicPartition(result.topic, result.partition): result for result in response.partitions
        }

    def _handle_result(
        self, queue: PartitionQueue, batch: ProducerBatch, result: ProducePartitionResult | None
    ) -> float:
        if result is None:
            error = broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR, "no answer for the partition", str(batch.partition)
            )
            return self._handle_error(queue, batch, error)
        base_offset = result.base_offset
        if result.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            base_offset = NO_OFFSET  # It is stored, only where is not known any more.
        elif result.error is not ErrorCode.NONE:
            return self._handle_error(queue, batch, _error_of(result))
        self._last_errors.pop(batch.partition, None)
        self._identity.stored(batch, base_offset)
        self._accumulator.finish(batch, Outcome(base_offset, result.log_append_time_ms))
        return 0.0

    def _handle_error(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError
    ) -> float:
        """Decide about a batch that was not stored; returns when its partition may go on."""
        if batch.is_done:
            return 0.0
        if isinstance(error, BrokerError):
            if error.code in _TOO_LARGE and batch.record_count > 1:
                self._accumulator.replace(batch, divide(batch))
                return 0.0
            if error.code in SEQUENCE_ERRORS and self._identity.is_idempotent:
                return self._handle_sequence_error(queue, batch, error)
            if error.code.refreshes_metadata:
                self._cluster.refresh_soon()
            batch.may_be_stored |= error.code in _PERHAPS_STORED
        elif not isinstance(error, BrokerUnreachableError):
            batch.may_be_stored = True
        if not error.retriable:
            self.give_up(batch, error)
            return 0.0
        self._last_errors[batch.partition] = error
        batch.attempts += 1
        if isinstance(error, BrokerError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            # To wait for the end of the transaction before is part of the protocol.
            return self._clock() + self._cluster.marker_backoff.delay_s(batch.attempts)
        self._cluster.warn("producer: %s; trying again", naming(batch.partition, error))
        return self._clock() + self._cluster.backoff.delay_s(batch.attempts)

    def _handle_sequence_error(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BrokerError
    ) -> float:
        verdict = self._identity.judge(batch, error.code, is_first=queue.batches[0] is batch)
        if verdict is not Verdict.FAIL:
            return 0.0
        last_offset = self._identity.series_of(batch.partition).last_offset
        message = f"{error.message}; not stored: {count_text(batch.record_count, 'record')}"
        if batch.may_be_stored:
            message += ", or perhaps they are: a request with them was not answered"
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            message += f"; the broker has not all that it acknowledged, up to offset {last_offset}"
        self.give_up(batch, type(error)(message, error.code))
        return 0.0


def _error_of(result: ProducePartitionResult) -> BrokerError:
    about = f"{result.topic}-{result.partition}"
    error = broker_error(result.error, result.error_message, about)
    if isinstance(error, InvalidRecordError):
        error.record_errors = tuple(result.record_errors)
    return error
