"""The server's side of a dialect, as the owner of a connection sees it.

A dialect object belongs to one connection. It is shown the receive buffer and turns frames into
typed requests, and typed responses into parts of frames. It does no I/O and keeps no record bytes.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from seglog.protocol.api import RecordSource
from seglog.protocol.errors import ErrorCode

Part = bytes | bytearray | memoryview | RecordSource
"""A piece of an encoded frame; the connection sends the bytes of a ``RecordSource``."""


class Incoming(Protocol):
    """A decoded request, as the owner of a connection sees it."""

    @property
    def api_key(self) -> int:
        """The operation."""
        ...

    @property
    def request(self) -> Any:
        """The typed request of ``seglog.protocol.api``."""
        ...

    @property
    def expects_response(self) -> bool:
        """False for a produce request with acks=0: nothing may be sent."""
        ...


class IncomingRequest:
    """A decoded request, and the fields that its answer needs.

    Attributes:
        request: the typed request of ``seglog.protocol.api``.
        expects_response: False for a produce request with acks=0: nothing may be sent.
    """

    __slots__ = ("api_key", "api_version", "correlation_id", "expects_response", "request")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        request: Any,
        *,
        expects_response: bool = True,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.request = request
        self.expects_response = expects_response


class Reply:
    """An answer of the dialect itself, without a handler: a greeting, or a refusal.

    Attributes:
        parts: the encoded frame.
        error: its error code; NONE for a greeting.
        closes: the connection ends once the reply is sent.
        operation: the name of the refused operation; "" while finding a common version.
        version: of the refused request.
    """

    __slots__ = ("closes", "error", "operation", "parts", "version")

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        error: ErrorCode = ErrorCode.NONE,
        closes: bool = False,
        operation: str = "",
        version: int = -1,
    ) -> None:
        self.parts = parts
        self.error = error
        self.closes = closes
        self.operation = operation
        self.version = version


class ServerDialect(Protocol):
    """The server's side of one connection.

    Attributes:
        name: for logs and metrics.
        ordered: answers must leave in the order of the requests.
        client_id: the name that the client gives itself, "" before that.
        software: name and version of the client's program, as far as it has told.
    """

    name: str
    ordered: bool
    client_id: str
    software: tuple[str, str]

    def frame_size(self, view: memoryview, start: int, end: int) -> int:
        """Size of the frame that begins at ``view[start]``; bytes up to ``end`` have arrived.

        Returns 0 while the size cannot be known.

        Raises:
            ProtocolError: no legal frame begins here; ``FrameTooLargeError`` if it is too large,
                before anything is allocated for it.
        """
        ...

    def decode(self, view: memoryview, start: int, end: int) -> Incoming | Reply:
        """Decode the one frame in ``view[start:end]``; record fields are views of ``view``.

        Raises:
            ProtocolError: the connection cannot go on.
        """
        ...

    def encode(self, incoming: Any, response: Any) -> Sequence[Part]:
        """Return the parts of the frame that answers ``incoming``, which came from ``decode``."""
        ...

    def encode_error(self, incoming: Any, error: ErrorCode, message: str) -> Sequence[Part] | None:
        """Return the parts that say a request failed as a whole; None: only closing says it."""
        ...
