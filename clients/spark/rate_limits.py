"""How far one micro-batch goes: pure arithmetic on offsets."""

from collections.abc import Mapping
from typing import Final

from seglog.clients.spark.offset_maps import Offsets
from seglog.protocol.types import TopicPartition

_LEAST: Final = 1


def limited_ends(start: Mapping[TopicPartition, int], end: Offsets, limit: int) -> Offsets:
    """Ends such that no more than ``limit`` offsets lie between ``start`` and them.

    Every partition that has something gets one offset at the least, so that none is starved: with
    more of them than ``limit`` that many offsets are read. The rest is shared out in proportion to
    what each has left; what rounding leaves goes to those that it cost most.
    """
    available = {
        partition: offset - start[partition]
        for partition, offset in end.items()
        if offset > start[partition]
    }
    if sum(available.values()) <= limit:
        return dict(end)
    shares = dict.fromkeys(available, _LEAST)
    rest = {partition: count - _LEAST for partition, count in available.items()}
    to_share = max(0, limit - len(shares))
    total = sum(rest.values())
    remainders: list[tuple[int, TopicPartition]] = []
    for partition, count in rest.items():
        # One offset in each of more partitions than the limit: then there is no rest to share.
        whole, remainder = divmod(to_share * count, max(1, total))
        shares[partition] += whole
        remainders.append((-remainder, partition))
    left = max(limit, len(shares)) - sum(shares.values())
    for _, partition in sorted(remainders):
        if left and shares[partition] < available[partition]:
            shares[partition] += 1
            left -= 1
    return {
        partition: start[partition] + shares[partition] if partition in shares else offset
        for partition, offset in end.items()
    }


def offsets_for_bytes(
    start: Mapping[TopicPartition, int],
    end: Offsets,
    sizes: Mapping[TopicPartition, float],
    max_bytes: int,
) -> int:
    """How many of the offsets between ``start`` and ``end`` are about ``max_bytes``, at least one.

    ``sizes`` says how large a record is on average in each partition.
    """
    counts = {partition: max(0, offset - start[partition]) for partition, offset in end.items()}
    total = sum(counts.values())
    total_bytes = sum(count * sizes.get(partition, 0.0) for partition, count in counts.items())
    if total_bytes <= max_bytes:
        return max(1, total)
    return max(1, int(total * max_bytes / total_bytes))
