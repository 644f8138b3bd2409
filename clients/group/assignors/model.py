"""What an assignor is given, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from seglog.protocol.types import TopicPartition

NO_GENERATION = -1

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id; every member is in it."""
PartitionCounts: TypeAlias = Mapping[str, int]
"""How many partitions each topic has; one that does not exist is not in it."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What a member wants, and what it has.

    Attributes:
        member_id: its name in this generation.
        topics: what it wants to read.
        instance_id: its lasting name, if it is a static member.
        owned: the partitions that it has, or had in ``generation``.
        generation: when it got them, -1 where that is not known.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION

    @property
    def sort_key(self) -> tuple[bool, str]:
        """Static members first, by their lasting names: so a restart changes no order."""
        return self.instance_id is None, self.instance_id or self.member_id


class Assignor(Protocol):
    """Divides partitions among members."""

    @property
    def name(self) -> str:
        """Its name on the wire."""
        ...

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep reading through a rebalance what they need not give up."""
        ...

    def assign(self, members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
        """Give each partition of a subscribed topic to at most one member that subscribes it."""
        ...


def in_order(members: Sequence[MemberSubscription]) -> list[MemberSubscription]:
    """The members in an order that does not depend on the first answer."""
    return sorted(members, key=lambda member: member.sort_key)


def partitions_of(
    members: Sequence[MemberSubscription], counts: PartitionCounts
) -> list[TopicPartition]:
    """All partitions of the wanted topics, in order."""
    topics = frozenset().union(*(member.topics for member in members)) & counts.keys()
    return [
        TopicPartition(topic, number) for topic in sorted(topics) for number in range(counts[topic])
    ]
