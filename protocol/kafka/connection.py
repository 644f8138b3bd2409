"""The server's side of the Kafka dialect: one object a connection, fed with frames, no I/O.

    int32 size | request header | body          int32 size | response header | body

A request header is version 1 (key, version, correlation id, client id) or, where the version of the
operation is flexible, version 2 (the same and a tagged block). A response header is the correlation
id, and a tagged block where the version is flexible; never for ApiVersions, whose sender does not
know yet what the broker speaks.
"""

import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from seglog.protocol.api import ApiKey
from seglog.protocol.dialect import Part, Reply
from seglog.protocol.errors import ErrorCode, FrameTooLargeError, ProtocolError
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from seglog.protocol.kafka.operations import Form, Offer
from seglog.protocol.kafka.reading import skip_tagged
from seglog.protocol.types import INT32_MAX, Acks

if TYPE_CHECKING:
    from seglog.protocol.kafka.refusals import Refusable

SIZE_BYTES: Final = 4
"""The field before each frame that says how long it is."""

_KEY_BYTES: Final = 4
_SMALLEST_HEADER: Final = 10
_CLIENT_ID_CHARACTERS_MAX: Final = 1_000
_SOFTWARE_FIRST: Final = 3
_SOFTWARE_PATTERN: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NOT_OFFERED: Final = ErrorCode.UNSUPPORTED_VERSION
_PRODUCE: Final = int(ApiKey.PRODUCE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_HTTP_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"CONN", b"PATC")
_TLS_HANDSHAKE: Final = b"\x16\x03"

_read_size = struct.Struct(">i").unpack_from
_read_key = struct.Struct(">hh").unpack_from
_read_header = struct.Struct(">hhih").unpack_from
_pack_header = struct.Struct(">ii").pack
_pack_flexible_header = struct.Struct(">iiB").pack


class UnsupportedApiError(ProtocolError):
    """A request whose answer its sender could not read; all that is left is to close.

    Another layout than the expected one would be misread.

    Args:
        api_key: the number of the operation.
        api_version: its version.
    """

    reason = "unknown-operation"

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(f"API key {api_key} version {api_version} is not known")
        self.api_key = api_key
        self.api_version = api_version


class KafkaRequest:
    """A decoded request, and the fields that its answer needs."""

    __slots__ = (
        "api_key",
        "client_id",
        "correlation_id",
        "expects_response",
        "form",
        "request",
        "withheld",
    )

    def __init__(self, form: Form, correlation_id: int, client_id: str, request: Any) -> None:
        self.form = form
        self.api_key = form.operation.key
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.withheld: list[Any] = []
        self.expects_response = True


