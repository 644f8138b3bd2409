"""The round-robin assignor: partitions are dealt out like cards."""

from collections.abc import Sequence

from seglog.clients.group.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    in_order,
    partitions_of,
)


class RoundRobinAssignor:
    """Deals all partitions of all topics to the members in turn, past those that do not want it."""

    name = "roundrobin"
    is_cooperative = False

    def assign(self, members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
        """Divide all topics together."""
        assignment: Assignment = {member.member_id: [] for member in members}
        ordered = in_order(members)
        turn = 0
        for partition in partitions_of(members, counts):
            # A member wants it, or it would not be among the partitions.
            while partition.topic not in ordered[turn % len(ordered)].topics:
                turn += 1
            assignment[ordered[turn % len(ordered)].member_id].append(partition)
            turn += 1
        return assignment
