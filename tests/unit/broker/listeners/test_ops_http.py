"""The HTTP side: pages, and clients that behave badly."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from seglog.broker.listeners import ops_http
from seglog.broker.listeners.ops_http import HttpAnswer, HttpRequest, OpsHttp
from seglog.config import HostPort


async def hello(request: HttpRequest) -> HttpAnswer:
    body = (
        b"x" * 20_000_000 if request.path == "/huge" else b"gzip" if request.accepts_gzip else b"hi"
    )
    return HttpAnswer("200 OK", body, "text/plain", "gzip" if request.accepts_gzip else "")


async def broken(_request: HttpRequest) -> HttpAnswer:
    raise ZeroDivisionError


@pytest.fixture
async def http() -> AsyncIterator[OpsHttp]:
    server = OpsHttp(HostPort("127.0.0.1", 0), {"/hello": hello, "/broken": broken, "/huge": hello})
    await server.start()
    yield server
    await server.stop()


async def close(writer: asyncio.StreamWriter) -> None:
    """Close the client's end."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def until_dropped(server: OpsHttp) -> None:
    """Wait for the end of the connections that are open now."""
    serving = [task for task in server._open.values() if task is not None]
    if serving:
        await asyncio.wait(serving, timeout=5)


async def ask(server: OpsHttp, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    try:
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    await close(writer)
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


async def test_page_is_not_served(http: OpsHttp) -> None:
    """GET and HEAD, with a query, and with gzip only where it is accepted."""
    head, body = await ask(http, b"GET /hello?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 2\r\n" in head
    assert body == b"hi"
    head, body = await ask(http, b"HEAD /hello HTTP/1.0\r\n\r\n")
    assert b"Content-Length: 2\r\n" in head
    assert body == b""
    for accepted in (b"gzip", b"deflate, gzip;q=0.5", b"GZIP, br"):
        head, body = await ask(
            http, b"GET /hello HTTP/1.1\r\naccept-Encoding: " + accepted + b"\r\n\r\n"
        )
        assert body == b"gzip"
        assert b"Content-Encoding: gzip" in head
    for refused in (b"gzip;q=0", b"br"):
        _, body = await ask(
            http, b"GET /hello HTTP/1.1\r\nAccept-Encoding: " + refused + b"\r\n\r\n"
        )
        assert body == b"hi"


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /hello HTTP/1.1\r\n\r\n", b"405"),
        (b"\xff\xff HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /hello\r\n\r\n", b"400"),
        (b"GET /hello SPDY/9\r\n\r\n", b"400"),
    ],
)
async def test_odd_request_is_left_without_an_answer(
    http: OpsHttp, request_head: bytes, status: bytes
) -> None:
    """Each has its status."""
    head, _ = await ask(http, request_head)
    assert head.split(b" ")[1] == status


async def test_defect_of_a_page_stops_the_server(
    http: OpsHttp, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the next request is served."""
    assert await ask(http, b"GET /broken HTTP/1.1\r\n\r\n") == (b"", b"")
    assert "http-failed" in caplog.text
    _, body = await ask(http, b"GET /hello HTTP/1.1\r\n\r\n")
    assert body == b"hi"


async def test_slow_asker_stays(http: OpsHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that does not come within the time, or is endless, is dropped."""
    monkeypatch.setattr(ops_http, "REQUEST_SECONDS", 0.05)
    assert await ask(http, b"GET /hello") == (b"", b"")
    monkeypatch.setattr(ops_http, "REQUEST_SECONDS", 5)
    assert await ask(http, b"GET /" + b"x" * 20_000) == (b"", b"")


async def test_scraper_that_never_reads_stays(
    http: OpsHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C072: it is dropped after a time, and others are served meanwhile."""
    monkeypatch.setattr(ops_http, "ANSWER_SECONDS", 0.1)
    _, writer = await asyncio.open_connection("127.0.0.1", http.port, limit=1)
    writer.write(b"GET /huge HTTP/1.1\r\n\r\n")
    _, body = await ask(http, b"GET /hello HTTP/1.1\r\n\r\n")
    assert body == b"hi"
    await until_dropped(http)
    assert not http._open
    await close(writer)


async def test_half_requests_make_room_for_whole_ones(http: OpsHttp) -> None:
    """The oldest that has not asked yet goes; a probe comes through whatever others hold open."""
    held = [await asyncio.open_connection("127.0.0.1", http.port) for _ in range(100)]
    for _, writer in held:
        writer.write(b"GET /hello HTTP/1.1\r\n")
    for _ in range(5):
        _, body = await ask(http, b"GET /hello HTTP/1.1\r\n\r\n")
        assert body == b"hi"
    assert len(http._open) <= ops_http.CONNECTIONS_MAX
    assert await held[0][0].read() == b""
    for _, writer in held:
        await close(writer)


async def test_too_many_answers_at_once_turn_a_newcomer_away(
    http: OpsHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops_http, "CONNECTIONS_MAX", 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", http.port, limit=1)
    writer.write(b"GET /huge HTTP/1.1\r\n\r\n")
    assert await reader.read(1) == b"H"  # the answer has begun
    assert await ask(http, b"GET /hello HTTP/1.1\r\n\r\n") == (b"", b"")
    await close(writer)
