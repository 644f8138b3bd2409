"""The HTTP side for operators: ``/metrics``, ``/healthz`` and ``/readyz``, and nothing else.

Each connection gets one answer and is closed. The server drops a client that is slow to ask or to
read, so that no scraper can hold up the broker.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from seglog.config import HostPort

logger = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 8192
REQUEST_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
CONNECTIONS_MAX: Final = 64


class HttpAnswer(NamedTuple):
    """The contents of a page."""

    status: str
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    content_encoding: str = ""


class HttpRequest(NamedTuple):
    """The part of a request that a page may want to know."""

    method: str
    path: str
    accepts_gzip: bool


Page = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class OpsHttp:
    """A small HTTP server.

    Args:
        address: where to listen; port 0 lets the system choose.
        pages: the function that answers each path.
    """

    def __init__(self, address: HostPort, pages: dict[str, Page]) -> None:
        self.port = address.port
        self._address = address
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        # Those whose request has not come yet, the longest waiting first.
        self._asking: dict[asyncio.StreamWriter, None] = {}

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is in use, or not one of this machine.
        """
        # Every interface is every family, as for the other listeners.
        host = None if self._address.host in ("", "::") else self._address.host
        self._server = await asyncio.start_server(
            self._serve, host, self._address.port, limit=REQUEST_BYTES_MAX
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything at once. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks = [task for task in self._open.values() if task is not None]
        for writer in list(self._open):
            writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        if server is not None:
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX and not self._drop_oldest():
            writer.transport.abort()
            return
        self._open[writer] = asyncio.current_task()
        self._asking[writer] = None
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            self._asking.pop(writer, None)
            answer = await self._answer(head)
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # too slow, too long, or gone: dropped
        except Exception:
            logger.exception("event=http-failed")
        finally:
            self._open.pop(writer, None)
            self._asking.pop(writer, None)
            writer.transport.abort()

    def _drop_oldest(self) -> bool:
        """Make room for a newcomer; False if all others are being answered.

        Were the newcomer turned away, a few sockets that send half a request would lock probes and
        scrapes out for as long as a request may take, and then again.
        """
        oldest = next(iter(self._asking), None)
        if oldest is None:
            return False
        del self._asking[oldest]
        self._open.pop(oldest, None)
        oldest.transport.abort()
        return True

    async def _answer(self, head: bytes) -> bytes:
        request = _parse(head)
        if request is None:
            return _encode(HttpAnswer("400 Bad Request", b"bad request\n"), with_body=True)
        page = self._pages.get(request.path)
        if page is None:
            answer = HttpAnswer("404 Not Found", b"not found\n")
        elif request.method not in ("GET", "HEAD"):
            answer = HttpAnswer("405 Method Not Allowed", b"only GET and HEAD\n")
        else:
            answer = await page(request)
        return _encode(answer, with_body=request.method != "HEAD")


def _parse(head: bytes) -> HttpRequest | None:
    request_line, _, header_lines = head.partition(b"\r\n")
    try:
        method, target, version = request_line.decode("ascii").split(" ")
    except ValueError:
        return None
    if not version.startswith("HTTP/1."):
        return None
    accepts_gzip = False
    for line in header_lines.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"accept-encoding":
            codings = (coding.strip().lower() for coding in value.split(b","))
            accepts_gzip = any(c.split(b";")[0] == b"gzip" and c[-3:] != b"q=0" for c in codings)
    return HttpRequest(method, target.partition("?")[0], accepts_gzip)


def _encode(answer: HttpAnswer, *, with_body: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
    ]
    if answer.content_encoding:
        lines.append(f"Content-Encoding: {answer.content_encoding}")
        lines.append("Vary: Accept-Encoding")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
    return head + answer.body if with_body else head
