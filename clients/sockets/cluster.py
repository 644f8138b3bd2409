"""Asking a cluster from a thread: topics, leaders, and other state of a broker."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from seglog.clients.config import Address
from seglog.clients.errors import (
    BrokerConnectionError,
    BrokerError,
    BrokerUnreachableError,
    ClientError,
    RequestTimeoutError,
    UnknownTopicOrPartitionError,
    broker_error,
)
from seglog.clients.session.metadata import MISSING, KnownTopic, Metadata, error_about
from seglog.clients.session.reaching import Attempts, Reachability
from seglog.clients.session.retrying import UNKNOWN_TOPIC_GRACE_S
from seglog.clients.sockets.connection import SocketConnection
from seglog.clients.sockets.pool import POOL
from seglog.clients.sockets.waiting import PatientConfig, Waiter
from seglog.protocol.api import MetadataRequest, MetadataResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

REACHABILITY: Final = Reachability()
"""What this process knows."""
os.register_at_fork(after_in_child=REACHABILITY.renew_lock)
_ResultT = TypeVar("_ResultT")


class SocketCluster:
    """Questions to brokers, repeated while that can help; one thread at a time.

    Args:
        servers: of which one must answer.
        config: how long to wait and retry.
        creates_topics: as a producer does, let the broker create the topics that are asked about,
            where its settings allow that.
    """

    def __init__(
        self,
        servers: Sequence[Address],
        config: PatientConfig,
        *,
        creates_topics: bool = False,
    ) -> None:
        self.config = config
        self.metadata = Metadata()
        self._creates_topics = creates_topics
        self._servers = list(servers)
        self._timeout_s = config.request_timeout_ms / 1000
        self._connect_timeout_s = config.connect_timeout_ms / 1000

    # Connections.

    def connect(self, address: Address, timeout_s: float | None = None) -> SocketConnection:
        """A connection to a broker, to be given back to ``POOL``; raises as that does."""
        limit_s = self._connect_timeout_s
        return POOL.acquire(address, self.config, limit_s if timeout_s is None else timeout_s)

    def ask(self, address: Address, request: Any) -> Any:
        """One request to one broker, tried once."""
        return self._ask_over(self.connect(address), request)

    def ask_any(self, request: Any) -> Any:
        """One request to a broker that answers; those that did not lately are asked last."""
        connection = self._connect_to_anyone()
        server = connection.address
        try:
            answer = self._ask_over(connection, request)
        except (BrokerConnectionError, RequestTimeoutError):
            REACHABILITY.failed(server)
            raise
        REACHABILITY.answered(server)
        return answer

    def _ask_over(self, connection: SocketConnection, request: Any) -> Any:
        try:
            return connection.request(request, self._timeout_s)
        finally:
            POOL.release(connection, self.config)

    def _connect_to_anyone(self) -> SocketConnection:
        known = dict.fromkeys([*self._servers, *self.metadata.brokers.values()])
        servers = REACHABILITY.in_order(known)
        deadline_s = time.monotonic() + self._connect_timeout_s * len(servers)
        attempts = Attempts(servers, deadline_s)
        failure: BrokerUnreachableError | None = None
        while (attempt := attempts.next(time.monotonic())) is not None:
            server, share_s = attempt
            try:
                return self.connect(server, min(share_s, self._connect_timeout_s))
            except BrokerUnreachableError as error:
                attempts.failed(server, time.monotonic())
                REACHABILITY.failed(server)
                failure = error
        assert failure is not None, "there is no server"
        raise failure

    def retry(self, action: Callable[[], _ResultT]) -> _ResultT:
        """Repeat an action while it fails with what may pass, up to the time of the options."""
        waiter = Waiter(self.config)
        while True:
            try:
                return action()
            except ClientError as error:
                if isinstance(error, UnknownTopicOrPartitionError):
                    # Also what a broker says that has just started, but not for long.
                    waiter.no_longer_than(UNKNOWN_TOPIC_GRACE_S)
                if not error.retriable or not waiter.pause():
                    raise
                # A leader that is not where it was may have come back at another address.
                if not isinstance(error, BrokerError) or error.code.refreshes_metadata:
                    self.metadata.forget(self.metadata.topics)

    # Metadata.

    @property
    def cluster_id(self) -> str:
        """Of the cluster that was asked about topics last; asks about none if there was none.

        Raises:
            ClientError: no broker answers in the time for retries.
        """
        if not self.metadata.cluster_id:
            self.retry(lambda: self._ask_about([]))
        return self.metadata.cluster_id

    def topics(self, names: Iterable[str] | None) -> dict[str, KnownTopic]:
        """Those of these topics (None: of all) that exist, by name."""
        wanted = None if names is None else sorted(names)
        return self.retry(lambda: self.topics_now(wanted))

    def topics_now(self, names: list[str] | None) -> dict[str, KnownTopic]:
        """The same, asked once; raises ``ClientError``."""
        response = self._ask_about(names)
        found = {}
        for answer in response.topics:
            if answer.name is None or answer.error in MISSING:
                continue
            error = error_about(response, answer.name)
            if error is not None:
                raise error
            found[answer.name] = self.metadata.topics[answer.name]
        return found

    def _ask_about(self, names: list[str] | None) -> MetadataResponse:
        response: MetadataResponse = self.ask_any(
            MetadataRequest(names, allow_auto_topic_creation=self._creates_topics)
        )
        if response.error is not ErrorCode.NONE:
            raise broker_error(response.error, None, "metadata")
        self.metadata.learn(response, names)
        return response

    def topic(self, name: str) -> KnownTopic:
        """A topic, as it was known last or as it is now; asks once.

        Raises:
            ClientError: no broker answers now.
            UnknownTopicOrPartitionError: there is none of this name.
        """
        if name not in self.metadata.topics and name not in self.topics_now([name]):
            raise UnknownTopicOrPartitionError(f"topic {name} does not exist")
        return self.metadata.topics[name]

    def leader(self, partition: TopicPartition) -> Address:
        """Where the leader listens, as it was known last or as it is now; asks once.

        Raises:
            ClientError: no broker answers now.
            UnknownTopicOrPartitionError: there is no such partition.
            BrokerError: it has no leader now.
        """
        if partition.partition >= self.topic(partition.topic).partition_count:
            self.forget(partition.topic)
            raise UnknownTopicOrPartitionError(f"{partition} does not exist")
        address = self.metadata.leader_address(partition)
        if address is None:
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, None, str(partition))
        return address

    def forget(self, topic: str) -> None:
        """Ask about a topic again when it is needed next."""
        self.metadata.forget((topic,))
