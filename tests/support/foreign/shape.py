"""What every foreign client is asked to do, in one shape, so that one test tries all of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sent(NamedTuple):
    """A record to produce; the time is in ms."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 1_700_000_000_000


class Read(NamedTuple):
    """A record that a client delivered to its application."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Member(Protocol):
    """A consumer in a group that polls by itself and commits only when it is told to."""

    def seen(self) -> list[Read]:
        """What was delivered so far."""

    def assigned(self) -> set[int]:
        """The partitions that it has now."""

    def joins(self) -> int:
        """How many times it was assigned anything."""

    def commit(self) -> None:
        """Commit what was delivered."""

    def close(self) -> None:
        """Leave the group; a static member only goes away."""


class ForeignClient(Protocol):
    """One client library, connected to one broker."""

    name: str
    codecs: tuple[str, ...]
    null_header_values: bool
    """Whether it can send a header without a value."""
    static_members: bool

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", partition: int = 0
    ) -> list[int]:
        """Send records in order with acks=all; their offsets."""

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: int = 0,
        isolation: str = "read_uncommitted",
    ) -> list[Read]:
        """Read ``count`` records from an offset on, without a group."""

    def offset_at(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """Offset of the first record at or after a time; None if there is none."""

    def member(self, group: str, topic: str, **options: Any) -> Member:
        """Join a group; options are ``instance_id``, ``session_timeout_ms`` and ``strategy``.

        The Python clients also take ``partitions``: these are read, without being a member.
        """

    def close(self) -> None:
        """Let go of everything."""


class UnavailableError(Exception):
    """The client is not to be had on this machine."""
