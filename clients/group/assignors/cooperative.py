"""The cooperative sticky assignor: no member gets a partition that another still has."""

from collections.abc import Sequence

from seglog.clients.group.assignors.model import Assignment, MemberSubscription, PartitionCounts
from seglog.clients.group.assignors.sticky import assign_sticky, claims


class CooperativeStickyAssignor:
    """Divides like the sticky assignor, in two steps where partitions move.

    In the first rebalance the present owner loses the partition and no member gets it. The owner
    stops reading it and joins again, and in that second rebalance its new owner gets it. So all
    the others read on all the time, and no partition is ever read by two.
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
        """Divide, and leave out partitions that another member has to give up first."""
        owners = claims(members)
        return {
            member_id: [
                partition
                for partition in partitions
                if all(owner == member_id for owner in owners.get(partition, ()))
            ]
            for member_id, partitions in assign_sticky(members, counts).items()
        }
