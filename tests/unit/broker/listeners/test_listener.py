"""Accepting: limits, running out of descriptors, idle connections."""

import asyncio
import contextlib
import errno
import resource
import socket
from typing import Any

import pytest

from seglog.broker.listeners import listener as listener_module
from seglog.broker.listeners.connection_limits import KEPT_FOR_FILES, ConnectionLimits
from seglog.broker.listeners.listener import BoundEndpoint, set_buffers
from seglog.broker.listeners.network import bind_endpoints
from seglog.broker.listeners.rate_limited_log import RateLimitedLog
from seglog.config import Endpoint, load_broker_config
from seglog.protocol import api
from support.listener_harness import RawClient, connect, running_listener, until


def metadata(_request: Any, _context: Any) -> api.MetadataResponse:
    return api.MetadataResponse([], "c", 0, [])


async def test_more_connections_than_allowed() -> None:
    """max.connections: the surplus is closed at once, a place becomes free when one leaves."""
    async with running_listener(metadata, "max.connections=2") as (listener, _):
        first, second = await connect(listener.port), await connect(listener.port)
        third = await connect(listener.port, greet=False)
        assert await third.is_closed_by_peer()
        assert await first.ask(api.MetadataRequest()) is not None
        assert listener.services.counters.refused == {"max.connections": 1}
        first.close()
        await until(lambda: len(listener.connections) == 1)
        fourth = await connect(listener.port)
        assert await fourth.ask(api.MetadataRequest()) is not None
        for client in (second, third, fourth):
            client.close()


def test_connections_take_the_descriptors_that_logs_need() -> None:
    """C032: the last ones are kept for files, whatever max.connections says."""
    limits = ConnectionLimits(load_broker_config(None, {}, []))
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits.admit("10.0.0.1", soft - 1) == "open-files"
    assert limits.admit("10.0.0.1", soft - KEPT_FOR_FILES) == "open-files"
    assert limits.total == 0
    assert limits.admit("10.0.0.1", soft - KEPT_FOR_FILES - 1) is None


def test_one_address_takes_all_places() -> None:
    """max.connections.per.ip, and an exception for one address."""
    config = load_broker_config(
        None,
        {},
        ["max.connections.per.ip=1", "max.connections.per.ip.overrides=10.0.0.9:3"],
    )
    limits = ConnectionLimits(config)
    assert limits.admit("10.0.0.1", 9) is None
    assert limits.admit("10.0.0.1", 9) == "max.connections.per.ip"
    assert limits.admit("10.0.0.2", 9) is None
    assert [limits.admit("10.0.0.9", 9) for _ in range(4)] == [
        None,
        None,
        None,
        "max.connections.per.ip",
    ]
    limits.leave("10.0.0.1")
    assert limits.admit("10.0.0.1", 9) is None
    assert limits.total == 5


def test_connections_come_faster_than_allowed() -> None:
    """max.connection.creation.rate: the rest waits for the next second."""
    limits = ConnectionLimits(load_broker_config(None, {}, ["max.connection.creation.rate=2"]))
    assert [limits.seconds_until_next(now) for now in (10.0, 10.1, 10.25)] == [0, 0, 0.75]
    assert limits.seconds_until_next(11.0) == 0


async def test_idle_connection_stays_for_ever() -> None:
    """connections.max.idle.ms: a silent one is closed, one with a request in flight is not."""
    waiting: list[asyncio.Future[Any]] = []

    def handle(_request: Any, _context: Any) -> Any:
        from seglog.broker.requests.context import Pending

        waiting.append(asyncio.get_running_loop().create_future())
        return Pending(waiting[-1])

    async with running_listener(handle, "connections.max.idle.ms=40") as (listener, _):
        busy = await connect(listener.port)
        await busy.request(api.MetadataRequest())
        silent = await connect(listener.port)
        assert await silent.receive() is None
        assert listener.services.counters.closed == {"idle": 1}
        waiting[0].set_result(metadata(None, None))
        assert (await busy.receive()).response.cluster_id == "c"
        silent.close()
        busy.close()


def large_request(client: RawClient) -> bytes:
    partition = api.ProducePartition("t", 0, memoryview(bytes(1_000_000)))
    _, parts = client.native.encode_request(api.ProduceRequest(1, 1000, [partition]))
    return b"".join(map(bytes, parts))  # type: ignore[arg-type] # all parts are bytes here


async def test_a_request_that_drips_in_keeps_no_connection() -> None:
    """U12: single bytes are no sign of life; the connection ends with connections.max.idle.ms."""
    async with running_listener(lambda *_: None, "connections.max.idle.ms=40") as (listener, _):
        client = await connect(listener.port)
        request = large_request(client)[:50_000]
        sent = 0
        while listener.connections:
            with contextlib.suppress(ConnectionError):
                await client.send(request[sent : sent + 1])
            sent += 1
            await asyncio.sleep(0)
        assert sent < len(request)
        assert listener.services.counters.closed == {"idle": 1}
        client.close()


