"""The range assignor: of each topic every member gets a run of neighbouring partitions."""

from collections.abc import Sequence

from seglog.clients.group.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    in_order,
)
from seglog.protocol.types import TopicPartition


class RangeAssignor:
    """Divides topic by topic, so that partitions of one number meet at one member.

    The first members get one partition more where a topic does not divide evenly, and with many
    small topics that adds up.
    """

    name = "range"
    is_cooperative = False

    def assign(self, members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
        """Divide; every topic by itself."""
        assignment: Assignment = {member.member_id: [] for member in members}
        ordered = in_order(members)
        for topic in sorted(counts):
            takers = [member.member_id for member in ordered if topic in member.topics]
            if not takers:
                continue
            share, extra = divmod(counts[topic], len(takers))
            first = 0
            for index, member_id in enumerate(takers):
                end = first + share + (index < extra)
                assignment[member_id] += [
                    TopicPartition(topic, number) for number in range(first, end)
                ]
                first = end
        return assignment
