"""The brokers and topics as a client knows them, and the way to ask a broker.

Metadata is kept for the topics that somebody watches and refreshed in the background. A refresh
never asks the broker to create a topic; only ``find_topic(create=True)`` does, once, for a send.
Belongs to one loop; ``topics`` and what is in it may be read by any thread: it is replaced as a
whole and never changed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from seglog.clients.config import Address, ClientConfig, parse_addresses
from seglog.clients.connection import BrokerConnection, PendingAnswer
from seglog.clients.connection_slot import ConnectionGate, ConnectionSlot
from seglog.clients.errors import (
    BrokerUnreachableError,
    ClientClosedError,
    ClientError,
    ConfigurationError,
    MetadataTimeoutError,
    UnknownTopicOrPartitionError,
    address_text,
    broker_error,
)
from seglog.clients.retry import Backoff, LimitedLogger, answered_in_time
from seglog.clients.tasks import TaskSet
from seglog.protocol.api import MetadataRequest, MetadataResponse, TopicMetadata
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

_MARKER_BACKOFF_S: Final = 0.01
UNKNOWN_TOPIC_GRACE_S: Final = 1.0
"""How long a topic may stay unknown before that is believed: creation takes a moment."""
_logger = logging.getLogger("seglog.clients")


class KnownTopic(NamedTuple):
    """One topic as of the last metadata; ``leaders`` maps a partition to the id of its leader."""

    name: str
    topic_id: bytes
    partition_count: int
    leaders: Mapping[int, int]


class Cluster:
    """Metadata cache and connections of one client.

    Args:
        bootstrap_servers: where to ask first.
        config: timeouts and pauses.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], config: ClientConfig) -> None:
        if isinstance(bootstrap_servers, Mapping):
            # Its keys would be looked up as hosts: other clients take such a mapping.
            raise ConfigurationError(
                "bootstrap_servers is a mapping: expected host:port, or several of them; what else "
                "there is to say are keyword arguments, such as request_timeout_ms=5000"
            )
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else [*bootstrap_servers]
        self.config = config
        self.topics: Mapping[str, KnownTopic] = MappingProxyType({})
        self.tasks = TaskSet(self.fail)
        self.backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        # For the end of the transaction before: its markers take a sync or two, not a fail-over.
        self.marker_backoff = Backoff(
            min(_MARKER_BACKOFF_S, config.retry_backoff_ms / 1000),
            config.retry_backoff_max_ms / 1000,
        )
        """How long to wait after a request that failed."""
        self.failure = ""
        """Why the client cannot go on, if that is so."""
        self._bootstrap = parse_addresses(servers)
        self._brokers: dict[int, Address] = {}
        self._informant: Address | None = None
        """The bootstrap server that was the last one to say where brokers are."""
        self._slots: dict[Address, ConnectionSlot] = {}
        self._gate = ConnectionGate()
        self._watched: set[str] = set()
        self._finding: dict[str, asyncio.Lock] = {}
        self._listeners: list[Callable[[], object]] = []
        self._failure_listeners: list[Callable[[], object]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.learned = 0
        """How many times brokers have said what there is."""
        self._refresh_due = asyncio.Event()
        self._is_started = False
        self._is_closed = False
        self._trouble: LimitedLogger | None = None

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Frameworks pickle what a function refers to, to run it in another process.
        raise TypeError(
            "a client cannot be pickled: it holds connections; make one in the process that uses it"
        )

    async def start(self) -> None:
        """Ask the first broker that answers for the others; idempotent.

        Raises:
            BrokerUnreachableError: none of the bootstrap servers; names the last one.
        """
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        self.check_loop()
        if self._is_started:
            return
        self._loop = asyncio.get_running_loop()
        timeout_s = self.config.request_timeout_ms / 1000
        self._learn(await self._ask_anyone(MetadataRequest(topics=[]), timeout_s), None)
        self._is_started = True
        self.tasks.spawn(self._refresh_forever(), "seglog-metadata", is_vital=True)

    async def close(self) -> None:
        """Close the connections and end the background tasks; idempotent."""
        self._is_closed = True
        for slot in self._slots.values():
            slot.close("the client is closed")
        await self.tasks.cancel_all()

    def check_loop(self) -> None:
        """Refuse to work on any other loop than that of ``start``: one would wait for ever.

        Raises:
            ClientError: this is another one.
        """
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            state = "closed" if self._loop.is_closed() else "another one"
            raise ClientError(
                f"the event loop on which the client was started is {state}; a client belongs to "
                "one loop: make one on each"
            )

    def fail(self, reason: str) -> None:
        """Something without which the client cannot go on has ended."""
        if self._is_closed or self.failure:
            return
        self.failure = f"the client has failed: {reason}"
        for listener in self._failure_listeners:
            listener()

    def warn(self, message: str, *values: object) -> None:
        """Log a trouble that goes on by itself; all troubles of a client share one limit."""
        if self._trouble is None:
            self._trouble = LimitedLogger(_logger, asyncio.get_running_loop().time)
        self._trouble.warning(message, *values)

    # Asking brokers.

    async def request(self, request: Any, timeout_s: float, node_id: int | None = None) -> Any:
        """Send a request to a broker (None: any) and return the answer.

        Raises:
            BrokerUnreachableError, ConnectionLostError, RequestTimeoutError, BrokerError: see
                ``BrokerConnection``; nothing is tried twice here.
        """
        if self._is_closed:
            raise ClientClosedError("the client is closed")
        if node_id is None:
            return await self._ask_anyone(request, timeout_s)
        connection = await self._connect_to(node_id, timeout_s)
        return await connection.request(request, timeout_s)

    async def begin(self, request: Any, timeout_s: float, node_id: int) -> PendingAnswer:
        """Send a request to a broker and return what waits for its answer.

        For those to whom the order of requests matters: what is begun later is sent later.
        """
        connection = await self._connect_to(node_id, timeout_s)
        return await connection.begin(request, timeout_s)

    async def send(self, request: Any, timeout_s: float, node_id: int) -> None:
        """Send a request that has no answer to a broker."""
        connection = await self._connect_to(node_id, timeout_s)
        await connection.send(request, timeout_s)

    async def retry(self, request: Any, timeout_s: float) -> Any:
        """Like ``request`` to any broker, but tried again while that can help and time is left.

        For requests that may be carried out twice.
        """
        ask = partial(self._ask_anyone, request)
        return await answered_in_time(ask, timeout_s, self.backoff.delay_s)

    def add_broker(self, node_id: int, host: str, port: int) -> None:
        """A broker that is named outside of metadata, such as a coordinator."""
        self._brokers.setdefault(node_id, Address(host, port))

    async def _connect_to(self, node_id: int, timeout_s: float) -> BrokerConnection:
        address = self._brokers.get(node_id)
        if address is None:
            self.refresh_soon()
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, None, f"broker {node_id}")
        try:
            return await self._connect(self._slot(address), timeout_s)
        except BrokerUnreachableError:
            # It may have come back elsewhere, which others among the bootstrap servers know.
            self.refresh_soon()
            raise

    async def _connect(self, slot: ConnectionSlot, timeout_s: float) -> BrokerConnection:
        self.check_loop()
        try:
            async with asyncio.timeout(timeout_s):
                return await slot.get()
        except TimeoutError as error:
            reason = slot.last_failure or "no connection yet"
            raise self._unreachable(slot, f"{reason} (waited {timeout_s:.3g} s)") from error
        except BrokerUnreachableError as error:
            raise self._unreachable(slot, error.reason) from error

    def _unreachable(self, slot: ConnectionSlot, reason: str) -> BrokerUnreachableError:
        """The error, which says where an address comes from that nobody has typed."""
        if self._informant is not None and slot.address not in self._bootstrap:
            source = address_text(*self._informant)
            reason += f" (the address is what {source} says of itself: advertised.listeners)"
        return BrokerUnreachableError(*slot.address, reason)

    async def _ask_anyone(self, request: Any, timeout_s: float) -> Any:
        addresses = dict.fromkeys([*self._brokers.values(), *self._bootstrap])
        slots = [self._slot(address) for address in addresses]
        slots.sort(key=lambda slot: not slot.is_open)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        connection = None
        for left, slot in zip(range(len(slots), 0, -1), slots, strict=True):
            # Each leaves time for those behind it: packets to one may vanish without an answer.
            share_s = (deadline_s - loop.time()) / left
            try:
                connection = await self._connect(slot, max(0.001, share_s))
                if slot.address in self._bootstrap:
                    self._informant = slot.address
                break
            except BrokerUnreachableError:
                if left == 1:
                    raise
        assert connection is not None
        return await connection.request(request, max(0.001, deadline_s - loop.time()))

    def _slot(self, address: Address) -> ConnectionSlot:
        slot = self._slots.get(address)
        if slot is None:
            slot = self._slots[address] = ConnectionSlot(
                address, self.config, self.tasks, self._gate
            )
        return slot

    # Knowing topics.

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` whenever the metadata has changed or been confirmed."""
        self._listeners.append(listener)

    def add_failure_listener(self, listener: Callable[[], object]) -> None:
        """Call ``listener`` when the client cannot go on; ``failure`` says why."""
        self._failure_listeners.append(listener)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Id of the broker that leads a partition, None while that is not known."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.leaders.get(partition.partition)

    def unwatch(self, topics: Iterable[str]) -> None:
        """Nobody needs these topics any more."""
        gone = frozenset(topics)
        self._watched -= gone
        self.topics = MappingProxyType(
            {name: topic for name, topic in self.topics.items() if name not in gone}
        )

    def refresh_soon(self) -> None:
        """Something does not fit the metadata: ask again, in the background."""
        self._refresh_due.set()

    async def find_topic(self, name: str, timeout_s: float, *, create: bool = False) -> KnownTopic:
        """Return a topic, and watch it from now on.

        Args:
            name: of the topic.
            timeout_s: how long to try.
            create: let the broker create it, if it is set up to do so.

        Raises:
            UnknownTopicOrPartitionError: it does not exist.
            MetadataTimeoutError: no broker said anything about it in time.
        """
        if (known := self.topics.get(name)) is not None:
            return known
        self.check_loop()
        lock = self._finding.setdefault(name, asyncio.Lock())
        last_error: list[ClientError] = []
        try:
            async with asyncio.timeout(timeout_s), lock:
                return await self._find_topic(name, create, last_error)
        except TimeoutError as error:
            reason = f": {last_error[-1]}" if last_error else ""
            raise MetadataTimeoutError(
                f"topic {name} not known after {timeout_s:.3g} s{reason}"
            ) from error
        finally:
            if not lock.locked():
                self._finding.pop(name, None)

    async def _find_topic(
        self, name: str, create: bool, last_error: list[ClientError]
    ) -> KnownTopic:
        loop = asyncio.get_running_loop()
        believed_at_s = loop.time() + UNKNOWN_TOPIC_GRACE_S
        attempt = 0
        while (known := self.topics.get(name)) is None:
            attempt += 1
            request = MetadataRequest(topics=[name], allow_auto_topic_creation=create)
            try:
                response = await self._ask_anyone(request, self.config.request_timeout_ms / 1000)
                self._learn(response, [name])
                error = _error_about(response, name)
            except ClientError as failure:
                error = failure
            if error is not None:
                last_error.append(error)
                is_unknown = isinstance(error, UnknownTopicOrPartitionError)
                if not error.retriable or (is_unknown and loop.time() >= believed_at_s):
                    raise error
                if not is_unknown:
                    self.warn("looking for topic %s: %s", name, error)
            if name not in self.topics:
                await asyncio.sleep(self.backoff.delay_s(attempt))
        self._watched.add(name)
        return known

    async def watch(self, names: Iterable[str], timeout_s: float) -> None:
        """Keep the metadata of these topics up to date from now on; they need not exist yet.

        Raises:
            ClientTimeoutError, BrokerConnectionError: they could not be asked for in time.
        """
        added = frozenset(names) - self._watched
        if not added:
            return
        self._watched |= added
        request = MetadataRequest(topics=sorted(added), allow_auto_topic_creation=False)
        self._learn(await self.retry(request, timeout_s), sorted(added))

    async def refresh(self, timeout_s: float) -> None:
        """Ask for the watched topics and take over what comes back."""
        names = sorted(self._watched)
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        self._learn(await self._ask_anyone(request, timeout_s), names)

    async def _refresh_forever(self) -> None:
        attempt = 0
        while True:
            pause_s = self.config.metadata_max_age_ms / 1000
            try:
                async with asyncio.timeout(pause_s):
                    await self._refresh_due.wait()
            except TimeoutError:
                pass
            self._refresh_due.clear()
            try:
                await self.refresh(self.config.request_timeout_ms / 1000)
                attempt = 0
            except ClientError as error:
                self.warn("metadata: %s; trying again", error)
                self._refresh_due.set()
            attempt += 1
            # Also after success: who finds the metadata unfit asks again at once, in a circle.
            await asyncio.sleep(self.backoff.delay_s(attempt))

    def _learn(self, response: MetadataResponse, asked: list[str] | None) -> None:
        if response.brokers:
            self._brokers = {
                broker.node_id: Address(broker.host, broker.port) for broker in response.brokers
            }
        topics = dict(self.topics)
        for name in asked or ():
            answer = next((topic for topic in response.topics if topic.name == name), None)
            if answer is not None and answer.error is ErrorCode.NONE:
                topics[name] = _known_topic(name, answer)
            elif answer is None or answer.error in _GONE:
                topics.pop(name, None)
        self.topics = MappingProxyType(topics)
        self.learned += 1
        for listener in self._listeners:
            listener()


_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION})


def _known_topic(name: str, answer: TopicMetadata) -> KnownTopic:
    leaders = {
        partition.partition: partition.leader_id
        for partition in answer.partitions
        if partition.leader_id >= 0
    }
    return KnownTopic(name, answer.topic_id, len(answer.partitions), MappingProxyType(leaders))


def _error_about(response: MetadataResponse, name: str) -> ClientError | None:
    answer = next((topic for topic in response.topics if topic.name == name), None)
    if answer is None:
        return UnknownTopicOrPartitionError(f"topic {name}: not in the broker's answer")
    if answer.error is ErrorCode.NONE:
        return None
    if answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not answer.error_message:
        return UnknownTopicOrPartitionError(f"topic {name} does not exist")
    return broker_error(answer.error, answer.error_message, f"topic {name}")
