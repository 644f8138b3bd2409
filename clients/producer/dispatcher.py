"""Decides what leaves the accumulator: grouped by leader, retried, never out of order. No I/O.

A shell asks for ``departures``, sends each request, and says what became of it: ``answered``,
``failed`` or ``abandoned``. Requests to one broker have to be written in the order in which they
were given out. With an idempotent ``ProducerIdentity`` several batches of a partition are under way
at a time. ``wants_identity`` and ``takes_metadata`` say what the shell has to find out meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from seglog.clients.config import ProducerConfig
from seglog.clients.errors import ClientError, ConfigurationError, DeliveryTimeoutError
from seglog.clients.producer.accumulator import RecordAccumulator
from seglog.clients.producer.batch import ProducerBatch
from seglog.clients.producer.encoding import encode, renumber
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.producer.outcomes import BatchOutcomes
from seglog.clients.producer.partition_queue import PartitionQueue
from seglog.clients.session.metadata import Metadata
from seglog.clients.session.retrying import Backoff
from seglog.protocol.api import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import RecordError
from seglog.protocol.types import Acks, TopicPartition
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    # A program that sends outside of transactions must not pay for them.
    from seglog.clients.producer.transaction_progress import TransactionProgress

_NEVER: Final = float("inf")
_Chosen = Sequence[tuple[PartitionQueue, ProducerBatch]]


class Departure(NamedTuple):
    """A request that leaves now, and the batches in it."""

    leader: int
    chosen: _Chosen
    request: ProduceRequest


class Dispatcher:
    """Moves batches from the accumulator to the brokers. Belongs to one thread.

    Args:
        config: of the producer.
        metadata: says where partitions are led.
        accumulator: where the batches are.
        identity: numbers the batches of an idempotent producer.
        warn: told of trouble that goes on by itself, as a logger's ``warning`` is.
        progress: of the transactions in which batches are sent, if they are.
    """

    def __init__(
        self,
        config: ProducerConfig,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        warn: Callable[..., object],
        progress: "TransactionProgress | None" = None,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._identity = identity
        self._warn = warn
        self._progress = progress
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self.outcomes = BatchOutcomes(config, accumulator, identity, warn, progress)
        self._in_flight: dict[int, int] = {}
        self._look_again_at_s = _NEVER
        self._identity_error: ClientError | None = None
        self._is_refused_identity = False
        self._lacks_leader = False

    @property
    def last_trouble(self) -> ClientError | None:
        """What keeps batches from leaving, as far as that is known; from any thread."""
        return next(reversed([*self.outcomes.last_errors.values()]), self._identity_error)

    @property
    def wants_identity(self) -> bool:
        """Whether nothing can leave before there is a producer id."""
        return not (self._identity.is_known or self._is_refused_identity)

    def takes_metadata(self) -> bool:
        """Whether the metadata has no leader, or perhaps an old one; asked once for each time."""
        is_doubtful = self._lacks_leader or self.outcomes.doubts_metadata
        self._lacks_leader = self.outcomes.doubts_metadata = False
        return is_doubtful

    # Giving up.

    def _give_up_expired(self, now_s: float) -> None:
        for batch in self._accumulator.expired(now_s):
            last_error = self.outcomes.last_errors.get(batch.partition, self._identity_error)
            reason = ""
            if last_error is not None:
                reason = f"; last error: {str(last_error).removeprefix(f'{batch.partition}: ')}"
            error = DeliveryTimeoutError(
                f"{count_text(batch.record_count, 'record')} for {batch.partition} "
                f"not acknowledged within {self._config.delivery_timeout_ms} ms{reason}"
            )
            self.outcomes.give_up(batch, error)

    # A producer id.

    def introduced(self, producer_id: int, epoch: int) -> None:
        """A broker gave a producer id."""
        self._identity.assume(producer_id, epoch)
        self._identity_error = None

    def not_introduced(self, error: ClientError) -> None:
        """No broker gave one; with an error that does not pass, nothing will ever leave."""
        self._identity_error = error
        if error.retriable:
            self._warn("producer: %s; trying again", error)
            return
        self._is_refused_identity = True
        for batch in self._accumulator.pending():
            self.outcomes.give_up(batch, error)

    # Deciding what leaves.

    def departures(self, now_s: float) -> tuple[list[Departure], float]:
        """The requests that leave now, and when to ask again at the latest."""
        self._give_up_expired(now_s)
        started: list[Departure] = []
        while True:
            queues, look_again_at_s = self._accumulator.ready(now_s)
            if queues and not self._identity.is_known:
                self._is_refused_identity = False
                return started, look_again_at_s
            if self._progress is not None and not self._progress.may_send:
                return started, look_again_at_s
            started_before = len(started)
            self._look_again_at_s = look_again_at_s
            self._dispatch(queues, now_s, started)
            if len(started) == started_before:
                return started, self._look_again_at_s

    def _dispatch(
        self, queues: Sequence[PartitionQueue], now_s: float, started: list[Departure]
    ) -> None:
        """Start requests with one batch of each ready queue, as far as there are slots."""
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in queues:
            leader = self._metadata.leader_of(queue.partition)
            if leader is None:
                self._lacks_leader = True
                self._look_again_by(now_s + self._backoff.delay_s(2))
            else:
                by_leader.setdefault(leader, []).append(queue)
        for leader, waiting in by_leader.items():
            while waiting and self._has_slot(leader):
                chosen = self._fill_request(waiting, now_s)
                if chosen:
                    self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
                    started.append(Departure(leader, chosen, self._request_with(chosen)))

    def _look_again_by(self, at_s: float) -> None:
        self._look_again_at_s = min(self._look_again_at_s, at_s)

    def _has_slot(self, leader: int) -> bool:
        return self._in_flight.get(leader, 0) < self._config.max_in_flight_requests

    def _fill_request(
        self, waiting: list[PartitionQueue], now_s: float
    ) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Take a batch of each of ``waiting`` for one request, as many as fit."""
        chosen: list[tuple[PartitionQueue, ProducerBatch]] = []
        total_bytes = 0
        while waiting:
            queue = waiting[0]
            if not self._renew_if_due(queue):
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
                self._look_again_by(now_s)
        return chosen

    def _request_with(self, chosen: _Chosen) -> ProduceRequest:
        return ProduceRequest(
            acks=self._config.wire_acks,
            timeout_ms=self._config.request_timeout_ms,
            partitions=[
                ProducePartition(*batch.partition, memoryview(batch.encoded))
                for _, batch in chosen
                if batch.encoded is not None
            ],
            transactional_id=self._config.transactional_id,
        )

    def _renew_if_due(self, queue: PartitionQueue) -> bool:
        """Begin a new series where that is due; False if that is not possible yet."""
        partition = queue.partition
        if not self._identity.must_renew(partition):
            return True
        series = self._identity.renew(partition)
        if series is None:
            self._is_refused_identity = False
            return False
        self._warn(
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
            self.outcomes.give_up(batch, ConfigurationError(f"{batch.partition}: {error}"))
            return False
        if self._progress is not None:
            # Once it is numbered the next transaction has to have another epoch.
            self._progress.has_written = True
        return True

    # What became of a request.

    def answered(
        self, departure: Departure, response: ProduceResponse | None, now_s: float
    ) -> None:
        """A broker has answered; ``response`` is None where none was asked for."""
        results: Mapping[TopicPartition, ProducePartitionResult] = {}
        if response is not None:
            results = {
                TopicPartition(each.topic, each.partition): each for each in response.partitions
            }
        retry_at_s: dict[TopicPartition, float] = {}
        try:
            for queue, batch in departure.chosen:
                result = results.get(batch.partition)
                if departure.request.acks == Acks.NONE:
                    result = ProducePartitionResult(*batch.partition)
                retry_at_s[batch.partition] = self.outcomes.take_result(queue, batch, result, now_s)
        finally:
            self._release(departure, retry_at_s, now_s)

    def failed(self, departure: Departure, error: ClientError, now_s: float) -> None:
        """There is no answer."""
        retry_at_s: dict[TopicPartition, float] = {}
        try:
            for queue, batch in departure.chosen:
                retry_at_s[batch.partition] = self.outcomes.take_error(queue, batch, error, now_s)
        finally:
            self._release(departure, retry_at_s, now_s)

    def abandoned(self, departure: Departure, now_s: float) -> None:
        """Something unforeseen has happened to a request: not again at once."""
        self._release(departure, {}, now_s)

    def _release(
        self, departure: Departure, retry_at_s: Mapping[TopicPartition, float], now_s: float
    ) -> None:
        self._in_flight[departure.leader] -= 1
        later_s = now_s + self._config.retry_backoff_max_ms / 1000
        for queue, batch in departure.chosen:
            self._accumulator.release(
                queue,
                batch,
                retry_at_s.get(batch.partition, later_s),
                must_drain=self._identity.must_renew(batch.partition),
            )
