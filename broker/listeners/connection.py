"""One client's connection: bytes in, requests to the handlers, answers out.

The connection reads from its socket itself, without a transport. So reading can stop at any frame,
all connections share the receive buffer, and a connection has one descriptor instead of two. All of
it runs on the event-loop thread.

A request whose answer is not ready is ``Pending``. Meanwhile the connection reads further requests,
until there are too many of them, too much output waits for a slow reader, or a request holds the
input. Then it receives nothing more, and the client's own socket fills up.

Connections take turns. After some milliseconds, or some bytes of answers, the remaining requests of
one connection wait until all others have had their turn.
"""

import logging
import socket
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from seglog.broker.listeners.first_bytes import hint_for
from seglog.broker.listeners.output import BYTES_PER_TURN, OutputQueue, SourceTruncatedError
from seglog.broker.listeners.pipeline import RequestPipeline
from seglog.broker.listeners.receive_buffer import ReceiveBuffer
from seglog.broker.listeners.services import ListenerServices
from seglog.protocol.dialect import Reply, ServerDialect
from seglog.protocol.errors import ProtocolError

logger = logging.getLogger(__name__)

LINGER_SECONDS: Final = 0.5
"""How long a client may take to read the last answers before the connection closes."""
LAST_ANSWERS_SECONDS: Final = 5.0
"""How long an ending connection waits for the answers to earlier requests."""
ACTIVE_BYTES: Final = 65_536
"""So much of a frame has to arrive within connections.max.idle.ms, if it does not as a whole."""
_FIRST_BYTES_SHOWN: Final = 16
_now_ns = time.monotonic_ns


class _State(Enum):
    OPEN = "open"
    FINISHING = "finishing"
    """No more requests are read; closes once all answers are sent."""
    LINGERING = "lingering"
    """The write side is shut; what still comes in is thrown away."""
    CLOSED = "closed"


