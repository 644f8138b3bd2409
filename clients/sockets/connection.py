"""One connection to a broker over a blocking socket."""

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any, Final, Self

from seglog.clients.config import Address, ClientConfig
from seglog.clients.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    RequestTimeoutError,
)
from seglog.clients.quiet_sockets import keep_alive
from seglog.clients.session.exchange import (
    CLOSED_BY_BROKER,
    Exchange,
    answer_or_error,
    damaged,
    not_answered,
    not_sent,
)
from seglog.clients.session.reaching import hosts_of, share_s
from seglog.protocol.errors import ProtocolError

_RECEIVE_BYTES: Final = 262_144
_SOCKET_BUFFER_BYTES: Final = 4 * 1024 * 1024
_PARTS_PER_CALL: Final = 512
_SHORTEST_WAIT_S: Final = 0.001


class SocketConnection:
    """Sends requests and receives their answers; one thread at a time.

    Record fields of answers are views of receive buffers, which stay valid as long as they are
    held.

    Args:
        exchange: what goes over it.
        link: the connected socket; ``open`` makes one.
    """

    def __init__(self, exchange: Exchange, link: socket.socket) -> None:
        self.address = exchange.address
        self._exchange = exchange
        self._socket = link
        self._requests: dict[int, str] = {}
        self._answers: dict[int, Any] = {}

    @classmethod
    def open(cls, address: Address, config: ClientConfig, timeout_s: float) -> Self:
        """Connect; the handshake is done when this returns.

        Raises:
            BrokerUnreachableError: refused, not answered in time, or not a seglog broker.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            link = _connected(address, deadline_s)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BrokerUnreachableError(*address, f"cannot connect: {reason}") from error
        exchange = Exchange(
            address, config.client_id, software_name="seglog-spark", receive_bytes=_RECEIVE_BYTES
        )
        connection = cls(exchange, link)
        try:
            connection._shake_hands(deadline_s)
        except (ConnectionLostError, OSError) as error:
            connection.close("not opened")
            reason = error.reason if isinstance(error, ConnectionLostError) else str(error)
            if isinstance(error, TimeoutError):
                reason = f"handshake not finished within {timeout_s:.3g} s"
            raise BrokerUnreachableError(*address, reason) from error
        return connection

    def _shake_hands(self, deadline_s: float) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(self._socket)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self._socket.settimeout(_wait_s(deadline_s))
        self._socket.sendall(self._exchange.opening())
        while not self._exchange.is_ready:
            self._receive(deadline_s)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._exchange.is_closed

    @property
    def in_flight(self) -> int:
        """Requests whose answer was not taken yet."""
        return self._exchange.in_flight + len(self._answers)

    @property
    def has_ended(self) -> bool:
        """Whether the broker has closed an idle connection, for example because it restarted."""
        if self.is_closed:
            return True
        try:
            self._socket.settimeout(0)
            return bool(self._socket.recv(1, socket.MSG_PEEK) == b"")
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(self, request: Any, timeout_s: float) -> int:
        """Send a request; give the result to ``receive``.

        Raises:
            ConnectionLostError, RequestTimeoutError: the connection is closed.
        """
        name = type(request).__name__
        correlation_id, parts = self._exchange.encode(request)
        try:
            self._send_all(parts, time.monotonic() + timeout_s)
        except TimeoutError as error:
            raise self._time_is_up(not_sent(name, timeout_s)) from error
        except OSError as error:
            raise self._lost(f"connection lost: {error}") from error
        self._requests[correlation_id] = name
        return correlation_id

    def receive(self, correlation_id: int, timeout_s: float) -> Any:
        """Wait for the answer to a request.

        Raises:
            BrokerError: the broker refused the request as a whole.
            ConnectionLostError, RequestTimeoutError: the connection is closed.
        """
        name = self._requests.pop(correlation_id, "request")
        deadline_s = time.monotonic() + timeout_s
        try:
            while correlation_id not in self._answers:
                self._receive(deadline_s)
        except TimeoutError as error:
            raise self._time_is_up(not_answered(name, timeout_s)) from error
        except OSError as error:
            raise self._lost(f"connection lost: {error}") from error
        return answer_or_error(self._answers.pop(correlation_id), name)

    def request(self, request: Any, timeout_s: float) -> Any:
        """Send a request and wait for its answer; raises what both raise."""
        return self.receive(self.send(request, timeout_s), timeout_s)

    def close(self, reason: str) -> None:
        """Close, from any thread: one that waits for an answer gets ``ConnectionLostError``."""
        if not self._exchange.close(reason):
            return
        with contextlib.suppress(OSError):  # The other end may have been first.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send_all(self, parts: Sequence[bytes], deadline_s: float) -> None:
        views = [memoryview(part).cast("B") for part in parts]
        while views:
            self._socket.settimeout(_wait_s(deadline_s))
            sent = self._socket.sendmsg(views[:_PARTS_PER_CALL])
            while views and sent >= views[0].nbytes:
                sent -= views.pop(0).nbytes
            if sent:
                views[0] = views[0][sent:]

    def _receive(self, deadline_s: float) -> None:
        """Receive once, and keep the answers that are whole.

        Raises:
            ConnectionLostError: the broker has closed the connection, or sends no answers.
            OSError: the system says why not; ``TimeoutError`` if the time is over.
        """
        if self.is_closed:
            raise self._exchange.lost()
        self._socket.settimeout(_wait_s(deadline_s))
        count = self._socket.recv_into(self._exchange.get_buffer())
        if count == 0:
            raise self._lost(CLOSED_BY_BROKER)
        try:
            self._answers.update(self._exchange.received(count))
        except ProtocolError as error:
            raise self._lost(damaged(error)) from error

    def _time_is_up(self, reason: str) -> RequestTimeoutError:
        self.close(reason)
        return RequestTimeoutError(f"{self.address}: {reason}")

    def _lost(self, reason: str) -> ConnectionLostError:
        # Closed by another thread, the socket fails: what counts is why that has closed it.
        self.close(reason)
        return self._exchange.lost()


def _connected(address: Address, deadline_s: float) -> socket.socket:
    """Connect to what the host's name stands for, one address after the other.

    A name often stands for an IPv6 address first, where packets may vanish without an answer.
    """
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    hosts = hosts_of(address.host, found)
    for left, host in zip(range(len(hosts), 0, -1), hosts, strict=True):
        timeout_s = share_s(time.monotonic(), deadline_s, left)
        try:
            return socket.create_connection((host, address.port), timeout_s)
        except OSError:  # also a timeout
            if left == 1:
                raise
    raise AssertionError("no address was tried")


def _wait_s(deadline_s: float) -> float:
    """How long a call may take; 0 would mean not to wait at all."""
    return max(_SHORTEST_WAIT_S, deadline_s - time.monotonic())
