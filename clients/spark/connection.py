"""One connection to a broker over a blocking socket, and a pool of them for each process.

Spark calls sources and sinks in plain Python processes, a worker for each task slot: no event loop
is needed there, and a worker that is used again finds its connections still open.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, Self, cast

from seglog.clients.config import Address
from seglog.clients.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    RequestTimeoutError,
    broker_error,
)
from seglog.clients.quiet_sockets import keep_alive
from seglog.protocol.dialect import Part
from seglog.protocol.errors import ProtocolError
from seglog.protocol.native import (
    FrameAssembler,
    NativeClient,
    NativeResponse,
    RequestRefusedError,
    ServerHello,
)

_SCRATCH_BYTES: Final = 262_144
_SOCKET_BUFFER_BYTES: Final = 4 * 1024 * 1024
_PARTS_PER_CALL: Final = 512
_IDLE_PER_ADDRESS_MAX: Final = 8


class BlockingConnection:
    """Sends requests and receives their answers; one thread at a time.

    Record fields of answers are views of receive buffers, which stay valid as long as they are
    held.

    Args:
        address: where the socket is connected to.
        client_id: the name of this client.
        link: the socket; ``open`` makes one.
    """

    def __init__(self, address: Address, client_id: str, link: socket.socket) -> None:
        self.address = address
        self.is_closed = False
        self._client = NativeClient(client_id, software_name="seglog-spark")
        self._assembler = FrameAssembler(self._client.frame_size, _SCRATCH_BYTES)
        self._answers: dict[int, Any] = {}
        self._socket = link
        self._is_ready = False

    @classmethod
    def open(cls, address: Address, client_id: str, timeout_s: float) -> Self:
        """Connect; the handshake is done when this returns.

        Raises:
            BrokerUnreachableError: refused, not answered in time, or not a seglog broker.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            link = socket.create_connection(address, timeout_s)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BrokerUnreachableError(*address, f"cannot connect: {reason}") from error
        connection = cls(address, client_id, link)
        try:
            connection._shake_hands(deadline_s)
        except (OSError, ProtocolError, RequestTimeoutError, ConnectionLostError) as error:
            connection.close()
            raise BrokerUnreachableError(*address, f"no handshake: {error}") from error
        return connection

    def _shake_hands(self, deadline_s: float) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(self._socket)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self._socket.sendall(self._client.hello())
        while not self._is_ready:
            self._receive(deadline_s)

    @property
    def in_flight(self) -> int:
        """Requests whose answer nobody has taken yet."""
        return self._client.in_flight + len(self._answers)

    def send(self, request: Any, timeout_s: float) -> int:
        """Send a request; give what is returned to ``receive``.

        Raises:
            ConnectionLostError, RequestTimeoutError: the connection is closed.
        """
        correlation_id, parts = self._client.encode_request(request)
        try:
            self._socket.settimeout(timeout_s)
            self._send_all(parts)
        except TimeoutError as error:
            raise self._timed_out(request, timeout_s) from error
        except OSError as error:
            raise self._lost(error) from error
        return correlation_id

    def receive(self, correlation_id: int, timeout_s: float) -> Any:
        """Wait for the answer to a request.

        Raises:
            BrokerError: the broker refused the request as a whole.
            ConnectionLostError, RequestTimeoutError: the connection is closed.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            while correlation_id not in self._answers:
                self._receive(deadline_s)
        except ProtocolError as error:
            raise self._lost(error) from error
        except OSError as error:
            if isinstance(error, (ConnectionLostError, RequestTimeoutError)):
                raise
            raise self._lost(error) from error
        answer = self._answers.pop(correlation_id)
        if isinstance(answer, RequestRefusedError):
            raise broker_error(answer.code, answer.message, str(self.address))
        return answer

    def request(self, request: Any, timeout_s: float) -> Any:
        """Send a request and wait for its answer; raises what both raise."""
        return self.receive(self.send(request, timeout_s), timeout_s)

    def close(self) -> None:
        """Close, from any thread: one that waits for an answer gets ``ConnectionLostError``."""
        self.is_closed = True
        with contextlib.suppress(OSError):  # The other end may have been first.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send_all(self, parts: Sequence[Part]) -> None:
        # A client's parts are bytes in memory; only a broker sends what lies in files.
        views = [memoryview(part).cast("B") for part in cast("Sequence[bytes]", parts)]
        while views:
            sent = self._socket.sendmsg(views[:_PARTS_PER_CALL])
            while views and sent >= views[0].nbytes:
                sent -= views.pop(0).nbytes
            if sent:
                views[0] = views[0][sent:]

    def _receive(self, deadline_s: float) -> None:
        """Receive once, and keep the answers that are whole."""
        self._socket.settimeout(max(0.001, deadline_s - time.monotonic()))
        try:
            count = self._socket.recv_into(self._assembler.get_buffer())
        except TimeoutError as error:
            raise self._timed_out(None, 0.0) from error
        if count == 0:
            raise self._lost("closed by the broker")
        self._assembler.advance(count)
        while (frame := self._assembler.next_frame()) is not None:
            message = self._client.decode(*frame)
            if isinstance(message, NativeResponse):
                self._answers[message.correlation_id] = message.response
            else:
                assert isinstance(message, ServerHello)
                self._is_ready = True

    def _timed_out(self, request: Any, timeout_s: float) -> RequestTimeoutError:
        self.close()
        if request is None:
            return RequestTimeoutError(f"{self.address}: no answer in time")
        return RequestTimeoutError(
            f"{self.address}: {type(request).__name__} not sent within {timeout_s:.3g} s"
        )

    def _lost(self, reason: object) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(*self.address, str(reason))


class ConnectionPool:
    """Idle connections of this process, to be used again by later tasks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._idle: dict[tuple[Address, str], list[BlockingConnection]] = {}

    def acquire(self, address: Address, client_id: str, timeout_s: float) -> BlockingConnection:
        """An idle connection, or a new one; raises ``BrokerUnreachableError``."""
        with self._lock:
            if self._process_id != os.getpid():
                # Forked: the sockets belong to the parent, who still talks through them.
                self._idle, self._process_id = {}, os.getpid()
            idle = self._idle.get((address, client_id), [])
            while idle:
                connection = idle.pop()
                if not connection.is_closed and not _has_ended(connection):
                    return connection
                connection.close()
        return BlockingConnection.open(address, client_id, timeout_s)

    def release(self, connection: BlockingConnection, client_id: str) -> None:
        """Give a connection back; one that still waits for answers is closed."""
        with self._lock:
            idle = self._idle.setdefault((connection.address, client_id), [])
            is_full = len(idle) >= _IDLE_PER_ADDRESS_MAX
            if not (is_full or connection.is_closed or connection.in_flight):
                idle.append(connection)
                return
        connection.close()


def _has_ended(connection: BlockingConnection) -> bool:
    """Whether the broker has closed an idle connection, for example because it restarted."""
    link = connection._socket
    try:
        link.settimeout(0)
        return bool(link.recv(1, socket.MSG_PEEK) == b"")
    except BlockingIOError:
        return False
    except OSError:
        return True


POOL: Final = ConnectionPool()
"""The pool of this process."""
