"""Sends batches to their leaders with several requests under way, in the thread of a task.

What leaves when, and what becomes of it, is decided by the producer's ``Dispatcher``.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from seglog.clients.config import Address, ProducerConfig
from seglog.clients.errors import (
    ClientError,
    InvalidRecordError,
    UnknownTopicOrPartitionError,
    broker_error,
)
from seglog.clients.producer.accumulator import RecordAccumulator
from seglog.clients.producer.batch import ProducerBatch
from seglog.clients.producer.dispatcher import Departure, Dispatcher
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.session.retrying import LimitedLogger
from seglog.clients.sockets.connection import SocketConnection
from seglog.clients.sockets.pool import POOL
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.identity_pool import IDENTITIES, ask_for_id
from seglog.clients.spark.offset_maps import describe
from seglog.clients.spark.planning import LOG
from seglog.clients.spark.sink_encoding import EncodedBatch
from seglog.clients.spark.sink_options import SinkOptions
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import Acks

_REQUEST_BYTES: Final = 16_777_216
"""A wave may have a batch for each of very many partitions."""
_NEVER: Final = float("inf")


class _Flight(NamedTuple):
    """A request under way."""

    connection: SocketConnection
    correlation_id: int
    departure: Departure


class ProducePipeline:
    """Produces batches in order; one that fails with what may pass is sent again.

    Batches of a partition are stored in the order in which they came. With ``acks=all`` they are
    numbered, so that however often they are sent, each is stored once. Without numbers one at a
    time is under way in each partition, and one whose answer is lost may be stored twice.

    Args:
        cluster: leaders, and how long to retry.
        options: of the sink.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._config = _producer_config(options)
        self._timeout_s = self._config.request_timeout_ms / 1000
        self._accumulator = RecordAccumulator(self._config, clock, time.time_ns, lambda: None)
        self._identity: ProducerIdentity | None = None
        self._dispatcher: Dispatcher | None = None
        self._connections: dict[Address, SocketConnection] = {}
        self._flights: deque[_Flight] = deque()
        self._waiter: Waiter | None = None
        self._trouble: ClientError | None = None

    def identity(self) -> ProducerIdentity:
        """For batches that are to be sent: by it they are numbered, with ``acks=all``.

        Raises:
            ClientError: no broker gave a producer id within the time for retries.
        """
        if self._identity is None:
            is_numbered = self._config.is_idempotent
            self._identity = (
                IDENTITIES.acquire(self._cluster) if is_numbered else ProducerIdentity()
            )
        return self._identity

    def send(self, wave: Sequence[EncodedBatch]) -> None:
        """Send batches, and return once they have left; waits while too much is under way.

        Raises:
            BrokerError: a broker refused a batch.
            ClientError: no answer within the time for retries.
        """
        batches = [_batch_of(each) for each in wave]
        for batch in batches:
            self._accumulator.put(batch)
        self._work(lambda: all(each.is_in_flight or each.is_done for each in batches))

    def finish(self) -> None:
        """Wait until everything is acknowledged; raises the same as ``send``."""
        self._work(lambda: self._accumulator.is_empty)
        if self._identity is not None and self._identity.is_idempotent:
            IDENTITIES.release(self._cluster, self._identity)
        self._identity = self._dispatcher = None

    def close(self) -> None:
        """Give the connections back, without waiting for requests in flight."""
        connections, self._connections = self._connections, {}
        self._flights.clear()
        for connection in connections.values():
            POOL.release(connection, self._config)

    # Carrying out decisions.

    def _work(self, is_enough: Callable[[], bool]) -> None:
        """Send, receive and wait until it is enough."""
        dispatcher = self._decider()
        while True:
            departures, look_again_at_s = dispatcher.departures(self._clock())
            for departure in departures:
                self._launch(departure, dispatcher)
            self._raise_failure(dispatcher)
            if is_enough():
                return
            if dispatcher.takes_metadata():
                self._refresh()
            if dispatcher.wants_identity:
                self._introduce(dispatcher)
            if self._flights:
                self._land(dispatcher)
            elif not departures:
                self._pause(look_again_at_s)

    def _decider(self) -> Dispatcher:
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(
                self._config,
                self._cluster.metadata,
                self._accumulator,
                self.identity(),
                LimitedLogger(LOG, self._clock).warning,
            )
        return self._dispatcher

    def _launch(self, departure: Departure, dispatcher: Dispatcher) -> None:
        try:
            connection = self._connect(departure.leader)
            correlation_id = connection.send(departure.request, self._timeout_s)
        except ClientError as error:
            dispatcher.failed(departure, error, self._clock())
            return
        if departure.request.acks == Acks.NONE:
            dispatcher.answered(departure, None, self._clock())
        else:
            self._flights.append(_Flight(connection, correlation_id, departure))

    def _land(self, dispatcher: Dispatcher) -> None:
        """Wait for the oldest answer."""
        connection, correlation_id, departure = self._flights.popleft()
        try:
            response = connection.receive(correlation_id, self._timeout_s)
        except ClientError as error:
            dispatcher.failed(departure, error, self._clock())
            return
        dispatcher.answered(departure, response, self._clock())
        if any(batch.is_done and batch.error is None for _, batch in departure.chosen):
            self._waiter = None  # Something got on: the whole time for retries is left again.

    def _connect(self, leader: int) -> SocketConnection:
        address = self._cluster.metadata.brokers.get(leader)
        if address is None:
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, None, f"broker {leader}")
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = self._cluster.connect(address)
        return connection

    def _refresh(self) -> None:
        """Ask about the topics once; one that is not there may come back."""
        names = sorted({batch.partition.topic for batch in self._accumulator.pending()})
        try:
            found = self._cluster.topics_now(names)
        except ClientError as error:
            self._note(error)
            return
        for name in names:
            if name not in found:
                self._note(UnknownTopicOrPartitionError(f"topic {name} does not exist"))

    def _introduce(self, dispatcher: Dispatcher) -> None:
        try:
            response = ask_for_id(self._cluster)
        except ClientError as error:
            dispatcher.not_introduced(error)
        else:
            dispatcher.introduced(response.producer_id, response.producer_epoch)

    # Giving up.

    def _note(self, error: ClientError) -> None:
        """Raise an error that cannot pass; keep any other for the message of a failure."""
        if not error.retriable:
            raise error
        self._trouble = error

    def _raise_failure(self, dispatcher: Dispatcher) -> None:
        for batch in dispatcher.outcomes.failed_batches:
            error = batch.error
            assert error is not None, batch.partition
            if isinstance(error, InvalidRecordError) and error.record_errors:
                details = "; ".join(text for _, text in error.record_errors)
                raise type(error)(f"{error.message}; {details}", error.code)
            raise error

    def _pause(self, look_again_at_s: float) -> None:
        """Wait for the next attempt, unless nothing has got on for the time for retries."""
        if self._waiter is None:
            self._waiter = Waiter(self._options.connection, clock=self._clock)
        pause_s = self._options.connection.retry_backoff_ms / 1000
        at_s = look_again_at_s if look_again_at_s < _NEVER else self._clock() + pause_s
        if not self._waiter.pause_until(at_s):
            raise self._gave_up()

    def _gave_up(self) -> ClientError:
        waiting = {batch.partition for batch in self._accumulator.pending()}
        trouble = self._dispatcher.last_trouble if self._dispatcher is not None else None
        trouble = trouble or self._trouble
        reason = f": {trouble}" if trouble is not None else ""
        return ClientError(
            f"{describe(waiting)}: no batch was acknowledged for "
            f"{self._options.connection.retry_timeout_ms} ms{reason}; a longer retryTimeout waits "
            "longer"
        )


def _producer_config(options: SinkOptions) -> ProducerConfig:
    """The producer that a sink is."""
    connection = options.connection
    return ProducerConfig(
        client_id=connection.client_id,
        connect_timeout_ms=connection.connect_timeout_ms,
        request_timeout_ms=connection.request_timeout_ms,
        retry_backoff_ms=connection.retry_backoff_ms,
        retry_backoff_max_ms=connection.retry_backoff_max_ms,
        acks="all" if options.acks is Acks.ALL else 1 if options.acks is Acks.LEADER else 0,
        batch_bytes=options.batch_bytes,
        max_request_bytes=max(_REQUEST_BYTES, options.batch_bytes),
        max_in_flight_requests=options.max_requests_in_flight,
        compression=options.compression,
    )


def _batch_of(encoded: EncodedBatch) -> ProducerBatch:
    """A batch that never expires: the pipeline gives up when nothing gets on."""
    batch = ProducerBatch(encoded.partition, _NEVER, 0.0)
    batch.encoded = encoded.records
    batch.record_count = encoded.rows
    batch.size_bytes = encoded.records.nbytes
    batch.base_sequence = encoded.base_sequence
    return batch
