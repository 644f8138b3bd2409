"""One record: as a client reads it, and as it is written."""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from seglog.protocol.types import Buffer

Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]
RecordFields: TypeAlias = tuple[int, Buffer | None, Buffer | None, Headers]
"""A record to be written: timestamp in ms, key, value, headers."""


class Record(NamedTuple):
    """A record with where it lies; ``topic`` is "" and ``partition`` -1 where they are not known.

    ``timestamp_ms`` is the broker's append time for batches that the broker stamped. A ``value`` of
    None is a tombstone. Header keys may repeat and keep their order.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
