"""One connection over a blocking socket: what the asyncio one does, this one does too."""

import contextlib
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from seglog.clients.config import Address, ClientConfig
from seglog.clients.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConfigurationError,
    ConnectionLostError,
    RequestTimeoutError,
)
from seglog.clients.sockets.connection import SocketConnection
from seglog.clients.sockets.pool import ConnectionPool
from seglog.protocol.api import MetadataRequest
from seglog.protocol.errors import ErrorCode
from seglog.protocol.native import NativeServer
from support.fake_broker import SILENCE, FakeBroker

CONFIG = ClientConfig(client_id="tester")


def address_of(broker: FakeBroker) -> Address:
    return Address(broker.host, broker.port)


@pytest.fixture
def connection(threaded_broker: FakeBroker) -> Iterator[SocketConnection]:
    opened = SocketConnection.open(address_of(threaded_broker), CONFIG, 5)
    yield opened
    opened.close("the test ends")


def test_answers_find_their_requests_in_any_order(connection: SocketConnection) -> None:
    ids = [connection.send(MetadataRequest([name]), 5) for name in "abc"]
    assert connection.in_flight == 3
    for position in (2, 0, 1):
        answer = connection.receive(ids[position], 5)
        assert answer.topics[0].name == "abc"[position]
    assert connection.in_flight == 0


def test_a_request_that_is_not_answered_closes_the_connection(
    threaded_broker: FakeBroker, connection: SocketConnection
) -> None:
    threaded_broker.script = lambda _: SILENCE
    with pytest.raises(RequestTimeoutError, match=r"no answer to MetadataRequest within 0\.05 s"):
        connection.request(MetadataRequest([]), 0.05)
    assert connection.is_closed
    with pytest.raises(ConnectionLostError, match="no answer to MetadataRequest"):
        connection.request(MetadataRequest([]), 5)


def test_another_thread_that_closes_says_why_to_the_one_that_waits(
    threaded_broker: FakeBroker, connection: SocketConnection
) -> None:
    asked = threading.Event()

    def script(_: object) -> object:
        asked.set()
        return SILENCE

    threaded_broker.script = script
    closing = threading.Thread(target=lambda: asked.wait() and connection.close("we are done"))
    closing.start()
    with pytest.raises(ConnectionLostError, match="we are done"):
        connection.request(MetadataRequest([]), 30)
    closing.join()


def test_what_the_broker_refuses_as_a_whole_names_the_request(
    connection: SocketConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: NativeServer, incoming: object, _: object) -> object:
        return self.encode_error(incoming, ErrorCode.UNSUPPORTED_VERSION, "too new")  # type: ignore[arg-type]

    monkeypatch.setattr(NativeServer, "encode", refuse)
    with pytest.raises(BrokerError, match="MetadataRequest: too new"):
        connection.request(MetadataRequest([]), 5)


def test_a_text_that_cannot_be_sent_leaves_the_connection_open(
    connection: SocketConnection,
) -> None:
    with pytest.raises(ConfigurationError, match="no text that can be sent"):
        connection.request(MetadataRequest(["\udcff"]), 5)
    assert connection.request(MetadataRequest([]), 5).cluster_id == "fake"


def test_a_port_where_somebody_else_answers_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            link, _ = server.accept()
            with link:
                link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                link.recv(1000)

        stranger = threading.Thread(target=answer)
        stranger.start()
        with pytest.raises(BrokerUnreachableError, match="not a seglog broker"):
            SocketConnection.open(Address(*server.getsockname()), CONFIG, 5)
        stranger.join()


def test_an_address_that_swallows_packets_leaves_time_for_the_next_one(
    threaded_broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each address of a name got the whole time, so that two silent ones took twice as long."""
    hosts, port = ["127.0.0.2", "127.0.0.1"], threaded_broker.port
    lookup = socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: object, **options: object) -> object:
        if host != "dual":
            return lookup(host, *arguments, **options)  # type: ignore[arg-type]
        return [(socket.AF_INET, 1, 6, "", (each, port)) for each in hosts]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server((hosts[0], port), backlog=0))
        for _ in range(3):
            # Nobody accepts: the queue is full soon, and who comes then is not answered at all.
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        SocketConnection.open(Address("dual", port), CONFIG, 1.0).close("the test ends")
        hosts.pop()
        with pytest.raises(BrokerUnreachableError, match=r"dual:.*cannot connect: timed out"):
            SocketConnection.open(Address("dual", port), CONFIG, 0.1)
        hosts.clear()
        with pytest.raises(BrokerUnreachableError, match="nothing is known about dual"):
            SocketConnection.open(Address("dual", port), CONFIG, 0.1)


def test_an_idle_connection_is_used_again_unless_the_broker_has_closed_it(
    threaded_broker: FakeBroker,
) -> None:
    pool, address = ConnectionPool(), address_of(threaded_broker)
    first = pool.acquire(address, CONFIG, 5)
    pool.release(first, CONFIG)
    assert pool.acquire(address, CONFIG, 5) is first
    pool.release(first, CONFIG)
    run: Callable[[Coroutine[Any, Any, None]], None] = threaded_broker.run  # type: ignore[attr-defined]
    run(threaded_broker.stop())
    run(threaded_broker.listen())
    second = pool.acquire(address, CONFIG, 5)
    assert second is not first
    assert second.request(MetadataRequest([]), 5).cluster_id == "fake"
    second.close("the test ends")
    first.close("the test ends")


def test_a_connection_with_answers_on_the_way_is_not_kept(threaded_broker: FakeBroker) -> None:
    pool, address = ConnectionPool(), address_of(threaded_broker)
    busy = pool.acquire(address, CONFIG, 5)
    busy.send(MetadataRequest([]), 5)
    pool.release(busy, CONFIG)
    assert busy.is_closed


FORKING_PROGRAM = """
    import os, signal, sys
    from seglog.clients.config import Address, ClientConfig
    from seglog.clients.sockets.cluster import REACHABILITY
    from seglog.clients.sockets.pool import POOL
    from seglog.protocol.api import MetadataRequest
    address, config = Address(sys.argv[1], int(sys.argv[2])), ClientConfig()
    POOL.release(POOL.acquire(address, config, 5), config)
    with POOL._lock, REACHABILITY._lock:
        # As another thread of the parent may at any time.
        child = os.fork()
        if not child:
            signal.alarm(10)
            REACHABILITY.answered(address)
            connection = POOL.acquire(address, config, 5)
            answer = connection.request(MetadataRequest([]), 5)
            os._exit(7 if answer.cluster_id == "fake" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert POOL.acquire(address, config, 5).request(MetadataRequest([]), 5).cluster_id == "fake"
"""


def test_a_forked_child_waits_for_no_lock_of_the_parent(threaded_broker: FakeBroker) -> None:
    program = textwrap.dedent(FORKING_PROGRAM)
    arguments = [threaded_broker.host, str(threaded_broker.port)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
