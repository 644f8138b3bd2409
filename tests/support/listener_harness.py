"""A listener on a free port of the loopback interface, with a handler of the test's own."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from seglog.broker.listeners.connection_limits import ConnectionLimits
from seglog.broker.listeners.first_bytes import DialectChoice
from seglog.broker.listeners.listener import BoundEndpoint, Listener
from seglog.broker.listeners.receive_buffer import SharedBuffer
from seglog.broker.listeners.request_statistics import RequestMetrics
from seglog.broker.listeners.services import ConnectionSettings, ListenerServices
from seglog.broker.requests.context import RequestContext
from seglog.config import Endpoint, load_broker_config
from seglog.protocol.native import FrameAssembler, NativeClient, NativeServer


@dataclass
class FunctionHandler:
    """Answers by calling a function; remembers what it was asked."""

    function: Callable[[Any, RequestContext], Any]
    seen: list[Any] = field(default_factory=list)
    contexts: list[RequestContext] = field(default_factory=list)

    def handle(self, request: object, context: RequestContext) -> object:
        """See ``RequestHandler``."""
        self.seen.append(request)
        self.contexts.append(context)
        return self.function(request, context)


def native_server(max_frame_bytes: int = 1_000_000) -> NativeServer:
    """The server's side of a new connection."""
    return NativeServer(max_frame_bytes=max_frame_bytes, max_in_flight=5, software_version="0")


@asynccontextmanager
async def running_listener(
    handle: Callable[[Any, RequestContext], Any],
    *overrides: str,
    make_dialect: Callable[[], Any] = native_server,
    shared_bytes: int = 65_536,
) -> AsyncIterator[tuple[Listener, FunctionHandler]]:
    """A listener that serves; ``overrides`` are ``key=value`` settings of the broker."""
    config = load_broker_config(None, {}, overrides)
    handler = FunctionHandler(handle)
    services = ListenerServices(
        loop=asyncio.get_running_loop(),
        listener_name="PLAINTEXT",
        handler=handler,
        dialects=DialectChoice(make_dialect, None),
        settings=ConnectionSettings.of(config),
        shared_buffer=SharedBuffer(shared_bytes),
        requests=RequestMetrics(),
        connection_closed=lambda _connection, _reason: None,
    )
    bound = BoundEndpoint(Endpoint("PLAINTEXT", "127.0.0.1", 0))
    listener = Listener(bound, services, ConnectionLimits(config), backlog=50)
    listener.start()
    try:
        yield listener, handler
    finally:
        listener.stop_accepting()
        await listener.wait_closed(0)


class RawClient:
    """The client's end of a native connection over a real socket."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.native = NativeClient("test-client", software_name="tests", software_version="1")
        self._assembler = FrameAssembler(self.native.frame_size)
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        """Send all of ``data``."""
        await self._loop.sock_sendall(self.socket, data)

    async def request(self, *requests: Any) -> list[int]:
        """Send requests in one go; their correlation ids."""
        ids = []
        stream = bytearray()
        for request in requests:
            correlation_id, parts = self.native.encode_request(request)
            ids.append(correlation_id)
            for part in parts:
                assert isinstance(part, (bytes, memoryview))
                stream += part
        await self.send(bytes(stream))
        return ids

    async def receive(self) -> Any:
        """The next decoded answer; None at the end of the connection."""
        while (frame := self._assembler.next_frame()) is None:
            try:
                count = await self._loop.sock_recv_into(self.socket, self._assembler.get_buffer())
            except ConnectionError:
                return None
            if count == 0:
                return None
            self._assembler.advance(count)
        return self.native.decode(*frame)

    async def ask(self, request: Any) -> Any:
        """Send one request and return the response to it."""
        await self.request(request)
        answer = await self.receive()
        return answer.response if answer is not None else None

    async def is_closed_by_peer(self) -> bool:
        """Whether the other side ends the connection within a second; what comes before is read."""
        try:
            async with asyncio.timeout(1):
                while await self._loop.sock_recv(self.socket, 65_536):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


async def connect(port: int, *, greet: bool = True, receive_buffer_bytes: int = 0) -> RawClient:
    """A client that has said hello and heard the answer."""
    connected = socket.socket()
    if receive_buffer_bytes:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    connected.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connected, ("127.0.0.1", port))
    client = RawClient(connected)
    if greet:
        await client.send(client.native.hello())
        await client.receive()
    return client


class TemporaryRange:
    """A range of a temporary file, as a fetch answer holds it."""

    def __init__(self, path: Any, position: int, length: int) -> None:
        self.position = position
        self.length = length
        self.released = 0
        self.noted_end: int | None = None
        self._descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def note_end(self, position: int) -> None:
        """Remember it."""
        self.noted_end = position

    def release(self) -> None:
        """Close it once."""
        self.released += 1
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until ``condition`` holds; fails after 5 seconds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for is in a socket of the kernel
            await asyncio.sleep(0)
