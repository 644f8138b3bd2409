"""Assignors: which member of a group reads which partitions. Pure functions of the subscriptions.

Names and rules are those of Apache Kafka's assignors, so that members of any client may lead.
"""

from typing import Final

from seglog.clients.group.assignors.cooperative import CooperativeStickyAssignor
from seglog.clients.group.assignors.model import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionCounts,
)
from seglog.clients.group.assignors.range import RangeAssignor
from seglog.clients.group.assignors.round_robin import RoundRobinAssignor
from seglog.clients.group.assignors.sticky import StickyAssignor

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "MemberSubscription",
    "PartitionCounts",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]

ASSIGNORS: Final[dict[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}
"""The assignors by their names on the wire."""
