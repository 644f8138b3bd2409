"""What members of a group tell each other through the broker, in the formats of Kafka's consumers.

Subscription and assignment are those of ``ConsumerProtocol``. The two sticky assignors add what
each member has: the eager one all of it, the cooperative one the generation in which it got what
the subscription says it owns.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from seglog.clients.group.assignors import (
    ASSIGNORS,
    CooperativeStickyAssignor,
    MemberSubscription,
    StickyAssignor,
)
from seglog.clients.group.assignors.model import NO_GENERATION
from seglog.protocol.errors import ProtocolError
from seglog.protocol.kafka.codec import decode, decode_versioned, encode_bytes, encode_versioned
from seglog.protocol.kafka.messages import consumer_protocol as wire
from seglog.protocol.kafka.schema import Message, array, int32
from seglog.protocol.types import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 0
"""All versions have the same fields, and every client reads the first."""
_FIRST_WITH_GENERATION: Final = 2
_GENERATION: Final = struct.Struct(">i")
_VERSION: Final = struct.Struct(">h")


class StickyUserData(Message, versions="0-1"):
    """What a member says to an eager sticky assignor; without a version before it."""

    previous_assignment: list[wire.TopicPartition] = array(wire.TopicPartition, "0+")
    generation: int = int32("1+", default=NO_GENERATION, ignorable=True)


def encode_subscription(
    assignor: str, topics: Iterable[str], owned: Iterable[TopicPartition], generation: int
) -> bytes:
    """What a member tells the leader for one of its assignors.

    Args:
        assignor: its name.
        topics: what the member wants to read.
        owned: what it has, or for the eager sticky assignor what it had.
        generation: when it got that, -1 if never.
    """
    user_data = None
    if assignor == StickyAssignor.name:
        previous = StickyUserData(previous_assignment=_grouped(owned), generation=generation)
        user_data = encode_bytes(previous, 1)
    elif assignor == CooperativeStickyAssignor.name:
        user_data = _GENERATION.pack(generation)
    is_cooperative = ASSIGNORS[assignor].is_cooperative
    return encode_versioned(
        wire.ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=user_data,
            owned_partitions=_grouped(owned) if is_cooperative else [],
            generation_id=generation if is_cooperative else NO_GENERATION,
            rack_id=None,
        ),
        SUBSCRIPTION_VERSION,
    )


def decode_subscription(
    assignor: str, member_id: str, instance_id: str | None, metadata: bytes
) -> MemberSubscription:
    """What a member of any client said.

    Raises:
        ProtocolError: the bytes are no subscription.
    """
    subscription = decode_versioned(wire.ConsumerProtocolSubscription, metadata)
    owned = _flat(subscription.owned_partitions)
    generation = subscription.generation_id
    user_data = subscription.user_data or b""
    if assignor == StickyAssignor.name:
        owned, generation = _read_sticky(user_data)
    elif (
        assignor == CooperativeStickyAssignor.name
        and _VERSION.unpack_from(metadata)[0] < _FIRST_WITH_GENERATION
        and len(user_data) == _GENERATION.size
    ):
        (generation,) = _GENERATION.unpack(user_data)
    return MemberSubscription(
        member_id, frozenset(subscription.topics), instance_id, owned, generation
    )


def _read_sticky(user_data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Newer clients end with a generation, kafka-python puts a version before it all.

    A member that never had anything may say nothing; what cannot be read counts as nothing, too:
    the assignment is less sticky then, but not wrong.
    """
    for start in (0, _VERSION.size):
        for version in (1, 0):
            try:
                previous, end = decode(StickyUserData, version, memoryview(user_data), start)
            except ProtocolError:
                continue
            if end == len(user_data):
                generation = previous.generation if version else NO_GENERATION
                return _flat(previous.previous_assignment), generation
    return (), NO_GENERATION


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """What the leader gives to a member."""
    assignment = wire.ConsumerProtocolAssignment(
        assigned_partitions=_grouped(partitions), user_data=None
    )
    return encode_versioned(assignment, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """What a leader of any client gave; no bytes at all mean nothing.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    if not data:
        return []
    return list(_flat(decode_versioned(wire.ConsumerProtocolAssignment, data).assigned_partitions))


def encode_assignments(
    assignment: Mapping[str, Iterable[TopicPartition]],
) -> dict[str, bytes]:
    """What the leader gives to all members."""
    return {member_id: encode_assignment(each) for member_id, each in assignment.items()}


def _grouped(partitions: Iterable[TopicPartition]) -> list[wire.TopicPartition]:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        by_topic[topic].append(number)
    return [
        wire.TopicPartition(topic=topic, partitions=sorted(by_topic[topic]))
        for topic in sorted(by_topic)
    ]


def _flat(topics: Iterable[wire.TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(each.topic, number) for each in topics for number in each.partitions
    )
