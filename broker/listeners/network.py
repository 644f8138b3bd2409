"""All listeners of a broker, made from its configuration."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from seglog.broker.listeners.connection_limits import ConnectionLimits
from seglog.broker.listeners.first_bytes import DialectChoice
from seglog.broker.listeners.listener import BoundEndpoint, Listener
from seglog.broker.listeners.receive_buffer import SharedBuffer
from seglog.broker.listeners.request_statistics import RequestMetrics
from seglog.broker.listeners.services import (
    ConnectionSettings,
    ListenerServices,
    RequestHandler,
)
from seglog.broker.runtime.loop_load import BusyTimes
from seglog.broker.runtime.traffic import Traffic
from seglog.config import BrokerConfig, Endpoint, HostPort
from seglog.config.endpoints import are_families_apart
from seglog.protocol.api import ApiKey
from seglog.protocol.native import NativeServer

if TYPE_CHECKING:
    from seglog.protocol.kafka.connection import KafkaServerConnection
    from seglog.protocol.kafka.operations import Offer

_SEND_BUFFER_KEY: Final = "socket.send.buffer.bytes"
_RECEIVE_BUFFER_KEY: Final = "socket.receive.buffer.bytes"
_HINTS: Final = {
    errno.EADDRINUSE: "another process has it, perhaps another broker; port 0 takes a free one",
    errno.EADDRNOTAVAIL: "it is no address of this machine; listeners says where to listen, "
    "advertised.listeners which address clients are told",
    errno.EACCES: "ports below 1024 are for root or need CAP_NET_BIND_SERVICE",
}


class AddressUnavailableError(Exception):
    """A listener cannot have its address.

    Args:
        endpoint: which one.
        error: of the system.
    """

    def __init__(self, endpoint: object, error: OSError) -> None:
        super().__init__(f"cannot listen at {endpoint}: {_explained(error)}")
        self.endpoint = endpoint


def _explained(error: OSError) -> str:
    """The system's message, with a hint."""
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    # asyncio replaces the system's text by a sentence of its own.
    reason = os.strerror(error.errno)
    hint = _HINTS.get(error.errno)
    return f"{reason}; {hint}" if hint else reason


def bind_endpoints(config: BrokerConfig) -> list[BoundEndpoint]:
    """Take the addresses of all listeners.

    Raises:
        AddressUnavailableError: one of them cannot be had; none is kept.
    """
    bound: list[BoundEndpoint] = []
    for endpoint in config.listeners:
        try:
            # ``[::]`` takes IPv4 as well, as on Linux for Kafka, but where another listener does.
            is_shared = any(are_families_apart(endpoint, other) for other in config.listeners)
            bound.append(BoundEndpoint(endpoint, only_ipv6=is_shared))
        except OSError as error:
            for each in bound:
                each.close()
            raise AddressUnavailableError(endpoint, error) from error
    return bound


class Network:
    """The listeners of a broker and what they share.

    Args:
        config: of the broker.
        bound: its endpoints, from ``bind_endpoints``; belong to the network from now on.
        handler: answers all requests.
        implemented: the operations it answers; told to Kafka clients.
        software_version: told to native clients.
        traffic: told whenever there was something to do for a connection.
    """

    def __init__(
        self,
        config: BrokerConfig,
        bound: Sequence[BoundEndpoint],
        handler: RequestHandler,
        *,
        implemented: Iterable[ApiKey],
        software_version: str,
        traffic: Traffic,
    ) -> None:
        self.requests = RequestMetrics()
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._handler = handler
        self._implemented = frozenset(implemented)
        self._software_version = software_version
        self._traffic = traffic
        self._limits = ConnectionLimits(config)
        self._shared_buffer = SharedBuffer()
        self.listeners = [self._make_listener(each) for each in bound]

    @property
    def address(self) -> str:
        """Where clients of the first listener are told to connect."""
        first = self.listeners[0]
        host = first.services.advertised_host or first.endpoint.host
        return str(HostPort(host, first.services.advertised_port))

    def busy_times(self) -> BusyTimes:
        """How long sockets and handlers of all listeners have occupied the loop."""
        sockets_ns = sum(listener.counters.busy_ns for listener in self.listeners)
        return BusyTimes(sockets_ns, self.requests.busy_ns)

    def start(self) -> None:
        """Accept connections at all endpoints.

        Raises:
            AddressUnavailableError: another process has begun to listen at one of them.
        """
        for listener in self.listeners:
            try:
                listener.start()
            except OSError as error:
                raise AddressUnavailableError(listener.endpoint, error) from error

    def update_config(self, config: BrokerConfig) -> None:
        """Put changed limits into force, for open connections too."""
        self._config = config
        self._limits.configure(config)
        for listener in self.listeners:
            listener.services.settings = ConnectionSettings.of(config)

    def stop_accepting(self) -> None:
        """Take no more connections. Idempotent."""
        for listener in self.listeners:
            listener.stop_accepting()

    def finish_requests(self) -> None:
        """Read no more requests; connections close when they are answered."""
        for listener in self.listeners:
            listener.finish_connections()

    async def wait_closed(self, seconds: float) -> int:
        """Wait for all connections to end, then close the rest; how many those were."""
        late = await asyncio.gather(*(each.wait_closed(seconds) for each in self.listeners))
        return sum(late)

    def _make_listener(self, bound: BoundEndpoint) -> Listener:
        config = self._config
        name = bound.endpoint.listener_name
        advertised = _advertised(config, name)
        services = ListenerServices(
            loop=self._loop,
            listener_name=name,
            handler=self._handler,
            dialects=DialectChoice(self._make_native, self._make_kafka),
            settings=ConnectionSettings.of(config),
            shared_buffer=self._shared_buffer,
            requests=self.requests,
            connection_closed=lambda _connection, _reason: None,
            advertised_host=advertised.host if advertised else None,
            advertised_port=advertised.port if advertised else 0,
            traffic=self._traffic,
        )
        return Listener(
            bound,
            services,
            self._limits,
            backlog=config.socket_listen_backlog_size,
            buffer_bytes=_buffer_bytes(config),
        )

    def _make_native(self) -> NativeServer:
        return NativeServer(
            max_frame_bytes=self._config.socket_request_max_bytes,
            max_in_flight=self._config.max_inflight_requests_per_connection,
            software_version=self._software_version,
        )

    def _make_kafka(self) -> "KafkaServerConnection":
        # Fifty modules that a start does not need; the first Kafka client waits for them.
        from seglog.protocol.kafka.connection import KafkaServerConnection

        return KafkaServerConnection(
            offer=self._offer, max_frame_bytes=self._config.socket_request_max_bytes
        )

    @cached_property
    def _offer(self) -> "Offer":
        from seglog.protocol.kafka.operations import Offer

        return Offer(self._implemented)


def _advertised(config: BrokerConfig, listener_name: str) -> Endpoint | None:
    for endpoint in config.advertised_listeners or ():
        if endpoint.listener_name == listener_name:
            return endpoint
    return None


def _buffer_bytes(config: BrokerConfig) -> tuple[int | None, int | None]:
    """Send and receive buffer of connections; None where the configuration sets none.

    Kafka's default of 100 KiB switches off the kernel's own sizing and costs throughput; it only
    applies if the configuration sets it.
    """
    return (
        config.socket_send_buffer_bytes if config.is_set(_SEND_BUFFER_KEY) else None,
        config.socket_receive_buffer_bytes if config.is_set(_RECEIVE_BUFFER_KEY) else None,
    )
