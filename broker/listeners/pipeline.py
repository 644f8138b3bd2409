"""The requests of one connection on their way to the handlers, and their answers on the way back.

Handlers answer at once or later. The pipeline encodes their responses into the output of the
connection, in the order of the requests where the dialect wants it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from seglog.broker.listeners.output import OutputQueue, length_of, release_part
from seglog.broker.listeners.services import ListenerServices
from seglog.broker.requests.context import Pending
from seglog.protocol.dialect import Incoming, Part, Reply, ServerDialect
from seglog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

_now_ns = time.monotonic_ns


class _Slot:
    """A request being worked on: since when, and its answer while others must leave first.

    A request that the dialect answers itself has only the answer.
    """

    __slots__ = ("incoming", "is_done", "parts", "started_ns")

    def __init__(self, incoming: Any, started_ns: int) -> None:
        self.incoming = incoming
        self.started_ns = started_ns
        self.is_done = False
        self.parts: Sequence[Part] = ()


class RequestPipeline:
    """Works on the requests of one connection.

    Args:
        services: shared by the connections of a listener.
        dialect: encodes the answers.
        output: where they go.
        host: the local address that the client connected to.
        peer: address of the client.
        progress: called when a pending request was answered and there may be something to send.
        close: called, with a reason, when only closing the connection can tell the client.
    """

    def __init__(
        self,
        services: ListenerServices,
        dialect: ServerDialect,
        output: OutputQueue,
        *,
        host: str,
        peer: str,
        progress: Callable[[], None],
        close: Callable[[str], None],
    ) -> None:
        self._services = services
        self._dialect = dialect
        self._output = output
        self._host = host
        self._peer = peer
        self._progress = progress
        self._close = close
        self._context = services.context("", host, peer)
        self._handle = services.handler.handle
        self._max_in_flight = services.settings.max_in_flight
        self._output_limit_bytes = services.settings.output_limit_bytes
        self._pending: dict[asyncio.Future[Any], _Slot] = {}
        self._row: deque[_Slot] = deque()
        self._row_bytes = 0
        self._holding: asyncio.Future[Any] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is being worked on."""
        return not self._pending

    @property
    def holds_input(self) -> bool:
        """Whether a request still reads the receive buffer, or must be done before the next."""
        return self._holding is not None

    def must_pause(self) -> bool:
        """Whether no further request may be submitted now."""
        return (
            self._holding is not None
            or len(self._pending) >= self._max_in_flight
            or len(self._row) >= self._max_in_flight
            or self._output.queued_bytes + self._row_bytes > self._output_limit_bytes
        )

    def submit(self, incoming: Incoming) -> None:
        """Hand a request to its handler and queue the answer, or remember that it is pending."""
        if self._dialect.client_id != self._context.client_id:
            self._context = self._services.context(self._dialect.client_id, self._host, self._peer)
        slot = _Slot(incoming, _now_ns())
        if self._dialect.ordered:
            self._row.append(slot)
        try:
            result = self._handle(incoming.request, self._context)
        except Exception as error:  # noqa: BLE001 - logged and counted there, and the client is told
            self._fail(slot, error)
            return
        if isinstance(result, Pending):
            future = result.future
            self._pending[future] = slot
            if result.holds_input:
                self._holding = future
            future.add_done_callback(self._complete)
            elapsed_ns = _now_ns() - slot.started_ns
        else:
            elapsed_ns = self._answer(slot, result)
        self._services.requests.busy_ns += elapsed_ns

    def put_reply(self, reply: Reply) -> None:
        """Queue an answer of the dialect itself, behind the answers to earlier requests."""
        if not self._row:
            self._output.put(reply.parts)
            return
        slot = _Slot(reply, _now_ns())
        self._row.append(slot)
        self._put(slot, reply.parts)

    def cancel(self) -> None:
        """The connection is closed: cancel pending requests, release unsent answers."""
        for slot in self._row:
            for part in slot.parts:
                release_part(part)
        self._row.clear()
        pending, self._pending = self._pending, {}
        for future in pending:
            future.cancel()

    def _complete(self, future: "asyncio.Future[Any]") -> None:
        slot = self._pending.pop(future, None)
        if slot is None:
            # The connection was closed meanwhile. An answer that came all the same may hold files.
            _drop_answer(future)
            return
        if self._holding is future:
            self._holding = None
        if future.cancelled():
            self._fail(slot, asyncio.CancelledError())
        elif (error := future.exception()) is not None:
            self._fail(slot, error)
        else:
            self._answer(slot, future.result())
        self._progress()

    def _answer(self, slot: _Slot, response: Any) -> int:
        """Encode an answer and queue it; the nanoseconds from the request to here."""
        incoming = slot.incoming
        parts: Sequence[Part] = ()
        try:
            if incoming.expects_response:
                parts = self._dialect.encode(incoming, response)
            statistics = self._services.requests.of(incoming.api_key)
            has_errors = statistics.count_response(response)
        except Exception as error:  # noqa: BLE001 - logged and counted there, and the client is told
            self._fail(slot, error)
            return 0
        elapsed_ns = _now_ns() - slot.started_ns
        statistics.observe(elapsed_ns)
        self._put(slot, parts)
        if has_errors and not incoming.expects_response:
            # The client asked not to be told; a closed connection is all it can notice.
            self._close("unacknowledged-failure")
        return elapsed_ns

    def _fail(self, slot: _Slot, error: BaseException) -> None:
        """A handler broke: tell the client, keep the connection, show the operator."""
        incoming = slot.incoming
        services = self._services
        services.counters.handler_failures += 1
        logger.error(
            "event=request-failed operation=%s client_id=%s peer=%s",
            type(incoming.request).__name__,
            self._context.client_id,
            self._peer,
            exc_info=error,
        )
        statistics = services.requests.of(incoming.api_key)
        statistics.count_error(ErrorCode.UNKNOWN_SERVER_ERROR)
        statistics.observe(_now_ns() - slot.started_ns)
        parts = None
        if incoming.expects_response:
            try:
                parts = self._dialect.encode_error(
                    incoming, ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed to answer"
                )
            except Exception:
                # Left without any answer the client would wait, and all that it asks afterwards.
                logger.exception("event=connection-failed peer=%s", self._peer)
        if parts is None:
            self._close("handler-failure")
        else:
            self._put(slot, parts)

    def _put(self, slot: _Slot, parts: Sequence[Part]) -> None:
        """Queue an answer: at once, or in an ordered dialect when all before it are queued."""
        row = self._row
        if not row:
            self._output.put(parts)
            return
        slot.parts = parts
        slot.is_done = True
        self._row_bytes += length_of(parts)
        while row and row[0].is_done:
            ready = row.popleft().parts
            self._row_bytes -= length_of(ready)
            self._output.put(ready)


def _drop_answer(future: "asyncio.Future[Any]") -> None:
    if future.cancelled() or future.exception() is not None:
        return
    for result in getattr(future.result(), "partitions", ()):
        release = getattr(getattr(result, "records", None), "release", None)
        if release is not None:
            release()
