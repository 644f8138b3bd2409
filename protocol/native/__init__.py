"""The native dialect: length-prefixed frames, a msgpack header, record batches behind it.

``NativeServer`` and ``NativeClient`` are the two roles of a connection, without any I/O;
``FrameAssembler`` makes frames of a stream. ``docs/native-protocol.md`` describes the bytes.
"""

from seglog.protocol.native.assembler import Frame, FrameAssembler
from seglog.protocol.native.client import NativeClient, NativeResponse, RequestRefusedError
from seglog.protocol.native.handshake import (
    MAGIC,
    ClientHello,
    ServerHello,
    VersionRefusedError,
    may_be_magic,
)
from seglog.protocol.native.server import NativeServer

__all__ = [
    "MAGIC",
    "ClientHello",
    "Frame",
    "FrameAssembler",
    "NativeClient",
    "NativeResponse",
    "NativeServer",
    "RequestRefusedError",
    "ServerHello",
    "VersionRefusedError",
    "may_be_magic",
]