class KafkaServerConnection:
    """Decodes the requests of one connection and encodes the answers.

    Args:
        offer: what the broker offers.
        max_frame_bytes: largest frame that is accepted, without its size field.
    """

    ordered = True
    """Answers leave in the order of the requests: clients count on it."""
    name = "kafka"

    def __init__(self, *, offer: Offer, max_frame_bytes: int) -> None:
        self.client_id = ""
        self.software: tuple[str, str] = ("", "")
        self._offer = offer
        self._max_frame_bytes = max_frame_bytes

    def frame_size(self, view: memoryview, start: int, end: int) -> int:
        """Size of the frame that begins at ``view[start]``, of which bytes up to ``end`` are there.

        The size counts the size field. Returns 0 while it cannot be known.

        Raises:
            FrameTooLargeError: it is over the limit; nothing needs to be allocated to know that.
            ProtocolError: it is negative, or too small to hold a request header.
            UnsupportedApiError: it is incomplete, and begins as no request does.
        """
        if end - start < SIZE_BYTES:
            return 0
        (size,) = _read_size(view, start)
        if size > self._max_frame_bytes:
            hint = _hint(bytes(view[start : start + SIZE_BYTES]))
            raise FrameTooLargeError(
                f"frame of {size} bytes, the limit is {self._max_frame_bytes}{hint}"
            )
        if size < _SMALLEST_HEADER:
            raise ProtocolError(f"frame of {size} bytes cannot hold a request header")
        arrived = end - start - SIZE_BYTES
        if _KEY_BYTES <= arrived < size:
            # The first bytes of other protocols often read as a size within the limit (remote
            # desktops: 48 MB). The rest would never come.
            api_key, version = _read_key(view, start + SIZE_BYTES)
            if api_key != _API_VERSIONS and self._offer.form(api_key, version) is None:
                self._find_refusable(api_key, version)
        return SIZE_BYTES + int(size)

    def decode(self, view: memoryview, start: int, end: int) -> KafkaRequest | Reply:
        """Decode the one frame in ``view[start:end]``; record fields are views of ``view``.

        Raises:
            UnsupportedApiError: key or version are unknown, so that no answer could be read.
            ProtocolError: the request is malformed. In both cases the connection must be closed.
        """
        frame = view[start + SIZE_BYTES : end]
        api_key, version, correlation_id, size = _read_header(frame)
        position = _SMALLEST_HEADER
        if size > 0:
            position += size
            if position > len(frame):
                raise ProtocolError(f"client id of {size} bytes does not fit into its frame")
            self.client_id = client_id = _client_id(frame[_SMALLEST_HEADER:position])
        elif size >= -1:
            client_id = ""
        else:
            raise ProtocolError(f"client id of {size} bytes")
        form = self._offer.form(api_key, version)
        if form is None:
            if api_key == _API_VERSIONS:
                return self._answer_api_versions(frame, position, version, correlation_id)
            return self._refuse_unserved(frame, position, (api_key, version), correlation_id)
        if form.has_flexible_request:
            position = _skip_tags(frame, position)
        operation = form.operation
        incoming = KafkaRequest(
            form, correlation_id, client_id, operation.decode(frame, position, version)
        )
        if api_key == _PRODUCE and incoming.request.acks == Acks.NONE:
            incoming.expects_response = False
        if not form.is_offered:
            return self._refuse(incoming)
        if operation.withholding is not None:
            incoming.withheld = operation.withholding.take(incoming.request, version)
        return incoming

    def encode(self, incoming: KafkaRequest, response: Any) -> Sequence[Part]:
        """Return the parts of the frame that answers ``incoming``.

        Raises:
            ProtocolError: a value of the response does not fit its field: our mistake.
        """
        form = incoming.form
        operation = form.operation
        if incoming.withheld:
            assert operation.withholding is not None
            operation.withholding.put_back(response, incoming.withheld)
        parts = operation.encode(response, form.version)
        return _frame(parts, incoming.correlation_id, flexible=form.has_flexible_response)

    def encode_error(
        self, incoming: KafkaRequest, error: ErrorCode, message: str
    ) -> Sequence[Part]:
        """Return the parts of the frame that refuses all of ``incoming`` with one error."""
        response = incoming.form.operation.fail(incoming.request, error, message)
        return self.encode(incoming, response)

    def _refuse(self, incoming: KafkaRequest) -> Reply:
        """Say that an operation or version is not offered, which the sender can read."""
        if not incoming.expects_response:
            raise UnsupportedApiError(incoming.api_key, incoming.form.version)
        version = incoming.form.version
        name = incoming.form.operation.request.name.removesuffix("Request")
        parts = self.encode_error(incoming, _NOT_OFFERED, _refusal_text(name, version))
        return Reply(parts, error=_NOT_OFFERED, operation=name, version=version)

    def _refuse_unserved(
        self, frame: memoryview, position: int, asked: tuple[int, int], correlation_id: int
    ) -> Reply:
        """Say the same of an operation that exists elsewhere only."""
        api_key, version = asked
        refusable = self._find_refusable(api_key, version)
        if refusable.request is not None and version in refusable.request.flexible:
            position = _skip_tags(frame, position)
        name, error = refusable.name, refusable.error
        body = refusable.encode(frame, position, version, error, _refusal_text(name, version))
        flexible = version in refusable.response.flexible
        return Reply(
            _frame(body, correlation_id, flexible=flexible),
            error=error,
            operation=name,
            version=version,
        )

    @staticmethod
    def _find_refusable(api_key: int, version: int) -> "Refusable":
        # Few brokers ever meet one, and none should wait for all of their declarations to start.
        from seglog.protocol.kafka import refusals

        refusable = refusals.find(api_key, version)
        if refusable is None:
            raise UnsupportedApiError(api_key, version)
        return refusable

    def _answer_api_versions(
        self, frame: memoryview, position: int, version: int, correlation_id: int
    ) -> Reply:
        """List the offered operations.

        A version from the future is answered in version 0, which all clients can read; they ask
        again with one that is listed (KIP-511).
        """
        error = ErrorCode.NONE
        operation = ""
        if version not in ApiVersionsRequest.versions:
            version, error = 0, ErrorCode.UNSUPPORTED_VERSION
        elif version >= _SOFTWARE_FIRST:
            request, _ = codec.decode(
                ApiVersionsRequest, version, frame, _skip_tags(frame, position)
            )
            name, release = request.client_software_name, request.client_software_version
            if _SOFTWARE_PATTERN.fullmatch(name) and _SOFTWARE_PATTERN.fullmatch(release):
                self.software = (name, release)
            else:
                error, operation = ErrorCode.INVALID_REQUEST, "ApiVersions"
        answer: ApiVersionsResponse = self._offer.answer(error, version)
        parts = _frame(codec.encode(answer, version), correlation_id, flexible=False)
        return Reply(parts, error=error, operation=operation, version=version)


def _refusal_text(name: str, version: int) -> str:
    return f"{name} version {version} is not offered"


def _frame(parts: list[Part], correlation_id: int, *, flexible: bool) -> list[Part]:
    """Put size and response header before a body."""
    size = SIZE_BYTES + flexible
    for part in parts:
        size += codec.length_of(part)
    if size > INT32_MAX:
        raise FrameTooLargeError(f"response of {size} bytes, the size field ends at {INT32_MAX}")
    head = (
        _pack_flexible_header(size, correlation_id, 0)
        if flexible
        else _pack_header(size, correlation_id)
    )
    first = parts[0] if parts else b""
    if type(first) is bytes:
        parts[:1] = [head + first]
    else:
        parts.insert(0, head)
    return parts


def _skip_tags(frame: memoryview, position: int) -> int:
    """Step over the tagged block of a request header; no tag of it is known."""
    try:
        if frame[position] == 0:
            return position + 1
        return skip_tagged(frame, position, len(frame))
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"request header: bad tagged fields: {error}") from error


def _client_id(data: memoryview) -> str:
    """The name that a client gives itself, for logs and lists.

    It may be any text from a setting, or the name of a computer: one that is
    not UTF-8 is no reason to leave its sender without an answer, as with Kafka.
    """
    return str(data, "utf-8", "replace")[:_CLIENT_ID_CHARACTERS_MAX]


def _hint(first_bytes: bytes) -> str:
    """What a peer that does not speak Kafka probably speaks, for the log."""
    if first_bytes in _HTTP_METHODS:
        return " (it looks like an HTTP request)"
    if first_bytes[:2] == _TLS_HANDSHAKE:
        return " (it looks like a TLS handshake)"
    return ""
