"""Where reading begins: what an application may say, and what it means for each partition."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from seglog.clients.errors import ConfigurationError
from seglog.clients.offsets import ByPartition, PartitionLike, as_partition, timestamp_of
from seglog.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Offset:
    """Begin at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Begin at the first record stamped at or after this time, in ms since the epoch."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Last:
    """Begin so many records before the end of each partition."""

    count: int


Start = Literal["earliest", "latest"] | int | datetime | Timestamp | Offset | Last
"""Where to begin. A bare integer is a time in ms where it is said for all partitions, and an offset
where it is said for one."""
TopicsLike = str | Iterable[str] | Iterable[PartitionLike] | ByPartition[Start]
"""Topics, partitions, or partitions with where to begin in each."""
Place = Literal["earliest", "latest"] | Offset | Timestamp | Last
"""A start without anything left to interpret."""

_WORDS: Final = ("earliest", "latest")


def place_of(start: Start, *, integer_is_offset: bool) -> Place:
    """Return what ``start`` means.

    Raises:
        ConfigurationError: nothing that can be meant.
    """
    if type(start) is int:
        start = Offset(start) if integer_is_offset else Timestamp(start)
    if isinstance(start, datetime):
        return Timestamp(timestamp_of(start))
    if isinstance(start, Offset) and type(start.offset) is int and start.offset >= 0:
        return start
    if isinstance(start, Timestamp) and type(start.timestamp_ms) is int and start.timestamp_ms >= 0:
        return start
    if isinstance(start, Last) and type(start.count) is int and start.count >= 0:
        return start
    if start == "earliest" or start == "latest":
        return start
    raise ConfigurationError(
        f"start={start!r}: expected {' or '.join(map(repr, _WORDS))}, a time (ms since the epoch, "
        "datetime or Timestamp), Offset or Last"
    )


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to read: whole topics from ``place`` on, or chosen partitions each from its own."""

    topics: tuple[str, ...]
    partitions: Mapping[TopicPartition, Place]
    place: Place


def parse_subscription(topics: TopicsLike, start: Start) -> Subscription:
    """Read what an application said.

    Raises:
        ConfigurationError: neither topics nor partitions, or both.
    """
    place = place_of(start, integer_is_offset=False)
    if isinstance(topics, str):
        return Subscription((topics,), {}, place)
    if isinstance(topics, Mapping):
        places = {
            as_partition(partition): place_of(each, integer_is_offset=True)
            for partition, each in topics.items()
        }
        return Subscription((), places, place)
    items: Sequence[object] = list(topics)
    names = [item for item in items if isinstance(item, str)]
    if len(names) == len(items):
        return Subscription(tuple(dict.fromkeys(names)), {}, place)
    if names:
        raise ConfigurationError("topics and partitions cannot be mixed in one subscription")
    return Subscription((), {as_partition(item): place for item in items}, place)  # type: ignore[arg-type]  # as_partition checks what it gets
