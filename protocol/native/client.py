"""The client's side of the native dialect: one object a connection, fed with bytes, no I/O."""

from typing import Any, Final, NamedTuple

from seglog.protocol.api import ProduceRequest
from seglog.protocol.dialect import Part
from seglog.protocol.errors import ErrorCode, ProtocolError, SeglogError
from seglog.protocol.native import handshake
from seglog.protocol.native.fields import unpack_error
from seglog.protocol.native.frames import (
    RecordCursor,
    RecordSink,
    build_frame,
    frame_size,
    read_header,
)
from seglog.protocol.native.handshake import ClientHello, ServerHello
from seglog.protocol.native.operations import OPERATION_OF_REQUEST, Operation
from seglog.protocol.types import INT32_MAX

MAX_RESPONSE_BYTES_DEFAULT: Final = 256 * 1024 * 1024
"""Over the largest request: a fetch answers with a whole batch even if that breaks its limit."""
_RESPONSE_FIELDS_START: Final = 2
_NO_LIMIT: Final = 2**32


class RequestRefusedError(SeglogError):
    """The server refused a request as a whole.

    Args:
        code: why.
        message: one sentence of the server.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


class NativeResponse(NamedTuple):
    """The answer to the request with this correlation id; ``response`` is typed or a refusal."""

    correlation_id: int
    response: Any | RequestRefusedError


class NativeClient:
    """Encodes the requests of one connection and decodes the answers.

    Args:
        client_id: the name under which the server counts and logs this client.
        software_name: what program this is.
        software_version: and which version of it.
        max_frame_bytes: largest answer that is accepted.
    """

    def __init__(
        self,
        client_id: str,
        *,
        software_name: str = "seglog",
        software_version: str = "",
        max_frame_bytes: int = MAX_RESPONSE_BYTES_DEFAULT,
    ) -> None:
        self.server: ServerHello | None = None
        self._hello = ClientHello(client_id, software_name, software_version)
        self._max_frame_bytes = max_frame_bytes
        self._next_correlation_id = 0
        self._in_flight: dict[int, Operation] = {}

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._in_flight)

    def hello(self) -> bytes:
        """Return the bytes that open the connection; requests may be sent right behind them."""
        return handshake.encode_client_hello(self._hello)

    def encode_request(self, request: Any) -> tuple[int, list[Part]]:
        """Return the correlation id and the parts of the frame for ``request``.

        A produce request with ``acks`` 0 will have no answer; any other will have one.
        """
        operation = OPERATION_OF_REQUEST[type(request)]
        correlation_id = self._next_correlation_id
        self._next_correlation_id = correlation_id + 1 if correlation_id < INT32_MAX else 0
        sink = RecordSink()
        header = [
            int(operation.key),
            operation.newest_version,
            correlation_id,
            *operation.request.pack(request, sink),
        ]
        parts = build_frame(header, sink.parts, sink.length)
        if not (isinstance(request, ProduceRequest) and request.acks == 0):
            self._in_flight[correlation_id] = operation
        return correlation_id, parts

    def frame_size(self, view: memoryview, start: int, end: int) -> int:
        """Size of the frame that begins at ``view[start]``, 0 while it cannot be known.

        Raises ``ProtocolError``, and ``FrameTooLargeError`` before anything is allocated for it.
        """
        if self.server is None:
            return handshake.hello_size(view, start, end)
        return frame_size(view, start, end, self._max_frame_bytes)

    def decode(self, view: memoryview, start: int, end: int) -> ServerHello | NativeResponse:
        """Decode the one frame in ``view[start:end]``; record fields are views of ``view``.

        Raises:
            VersionRefusedError: the answer to the hello: no common version.
            ProtocolError: the bytes are no answer to anything that was asked.
        """
        if self.server is None:
            self.server = handshake.decode_server_hello(view, start, end)
            return self.server
        header, records_start = read_header(view, start, end, _NO_LIMIT)
        if len(header) < _RESPONSE_FIELDS_START or type(header[0]) is not int:
            raise ProtocolError("answer without a correlation id")
        correlation_id = header[0]
        operation = self._in_flight.pop(correlation_id, None)
        if operation is None:
            raise ProtocolError(f"answer to request {correlation_id}, which does not wait for one")
        if header[1] != 0:
            return NativeResponse(correlation_id, _read_refusal(header))
        cursor = RecordCursor(view, records_start, end)
        response = operation.response.unpack(header[_RESPONSE_FIELDS_START:], cursor)
        cursor.finish()
        return NativeResponse(correlation_id, response)


def _read_refusal(header: list[Any]) -> RequestRefusedError:
    message = header[2] if len(header) > 2 else ""
    return RequestRefusedError(unpack_error(header[1]), str(message))
