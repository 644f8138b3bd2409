"""Sends batches to their leaders with several requests under way, and retries what fails."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from seglog.clients.config import Address
from seglog.clients.errors import ClientError, broker_error
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.connection import POOL, BlockingConnection
from seglog.clients.spark.planning import LOG
from seglog.clients.spark.sink_encoding import EncodedBatch
from seglog.clients.spark.sink_options import SinkOptions
from seglog.protocol.api import ProducePartition, ProduceRequest, ProduceResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import Acks

_CONNECT_TIMEOUT_S: Final = 10.0


class _Flight(NamedTuple):
    """A request under way."""

    connection: BlockingConnection
    correlation_id: int
    batches: list[EncodedBatch]


class ProducePipeline:
    """Produces batches in order; one that fails with what may pass is sent again.

    Batches of a partition leave in the order in which they came. When one is sent again, those
    that left behind it may already be stored, and it may be itself, if only its answer was lost.

    Args:
        cluster: leaders, and how long to retry.
        options: of the sink.
    """

    def __init__(self, cluster: Cluster, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._timeout_s = options.connection.request_timeout_ms / 1000
        self._connections: dict[Address, BlockingConnection] = {}
        self._flights: deque[_Flight] = deque()

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

    def close(self) -> None:
        """Give the connections back; whatever is still under way is not waited for."""
        connections, self._connections = self._connections, {}
        self._flights.clear()
        for connection in connections.values():
            POOL.release(connection, self._options.connection.client_id)

    def _launch(self, wave: Sequence[EncodedBatch]) -> list[EncodedBatch]:
        """Send requests, one to each leader; returns what could not be sent."""
        unsent: list[EncodedBatch] = []
        by_leader: dict[Address, list[EncodedBatch]] = {}
        for batch in wave:
            try:
                by_leader.setdefault(self._cluster.leader(batch.partition), []).append(batch)
            except ClientError as error:
                self._raise_for_good(error)
                unsent.append(batch)
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
            return flight.batches
        failed = []
        for batch, result in zip(flight.batches, response.partitions, strict=True):
            if result.error is ErrorCode.NONE:
                continue
            details = "; ".join(
                [result.error_message or "", *(text for _, text in result.record_errors)]
            )
            self._raise_for_good(broker_error(result.error, details, str(batch.partition)))
            self._cluster.forget(batch.partition.topic)
            failed.append(batch)
        return failed

    def _land_all(self) -> list[EncodedBatch]:
        failed = []
        while self._flights:
            failed += self._land()
        return failed

    def _send_again(self, batches: list[EncodedBatch]) -> None:
        """Send batches one by one, which keeps their order, until each is acknowledged."""
        deadline_s = time.monotonic() + self._options.connection.retry_timeout_ms / 1000
        LOG.warning(
            "%d batches were not acknowledged and are sent again, rows may come twice", len(batches)
        )
        for batch in batches:
            unsent = [batch]
            while unsent:
                if not self._cluster.pause(deadline_s):
                    raise ClientError(
                        f"{batch.partition}: not acknowledged within "
                        f"{self._options.connection.retry_timeout_ms} ms"
                    )
                self._cluster.forget(batch.partition.topic)
                unsent = self._launch(unsent) or self._land_all()

    def _connect(self, leader: Address) -> BlockingConnection:
        connection = self._connections.get(leader)
        if connection is None or connection.is_closed:
            connection = POOL.acquire(
                leader, self._options.connection.client_id, _CONNECT_TIMEOUT_S
            )
            self._connections[leader] = connection
        return connection

    @staticmethod
    def _raise_for_good(error: ClientError) -> None:
        if not error.retriable:
            raise error
