"""The dialect of a connection, told from its first bytes; and peers of other protocols.

Native connections begin with a magic whose first byte is over 0x7f, Kafka's with the size of a
frame, which never is. Browsers, health probes and TLS clients begin with bytes that read as a size
of hundreds of megabytes.
"""

from collections.abc import Callable
from typing import Final

from seglog.protocol.dialect import ServerDialect
from seglog.protocol.errors import ProtocolError
from seglog.protocol.native import may_be_magic

DialectFactory = Callable[[], ServerDialect]

_NATIVE_BIT: Final = 0x80
_SIZE_BYTES: Final = 4
_HTTP_STARTS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"PRI ", b"CONN")
_TLS_HANDSHAKE: Final = b"\x16\x03"
_SSH_START: Final = b"SSH-"
_PROXY_STARTS: Final = (b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n")
"""Versions 1 and 2 of the PROXY protocol, which load balancers put before a client's bytes."""


class DialectChoice:
    """Chooses among the dialects of a listener.

    Args:
        native: makes the native dialect for a new connection.
        kafka: makes the Kafka dialect; None where a listener does not speak it.
    """

    def __init__(self, native: DialectFactory, kafka: DialectFactory | None) -> None:
        self._native = native
        self._kafka = kafka

    def choose(self, first_bytes: bytes) -> ServerDialect | None:
        """The dialect of a connection that begins so; None while that cannot be told.

        Raises:
            ProtocolError: none of them.
        """
        if not first_bytes:
            return None
        if first_bytes[0] & _NATIVE_BIT:
            if not may_be_magic(first_bytes):
                raise ProtocolError("not the magic of the native dialect and not a Kafka frame")
            return self._native()
        if len(first_bytes) < _SIZE_BYTES:
            return None
        if self._kafka is None:
            raise ProtocolError("not the magic of the native dialect")
        return self._kafka()


def hint_for(first_bytes: bytes) -> str:
    """The protocol that these first bytes suggest: http, tls, ssh, proxy; "" if unknown."""
    if first_bytes[:4] in _HTTP_STARTS:
        return "http"
    if first_bytes[:2] == _TLS_HANDSHAKE:
        return "tls"
    if first_bytes.startswith(_SSH_START):
        return "ssh"
    if first_bytes.startswith(_PROXY_STARTS):
        return "proxy"
    return ""