async def test_a_large_request_on_a_slow_line_is_a_sign_of_life() -> None:
    async with running_listener(lambda *_: None) as (listener, _):
        client = await connect(listener.port)
        (connection,) = listener.connections
        connection.last_active = 0.0
        await client.send(large_request(client)[:100_000])
        await until(lambda: connection.last_active > 0)
        client.close()


class FailingSocket:
    """A listening socket whose accept fails for want of descriptors a few times."""

    def __init__(self, real: socket.socket, failures: int) -> None:
        self.real = real
        self.failures = failures
        self.attempts = 0

    def accept(self) -> Any:
        """Fail, or accept."""
        self.attempts += 1
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self.real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


async def test_accept_spins_without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """C032: it rests after each failure, counts it, and goes on when descriptors are free."""
    monkeypatch.setattr(listener_module, "ACCEPT_RETRY_SECONDS", 0.02)
    async with running_listener(metadata) as (listener, _):
        listener._pause_accepting(listener._bound.sockets[0])
        failing = FailingSocket(listener._bound.sockets[0], failures=3)
        listener._bound.sockets[0] = failing  # type: ignore[assignment] # stands in for a socket
        listener._resume_accepting(failing)  # type: ignore[arg-type] # stands in for a socket
        client = await connect(listener.port)
        assert await client.ask(api.MetadataRequest()) is not None
        assert listener.services.counters.accept_failures == 3
        assert failing.attempts <= 5
        client.close()


async def test_address_in_use_is_taken_twice() -> None:
    """A second broker at the same port fails, also if both found it free at first."""
    first = BoundEndpoint(Endpoint("X", "127.0.0.1", 0))
    second = BoundEndpoint(Endpoint("X", "127.0.0.1", first.port))
    first.sockets[0].listen()
    with pytest.raises(OSError, match="Address already in use"):
        second.sockets[0].listen()
    with pytest.raises(OSError, match="Address already in use"):
        BoundEndpoint(Endpoint("X", "127.0.0.1", first.port))
    first.close()
    second.close()


def test_listener_on_all_interfaces_misses_one() -> None:
    """An empty host: IPv4 and, where there is any, IPv6, on one and the same port."""
    bound = BoundEndpoint(Endpoint("X", "", 0))
    assert {each.getsockname()[1] for each in bound.sockets} == {bound.port}
    bound.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
def test_every_ipv6_interface_means_ipv4_too_unless_another_listener_has_it() -> None:
    """``[::]`` takes both for Kafka on Linux; beside ``0.0.0.0`` on one port each has its own."""
    both = BoundEndpoint(Endpoint("X", "::", 0))
    assert [each.family for each in both.sockets] == [socket.AF_INET, socket.AF_INET6]
    both.close()
    settings = [
        f"listeners=A://0.0.0.0:{both.port},B://[::]:{both.port}",
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
        "advertised.listeners=A://127.0.0.1:1,B://[::1]:1",
    ]
    config = load_broker_config(None, {}, settings)
    bound = bind_endpoints(config)
    families = [[each.family for each in one.sockets] for one in bound]
    assert families == [[socket.AF_INET], [socket.AF_INET6]]
    for one in bound:
        one.close()


def test_log_is_flooded() -> None:
    """One line a kind and interval; the next one says how many were left out."""
    import logging

    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger("seglog.tests.flood")
    logger.addHandler(Collector())
    now = 0.0
    log = RateLimitedLog(logger, lambda: now, interval_seconds=10)
    for _ in range(100):
        log.report("event=kind a=%d", 1)
    log.report("event=other b=%d", 2)
    now = 10.0
    log.report("event=kind a=%d", 3)
    assert lines == [
        "event=kind a=1 suppressed=0",
        "event=other b=2 suppressed=0",
        "event=kind a=3 suppressed=99",
    ]


class BetweenHosts(socket.socket):
    """A socket that says which hosts it connects."""

    def __init__(self, own: str, peer: str) -> None:
        super().__init__()
        self.own, self.peer = own, peer
        self.options: list[tuple[int, int]] = []

    def getsockname(self) -> tuple[str, int]:
        return self.own, 9092

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 40_000

    def setsockopt(self, _level: int, option: int, value: Any) -> None:  # type: ignore[override]
        self.options.append((option, value))


@pytest.mark.parametrize(
    ("asked", "hosts", "expected"),
    [
        ((None, None), ("127.0.0.1", "127.0.0.1"), [(socket.SO_SNDBUF, 262_144)]),
        ((None, None), ("10.0.0.1", "10.0.0.9"), []),
        ((-1, -1), ("127.0.0.1", "127.0.0.1"), []),
        (
            (65_536, 32_768),
            ("127.0.0.1", "127.0.0.1"),
            [(socket.SO_SNDBUF, 65_536), (socket.SO_RCVBUF, 32_768)],
        ),
    ],
)
def test_answers_to_neighbours_fall_out_of_the_cache(
    asked: tuple[int | None, int | None], hosts: tuple[str, str], expected: list[tuple[int, int]]
) -> None:
    """The kernel's own sizing is for distant peers; what somebody has set holds for everybody."""
    connected = BetweenHosts(*hosts)
    set_buffers(connected, asked)
    assert connected.options == expected
    connected.close()
