"""The first bytes of a native connection: magic, versions, and the client.

Both hellos have the same form:

    8 bytes magic | uint16 a | uint16 b | uint16 c | uint16 length of details | details (msgpack)

Client: a, b = oldest and newest version of the dialect it speaks, c = 0. Server: a = the version
chosen, 0 for none; b, c = oldest and newest it speaks. The magic begins with a byte over 0x7f: read
as the size of a Kafka frame it is negative, so one port serves both dialects.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from seglog.protocol.errors import ProtocolError
from seglog.protocol.native.frames import pack_array

MAGIC: Final = b"\x8bseglog\n"
OLDEST_VERSION: Final = 1
NEWEST_VERSION: Final = 1
HELLO_BYTES: Final = 16
"""A hello without its details."""
MAX_DETAILS_BYTES: Final = 4096

_HELLO: Final = struct.Struct(">8sHHHH")
_NO_VERSION: Final = 0


class VersionRefusedError(ProtocolError):
    """The server speaks no version of the dialect that the client speaks."""


@dataclass(slots=True, frozen=True)
class ClientHello:
    """What a client says first."""

    client_id: str
    software_name: str
    software_version: str
    oldest_version: int = OLDEST_VERSION
    newest_version: int = NEWEST_VERSION


@dataclass(slots=True, frozen=True)
class ServerHello:
    """What a server answers: the version that holds from now on, and its limits.

    ``operations`` maps an API key to the oldest and newest version of it. ``max_in_flight`` is how
    many requests of one connection the server works on before it stops reading.
    """

    version: int
    max_frame_bytes: int = 0
    max_in_flight: int = 0
    software_name: str = ""
    software_version: str = ""
    operations: tuple[tuple[int, int, int], ...] = ()


def may_be_magic(first_bytes: bytes) -> bool:
    """Whether these bytes, however few, can be the beginning of a native connection."""
    length = min(len(first_bytes), len(MAGIC))
    return first_bytes[:length] == MAGIC[:length]


def hello_size(view: memoryview, start: int, end: int) -> int:
    """Size of the hello that begins at ``start``, 0 while that cannot be known.

    Raises:
        ProtocolError: no hello, or details over the limit.
    """
    if not may_be_magic(bytes(view[start : min(end, start + len(MAGIC))])):
        raise ProtocolError("the connection does not begin with the magic of the native dialect")
    if end - start < HELLO_BYTES:
        return 0
    details_length: int = _HELLO.unpack_from(view, start)[4]
    if details_length > MAX_DETAILS_BYTES:
        raise ProtocolError(f"hello with {details_length} bytes, limit is {MAX_DETAILS_BYTES}")
    return HELLO_BYTES + details_length


def encode_client_hello(hello: ClientHello) -> bytes:
    """Return the bytes with which a client opens a connection."""
    details = pack_array([hello.client_id, hello.software_name, hello.software_version])
    return _frame_hello(hello.oldest_version, hello.newest_version, 0, details)


def decode_client_hello(view: memoryview, start: int, end: int) -> ClientHello:
    """Read a whole hello of a client; raises ``ProtocolError``."""
    _, oldest, newest, _, _ = _HELLO.unpack_from(view, start)
    if not 0 < oldest <= newest:
        raise ProtocolError(f"hello with the versions {oldest} to {newest}")
    client_id, name, software_version = _unpack_details(
        view[start + HELLO_BYTES : end], str, str, str
    )
    return ClientHello(client_id, name, software_version, oldest, newest)


def choose_version(hello: ClientHello) -> int:
    """The newest version that both speak, 0 if there is none."""
    newest = min(hello.newest_version, NEWEST_VERSION)
    return newest if newest >= max(hello.oldest_version, OLDEST_VERSION) else _NO_VERSION


def encode_server_hello(hello: ServerHello) -> bytes:
    """Return the answer to a client's hello."""
    details = pack_array(
        [
            hello.max_frame_bytes,
            hello.max_in_flight,
            hello.software_name,
            hello.software_version,
            hello.operations,
        ]
    )
    return _frame_hello(hello.version, OLDEST_VERSION, NEWEST_VERSION, details)


def decode_server_hello(view: memoryview, start: int, end: int) -> ServerHello:
    """Read a whole answer of a server.

    Raises:
        VersionRefusedError: the server found no common version; it closes the connection.
        ProtocolError: the bytes are no such answer.
    """
    _, version, oldest, newest, _ = _HELLO.unpack_from(view, start)
    if version == _NO_VERSION:
        raise VersionRefusedError(
            f"the server speaks the versions {oldest} to {newest} of the native dialect, "
            f"this client {OLDEST_VERSION} to {NEWEST_VERSION}"
        )
    frame_bytes, in_flight, name, software_version, operations = _unpack_details(
        view[start + HELLO_BYTES : end], int, int, str, str, list
    )
    ranges = []
    for entry in operations:
        if type(entry) is not list or [type(number) for number in entry] != [int, int, int]:
            raise ProtocolError("the operations of a hello are not triples of numbers")
        ranges.append((entry[0], entry[1], entry[2]))
    return ServerHello(version, frame_bytes, in_flight, name, software_version, tuple(ranges))


def _frame_hello(first: int, second: int, third: int, details: bytes) -> bytes:
    if len(details) > MAX_DETAILS_BYTES:
        raise ProtocolError(f"details of {len(details)} bytes, the limit is {MAX_DETAILS_BYTES}")
    return _HELLO.pack(MAGIC, first, second, third, len(details)) + details


def _unpack_details(details: memoryview, *types: type) -> list[Any]:
    """The first elements of the details array, checked; a newer peer may have put more behind."""
    try:
        array = msgpack.unpackb(details, max_array_len=details.nbytes, max_map_len=0, max_ext_len=0)
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"details of a hello are not valid msgpack: {error}") from error
    if type(array) is not list or len(array) < len(types):
        raise ProtocolError(f"details of a hello are no array of {len(types)}")
    array = array[: len(types)]
    if any(type(value) is not expected for value, expected in zip(array, types, strict=True)):
        raise ProtocolError("details of a hello have values of the wrong type")
    return array
