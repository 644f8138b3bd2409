"""What a rebalance asks of the reader of a consumer, and whom it tells.

Partitions are given up between two records, never under the application's hands. So the membership
hands a step to the reader, and waits until it is done.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from enum import Enum, auto

from seglog.protocol.types import TopicPartition


class StepKind(Enum):
    """What happens to partitions."""

    ASSIGNED = auto()
    REVOKED = auto()
    LOST = auto()


class Step:
    """One step of a rebalance, for the reader.

    Args:
        kind: what happens.
        partitions: to which partitions.
    """

    __slots__ = ("done", "kind", "partitions")

    def __init__(self, kind: StepKind, partitions: Sequence[TopicPartition]) -> None:
        self.kind = kind
        self.partitions = list(partitions)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class RebalanceListener:
    """Is told when partitions come and go; derive from it and override what you need.

    The calls are made where the application reads: in the thread or task that iterates or calls
    ``read``. They may use the consumer. With an ``AsyncConsumer`` they may be coroutines.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are new; they begin at the committed offsets, unless one seeks elsewhere here."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These will be given up; their finished records can still be committed here."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are with others already, so nothing can be committed; as ``revoked`` by default."""
        return self.on_partitions_revoked(partitions)


def tell(listener: RebalanceListener | None, step: Step) -> Awaitable[None] | None:
    """Call the method of ``listener`` for a step; what it returns may have to be awaited."""
    if listener is None:
        return None
    match step.kind:
        case StepKind.ASSIGNED:
            return listener.on_partitions_assigned(step.partitions)
        case StepKind.REVOKED:
            return listener.on_partitions_revoked(step.partitions)
        case StepKind.LOST:
            return listener.on_partitions_lost(step.partitions)
