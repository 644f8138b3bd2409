"""Asking a cluster from a process without an event loop: topics, leaders, offsets."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

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
from seglog.clients.spark.connection import POOL, BlockingConnection
from seglog.clients.spark.connection_options import ConnectionOptions
from seglog.clients.spark.reachability import REACHABILITY
from seglog.clients.spark.retrying import Patience
from seglog.protocol.api import (
    DescribePartitionsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import IsolationLevel, TopicPartition

CONNECT_TIMEOUT_S: Final = 10.0
"""For a connection and its handshake."""
_FIRST_CONNECT_TIMEOUT_S: Final = 1.0
_UNKNOWN_FOR_GOOD_S: Final = 2.0
_ResultT = TypeVar("_ResultT")


class Topic(NamedTuple):
    """A topic as the cluster knows it now.

    Attributes:
        topic_id: another one after the topic was deleted and created again.
        leaders: where the leader of each partition listens, None if it has none now.
    """

    name: str
    topic_id: bytes
    leaders: Mapping[int, Address | None]
    is_internal: bool

    @property
    def partitions(self) -> list[TopicPartition]:
        """All of them, in order."""
        return [TopicPartition(self.name, number) for number in sorted(self.leaders)]


class Cluster:
    """Questions to brokers, repeated while that can help; one thread at a time.

    Args:
        servers: of which one must answer.
        options: how long to wait and retry.
        creates_topics: as a producer does, let the broker create the topics that are asked about,
            where its settings allow that.
    """

    def __init__(
        self,
        servers: Sequence[Address],
        options: ConnectionOptions,
        *,
        creates_topics: bool = False,
    ) -> None:
        self.options = options
        self._creates_topics = creates_topics
        self._servers = list(servers)
        self._timeout_s = options.request_timeout_ms / 1000
        self._topics: dict[str, Topic] = {}
        self._cluster_id = ""

    # Connections.

    def connect(self, address: Address, timeout_s: float = CONNECT_TIMEOUT_S) -> BlockingConnection:
        """A connection to a broker, to be given back to ``POOL``; raises as that does."""
        return POOL.acquire(address, self.options.client_id, timeout_s)

    def ask(
        self, address: Address, request: Any, connect_timeout_s: float = CONNECT_TIMEOUT_S
    ) -> Any:
        """One request to one broker, tried once."""
        connection = self.connect(address, connect_timeout_s)
        try:
            return connection.request(request, self._timeout_s)
        finally:
            POOL.release(connection, self.options.client_id)

    def ask_any(self, request: Any) -> Any:
        """One request to a broker that answers; those that did not lately are asked last.

        Where there are several, none is waited for long before all have had a chance.
        """
        if len(self._servers) > 1:
            with contextlib.suppress(BrokerUnreachableError):
                return self._ask_in_order(request, _FIRST_CONNECT_TIMEOUT_S)
        return self._ask_in_order(request, CONNECT_TIMEOUT_S)

    def _ask_in_order(self, request: Any, connect_timeout_s: float) -> Any:
        *others, last = REACHABILITY.in_order(self._servers)
        for server in others:
            with contextlib.suppress(BrokerUnreachableError):
                return self._ask_and_note(server, request, connect_timeout_s)
        return self._ask_and_note(last, request, connect_timeout_s)

    def _ask_and_note(self, server: Address, request: Any, connect_timeout_s: float) -> Any:
        try:
            answer = self.ask(server, request, connect_timeout_s)
        except (BrokerConnectionError, RequestTimeoutError):
            REACHABILITY.failed(server)
            raise
        REACHABILITY.answered(server)
        return answer

    def retry(self, action: Callable[[], _ResultT]) -> _ResultT:
        """Repeat an action while it fails with what may pass, up to the time of the options."""
        patience = Patience(self.options)
        while True:
            try:
                return action()
            except ClientError as error:
                if isinstance(error, UnknownTopicOrPartitionError):
                    # Also what a broker says that has just started, but not for long.
                    patience.no_longer_than(_UNKNOWN_FOR_GOOD_S)
                if not error.retriable or not patience.pause():
                    raise
                # A leader that is not where it was may have come back at another address.
                if not isinstance(error, BrokerError) or error.code.refreshes_metadata:
                    self._topics.clear()

    # Metadata.

    @property
    def cluster_id(self) -> str:
        """Of the cluster that was asked about topics last; asks about none if there was none.

        Raises:
            ClientError: no broker answers in the time for retries.
        """
        if not self._cluster_id:
            self.retry(lambda: self._metadata([]))
        return self._cluster_id

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """Those of these topics (None: of all) that exist, by name."""
        wanted = None if names is None else sorted(names)
        return self.retry(lambda: self._describe(wanted))

    def _describe(self, names: list[str] | None) -> dict[str, Topic]:
        response = self._metadata(names)
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        found = {}
        for topic in response.topics:
            if topic.name is None or topic.error in _MISSING:
                continue
            if topic.error is not ErrorCode.NONE:
                raise broker_error(topic.error, topic.error_message, f"topic {topic.name}")
            leaders = {each.partition: brokers.get(each.leader_id) for each in topic.partitions}
            found[topic.name] = Topic(topic.name, topic.topic_id, leaders, topic.is_internal)
        self._topics.update(found)
        return found

    def _metadata(self, names: list[str] | None) -> MetadataResponse:
        response: MetadataResponse = self.ask_any(
            MetadataRequest(names, allow_auto_topic_creation=self._creates_topics)
        )
        if response.error is not ErrorCode.NONE:
            raise broker_error(response.error, None, "metadata")
        self._cluster_id = response.cluster_id
        return response

    def topic(self, name: str) -> Topic:
        """A topic, as it was known last or as it is now; asks once.

        Raises:
            ClientError: no broker answers now.
            UnknownTopicOrPartitionError: there is none of this name.
        """
        if name not in self._topics and name not in self._describe([name]):
            raise UnknownTopicOrPartitionError(f"topic {name} does not exist")
        return self._topics[name]

    def leader(self, partition: TopicPartition) -> Address:
        """Where the leader listens, as it was known last or as it is now; asks once.

        Raises:
            ClientError: no broker answers now.
            UnknownTopicOrPartitionError: there is no such partition.
            BrokerError: it has no leader now.
        """
        leaders = self.topic(partition.topic).leaders
        if partition.partition not in leaders:
            self._topics.pop(partition.topic, None)
            raise UnknownTopicOrPartitionError(f"{partition} does not exist")
        address = leaders[partition.partition]
        if address is None:
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, None, str(partition))
        return address

    def forget(self, topic: str) -> None:
        """Ask about a topic again when it is needed next."""
        self._topics.pop(topic, None)

    # Offsets.

    def list_offsets(
        self, questions: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a timestamp in each partition, or -1.

        Timestamp -2 asks for the first offset, -1 for that behind the last readable record.
        """
        return self.retry(lambda: self._list_offsets(questions, isolation_level))

    def _list_offsets(
        self, questions: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        by_leader: dict[Address, list[ListOffsetsPartition]] = {}
        for partition, timestamp in questions.items():
            by_leader.setdefault(self.leader(partition), []).append(
                ListOffsetsPartition(*partition, timestamp)
            )
        found = {}
        for leader, partitions in by_leader.items():
            response = self.ask(leader, ListOffsetsRequest(partitions, isolation_level))
            for result in response.partitions:
                partition = TopicPartition(result.topic, result.partition)
                if result.error is not ErrorCode.NONE:
                    raise broker_error(result.error, result.error_message, str(partition))
                found[partition] = result.offset
        return found

    def wait_for_records(
        self, ends: Mapping[TopicPartition, int], isolation_level: IsolationLevel, timeout_ms: int
    ) -> None:
        """Return when there is something behind the ends of partitions, or the time is over.

        Where they are led by several brokers, at once: one that waits would not see the others.

        Raises:
            ClientError: a broker is away, or does not know a partition.
        """
        leaders = {self.leader(partition) for partition in ends}
        if len(leaders) != 1:
            return
        wanted = [FetchPartition(*partition, offset, 1) for partition, offset in ends.items()]
        request = FetchRequest(timeout_ms, 1, 1, wanted, isolation_level)
        response: FetchResponse = self.ask(leaders.pop(), request)
        for result in response.partitions:
            if result.error is not ErrorCode.NONE:
                raise broker_error(result.error, result.error_message, f"{result.topic}")

    def bytes_per_offset(self, names: Iterable[str]) -> dict[TopicPartition, float]:
        """How large a record is in each partition on average, as stored."""
        request = DescribePartitionsRequest(sorted(names))
        response = self.retry(lambda: self.ask_any(request))
        return {
            TopicPartition(each.topic, each.partition): each.size_bytes
            / max(1, each.log_end_offset - each.log_start_offset)
            for each in response.partitions
        }


_MISSING: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)
