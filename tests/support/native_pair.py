"""Both ends of a native connection, joined in memory."""

from typing import Any

from seglog.protocol.dialect import IncomingRequest, Reply
from seglog.protocol.native import NativeClient, NativeResponse, NativeServer
from support.native_samples import hello_bytes

MAX_FRAME_BYTES = 1_000_000


def joined(parts: Any) -> bytes:
    """The bytes of an encoded frame; its parts must be bytes-like."""
    return b"".join(parts)


def greeted_pair() -> tuple[NativeClient, NativeServer]:
    """A client and a server that have exchanged their hellos."""
    client_id, name, version = hello_bytes()
    client = NativeClient(client_id, software_name=name, software_version=version)
    server = NativeServer(max_frame_bytes=MAX_FRAME_BYTES, max_in_flight=100, software_version="9")
    reply = decode(server, client.hello())
    assert isinstance(reply, Reply)
    decode(client, joined(reply.parts))
    return client, server


def decode(role: NativeServer | NativeClient, frame: bytes) -> Any:
    """Decode one whole frame, from the middle of a larger writable buffer."""
    buffer = memoryview(bytearray(b"before" + frame + b"behind"))
    start, end = 6, 6 + len(frame)
    assert role.frame_size(buffer, start, end) == len(frame)
    return role.decode(buffer, start, end)


def send_request(client: NativeClient, server: NativeServer, request: Any) -> IncomingRequest:
    """Take a request over to the server."""
    _, parts = client.encode_request(request)
    incoming = decode(server, joined(parts))
    assert isinstance(incoming, IncomingRequest), incoming.error
    return incoming


def send_response(
    client: NativeClient, server: NativeServer, incoming: IncomingRequest, response: Any
) -> NativeResponse:
    """Take an answer back to the client."""
    answer = decode(client, joined(server.encode(incoming, response)))
    assert isinstance(answer, NativeResponse)
    return answer
