"""Which partition a record goes to: Kafka's default rules."""

import random
from collections.abc import Callable
from typing import Final

from seglog.protocol.records.partitioning import partition_for_key

__all__ = ["StickyPartitioner", "partition_for_key"]

_NONE: Final = -1


class StickyPartitioner:
    """Keeps the records of a topic that have no key together until a batch is filled.

    Batches of one partition compress better and cost one request; over time each partition gets
    the same number of bytes.

    Args:
        turn_bytes: how many bytes of records a partition gets before it is the next one's turn.
        randrange: ``randrange(n)`` gives a number below n; where to begin.
    """

    __slots__ = ("_partition", "_randrange", "_turn_bytes", "bytes_left")

    def __init__(self, turn_bytes: int, randrange: Callable[[int], int] = random.randrange) -> None:
        self._turn_bytes = turn_bytes
        self._randrange = randrange
        self._partition = _NONE
        self.bytes_left = 0
        """How much the partition whose turn it is gets yet."""

    def partition_for(self, size_bytes: int, partition_count: int) -> int:
        """Return the partition for the next record without a key, which takes ``size_bytes``."""
        if size_bytes > self.bytes_left or self._partition >= partition_count:
            if self._partition == _NONE:
                self._partition = self._randrange(partition_count)
            else:
                self._partition = (self._partition + 1) % partition_count
            self.bytes_left = self._turn_bytes
        self.bytes_left -= size_bytes
        return self._partition
