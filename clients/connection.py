"""One connection to a broker: the native dialect over an asyncio transport."""

import asyncio
import copy
import socket
from typing import Any, Final, cast

from seglog.clients.config import Address, ClientConfig
from seglog.clients.errors import (
    BrokerConnectionError,
    BrokerUnreachableError,
    ClientError,
    ConfigurationError,
    ConnectionLostError,
    RequestTimeoutError,
    broker_error,
)
from seglog.clients.quiet_sockets import keep_alive
from seglog.protocol.errors import ProtocolError
from seglog.protocol.native import (
    FrameAssembler,
    NativeClient,
    RequestRefusedError,
    ServerHello,
)

RECEIVE_BYTES: Final = 65_536
"""How much is received at once; a larger answer gets a buffer of its own."""
WRITE_BUFFER_BYTES: Final = 1_048_576
"""Requests wait for the socket once so much is unsent."""


class BrokerConnection(asyncio.BufferedProtocol):
    """Sends requests and hands each answer to the one who asked; made by ``open``.

    Answers carry views of the receive buffer, which stay valid as long as they are held.
    """

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client = NativeClient(client_id)
        self._assembler = FrameAssembler(self._client.frame_size, RECEIVE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        # An answer is a value even where it is an error: an exception in a future that nobody
        # comes to see, because the task that asked was cancelled, would be reported as lost.
        self._waiters: dict[int, asyncio.Future[Any]] = {}
        self._hello: asyncio.Future[ServerHello | BrokerConnectionError] = (
            self._loop.create_future()
        )
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()
        self._close_reason = ""

    @classmethod
    async def open(cls, address: Address, config: ClientConfig) -> "BrokerConnection":
        """Connect and shake hands.

        Raises:
            BrokerUnreachableError: refused, not answered in time, or not a seglog broker.
        """
        connection: BrokerConnection | None = None
        try:
            async with asyncio.timeout(config.connect_timeout_ms / 1000) as limit:
                connection = await cls._connect(address, config.client_id, limit.when())
                answer = await connection._hello
        except TimeoutError as error:
            step = "connect" if connection is None else "handshake"
            raise BrokerUnreachableError(
                address.host,
                address.port,
                f"{step} not finished within {config.connect_timeout_ms} ms",
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise BrokerUnreachableError(
                address.host, address.port, f"cannot connect: {reason}"
            ) from error
        else:
            if isinstance(answer, BrokerConnectionError):
                raise BrokerUnreachableError(address.host, address.port, answer.reason)
            opened, connection = connection, None
            return opened
        finally:
            if connection is not None:
                connection.close("not opened")

    @classmethod
    async def _connect(
        cls, address: Address, client_id: str, deadline_s: float | None
    ) -> "BrokerConnection":
        """Try what the host's name stands for in turn; each leaves time for those behind it.

        A name often stands for an IPv6 address first, where packets may vanish without an answer.
        """
        assert deadline_s is not None
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        hosts = [*dict.fromkeys(str(place[0]) for *_, place in found)]
        for left, host in zip(range(len(hosts), 0, -1), hosts, strict=True):
            now_s = loop.time()
            try:
                async with asyncio.timeout_at(now_s + (deadline_s - now_s) / left):
                    _, connection = await loop.create_connection(
                        lambda: cls(address, client_id), host, address.port
                    )
                    return connection
            except OSError:  # also a timeout
                if left == 1:
                    raise
        raise OSError(f"nothing is known about {address.host}")

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed.is_set()

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._waiters)

    async def request(self, request: Any, timeout_s: float) -> Any:
        """Send a request and return its answer; raises what ``begin`` and ``wait`` do."""
        return await (await self.begin(request, timeout_s)).wait()

    async def begin(self, request: Any, timeout_s: float) -> "PendingAnswer":
        """Send a request and return what waits for its answer.

        Raises:
            RequestTimeoutError: the broker took too little in time; the connection is closed.
            ConnectionLostError: the connection is or was closed.
        """
        deadline_s = self._loop.time() + timeout_s
        if not self._writable.is_set():
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._writable.wait()
            except TimeoutError as error:
                raise self.time_is_up(
                    f"{type(request).__name__} not sent within {timeout_s:.3g} s"
                ) from error
        self._check_open()
        correlation_id = self._write(request)
        waiter = self._waiters[correlation_id] = self._loop.create_future()
        return PendingAnswer(self, request, correlation_id, waiter, timeout_s, deadline_s)

    def time_is_up(self, reason: str) -> RequestTimeoutError:
        """Close, since what hangs would let every following request wait as long."""
        self.close(reason)
        return RequestTimeoutError(f"{self.address}: {reason}")

    def forget(self, correlation_id: int) -> None:
        """Nobody waits for that answer any more."""
        self._waiters.pop(correlation_id, None)

    async def send(self, request: Any, timeout_s: float) -> None:
        """Send a request that has no answer, and wait until the socket has room for the next.

        Raises:
            RequestTimeoutError: the broker took too little in time; the connection is closed.
            ConnectionLostError: the connection is or was closed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._writable.wait()
                self._check_open()
                self._write(request)
                await self._writable.wait()
                self._check_open()
        except TimeoutError as error:
            reason = f"{type(request).__name__} not sent within {timeout_s:.3g} s"
            raise self.time_is_up(reason) from error

    def _write(self, request: Any) -> int:
        assert self._transport is not None
        try:
            correlation_id, parts = self._client.encode_request(request)
        except UnicodeEncodeError as error:
            # Half of a surrogate pair, as Python makes it of file names that are no UTF-8.
            raise ConfigurationError(f"{error.object!r} is no text that can be sent") from error
        # A client's parts are bytes in memory; only a broker sends what lies in files.
        self._transport.writelines(cast("list[bytes]", parts))
        return correlation_id

    def _check_open(self) -> None:
        if self.is_closed:
            raise ConnectionLostError(*self.address, self._close_reason)

    def close(self, reason: str) -> None:
        """Close at once; who waits for an answer gets ``ConnectionLostError`` with the reason."""
        if self.is_closed:
            return
        self._close_reason = reason
        self._closed.set()
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        error = ConnectionLostError(*self.address, reason)
        for waiter in [self._hello, *self._waiters.values()]:
            self._answer(waiter, error)

    @staticmethod
    def _answer(waiter: asyncio.Future[Any] | None, answer: object) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open with our hello."""
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport.get_extra_info("socket"))
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._transport.write(self._client.hello())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop passes it
        """Where the loop puts what it received."""
        return self._assembler.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Decode the frames that are whole now and wake those who wait for them."""
        try:
            self._assembler.advance(nbytes)
            while (frame := self._assembler.next_frame()) is not None:
                message = self._client.decode(*frame)
                if isinstance(message, ServerHello):
                    self._answer(self._hello, message)
                else:
                    self._answer(self._waiters.get(message.correlation_id), message.response)
        except ProtocolError as error:
            self.close(f"not a seglog broker, or a damaged answer: {error}")

    def eof_received(self) -> None:
        """The broker closed its side."""
        self.close("closed by the broker")

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self.close(f"connection lost: {exc}" if exc else "closed by the broker")

    def pause_writing(self) -> None:
        """The socket is full."""
        if not self.is_closed:
            self._writable.clear()

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._writable.set()


class PendingAnswer:
    """The answer to a request that is on its way; to be waited for once, by ``wait``."""

    __slots__ = (
        "_connection",
        "_correlation_id",
        "_deadline_s",
        "_request",
        "_timeout_s",
        "_waiter",
    )

    def __init__(
        self,
        connection: BrokerConnection,
        request: Any,
        correlation_id: int,
        waiter: asyncio.Future[Any],
        timeout_s: float,
        deadline_s: float,
    ) -> None:
        self._connection = connection
        self._request = type(request).__name__
        self._correlation_id = correlation_id
        self._waiter = waiter
        self._timeout_s = timeout_s
        self._deadline_s = deadline_s

    async def wait(self) -> Any:
        """Return the answer.

        Raises:
            RequestTimeoutError: no answer in time; the connection is closed.
            ConnectionLostError: the connection was closed meanwhile.
            BrokerError: the broker refused the request as a whole.
        """
        try:
            async with asyncio.timeout_at(self._deadline_s):
                answer = await self._waiter
        except TimeoutError as error:
            reason = f"no answer to {self._request} within {self._timeout_s:.3g} s"
            raise self._connection.time_is_up(reason) from error
        finally:
            self._connection.forget(self._correlation_id)
        if isinstance(answer, RequestRefusedError):
            raise broker_error(answer.code, answer.message, self._request)
        if isinstance(answer, ClientError):
            raise copy.copy(answer)  # All that were waiting get it; each has its own traceback.
        return answer
