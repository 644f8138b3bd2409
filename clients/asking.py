"""The way of an asyncio client to its brokers: which to ask, over which connection."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from seglog.clients.config import Address, ClientConfig, parse_addresses
from seglog.clients.connection import BrokerConnection, PendingAnswer
from seglog.clients.connection_slot import ConnectionGate, ConnectionSlot
from seglog.clients.errors import (
    BrokerConnectionError,
    BrokerUnreachableError,
    ClientClosedError,
    ClientError,
    ConfigurationError,
    RequestTimeoutError,
    address_text,
    broker_error,
)
from seglog.clients.retry import answered_in_time
from seglog.clients.session.metadata import Metadata
from seglog.clients.session.reaching import Attempts, Reachability
from seglog.clients.session.retrying import SHORTEST_WAIT_S, Backoff
from seglog.clients.tasks import TaskSet
from seglog.protocol.errors import ErrorCode


class BrokerAccess:
    """Connections of one client, and questions to brokers. Belongs to one loop.

    Args:
        bootstrap_servers: where to ask first.
        config: timeouts and pauses.
        tasks: where connections are opened.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], config: ClientConfig, tasks: TaskSet
    ) -> None:
        if isinstance(bootstrap_servers, Mapping):
            # Its keys would be looked up as hosts: other clients take such a mapping.
            raise ConfigurationError(
                "bootstrap_servers is a mapping: expected host:port, or several of them; what else "
                "there is to say are keyword arguments, such as request_timeout_ms=5000"
            )
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else [*bootstrap_servers]
        self.config = config
        self.tasks = tasks
        self.backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        """How long to wait after a request that failed."""
        self.metadata = Metadata()
        self._bootstrap = parse_addresses(servers)
        self._informant: Address | None = None
        """The bootstrap server that was the last one to say where brokers are."""
        self._reachability = Reachability()
        self._slots: dict[Address, ConnectionSlot] = {}
        self._gate = ConnectionGate()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refresh_due = asyncio.Event()
        self._is_closed = False

    def refresh_soon(self) -> None:
        """Something does not fit the metadata: ask again, in the background."""
        self._refresh_due.set()

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

        For callers to whom the order of requests matters: a later one is sent later.
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

    def close_connections(self, reason: str) -> None:
        """Close them for good."""
        for slot in self._slots.values():
            slot.close(reason)

    async def _connect_to(self, node_id: int, timeout_s: float) -> BrokerConnection:
        address = self.metadata.brokers.get(node_id)
        if address is None:
            self.refresh_soon()
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, None, f"broker {node_id}")
        try:
            return await self._connect(address, timeout_s)
        except BrokerUnreachableError:
            # It may have come back elsewhere, which others among the bootstrap servers know.
            self.refresh_soon()
            raise

    async def _connect(self, address: Address, timeout_s: float) -> BrokerConnection:
        self.check_loop()
        slot = self._slot(address)
        try:
            async with asyncio.timeout(timeout_s):
                return await slot.get()
        except TimeoutError as error:
            reason = slot.last_failure or "no connection yet"
            raise self._unreachable(address, f"{reason} (waited {timeout_s:.3g} s)") from error
        except BrokerUnreachableError as error:
            raise self._unreachable(address, error.reason) from error

    def _unreachable(self, address: Address, reason: str) -> BrokerUnreachableError:
        """The error, which names the origin of an address that no user has typed."""
        if self._informant is not None and address not in self._bootstrap:
            source = address_text(*self._informant)
            reason += f" (the address is what {source} says of itself: advertised.listeners)"
        return BrokerUnreachableError(*address, reason)

    async def _ask_anyone(self, request: Any, timeout_s: float) -> Any:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        connection = await self._connect_to_anyone(deadline_s)
        try:
            answer = await connection.request(
                request, max(SHORTEST_WAIT_S, deadline_s - loop.time())
            )
        except (BrokerConnectionError, RequestTimeoutError):
            self._reachability.failed(connection.address)
            raise
        self._reachability.answered(connection.address)
        return answer

    async def _connect_to_anyone(self, deadline_s: float) -> BrokerConnection:
        """To a broker that is connected, if there is one; else to the first that is reached."""
        loop = asyncio.get_running_loop()
        addresses = dict.fromkeys([*self.metadata.brokers.values(), *self._bootstrap])
        servers = self._reachability.in_order(addresses)
        servers.sort(key=lambda address: not self._slot(address).is_open)
        attempts = Attempts(servers, deadline_s)
        failure: BrokerUnreachableError | None = None
        while (attempt := attempts.next(loop.time())) is not None:
            address, share_s = attempt
            try:
                connection = await self._connect(address, share_s)
            except BrokerUnreachableError as error:
                attempts.failed(address, loop.time())
                self._reachability.failed(address)
                failure = error
            else:
                if address in self._bootstrap:
                    self._informant = address
                return connection
        assert failure is not None, "there is no server"
        raise failure

    def _slot(self, address: Address) -> ConnectionSlot:
        slot = self._slots.get(address)
        if slot is None:
            slot = self._slots[address] = ConnectionSlot(
                address, self.config, self.tasks, self._gate
            )
        return slot
