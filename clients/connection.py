"""One connection to a broker over an asyncio transport."""

import asyncio
import copy
import socket
from typing import Any, Final, cast

from seglog.clients.config import Address, ClientConfig
from seglog.clients.errors import (
    BrokerConnectionError,
    BrokerUnreachableError,
    ClientError,
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

RECEIVE_BYTES: Final = 65_536
"""How much is received at once; a larger answer gets a buffer of its own."""
WRITE_BUFFER_BYTES: Final = 1_048_576
"""Requests wait for the socket once so much is unsent."""


class BrokerConnection(asyncio.BufferedProtocol):
    """Sends requests and hands each answer to its caller; made by ``open``.

    Answers carry views of the receive buffer, which stay valid as long as they are held.
    """

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._exchange = Exchange(address, client_id, receive_bytes=RECEIVE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        # An answer is a value even where it is an error: an exception in an abandoned future,
        # because the task that asked was cancelled, would be reported as lost.
        self._waiters: dict[int, asyncio.Future[Any]] = {}
        self._ready: asyncio.Future[BrokerConnectionError | None] = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()

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
                answer = await connection._ready
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
        hosts = hosts_of(address.host, found)
        for left, host in zip(range(len(hosts), 0, -1), hosts, strict=True):
            now_s = loop.time()
            try:
                async with asyncio.timeout_at(now_s + share_s(now_s, deadline_s, left)):
                    _, connection = await loop.create_connection(
                        lambda: cls(address, client_id), host, address.port
                    )
                    return connection
            except OSError:  # also a timeout
                if left == 1:
                    raise
        raise AssertionError("no address was tried")

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._exchange.is_closed

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
                raise self.time_is_up(not_sent(type(request).__name__, timeout_s)) from error
        correlation_id = self._write(request)
        waiter = self._waiters[correlation_id] = self._loop.create_future()
        return PendingAnswer(self, request, correlation_id, waiter, timeout_s, deadline_s)

    def time_is_up(self, reason: str) -> RequestTimeoutError:
        """Close, since what hangs would let every following request wait as long."""
        self.close(reason)
        return RequestTimeoutError(f"{self.address}: {reason}")

    def forget(self, correlation_id: int) -> None:
        """No caller waits for that answer any more."""
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
                self._write(request)
                await self._writable.wait()
        except TimeoutError as error:
            raise self.time_is_up(not_sent(type(request).__name__, timeout_s)) from error
        if self.is_closed:
            raise self._exchange.lost()

    def _write(self, request: Any) -> int:
        assert self._transport is not None
        correlation_id, parts = self._exchange.encode(request)
        self._transport.writelines(parts)
        return correlation_id

    def close(self, reason: str) -> None:
        """Close at once; waiting callers get ``ConnectionLostError`` with the reason."""
        if not self._exchange.close(reason):
            return
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        error = self._exchange.lost()
        for waiter in [self._ready, *self._waiters.values()]:
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
        self._transport.write(self._exchange.opening())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop passes it
        """Where the loop puts what it received."""
        return self._exchange.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Decode the frames that are whole now and wake their callers."""
        waiters = self._waiters
        try:
            for correlation_id, answer in self._exchange.received(nbytes):
                self._answer(waiters.get(correlation_id), answer)
        except ProtocolError as error:
            self.close(damaged(error))
            return
        if self._exchange.is_ready:
            self._answer(self._ready, None)

    def eof_received(self) -> None:
        """The broker closed its side."""
        self.close(CLOSED_BY_BROKER)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self.close(f"connection lost: {exc}" if exc else CLOSED_BY_BROKER)

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
            reason = not_answered(self._request, self._timeout_s)
            raise self._connection.time_is_up(reason) from error
        finally:
            self._connection.forget(self._correlation_id)
        if isinstance(answer, ClientError):
            raise copy.copy(answer)  # All that were waiting get it; each has its own traceback.
        return answer_or_error(answer, self._request)
