"""Which neighbouring segments become one when they are rewritten (SEG-1)."""

from collections.abc import Iterable

from seglog.broker.storage.cleaner.plan import SourceSegment
from seglog.protocol.types import INT32_MAX


def group_segments(
    segments: Iterable[SourceSegment], max_bytes: int, max_index_bytes: int
) -> list[list[SourceSegment]]:
    """Neighbours that together stay within the size of one segment, of its indexes and its offsets.

    A segment over the limits by itself is a group of its own. An empty segment joins regardless of
    its offsets, so that empty ones do not pile up.
    """
    groups: list[list[SourceSegment]] = []
    for segment in segments:
        if groups and _fits(groups[-1], segment, max_bytes, max_index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: list[SourceSegment], segment: SourceSegment, max_bytes: int, max_index_bytes: int
) -> bool:
    joined = [*group, segment]
    if sum(each.size_bytes for each in joined) > max_bytes:
        return False
    if sum(each.offset_index_bytes for each in joined) > max_index_bytes:
        return False
    if sum(each.time_index_bytes for each in joined) > max_index_bytes:
        return False
    last_offset = segment.end_offset - 1
    return segment.size_bytes == 0 or last_offset - group[0].base_offset <= INT32_MAX
