"""The server's side of the native dialect: one object a connection, fed with bytes, no I/O."""

from collections.abc import Sequence
from typing import Any, Final

from seglog.protocol.api import ApiKey, FetchResponse, ProduceResponse
from seglog.protocol.dialect import IncomingRequest, Part, Reply
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.native import handshake, hot_path
from seglog.protocol.native.frames import (
    MAX_REQUEST_ELEMENTS,
    RecordCursor,
    RecordSink,
    build_frame,
    frame_size,
    read_header,
)
from seglog.protocol.native.handshake import ServerHello
from seglog.protocol.native.operations import ALL_OPERATIONS, OPERATION_OF_KEY

REQUEST_FIELDS_START: Final = 3
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
_VERSIONS: Final = tuple(
    (int(operation.key), operation.oldest_version, operation.newest_version)
    for operation in ALL_OPERATIONS
)


class NativeServer:
    """Decodes the requests of one connection and encodes the answers.

    Args:
        max_frame_bytes: largest frame that is accepted, without its length field.
        max_in_flight: told to the client.
        software_version: told to the client.
    """

    ordered = False
    """Answers carry a correlation id and may leave in any order."""
    name = "native"

    def __init__(self, *, max_frame_bytes: int, max_in_flight: int, software_version: str) -> None:
        self.client_id = ""
        self.software = ("", "")
        self._greeted = False
        self._max_frame_bytes = max_frame_bytes
        self._max_in_flight = max_in_flight
        self._software_version = software_version

    def frame_size(self, view: memoryview, start: int, end: int) -> int:
        """Size of the frame that begins at ``view[start]``, of which bytes up to ``end`` are there.

        Returns 0 while the size cannot be known. Raises ``ProtocolError``, and its subclass
        ``FrameTooLargeError`` before anything is allocated for the frame.
        """
        if not self._greeted:
            return handshake.hello_size(view, start, end)
        return frame_size(view, start, end, self._max_frame_bytes)

    def decode(self, view: memoryview, start: int, end: int) -> IncomingRequest | Reply:
        """Decode the one frame in ``view[start:end]``; record fields are views of ``view``.

        A request that cannot be understood but whose correlation id is known becomes a ``Reply``
        with the error; the connection goes on.

        Raises:
            ProtocolError: the connection cannot go on.
        """
        if not self._greeted:
            return self._answer_hello(view, start, end)
        header, records_start = read_header(view, start, end, MAX_REQUEST_ELEMENTS)
        try:
            api_key, api_version, correlation_id = header[:REQUEST_FIELDS_START]
        except ValueError:
            raise ProtocolError(f"header of {len(header)} elements is no request") from None
        if not type(api_key) is type(api_version) is type(correlation_id) is int:
            raise ProtocolError("header does not begin with key, version and correlation id")
        operation = OPERATION_OF_KEY.get(api_key)
        if (
            operation is None
            or not operation.oldest_version <= api_version <= operation.newest_version
        ):
            message = f"operation {api_key} version {api_version} is not supported"
            return _refusal(header, ErrorCode.UNSUPPORTED_VERSION, message)
        request: Any = None
        if api_key == _PRODUCE:
            request = hot_path.unpack_produce(header, view, records_start, end)
        elif api_key == _FETCH and records_start == end:
            request = hot_path.unpack_fetch(header)
        if request is None:
            cursor = RecordCursor(view, records_start, end)
            try:
                request = operation.request.unpack(header[REQUEST_FIELDS_START:], cursor)
                cursor.finish()
            except ProtocolError as error:
                return _refusal(header, ErrorCode.INVALID_REQUEST, str(error))
            if api_key == _PRODUCE and request.transactional_id is not None:
                # Here no request adds partitions beforehand.
                request.may_add = True
        incoming = IncomingRequest(api_key, api_version, correlation_id, request)
        if api_key == _PRODUCE and request.acks == 0:
            incoming.expects_response = False
        return incoming

    def encode(self, incoming: IncomingRequest, response: Any) -> Sequence[Part]:
        """Return the parts of the frame that answers ``incoming``."""
        if type(response) is ProduceResponse:
            return build_frame(hot_path.pack_produce_response(response, incoming.correlation_id))
        sink = RecordSink()
        if type(response) is FetchResponse:
            header = hot_path.pack_fetch_response(response, incoming.correlation_id, sink)
        else:
            message = OPERATION_OF_KEY[incoming.api_key].response
            header = [incoming.correlation_id, 0, *message.pack(response, sink)]
        return build_frame(header, sink.parts, sink.length)

    def encode_error(
        self, incoming: IncomingRequest, error: ErrorCode, message: str
    ) -> Sequence[Part]:
        """Return the parts of the frame that says that a request failed as a whole."""
        return build_frame([incoming.correlation_id, int(error), message])

    def _answer_hello(self, view: memoryview, start: int, end: int) -> Reply:
        hello = handshake.decode_client_hello(view, start, end)
        version = handshake.choose_version(hello)
        self.client_id = hello.client_id
        self.software = (hello.software_name, hello.software_version)
        self._greeted = True
        answer = ServerHello(
            version,
            self._max_frame_bytes,
            self._max_in_flight,
            "seglog",
            self._software_version,
            _VERSIONS,
        )
        error = ErrorCode.NONE if version else ErrorCode.UNSUPPORTED_VERSION
        return Reply([handshake.encode_server_hello(answer)], error=error, closes=not version)


def _refusal(header: list[Any], error: ErrorCode, message: str) -> Reply:
    api_key, version, correlation_id = header[:REQUEST_FIELDS_START]
    known = OPERATION_OF_KEY.get(api_key)
    # Unknown numbers share one name: a metric must not grow with the input of strangers.
    name = known.key.name.title().replace("_", "") if known else "Unknown"
    parts = build_frame([correlation_id, int(error), message])
    return Reply(parts, error=error, operation=name, version=version)
