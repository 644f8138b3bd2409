"""The sticky assignor: as even as can be, and members keep what they have as far as that allows.

"Even" means that no partition can be moved to a member that has at least two fewer. Where all
subscriptions are alike the loads then differ by one at most, and no more partitions move than that
costs; where they differ, evenness comes first.
"""

import heapq
from collections.abc import Iterable, Sequence

from seglog.clients.group.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    in_order,
    partitions_of,
)
from seglog.protocol.types import TopicPartition


class StickyAssignor:
    """Divides evenly and moves little; all members stop reading during a rebalance."""

    name = "sticky"
    is_cooperative = False

    def assign(self, members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
        """Divide; see the module."""
        return assign_sticky(members, counts)


def assign_sticky(members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
    """Divide evenly; ``owned`` maps members to their partitions."""
    ordered = in_order(members)
    partitions = partitions_of(members, counts)
    kept = _wanted_claims(ordered, counts)
    wanted = {frozenset(member.topics & counts.keys()) for member in ordered}
    if len(wanted) == 1:
        _cut_to_even(ordered, kept, len(partitions))
    taken = {partition for owned in kept.values() for partition in owned}
    free = [partition for partition in partitions if partition not in taken]
    if len(wanted) == 1:
        _deal_to_anyone(ordered, kept, free)
    else:
        takers = _takers(ordered)
        _deal_to_takers(takers, kept, free)
        _even_out(takers, kept, set(free))
        _even_out(takers, kept, taken.union(free))
    for owned in kept.values():
        owned.sort()
    return kept


def claims(members: Iterable[MemberSubscription]) -> dict[TopicPartition, list[str]]:
    """The members that claim a partition: those of the newest generation."""
    found: dict[TopicPartition, tuple[int, list[str]]] = {}
    for member in members:
        for partition in member.owned:
            generation, owners = found.get(partition, (member.generation, []))
            if member.generation > generation:
                generation, owners = member.generation, []
            if member.generation == generation:
                owners.append(member.member_id)
            found[partition] = (generation, owners)
    return {partition: owners for partition, (_, owners) in found.items()}


def _wanted_claims(members: Sequence[MemberSubscription], counts: PartitionCounts) -> Assignment:
    """What each member has and may keep; of what two claim, neither."""
    topics = {member.member_id: member.topics for member in members}
    kept: Assignment = {member.member_id: [] for member in members}
    for partition, owners in sorted(claims(members).items()):
        exists = 0 <= partition.partition < counts.get(partition.topic, 0)
        if exists and len(owners) == 1 and partition.topic in topics[owners[0]]:
            kept[owners[0]].append(partition)
    return kept


def _cut_to_even(
    members: Sequence[MemberSubscription], kept: Assignment, partition_count: int
) -> None:
    """Take partitions over their share from members; those that have most keep the odd ones."""
    share, extra = divmod(partition_count, len(members))
    for owned in sorted(kept.values(), key=len, reverse=True):
        limit = share + 1 if extra and len(owned) > share else share
        extra -= len(owned) > share and limit > share
        del owned[limit:]


def _deal_to_anyone(
    members: Sequence[MemberSubscription], kept: Assignment, free: Iterable[TopicPartition]
) -> None:
    loads = [
        (len(kept[member.member_id]), place, member.member_id)
        for place, member in enumerate(members)
    ]
    heapq.heapify(loads)
    for partition in free:
        load, place, member_id = loads[0]
        kept[member_id].append(partition)
        heapq.heapreplace(loads, (load + 1, place, member_id))


def _takers(members: Sequence[MemberSubscription]) -> dict[str, list[str]]:
    takers: dict[str, list[str]] = {}
    for member in members:
        for topic in member.topics:
            takers.setdefault(topic, []).append(member.member_id)
    return takers


def _deal_to_takers(
    takers: dict[str, list[str]], kept: Assignment, free: Iterable[TopicPartition]
) -> None:
    """Those first that few want."""
    for partition in sorted(free, key=lambda each: (len(takers[each.topic]), each)):
        least = min(takers[partition.topic], key=lambda member_id: len(kept[member_id]))
        kept[least].append(partition)


def _even_out(takers: dict[str, list[str]], kept: Assignment, movable: set[TopicPartition]) -> None:
    """Move partitions to members with at least two fewer, until none is left to move.

    Every move makes the sum of the squared loads smaller, so there is an end.
    """
    has_moved = True
    while has_moved:
        has_moved = False
        for donor in sorted(kept, key=lambda member_id: -len(kept[member_id])):
            for partition in sorted(movable.intersection(kept[donor])):
                least = min(takers[partition.topic], key=lambda member_id: len(kept[member_id]))
                if len(kept[least]) + 1 < len(kept[donor]):
                    kept[donor].remove(partition)
                    kept[least].append(partition)
                    has_moved = True
