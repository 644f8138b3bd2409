"""The members of a classic group, and what follows from all of them together."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from seglog.broker.errors import RequestError
from seglog.protocol.api import JoinGroupRequest
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.kafka.codec import decode_versioned
from seglog.protocol.kafka.messages.consumer_protocol import ConsumerProtocolSubscription

KeyT = TypeVar("KeyT")

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

Ticket: TypeAlias = object
"""A waiter for an answer; only the caller of a group knows its type."""

Protocols: TypeAlias = list[tuple[str, bytes]]
"""Names of assignors with the subscription for each, the preferred one first."""


@dataclass(slots=True, eq=False)
class Member:
    """One member.

    ``session_deadline_ms`` is when it counts as dead unless it is heard of; while it waits for an
    answer it is known to be there, and the deadline does not count. ``place`` is its number in the
    order of the members.
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
    place: int = 0
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


class Members:
    """All members by id, static ones by instance id too; in the order in which they came.

    What follows from all of them is kept up to date with each of them: ten thousand joins must not
    look at ten thousand members each.

    Attributes:
        leader_id: the member that assigns; None while there is none.
    """

    __slots__ = (
        "_ballots",
        "_by_id",
        "_by_place",
        "_joining",
        "_next_place",
        "_of_instance",
        "_patience",
        "_support",
        "_syncing",
        "leader_id",
    )

    def __init__(self) -> None:
        self.leader_id: str | None = None
        self._by_id: dict[str, Member] = {}
        self._by_place: dict[int, Member] = {}
        self._next_place = 0
        self._of_instance: dict[str, Member] = {}
        self._joining: dict[Ticket, Member] = {}
        self._syncing: dict[Ticket, Member] = {}
        self._support: Counter[str] = Counter()
        self._ballots: Counter[tuple[str, ...]] = Counter()
        self._patience: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_place.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        """The member of an id, None if there is none."""
        return self._by_id.get(member_id)

    def of_instance(self, instance_id: str) -> Member | None:
        """The static member of an instance id, None if there is none."""
        return self._of_instance.get(instance_id)

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

    # ---- coming and going

    def add(self, member: Member) -> None:
        """Add a member that waits for nothing; the first one leads."""
        assert member.member_id not in self._by_id, member.member_id
        member.place = self._next_place
        self._next_place += 1
        self._by_id[member.member_id] = member
        self._by_place[member.place] = member
        if member.instance_id is not None:
            self._of_instance[member.instance_id] = member
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """Remove a member that waits for nothing; if it led, the next one does."""
        assert not member.is_waiting, member
        del self._by_id[member.member_id]
        del self._by_place[member.place]
        if member.instance_id is not None:
            del self._of_instance[member.instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next((each.member_id for each in self), None)
        self._count(member, -1)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the id of the process that took it over; it keeps its place."""
        assert member.instance_id is not None, member
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        del self._by_id[member.member_id]
        member.member_id = member_id
        self._by_id[member_id] = member

    def take_terms(self, member: Member, request: JoinGroupRequest) -> None:
        """Note what a member says of itself when it joins again."""
        self._count(member, -1)
        member.protocols = list(request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self._count(member, 1)

    def _count(self, member: Member, change: int) -> None:
        ballot = tuple(dict.fromkeys(name for name, _ in member.protocols))
        _add(self._ballots, ballot, change)
        _add(self._patience, member.rebalance_timeout_ms, change)
        for name in ballot:
            _add(self._support, name, change)

    # ---- waiting

    def wait_for_join(self, member: Member, ticket: Ticket) -> None:
        """A member waits for the rebalance to end."""
        member.join_ticket = ticket
        self._joining[ticket] = member

    def wait_for_sync(self, member: Member, ticket: Ticket) -> None:
        """A member waits for its assignment."""
        member.sync_ticket = ticket
        self._syncing[ticket] = member

    def waits_no_more(self, member: Member) -> tuple[Ticket | None, Ticket | None]:
        """Take the tickets of a member, which it is answered with: of its join, of its sync."""
        join, sync = member.join_ticket, member.sync_ticket
        if join is not None:
            del self._joining[join]
        if sync is not None:
            del self._syncing[sync]
        member.join_ticket = member.sync_ticket = None
        return join, sync

    def waiting_with(self, ticket: Ticket) -> Member | None:
        """The member that waits with a ticket."""
        return self._joining.get(ticket) or self._syncing.get(ticket)

    @property
    def syncing(self) -> list[Member]:
        """Those that wait for their assignment."""
        return list(self._syncing.values())

    @property
    def joined_count(self) -> int:
        """How many wait for the rebalance to end."""
        return len(self._joining)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: as long as the most patient member asks for."""
        return max(self._patience, default=0)

    def elect_joined_leader(self) -> bool:
        """Let a member lead that has rejoined; False if none has."""
        leader = None if self.leader_id is None else self._by_id[self.leader_id]
        if leader is not None and leader.join_ticket is not None:
            return True
        for member in self:
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    # ---- protocols

    def has_common_protocol(self, names: Iterable[str]) -> bool:
        """Whether every member supports one of ``names``."""
        return any(self._support[name] == len(self._by_id) for name in names)

    def common_protocols(self) -> set[str]:
        """The protocols that every member supports."""
        return {name for name, count in self._support.items() if count == len(self._by_id)}

    def vote(self) -> str:
        """Choose the protocol: each member votes for its first one that all support.

        Where several have most votes, the one that got its first vote first is chosen.
        """
        common = self.common_protocols()
        assert common, "members without a common protocol"
        votes: Counter[str] = Counter()
        for ballot, count in self._ballots.items():
            votes[next(name for name in ballot if name in common)] += count
        most = max(votes.values())
        chosen = {name for name, count in votes.items() if count == most}
        if len(chosen) == 1:
            return chosen.pop()
        firsts = (next(name for name, _ in each.protocols if name in common) for each in self)
        return next(name for name in firsts if name in chosen)


def _add(counter: Counter[KeyT], key: KeyT, change: int) -> None:
    """Change a count; a key without any is not kept."""
    counter[key] += change
    if not counter[key]:
        del counter[key]


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
