"""What goes over one connection: the handshake, requests, and the answers to them."""

from collections.abc import Iterator
from typing import Any, Final, cast

from seglog.clients.config import Address
from seglog.clients.errors import (
    ConfigurationError,
    ConnectionLostError,
    broker_error,
)
from seglog.protocol.errors import ProtocolError
from seglog.protocol.native import (
    FrameAssembler,
    NativeClient,
    NativeResponse,
    RequestRefusedError,
    ServerHello,
)

CLOSED_BY_BROKER: Final = "closed by the broker"


class Exchange:
    """One connection from its first byte on. Not for two threads at a time.

    A shell sends ``opening()``, then what ``encode`` returns, receives into ``get_buffer()`` and
    takes the answers from ``received``. Answers carry views of the receive buffer, which stay valid
    as long as they are held.

    Args:
        address: where the broker listens.
        client_id: the name of this client.
        software_name: what program this is.
        receive_bytes: how much is received at once; a larger answer gets a buffer of its own.
    """

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        software_name: str = "seglog",
        receive_bytes: int,
    ) -> None:
        self.address = address
        self.is_ready = False
        """Whether the broker has answered the handshake."""
        self.is_closed = False
        self.close_reason = ""
        self._client = NativeClient(client_id, software_name=software_name)
        self._assembler = FrameAssembler(self._client.frame_size, receive_bytes)
        self.get_buffer = self._assembler.get_buffer

    @property
    def in_flight(self) -> int:
        """Requests that the broker has not answered yet."""
        return self._client.in_flight

    # Sending.

    def opening(self) -> bytes:
        """The bytes that open the connection."""
        return self._client.hello()

    def encode(self, request: Any) -> tuple[int, list[bytes]]:
        """The correlation id and the bytes of a request; they have to be sent in this order.

        Raises:
            ConnectionLostError: the connection is closed.
            ConfigurationError: a text in it cannot be sent.
        """
        if self.is_closed:
            raise self.lost()
        try:
            correlation_id, parts = self._client.encode_request(request)
        except UnicodeEncodeError as error:
            # Half of a surrogate pair, as Python makes it of file names that are no UTF-8.
            raise ConfigurationError(f"{error.object!r} is no text that can be sent") from error
        # A client's parts are bytes in memory; only a broker sends what lies in files.
        return correlation_id, cast("list[bytes]", parts)

    # Receiving.

    def received(self, count: int) -> Iterator[NativeResponse]:
        """Yield the answers that are whole, now that ``count`` more bytes are in the buffer.

        After it, ``is_ready`` says whether the handshake is done.

        Raises:
            ProtocolError: these are no answers of a broker; close with ``damaged``.
        """
        assembler, decode = self._assembler, self._client.decode
        assembler.advance(count)
        while (frame := assembler.next_frame()) is not None:
            message = decode(*frame)
            if isinstance(message, ServerHello):
                self.is_ready = True
            else:
                yield message

    # The end.

    def close(self, reason: str) -> bool:
        """Note why the connection is closed; False if it was before, for an earlier reason."""
        if self.is_closed:
            return False
        self.is_closed = True
        self.close_reason = reason
        return True

    def lost(self) -> ConnectionLostError:
        """The error of a request that will have no answer, because the connection is closed."""
        return ConnectionLostError(*self.address, self.close_reason)


def answer_or_error(answer: Any, request_name: str) -> Any:
    """An answer as it came; raises ``BrokerError`` where the request was refused as a whole."""
    if isinstance(answer, RequestRefusedError):
        raise broker_error(answer.code, answer.message, request_name)
    return answer


# Why a connection is closed, as parts of a sentence. A request that hangs ends its connection:
# every request behind it would wait as long.


def not_sent(request_name: str, timeout_s: float) -> str:
    """The broker took too little in time."""
    return f"{request_name} not sent within {timeout_s:.3g} s"


def not_answered(request_name: str, timeout_s: float) -> str:
    """There was no answer in time."""
    return f"no answer to {request_name} within {timeout_s:.3g} s"


def damaged(error: ProtocolError) -> str:
    """What came makes no sense."""
    return f"not a seglog broker, or a damaged answer: {error}"
