"""What produce and fetch share on their short way: topics of requests and responses.

Anything unusual raises ``ValueError``; the compiled codec then has a look at the whole message.
"""

import struct
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from seglog.protocol.api import ZERO_TOPIC_ID
from seglog.protocol.kafka.writing import SMALL_VARINTS, unsigned_varint

ENTRIES_MAX: Final = 127
"""Topics, partitions of one topic, and bytes of a name up to which a request is usual: their
varints are of one byte."""

_read_int16 = struct.Struct(">h").unpack_from
_read_int32 = struct.Struct(">i").unpack_from
_pack_int16 = struct.Struct(">h").pack
_pack_int32 = struct.Struct(">i").pack


class OfTopic(Protocol):
    """A result of one partition."""

    topic: str
    topic_id: bytes


ResultT = TypeVar("ResultT", bound=OfTopic)


def read_flexible_topic(
    view: memoryview, p: int, has_topic_ids: bool
) -> tuple[str, bytes, int, int]:
    """Name or id of the topic at ``p``, its number of partitions, and where the first one is.

    Raises:
        IndexError, ValueError: something unusual.
    """
    topic, topic_id = "", ZERO_TOPIC_ID
    if has_topic_ids:
        topic_id = bytes(view[p : p + 16])
        p += 16
    else:
        size = view[p] - 1
        p += 1
        if not 0 <= size < ENTRIES_MAX:
            raise ValueError("a long name, or none")
        topic = str(view[p : p + size], "utf-8")
        p += size
    partitions = view[p] - 1
    if not 0 <= partitions < ENTRIES_MAX:
        raise ValueError("many partitions, or none")
    return topic, topic_id, partitions, p + 1


def read_classic_topic(view: memoryview, p: int) -> tuple[str, int, int]:
    """Name of the topic at ``p``, its number of partitions, and where the first one is.

    Raises:
        struct.error, ValueError: something unusual.
    """
    (size,) = _read_int16(view, p)
    p += 2
    if size < 0:
        raise ValueError("no name")
    topic = str(view[p : p + size], "utf-8")
    p += size
    (partitions,) = _read_int32(view, p)
    if not 0 <= partitions < ENTRIES_MAX:
        raise ValueError("many partitions, or none")
    return topic, partitions, p + 4


def by_topic(results: list[ResultT], by_id: bool) -> list[list[ResultT]]:
    """Neighbours of the same topic together."""
    if len(results) == 1:
        return [results]
    topics: list[list[ResultT]] = []
    last: object = None
    for result in results:
        topic = result.topic_id if by_id else result.topic
        if topic != last or not topics:
            topics.append([])
            last = topic
        topics[-1].append(result)
    return topics


def count_bytes(count: int, flexible: bool) -> bytes:
    """How many elements an array has, as it is written."""
    if not flexible:
        return _pack_int32(count)
    return SMALL_VARINTS[count + 1] if count < ENTRIES_MAX else unsigned_varint(count + 1)


def topic_bytes(results: Sequence[OfTopic], by_id: bool, flexible: bool) -> bytes:
    """What stands before the results of one topic: its name or id, and how many there are."""
    count = count_bytes(len(results), flexible)
    if by_id:
        return results[0].topic_id + count
    name = results[0].topic.encode()
    size = count_bytes(len(name), True) if flexible else _pack_int16(len(name))
    return size + name + count
