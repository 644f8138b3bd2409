"""What all connections of one listener share."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from seglog.broker.listeners.counters import NetworkCounters
from seglog.broker.listeners.first_bytes import DialectChoice
from seglog.broker.listeners.rate_limited_log import RateLimitedLog
from seglog.broker.listeners.receive_buffer import SharedBuffer
from seglog.broker.listeners.request_statistics import RequestMetrics
from seglog.broker.requests.context import RequestContext
from seglog.broker.runtime.traffic import Traffic
from seglog.config import BrokerConfig
from seglog.protocol.dialect import Reply

logger = logging.getLogger(__name__)


class RequestHandler(Protocol):
    """Answers requests."""

    def handle(self, request: object, context: RequestContext) -> object:
        """Return the response, or a ``Pending`` that will hold it."""
        ...


@dataclass(frozen=True)
class ConnectionSettings:
    """The limits of one connection."""

    max_in_flight: int
    output_limit_bytes: int
    max_idle_seconds: float | None
    turn_ns: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "ConnectionSettings":
        """The limits that a configuration sets."""
        idle_ms = config.connections_max_idle_ms
        return cls(
            config.max_inflight_requests_per_connection,
            config.connection_output_buffer_bytes,
            idle_ms / 1000 if idle_ms >= 0 else None,
            config.connection_turn_ms * 1_000_000,
        )


@dataclass
class ListenerServices:
    """The parts that a connection works with.

    Attributes:
        advertised_host: host that clients are told; None: the one that they connected to.
        advertised_port: the port that clients are told.
        connection_closed: called once by each connection, with itself and the reason.
        traffic: told whenever there was something to do for a connection.
    """

    loop: asyncio.AbstractEventLoop
    listener_name: str
    handler: RequestHandler
    dialects: DialectChoice
    settings: ConnectionSettings
    shared_buffer: SharedBuffer
    requests: RequestMetrics
    connection_closed: Callable[[Any, str], None]
    advertised_host: str | None = None
    advertised_port: int = 0
    counters: NetworkCounters = field(default_factory=NetworkCounters)
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        self._rejections = RateLimitedLog(logger, self.loop.time)

    def context(self, client_id: str, host: str, peer: str) -> RequestContext:
        """The context of a connection for handlers."""
        return RequestContext(
            client_id, self.listener_name, self.advertised_host or host, self.advertised_port, peer
        )

    def refused(self, reply: Reply, peer: str, client_id: str) -> None:
        """Count a request that its dialect has refused, and say so at most once in a while."""
        self.counters.count_refused_request(reply.operation, reply.error.name)
        self._rejections.report(
            "event=request-refused operation=%s version=%d error=%s listener=%s peer=%s "
            'client_id="%s"',
            reply.operation,
            reply.version,
            reply.error.name,
            self.listener_name,
            peer,
            client_id,
        )

    def log_rejected(self, peer: str, reason: str, first_bytes: bytes, message: str) -> None:
        """Log that bad input closed a connection, at a limited rate."""
        hint = _HINTS.get(reason, "")
        self._rejections.report(
            'event=frame-rejected listener=%s peer=%s reason=%s first_bytes=%s message="%s"%s',
            self.listener_name,
            peer,
            reason,
            first_bytes.hex(),
            message,
            hint,
        )


_HINTS = {
    "http": ' hint="an HTTP client; metrics and health are on the metrics.listener"',
    "tls": ' hint="a TLS client; this listener is plain text"',
    "ssh": ' hint="an SSH client"',
    "proxy": ' hint="a proxy that sends the PROXY protocol; switch that off"',
}