class Connection:
    """Serves one accepted socket until it is closed.

    Args:
        connected: the accepted socket; belongs to the connection from now on.
        peer: address of the client, as text.
        services: shared by the connections of a listener.
        host: the local address that the client connected to.
    """

    def __init__(
        self, connected: socket.socket, peer: str, services: ListenerServices, host: str
    ) -> None:
        self.peer = peer
        self.last_active = services.loop.time()
        self._socket = connected
        self._descriptor = connected.fileno()
        self._services = services
        self._loop = services.loop
        self._host = host
        self._input = ReceiveBuffer(services.shared_buffer)
        self._output = OutputQueue(connected)
        self._dialect: ServerDialect | None = None
        self._pipeline: RequestPipeline | None = None
        self._state = _State.OPEN
        self._end_reason = "finished"
        self._is_reading = False
        self._is_writing = False
        self._flush_is_due = False
        self._turn_is_due = False
        self._turn_ends_ns = 0
        self._bytes_since_active = 0

    def start(self) -> None:
        """Begin to receive."""
        self._resume_reading()

    @property
    def is_closed(self) -> bool:
        """Whether the socket is closed."""
        return self._state is _State.CLOSED

    @property
    def is_idle(self) -> bool:
        """Whether no request is being worked on."""
        return self._pipeline is None or self._pipeline.is_idle

    @property
    def software(self) -> tuple[str, str]:
        """Name and version of the client's program, as far as it has told."""
        return self._dialect.software if self._dialect else ("", "")

    @property
    def queued_bytes(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        return self._output.queued_bytes

    @property
    def input_bytes_held(self) -> int:
        """Memory of the receive buffer that is this connection's own."""
        return self._input.held_bytes

    def finish(self) -> None:
        """Read no more requests; answer those that are being worked on, then close."""
        if self._state is _State.OPEN:
            self._state = _State.FINISHING
            self._pause_reading()
            self._close_if_finished()

    def release_idle_memory(self) -> None:
        """Give back buffers that only a busy connection needs."""
        if self.is_idle:
            self._input.release_if_empty()

    def close(self, reason: str) -> None:
        """Close at once: drop unsent answers, cancel pending requests. Idempotent."""
        if self._state is _State.CLOSED:
            return
        self._state = _State.CLOSED
        self._pause_reading()
        self._stop_writing()
        self._output.close()
        if self._pipeline is not None:
            if self._pipeline.holds_input:
                # A worker may still read the buffer: no other connection may receive into it.
                self._input.hold()
            self._pipeline.cancel()
            # The two refer to each other; like this they are freed now and not some time later.
            self._pipeline = None
        self._socket.close()
        self._services.connection_closed(self, reason)

    def _timed(self, step: Callable[[], None]) -> None:
        """Run a step that the loop called for, and add up its time."""
        services = self._services
        started_ns = _now_ns()
        step()
        now_ns = _now_ns()
        services.counters.busy_ns += now_ns - started_ns
        services.traffic.last_work_ns = now_ns

    # Receiving

    def _resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._descriptor, self._timed, self._receive)

    def _pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._descriptor)

    def _receive(self) -> None:
        if self._state is _State.LINGERING:
            self._discard()
            return
        try:
            count = self._socket.recv_into(self._input.target())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close("reset")
            return
        if count == 0:
            self._end_of_input()
            return
        self._services.counters.bytes_in += count
        self._input.received(count)
        self._note_progress(count)
        self._work()

    def _note_progress(self, count: int) -> None:
        """Count received bytes; many of them are a sign of life, as a whole frame is."""
        # Were each byte one, a request that drips in would keep its connection for ever.
        self._bytes_since_active += count
        if self._bytes_since_active >= ACTIVE_BYTES:
            self._note_activity()

    def _note_activity(self) -> None:
        self.last_active = self._loop.time()
        self._bytes_since_active = 0

    def _discard(self) -> None:
        try:
            if self._socket.recv(65_536):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass  # the client is gone, so lingering is over
        self.close(self._end_reason)

    def _end_of_input(self) -> None:
        """The client sends no more; it gets the answers that are ready, nothing is waited for."""
        if self._output.queued_bytes and self.is_idle:
            self._state = _State.FINISHING
            self._pause_reading()
        else:
            self.close("client")

    def _work(self) -> None:
        """Work on the complete frames in the buffer, and send their answers."""
        sent_bytes_max = self._output.sent_bytes + BYTES_PER_TURN
        self._turn_ends_ns = _now_ns() + self._services.settings.turn_ns
        while True:
            frames_are_left = self._read_frames_safely()
            if self._state is _State.CLOSED:
                return
            self._flush()
            if self._state is not _State.OPEN:
                return
            if not frames_are_left:
                self._resume_reading()
                return
            # What stood in the way may just have been sent; then the next frames are at hand.
            if self._must_pause():
                self._services.counters.input_pauses += 1
                self._pause_with_frames()
                return
            if self._output.sent_bytes >= sent_bytes_max or _now_ns() >= self._turn_ends_ns:
                self._pause_with_frames()
                self._turn_is_due = True
                self._loop.call_soon(self._timed, self._take_turn)
                return

    def _read_frames_safely(self) -> bool:
        try:
            return self._read_frames()
        except ProtocolError as error:
            self._reject(error)
        except Exception:
            # A defect of the broker: the connection may be out of step with its client.
            logger.exception("event=connection-failed peer=%s", self.peer)
            self._services.counters.handler_failures += 1
            self.close("defect")
        return False

    def _read_frames(self) -> bool:
        """Submit the requests that have arrived; whether whole frames may be left."""
        received = self._input
        if self._dialect is None and not self._choose_dialect():
            received.settle(0)
            return False
        dialect, pipeline = self._dialect, self._pipeline
        assert dialect is not None
        assert pipeline is not None
        view, end = received.view, received.end
        size = 0
        while self._state is _State.OPEN:
            if pipeline.must_pause():
                return True
            start = received.start
            size = dialect.frame_size(view, start, end)
            if size == 0 or start + size > end:
                break
            self._note_activity()
            incoming = dialect.decode(view, start, start + size)
            received.start = start + size
            size = 0
            if isinstance(incoming, Reply):
                self._say(incoming)
            else:
                pipeline.submit(incoming)
            if _now_ns() >= self._turn_ends_ns:
                # Thousands of small requests fit into one buffer, and requests answered at once
                # count for no other limit: without this the other connections wait for them all.
                return True
        if self._state is not _State.CLOSED:
            received.settle(size)
        return False

    def _must_pause(self) -> bool:
        return self._pipeline is not None and self._pipeline.must_pause()

    def _pause_with_frames(self) -> None:
        if self._pipeline is not None and self._pipeline.holds_input:
            self._input.hold()
        else:
            self._input.keep_unread()
        self._pause_reading()

    def _choose_dialect(self) -> bool:
        received = self._input
        seen_end = min(received.end, received.start + _FIRST_BYTES_SHOWN)
        dialect = self._services.dialects.choose(bytes(received.view[received.start : seen_end]))
        if dialect is None:
            return False
        self._dialect = dialect
        self._pipeline = RequestPipeline(
            self._services,
            dialect,
            self._output,
            host=self._host,
            peer=self.peer,
            progress=self._progress,
            close=self.close,
        )
        return True

    def _take_turn(self) -> None:
        self._turn_is_due = False
        self._continue_reading()

    def _continue_reading(self) -> None:
        """Go on with frames that were left where they were, then with the socket."""
        # Not before a turn that is due: it would end with another one due, and each answer that
        # becomes ready would add one to every round.
        if self._is_reading or self._turn_is_due or self._state is not _State.OPEN:
            return
        if not self._must_pause():
            self._work()

    def _reject(self, error: ProtocolError) -> None:
        """The client does not speak our language, or speaks it wrong: end the connection."""
        received = self._input
        start = received.start
        first_bytes = bytes(received.view[start : min(received.end, start + _FIRST_BYTES_SHOWN)])
        hint = "" if self._greeted() else hint_for(first_bytes)
        reason = hint or error.reason
        self._services.counters.count_rejected(reason)
        self._services.log_rejected(self.peer, reason, first_bytes, str(error))
        self._end_reason = "protocol-error"
        if self.is_idle and not self._output.queued_bytes and not self._output.sent_bytes:
            # A stranger, whom nothing was said to: there is nothing that must not get lost.
            self.close(self._end_reason)
            return
        received.start = received.end
        received.settle(0)
        self._end_after_answers()

    def _end_after_answers(self) -> None:
        """Read no more; close once earlier requests are answered or have taken too long."""
        self._state = _State.FINISHING
        self._pause_reading()
        self._loop.call_later(LAST_ANSWERS_SECONDS, partial(self.close, self._end_reason))

    def _greeted(self) -> bool:
        return self._dialect is not None and self._dialect.client_id != ""

    # Answers

    def _say(self, reply: Reply) -> None:
        dialect, pipeline = self._dialect, self._pipeline
        assert dialect is not None
        assert pipeline is not None
        pipeline.put_reply(reply)
        if reply.operation:
            self._services.refused(reply, self.peer, dialect.client_id)
        if reply.closes:
            self._services.counters.count_rejected(reply.error.name.lower().replace("_", "-"))
            self._end_after_answers()

    def _progress(self) -> None:
        """A pending request was answered."""
        if self._state is _State.CLOSED or self._flush_is_due:
            return
        # Not at once: one group commit completes many requests, whose answers leave together.
        self._flush_is_due = True
        self._loop.call_soon(self._timed, self._flush_and_continue)

    def _flush_and_continue(self) -> None:
        self._flush_is_due = False
        if self._state is not _State.CLOSED:
            self._flush()
            self._continue_reading()

    # Sending

    def _flush(self) -> None:
        output = self._output
        before = output.sent_bytes
        try:
            is_empty = output.flush()
        except SourceTruncatedError as error:
            logger.warning("event=answer-cut peer=%s error=%s", self.peer, error)
            self.close("source-truncated")
            return
        except ConnectionError:
            self.close("reset")
            return
        except OSError as error:
            logger.warning("event=send-failed peer=%s error=%s", self.peer, error)
            self.close("send-failed")
            return
        if output.sent_bytes != before:
            self._services.counters.bytes_out += output.sent_bytes - before
            self.last_active = self._loop.time()
        if is_empty:
            self._stop_writing()
            self._close_if_finished()
        elif not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._descriptor, self._timed, self._writable)

    def _writable(self) -> None:
        self._flush()
        if self._state is _State.OPEN:
            self._continue_reading()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._descriptor)

    def _close_if_finished(self) -> None:
        if self._state is not _State.FINISHING or not self.is_idle or self._output.queued_bytes:
            return
        # A close with unread input sends a reset, which may overtake the last answers.
        self._state = _State.LINGERING
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close("reset")
            return
        self._resume_reading()
        self._loop.call_later(LINGER_SECONDS, partial(self.close, self._end_reason))
