"""Where reading begins: what an application may say, and what it means for each partition."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, Literal

from seglog.clients.errors import ConfigurationError
from seglog.clients.offsets import ByPartition, PartitionLike, as_partition, timestamp_of
from seglog.protocol.types import INT64_MAX, TopicPartition


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
TopicsLike = str | re.Pattern[str] | Iterable[str] | Iterable[PartitionLike] | ByPartition[Start]
"""Topics, what their names match, partitions, or partitions with where to begin in each."""


class End(Enum):
    """One end of a partition or the other."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Nowhere:
    """There is nothing to begin at: the application wants to be told.

    Args:
        group: which has no committed offset.
    """

    __slots__ = ("group",)

    def __init__(self, group: str) -> None:
        self.group = group


Place = End | Offset | Timestamp | Last | Nowhere
"""A start without anything left to interpret."""

_ENDS: Final = {end.value: end for end in End}


def place_of(start: Start, *, integer_is_offset: bool) -> Place:
    """Return what ``start`` means.

    Raises:
        ConfigurationError: nothing that can be meant.
    """
    place: object = start
    if type(start) is int:
        place = Offset(start) if integer_is_offset else Timestamp(start)
    elif isinstance(start, datetime):
        place = Timestamp(timestamp_of(start))
    elif isinstance(start, str):
        place = _ENDS.get(start)
    match place:
        case End():
            return place
        case Offset(offset=number) | Timestamp(timestamp_ms=number) | Last(count=number):
            if type(number) is int and 0 <= number <= INT64_MAX:
                return place
    raise ConfigurationError(
        f"start={start!r}: expected {' or '.join(map(repr, _ENDS))}, a time (ms since the epoch, "
        "datetime or Timestamp), Offset or Last"
    )


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to read: whole topics from ``place`` on, or chosen partitions each from its own.

    With a ``pattern``, the topics whose whole names match it. In a group, chosen partitions with
    None for a place begin at the committed offset.
    """

    topics: tuple[str, ...]
    partitions: Mapping[TopicPartition, Place | None]
    place: Place
    pattern: re.Pattern[str] | None = None


def default_place(group: str | None, offset_reset: str) -> Place:
    """Where to begin if nothing is said about it, and in a group nothing is committed."""
    if group is None:
        return End.LATEST
    return Nowhere(group) if offset_reset == "error" else End(offset_reset)


def parse_subscription(
    topics: TopicsLike, start: Start | None, *, group: str | None = None, offset_reset: str = ""
) -> Subscription:
    """Read what an application said.

    Raises:
        ConfigurationError: neither topics nor partitions, or both; a pattern without a group.
    """
    if start is None:
        place = default_place(group, offset_reset)
    else:
        place = place_of(start, integer_is_offset=False)
    if isinstance(topics, str):
        return Subscription((topics,), {}, place)
    if isinstance(topics, re.Pattern):
        if group is None:
            raise ConfigurationError(f"{topics.pattern!r}: only a group can read what matches")
        return Subscription((), {}, place, topics)
    if isinstance(topics, Mapping):
        places: dict[TopicPartition, Place | None] = {
            as_partition(partition): place_of(each, integer_is_offset=True)
            for partition, each in topics.items()
        }
        return Subscription((), places, place)
    names: list[str] = []
    partitions: list[TopicPartition] = []
    for item in topics:
        if isinstance(item, str):
            names.append(item)
        else:
            partitions.append(as_partition(item))
    if names and partitions:
        raise ConfigurationError("topics and partitions cannot be mixed in one subscription")
    chosen = dict.fromkeys(partitions, None if group is not None else place)
    return Subscription(tuple(dict.fromkeys(names)), chosen, place)
