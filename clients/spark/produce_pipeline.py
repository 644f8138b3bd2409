"""Sends batches to their leaders with several requests under way, and retries what fails."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from seglog.clients.config import Address
from seglog.clients.errors import ClientError, broker_error
from seglog.clients.sockets.connection import SocketConnection
from seglog.clients.sockets.pool import POOL
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.offset_maps import describe
from seglog.clients.spark.planning import LOG
from seglog.clients.spark.sink_encoding import EncodedBatch
from seglog.clients.spark.sink_numbering import NUMBERINGS, Numbering
from seglog.clients.spark.sink_options import SinkOptions
from seglog.protocol.api import ProducePartition, ProduceRequest, ProduceResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import Acks, TopicPartition

_STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_BEHIND_A_GAP: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class _Flight(NamedTuple):
    """A request under way."""

    connection: SocketConnection
    correlation_id: int
    batches: list[EncodedBatch]


class ProducePipeline:
    """Produces batches in order; one that fails with what may pass is sent again.

    Batches of a partition leave in the order in which they came. With ``acks=all`` they are
    numbered: the broker refuses one whose predecessor it does not have, and recognizes one that it
    has already, so that however often they are sent, each is stored once and in order. Without
    numbers, those behind one that is sent again may already be stored, and it may be itself.

    Args:
        cluster: leaders, and how long to retry.
        options: of the sink.
    """

    def __init__(self, cluster: Cluster, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._timeout_s = options.connection.request_timeout_ms / 1000
        self._connections: dict[Address, SocketConnection] = {}
        self._flights: deque[_Flight] = deque()
        self._numbering: Numbering | None = None
        self._with_gaps: set[TopicPartition] = set()
        self._trouble: ClientError | None = None

    def numbering(self) -> Numbering | None:
        """For batches that are to be sent; None if they are not numbered.

        Raises:
            ClientError: no broker gave a producer id within the time for retries.
        """
        if self._numbering is None and self._options.acks is Acks.ALL:
            self._numbering = NUMBERINGS.acquire(self._cluster)
        return self._numbering

    def send(self, wave: Sequence[EncodedBatch]) -> None:
        """Send batches, at most one for each partition; waits while too much is under way.

        Raises:
            BrokerError: a broker refused a batch.
            ClientError: no answer within the time for retries.
        """
        failed: list[EncodedBatch] = []
        while len(self._flights) >= self._options.max_requests_in_flight:
            failed += self._land()
        if failed:
            failed += self._land_all()
            self._send_again(failed)
        unsent = self._launch(wave)
        if unsent:
            self._send_again([*self._land_all(), *unsent])

    def finish(self) -> None:
        """Wait until everything is acknowledged; raises the same as ``send``."""
        failed = self._land_all()
        if failed:
            self._send_again(failed)
        if self._numbering is not None:
            NUMBERINGS.release(self._cluster, self._numbering)
            self._numbering = None

    def close(self) -> None:
        """Give the connections back; whatever is still under way is not waited for."""
        connections, self._connections = self._connections, {}
        self._flights.clear()
        for connection in connections.values():
            POOL.release(connection, self._options.connection)

    def _launch(self, wave: Sequence[EncodedBatch]) -> list[EncodedBatch]:
        """Send requests, one to each leader; returns what could not be sent."""
        unsent: list[EncodedBatch] = []
        by_leader: dict[Address, list[EncodedBatch]] = {}
        without_answer: set[str] = set()
        for batch in wave:
            topic = batch.partition.topic
            try:
                # Asked once for each topic: a broker that hangs would do so for each partition.
                leader = None if topic in without_answer else self._cluster.leader(batch.partition)
            except ClientError as error:
                self._raise_for_good(error)
                without_answer.add(topic)
                leader = None
            if leader is None:
                unsent.append(batch)
            else:
                by_leader.setdefault(leader, []).append(batch)
        for leader, batches in by_leader.items():
            request = ProduceRequest(
                int(self._options.acks),
                self._options.connection.request_timeout_ms,
                [ProducePartition(*batch.partition, batch.records) for batch in batches],
            )
            try:
                connection = self._connect(leader)
                correlation_id = connection.send(request, self._timeout_s)
            except ClientError as error:
                self._raise_for_good(error)
                unsent += batches
            else:
                if self._options.acks is not Acks.NONE:
                    self._flights.append(_Flight(connection, correlation_id, batches))
        return unsent

    def _land(self) -> list[EncodedBatch]:
        """Wait for the oldest answer; returns what must be sent again."""
        flight = self._flights.popleft()
        try:
            response: ProduceResponse = flight.connection.receive(
                flight.correlation_id, self._timeout_s
            )
        except ClientError as error:
            self._raise_for_good(error)
            self._with_gaps.update(batch.partition for batch in flight.batches)
            return flight.batches
        failed = []
        for batch, result in zip(flight.batches, response.partitions, strict=True):
            if result.error in _STORED:
                continue
            if result.error is _BEHIND_A_GAP and batch.partition in self._with_gaps:
                failed.append(batch)
                continue
            details = "; ".join(
                [result.error_message or "", *(text for _, text in result.record_errors)]
            )
            self._raise_for_good(broker_error(result.error, details, str(batch.partition)))
            self._cluster.forget(batch.partition.topic)
            self._with_gaps.add(batch.partition)
            failed.append(batch)
        return failed

    def _land_all(self) -> list[EncodedBatch]:
        failed = []
        while self._flights:
            failed += self._land()
        return failed

    def _send_again(self, batches: list[EncodedBatch]) -> None:
        """Send batches until each is acknowledged: in rounds, one of each partition at a time.

        That keeps the order within partitions, and one cut connection costs one pause, however
        many partitions it concerns. Gives up when no batch has been acknowledged for the time of
        the options.
        """
        waiter = Waiter(self._options.connection)
        doubt = "" if self._numbering is not None else ", rows may come twice"
        LOG.warning("%d batches were not acknowledged and are sent again%s", len(batches), doubt)
        waiting: dict[TopicPartition, deque[EncodedBatch]] = {}
        for batch in batches:
            waiting.setdefault(batch.partition, deque()).append(batch)
        has_failed = True
        while waiting:
            if has_failed:
                if not waiter.pause():
                    raise self._gave_up(waiting)
                for partition in waiting:
                    self._cluster.forget(partition.topic)
            # One at a time in each partition: what is now refused as out of order is so for good.
            self._with_gaps.clear()
            wave = [queue[0] for queue in waiting.values()]
            failed = {batch.partition for batch in (*self._launch(wave), *self._land_all())}
            for batch in wave:
                if batch.partition not in failed:
                    waiter.got_on()
                    waiting[batch.partition].popleft()
            waiting = {partition: queue for partition, queue in waiting.items() if queue}
            has_failed = bool(failed)

    def _gave_up(self, waiting: Mapping[TopicPartition, Sequence[EncodedBatch]]) -> ClientError:
        reason = f": {self._trouble}" if self._trouble is not None else ""
        return ClientError(
            f"{describe(waiting)}: no batch was acknowledged for "
            f"{self._options.connection.retry_timeout_ms} ms{reason}; a longer retryTimeout waits "
            "longer"
        )

    def _connect(self, leader: Address) -> SocketConnection:
        connection = self._connections.get(leader)
        if connection is None or connection.is_closed:
            connection = self._cluster.connect(leader)
            self._connections[leader] = connection
        return connection

    def _raise_for_good(self, error: ClientError) -> None:
        """Raise an error that cannot pass; keep any other for the message of a failure."""
        if not error.retriable:
            raise error
        self._trouble = error
