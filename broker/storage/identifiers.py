"""The 16-byte ids of topics, clusters and data directories, and Kafka's way to write them.

As text an id is 22 characters of URL-safe base64 without padding. Generated ids are random UUIDs of
version 4 whose text starts with no ``-``, since a command line would take it for an option, and
holds none elsewhere either, as Kafka's do not.
"""

import base64
import binascii
import os
from typing import Final

ID_BYTES: Final = 16
RESERVED_IDS: Final = frozenset(number.to_bytes(ID_BYTES, "big") for number in range(100))
"""Ids with a meaning of their own: unknown, unassigned, lost, and some kept for later."""


def random_id() -> bytes:
    """Make a new id."""
    while True:
        raw = bytearray(os.urandom(ID_BYTES))
        raw[6] = raw[6] & 0x0F | 0x40  # version 4, RFC 9562 section 5.4
        raw[8] = raw[8] & 0x3F | 0x80  # variant
        if "-" not in id_text(bytes(raw)):
            return bytes(raw)


def id_text(identifier: bytes) -> str:
    """Write an id as Kafka does."""
    return base64.urlsafe_b64encode(identifier).decode("ascii").rstrip("=")


def parse_id(text: str) -> bytes:
    """Read an id.

    Raises:
        ValueError: it is not the text of 16 bytes.
    """
    try:
        identifier = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is no id: {error}") from None
    if len(identifier) != ID_BYTES:
        raise ValueError(f"{text[:40]!r} is no id: it has {len(identifier)} bytes")
    return identifier
