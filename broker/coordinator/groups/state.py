"""What a group is told and what it answers with: states, time, limits, outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from seglog.broker.coordinator.groups.members import Ticket
from seglog.protocol.api import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

Answer: TypeAlias = tuple[Ticket, JoinGroupResponse | SyncGroupResponse]


class GroupState(StrEnum):
    """Where a group stands; Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.PREPARING_REBALANCE: frozenset(
            {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
        ),
        GroupState.COMPLETING_REBALANCE: frozenset(
            {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
        ),
        GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.DEAD: frozenset(),
    }
)
"""Which state may follow which."""


class ClockReading(NamedTuple):
    """The time now: the monotonic clock for deadlines, the wall clock for stored records."""

    monotonic_ms: int
    wall_ms: int


class GroupLimits(NamedTuple):
    """What the broker's configuration says of groups."""

    initial_rebalance_delay_ms: int
    max_size: int


class Client(NamedTuple):
    """The joining client: its id, and its address as Kafka writes it (``/127.0.0.1``)."""

    client_id: str
    host: str


class Joining(NamedTuple):
    """A request to join, with everything that comes with it."""

    request: JoinGroupRequest
    client: Client
    ticket: Ticket
    now: ClockReading


@dataclass(slots=True)
class Outcome:
    """What a call has brought about.

    Attributes:
        answers: to be given, if ``must_store`` after the group was stored.
        must_store: whether the group has to be written to the log; ``stored`` or ``store_failed``
            is called with the outcome of that.
    """

    answers: list[Answer] = field(default_factory=list)
    must_store: bool = False
