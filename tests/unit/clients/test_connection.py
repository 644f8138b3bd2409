"""One connection."""

import asyncio
import contextlib
import socket

import pytest

from seglog.clients import BrokerUnreachableError, ConnectionLostError, RequestTimeoutError
from seglog.clients.config import Address, ClientConfig
from seglog.clients.connection import BrokerConnection
from seglog.clients.errors import BrokerError
from seglog.protocol.api import FetchPartition, FetchRequest, MetadataRequest, ProduceRequest
from seglog.protocol.errors import ErrorCode
from seglog.protocol.native import NativeServer
from support.fake_broker import SILENCE
from support.fake_logs import fill

CONFIG = ClientConfig(connect_timeout_ms=200, client_id="tester")


@pytest.fixture
async def connection(broker):
    opened = await BrokerConnection.open(Address(broker.host, broker.port), CONFIG)
    yield opened
    opened.close("the test ends")


def metadata():
    return MetadataRequest(topics=[])


async def test_a_connection_is_forgotten_under_way_while_it_is_quiet(connection):
    """Firewalls and load balancers drop those that say nothing for some minutes, silently."""
    link = connection._transport.get_extra_info("socket")
    assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 120


async def test_answers_find_their_requests_in_any_order(broker, connection):
    gates = [asyncio.Event() for _ in range(3)]

    async def wait(number):
        await gates[number].wait()

    broker.script = lambda request: wait(int(request.topics[0]))
    requests = [
        asyncio.create_task(connection.request(MetadataRequest([str(number)]), 5))
        for number in range(3)
    ]
    await asyncio.sleep(0.01)
    assert connection.in_flight == 3
    for number in (1, 2, 0):
        gates[number].set()
        answer = await requests[number]
        assert answer.topics[0].name == str(number)


async def test_records_of_an_answer_stay_valid_while_others_come(broker, connection):
    """They are views of a receive buffer, which must not be used again under them."""
    (log,) = broker.create("topic")
    fill(log, [b"%d" % number * 5000 for number in range(50)])
    wanted = [bytes(batch.view) for batch in log.batches]
    views = []
    for offset in range(50):
        request = FetchRequest(0, 0, 1, [FetchPartition("topic", 0, offset, 1)])
        answer = await connection.request(request, 5)
        views.append(answer.partitions[0].records)
    assert [bytes(view) for view in views] == wanted


async def test_a_lost_connection_fails_everything_that_waits(broker, connection):
    broker.script = lambda _: SILENCE
    waiting = [asyncio.create_task(connection.request(metadata(), 5)) for _ in range(3)]
    await asyncio.sleep(0.01)
    broker.cut_connections()
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in errors] == [ConnectionLostError] * 3
    assert len({id(error) for error in errors}) == 3
    assert f"{broker.host}:{broker.port}" in str(errors[0])
    assert connection.is_closed
    with pytest.raises(ConnectionLostError):
        await connection.request(metadata(), 5)
    with pytest.raises(ConnectionLostError):
        await connection.send(ProduceRequest(0, 0, []), 5)


async def test_a_request_that_is_not_answered_closes_the_connection(broker, connection):
    broker.script = lambda request: SILENCE if request.topics == ["slow"] else None
    with pytest.raises(RequestTimeoutError, match=r"no answer to MetadataRequest within 0\.05 s"):
        await connection.request(MetadataRequest(["slow"]), 0.05)
    assert connection.is_closed


async def test_a_cancelled_request_does_not_disturb_the_others(broker, connection):
    gate = asyncio.Event()

    async def wait():
        await gate.wait()

    broker.script = lambda _: wait()
    waiting = [asyncio.create_task(connection.request(metadata(), 5)) for _ in range(2)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    assert (await waiting[1]).cluster_id == "fake"
    assert connection.in_flight == 0
    assert (await connection.request(metadata(), 5)).cluster_id == "fake"


async def test_what_the_broker_refuses_as_a_whole_is_an_error_of_the_broker(
    connection, monkeypatch
):
    def refuse(self, incoming, _):
        return self.encode_error(incoming, ErrorCode.UNSUPPORTED_VERSION, "too new")

    monkeypatch.setattr(NativeServer, "encode", refuse)
    with pytest.raises(BrokerError, match="MetadataRequest: too new") as caught:
        await connection.request(metadata(), 5)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4abcd"])
async def test_a_port_where_somebody_else_answers_is_told(greeting):
    class Stranger(asyncio.Protocol):
        def connection_made(self, transport):
            transport.write(greeting)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Stranger, "127.0.0.1", 0)
    address = Address(*server.sockets[0].getsockname())
    with pytest.raises(BrokerUnreachableError, match="not a seglog broker"):
        await BrokerConnection.open(address, CONFIG)
    server.close()


async def test_a_name_that_does_not_exist_is_told():
    with pytest.raises(BrokerUnreachableError, match=r"no-such-host\.invalid:9092"):
        await BrokerConnection.open(Address("no-such-host.invalid", 9092), CONFIG)


async def test_a_connection_that_is_closed_while_it_opens_is_told():
    server = await asyncio.get_running_loop().create_server(_Closer, "127.0.0.1", 0)
    with pytest.raises(BrokerUnreachableError, match=r"closed by the broker|connection lost"):
        await BrokerConnection.open(Address(*server.sockets[0].getsockname()), CONFIG)
    server.close()


class _Closer(asyncio.Protocol):
    def connection_made(self, transport):
        transport.close()


async def test_an_address_that_swallows_packets_leaves_time_for_the_next_one(broker, monkeypatch):
    """A name that stands for IPv6 first, where nobody answers, not even with a refusal."""
    hosts = ["127.0.0.2", "127.0.0.1"]

    async def getaddrinfo(*_, **__):
        return [(socket.AF_INET, 1, 6, "", (host, broker.port)) for host in hosts]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server((hosts[0], broker.port), backlog=0))
        for _ in range(3):
            # Nobody accepts: the queue is full soon, and who comes then is not answered at all.
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        address = Address("dual", broker.port)
        opened = await BrokerConnection.open(address, ClientConfig(connect_timeout_ms=1000))
        opened.close("the test ends")
        hosts.pop()
        with pytest.raises(BrokerUnreachableError, match=r"dual:.*connect not finished"):
            await BrokerConnection.open(address, CONFIG)
        hosts.clear()
        with pytest.raises(BrokerUnreachableError, match="nothing is known about dual"):
            await BrokerConnection.open(address, CONFIG)
