"""The states of a member of a group, and what leads from one to the next.

    UNJOINED --join--> JOINING --joined--> SYNCING --assigned--> ADOPTING --adopted--> STABLE
        ^                 |                   |                                          |
        +-----refused-----+-------------------+                                          |
        |                 |                   |                                          |
        +-----yielded-- YIELDING <---lost-----+------------------------lost, rebalance---+

A member that is ADOPTING waits until the application has given up what it lost and begun what it
got, one that is YIELDING until it has given up what must go before the next rebalance.
"""

from enum import Enum, auto
from typing import Final


class MemberState(Enum):
    """Where a member is."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    ADOPTING = auto()
    STABLE = auto()
    YIELDING = auto()
    FAILED = auto()
    CLOSED = auto()


class MemberEvent(Enum):
    """What happens to a member."""

    JOIN = auto()
    JOINED = auto()
    ASSIGNED = auto()
    ADOPTED = auto()
    REBALANCE = auto()
    YIELDED = auto()
    REFUSED = auto()
    LOST = auto()
    FAIL = auto()
    CLOSE = auto()


_STATE = MemberState
_EVENT = MemberEvent
TRANSITIONS: Final[dict[tuple[MemberState, MemberEvent], MemberState]] = {
    (_STATE.UNJOINED, _EVENT.JOIN): _STATE.JOINING,
    (_STATE.UNJOINED, _EVENT.LOST): _STATE.YIELDING,
    (_STATE.JOINING, _EVENT.JOINED): _STATE.SYNCING,
    (_STATE.JOINING, _EVENT.REFUSED): _STATE.UNJOINED,
    (_STATE.JOINING, _EVENT.LOST): _STATE.YIELDING,
    (_STATE.SYNCING, _EVENT.ASSIGNED): _STATE.ADOPTING,
    (_STATE.SYNCING, _EVENT.REFUSED): _STATE.UNJOINED,
    (_STATE.SYNCING, _EVENT.LOST): _STATE.YIELDING,
    (_STATE.ADOPTING, _EVENT.ADOPTED): _STATE.STABLE,
    (_STATE.STABLE, _EVENT.REBALANCE): _STATE.YIELDING,
    (_STATE.STABLE, _EVENT.LOST): _STATE.YIELDING,
    (_STATE.YIELDING, _EVENT.YIELDED): _STATE.UNJOINED,
    **{
        (state, _EVENT.FAIL): _STATE.FAILED
        for state in _STATE
        if state not in {_STATE.FAILED, _STATE.CLOSED}
    },
    **{(state, _EVENT.CLOSE): _STATE.CLOSED for state in _STATE},
}

WITH_HEARTBEATS: Final = frozenset({_STATE.ADOPTING, _STATE.STABLE, _STATE.YIELDING})
"""Where the broker has to be told that the member lives; in others a request of it waits there."""


def next_state(state: MemberState, event: MemberEvent) -> MemberState:
    """Where ``event`` leads from ``state``; anything not in the table is a bug."""
    following = TRANSITIONS.get((state, event))
    assert following is not None, f"{event.name} while {state.name}"
    return following
