"""A listening socket and its connections.

Accepting is done by hand: so connections over a limit are turned away before they cost anything,
and a process that is out of descriptors waits a moment instead of trying again and again.
"""

import asyncio
import errno
import logging
import os
import socket
from typing import Final

from seglog.broker.listeners.connection import Connection
from seglog.broker.listeners.connection_limits import ConnectionLimits
from seglog.broker.listeners.counters import NetworkCounters
from seglog.broker.listeners.rate_limited_log import RateLimitedLog
from seglog.broker.listeners.services import ListenerServices
from seglog.config import Endpoint

logger = logging.getLogger(__name__)

ACCEPT_RETRY_SECONDS: Final = 0.2
"""How long accepting rests after it failed for want of descriptors or memory."""
ACCEPTED_PER_TURN: Final = 64
"""So many connections are accepted before the others get their turn."""
IDLE_MEMORY_SECONDS: Final = 10.0
"""A connection that was silent this long gives its buffers back."""
SAME_HOST_SEND_BUFFER_BYTES: Final = 256 * 1024
"""Send buffer of a connection from this machine, unless set.

Between two sockets of one machine, a deep buffer only lets bytes fall out of the processor's cache
before they are received: the kernel would make it 4 MiB, with which large answers take twice the
processor time. For other machines a fixed buffer would bound the throughput.
"""
_SWEEP_SECONDS_MAX: Final = 5.0
_RESOURCE_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class BoundEndpoint:
    """The sockets of an endpoint: they hold the address, but clients cannot connect yet.

    Args:
        endpoint: where; port 0 lets the system choose.

    Attributes:
        port: the real one.

    Raises:
        OSError: the address is in use, or not one of this machine.
    """

    def __init__(self, endpoint: Endpoint, *, only_ipv6: bool = False) -> None:
        self.endpoint = endpoint
        self.port = endpoint.port
        self.sockets: list[socket.socket] = []
        try:
            for address in addresses_of(endpoint.host, endpoint.port, only_ipv6=only_ipv6):
                self._bind(*address)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give the address back. Idempotent."""
        for bound in self.sockets:
            bound.close()
        self.sockets.clear()

    def _bind(self, family: int, address: tuple[str, int]) -> None:
        bound = socket.socket(family, socket.SOCK_STREAM)
        self.sockets.append(bound)
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # A second address of an endpoint with port 0 takes the port that the first one got.
        bound.bind((address[0], address[1] or self.port))
        self.port = bound.getsockname()[1]


class Listener:
    """Accepts connections at one endpoint.

    Args:
        bound: the endpoint; belongs to the listener from now on.
        services: shared by the connections; its ``connection_closed`` is set by the listener.
        limits: shared by all listeners.
        backlog: connections that may wait to be accepted.
        buffer_bytes: send and receive buffer of a connection; -1 for the system's choice, None if
            nothing was asked for.
    """

    def __init__(
        self,
        bound: BoundEndpoint,
        services: ListenerServices,
        limits: ConnectionLimits,
        *,
        backlog: int,
        buffer_bytes: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self.endpoint = bound.endpoint
        self.services = services
        self.port = bound.port
        self.connections: set[Connection] = set()
        self._addresses: dict[Connection, str] = {}
        self._limits = limits
        self._backlog = backlog
        self._buffer_bytes = buffer_bytes
        self._loop = services.loop
        self._bound = bound
        self._accepting: set[socket.socket] = set()
        self._log = RateLimitedLog(logger, self._loop.time)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Event = asyncio.Event()
        services.connection_closed = self._forget
        if not services.advertised_port:
            services.advertised_port = bound.port

    @property
    def name(self) -> str:
        """As in the configuration."""
        return self.endpoint.listener_name

    @property
    def counters(self) -> NetworkCounters:
        """The counters of the listener."""
        return self.services.counters

    def start(self) -> None:
        """Accept connections from now on.

        Raises:
            OSError: another process listens at the address.
        """
        for bound in self._bound.sockets:
            bound.listen(self._backlog)
            self._resume_accepting(bound)
        self._sweep_timer = self._loop.call_later(self._sweep_seconds(), self._sweep)

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections that are open stay. Idempotent."""
        for listening in self._bound.sockets:
            self._pause_accepting(listening)
        self._bound.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    def finish_connections(self) -> None:
        """Let no connection send further requests; each closes when it is answered."""
        for connection in list(self.connections):
            connection.finish()

    async def wait_closed(self, seconds: float) -> int:
        """Wait for the connections to end, close the rest; how many those were."""
        if self.connections:
            self._all_closed.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._all_closed.wait()
            except TimeoutError:
                logger.info("event=connections-late count=%d", len(self.connections))
        late = list(self.connections)
        for connection in late:
            connection.close("stopping")
        return len(late)

    def _resume_accepting(self, listening: socket.socket) -> None:
        if listening in self._bound.sockets and listening not in self._accepting:
            self._accepting.add(listening)
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _pause_accepting(self, listening: socket.socket) -> None:
        if listening in self._accepting:
            self._accepting.discard(listening)
            self._loop.remove_reader(listening.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            delay = self._limits.seconds_until_next(self._loop.time())
            if delay > 0:
                self._rest(listening, delay)
                return
            try:
                connected, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # the client left before it was accepted
            except OSError as error:
                self._accept_failed(listening, error)
                return
            self._admit(connected, str(address[0]))

    def _accept_failed(self, listening: socket.socket, error: OSError) -> None:
        self.services.counters.accept_failures += 1
        reason = "out-of-resources" if error.errno in _RESOURCE_ERRORS else "failed"
        self._log.report(
            'event=accept-failed listener=%s reason=%s error="%s" connections=%d',
            self.endpoint.listener_name,
            reason,
            os.strerror(error.errno or 0),
            len(self.connections),
        )
        # The connection stays in the queue and the socket readable: without a rest this spins.
        self._rest(listening, ACCEPT_RETRY_SECONDS)

    def _rest(self, listening: socket.socket, seconds: float) -> None:
        self._pause_accepting(listening)
        self._loop.call_later(seconds, self._resume_accepting, listening)

    def _admit(self, connected: socket.socket, address: str) -> None:
        counters = self.services.counters
        counters.accepted += 1
        broken_limit = self._limits.admit(address, connected.fileno())
        if broken_limit is not None:
            counters.count_refused(broken_limit)
            self._log.report("event=connection-refused limit=%s peer=%s", broken_limit, address)
            connected.close()
            return
        try:
            connection = self._open(connected, address)
        except OSError:
            # The client left between accept and here.
            self._limits.leave(address)
            connected.close()
            return
        self.connections.add(connection)
        self._addresses[connection] = address
        connection.start()

    def _open(self, connected: socket.socket, address: str) -> Connection:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        set_buffers(connected, self._buffer_bytes)
        peer_port = connected.getpeername()[1]
        host = str(connected.getsockname()[0])
        return Connection(connected, f"{address}:{peer_port}", self.services, host)

    def _forget(self, connection: Connection, reason: str) -> None:
        self.connections.discard(connection)
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._limits.leave(address)
        self.services.counters.count_closed(reason)
        if not self.connections:
            self._all_closed.set()

    def _sweep_seconds(self) -> float:
        idle_seconds = self.services.settings.max_idle_seconds
        if idle_seconds is None:
            return _SWEEP_SECONDS_MAX
        return min(_SWEEP_SECONDS_MAX, max(0.01, idle_seconds / 4))

    def _sweep(self) -> None:
        """Close connections that are idle for too long, take back buffers from the silent."""
        self._sweep_timer = self._loop.call_later(self._sweep_seconds(), self._sweep)
        now = self._loop.time()
        max_idle = self.services.settings.max_idle_seconds
        for connection in list(self.connections):
            idle_seconds = now - connection.last_active
            if max_idle is not None and idle_seconds > max_idle and connection.is_idle:
                connection.close("idle")
            elif idle_seconds > IDLE_MEMORY_SECONDS:
                connection.release_idle_memory()


def addresses_of(
    host: str, port: int, *, only_ipv6: bool = False
) -> list[tuple[int, tuple[str, int]]]:
    """The addresses to bind for an endpoint; an empty host is every interface, both families.

    So is ``::``, unless ``only_ipv6`` leaves IPv4 to another listener.
    """
    if not host or (host == "::" and not only_ipv6):
        families = [(int(socket.AF_INET), ("0.0.0.0", port))]  # noqa: S104 - an empty host means it
        if socket.has_dualstack_ipv6():
            families.append((int(socket.AF_INET6), ("::", port)))
        return families
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE, proto=socket.IPPROTO_TCP
    )
    return list(
        dict.fromkeys((int(family), (str(a[0]), int(a[1]))) for family, _, _, _, a in found)
    )


def set_buffers(connected: socket.socket, buffer_bytes: tuple[int | None, int | None]) -> None:
    """Size the send and the receive buffer; ``Listener`` explains the numbers."""
    send_bytes, receive_bytes = buffer_bytes
    if send_bytes is None and connected.getpeername()[0] == connected.getsockname()[0]:
        send_bytes = SAME_HOST_SEND_BUFFER_BYTES
    for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
        if size is not None and size > 0:
            connected.setsockopt(socket.SOL_SOCKET, option, size)
