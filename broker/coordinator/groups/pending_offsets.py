"""PendingOffsets: what open transactions have stored for one group, until their end decides it."""

from collections.abc import Collection, Mapping

from seglog.broker.coordinator.groups.records import CommittedOffset
from seglog.broker.coordinator.internal_topics.records import Place


class PendingOffsets:
    """The undecided offsets of one group, by the producer whose transaction they are part of."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Place, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def __contains__(self, place: Place) -> bool:
        return any(place in offsets for offsets in self._by_producer.values())

    def places(self) -> set[Place]:
        """Every place that some transaction has an offset for."""
        return {place for offsets in self._by_producer.values() for place in offsets}

    def add(self, producer_id: int, offsets: Mapping[Place, CommittedOffset]) -> None:
        """Keep offsets of a producer's transaction; the last one of a place counts."""
        self._by_producer.setdefault(producer_id, {}).update(offsets)

    def take(self, producer_id: int) -> dict[Place, CommittedOffset]:
        """Hand out what a producer's transaction has, and keep it no longer."""
        return self._by_producer.pop(producer_id, {})

    def forget(self, places: Collection[Place]) -> None:
        """Drop the offsets of transactions for some places: a tombstone counts for these too."""
        for producer_id, offsets in list(self._by_producer.items()):
            for place in places:
                offsets.pop(place, None)
            if not offsets:
                del self._by_producer[producer_id]


def put_into_force(
    offsets: dict[Place, CommittedOffset], decided: Mapping[Place, CommittedOffset]
) -> None:
    """Take over offsets of a committed transaction where none was stored after them.

    What counts is where a record is in the log, not when its transaction ended: compaction keeps
    the last record of a place, so anything else would be another answer after a restart.
    """
    for place, committed in decided.items():
        current = offsets.get(place)
        if current is None or current.record_offset < committed.record_offset:
            offsets[place] = committed
