"""The members of a classic group, and what follows from all of them together."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from seglog.broker.errors import RequestError
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka.codec import decode_versioned
from seglog.protocol.kafka.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

Ticket: TypeAlias = object
"""Whoever waits for an answer; what it is, only the caller of a group knows."""

Protocols: TypeAlias = list[tuple[str, bytes]]
"""Names of assignors with the subscription for each, the preferred one first."""


@dataclass(slots=True, eq=False)
class Member:
    """One member.

    ``session_deadline_ms`` is when it counts as dead unless it is heard of; while it waits for an
    answer it is known to be there, and the deadline does not count.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    session_deadline_ms: int = 0
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the answer to a join or sync."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its subscription for one protocol, empty if it has none."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def is_heard_of(self, now_ms: int) -> None:
        """Begin its session anew."""
        self.session_deadline_ms = now_ms + self.session_timeout_ms


@dataclass(slots=True)
class Members:
    """All members by id, static ones by instance id too; in the order in which they came.

    ``leader_id`` is the member that assigns; None while there is none.
    """

    leader_id: str | None = None
    _by_id: dict[str, Member] = field(default_factory=dict)
    _id_of_instance: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        """The member of an id, None if there is none."""
        return self._by_id.get(member_id)

    def of_instance(self, instance_id: str) -> Member | None:
        """The static member of an instance id, None if there is none."""
        member_id = self._id_of_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """The member that a request names.

        Raises:
            RequestError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another process has taken
                over the instance id.
        """
        if instance_id is not None:
            static = self.of_instance(instance_id)
            if static is not None and static.member_id != member_id:
                raise RequestError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"instance {instance_id!r} is member {static.member_id!r} now",
                )
            if static is None:
                raise RequestError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"there is no instance {instance_id!r}"
                )
        member = self._by_id.get(member_id)
        if member is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no member {member_id!r}")
        return member

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        assert member.member_id not in self._by_id, member.member_id
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._id_of_instance[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member; if it led, the next one does."""
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._id_of_instance[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._by_id), None)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the id of the process that took it over; it keeps its place."""
        assert member.instance_id is not None, member
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        renamed = {
            member_id if each is member else each.member_id: each for each in self._by_id.values()
        }
        member.member_id = member_id
        self._by_id = renamed
        self._id_of_instance[member.instance_id] = member_id

    @property
    def joined_count(self) -> int:
        """How many wait for the rebalance to end."""
        return sum(1 for member in self if member.join_ticket is not None)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: as long as the most patient member asks for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def elect_joined_leader(self) -> bool:
        """Let somebody lead who has rejoined; False if nobody has."""
        leader = None if self.leader_id is None else self._by_id[self.leader_id]
        if leader is not None and leader.join_ticket is not None:
            return True
        for member in self:
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    def common_protocols(self) -> set[str] | None:
        """The protocols that every member supports; None without members: anything goes."""
        common: set[str] | None = None
        for member in self:
            names = {name for name, _ in member.protocols}
            common = names if common is None else common & names
        return common

    def vote(self) -> str:
        """Choose the protocol: each member votes for its first one that all support.

        Where several have most votes, the one that got its first vote first is chosen.
        """
        common = self.common_protocols()
        assert common, "members without a common protocol"
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self
        )
        return votes.most_common(1)[0][0]


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a consumer's subscription; None if the bytes are something else."""
    try:
        subscription = decode_versioned(ConsumerProtocolSubscription, metadata)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


def is_same_subscription(protocol_type: str | None, old: bytes, new: bytes) -> bool:
    """Whether a static member that came back wants what it wanted before.

    What a consumer says of the partitions it owned differs after a restart, and is no reason for a
    rebalance; the topics are.
    """
    if old == new:
        return True
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    topics = subscribed_topics(old)
    return topics is not None and topics == subscribed_topics(new)
