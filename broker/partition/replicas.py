"""The replicas of a partition, and their limits: the part that replication will change.

Everything above asks these questions instead of assuming that a log is alone: how far the high
watermark may go after an append, and whether enough replicas are in sync to accept one.
"""

from typing import Protocol


class ReplicaState(Protocol):
    """The progress of the replicas of one partition, as its leader knows it."""

    @property
    def replica_ids(self) -> list[int]:
        """All replicas, the preferred leader first."""
        ...

    @property
    def in_sync_ids(self) -> list[int]:
        """The replicas that have kept up, the leader among them."""
        ...

    @property
    def in_sync_count(self) -> int:
        """How many replicas have kept up."""
        ...

    def high_watermark(self, log_end_offset: int) -> int:
        """The first offset not yet on all in-sync replicas, while the leader's log ends there."""
        ...


class SoleReplica:
    """A partition whose only replica is this broker: written records are on all replicas."""

    __slots__ = ("_node_id",)

    in_sync_count = 1

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    @property
    def replica_ids(self) -> list[int]:
        """This broker."""
        return [self._node_id]

    @property
    def in_sync_ids(self) -> list[int]:
        """This broker."""
        return [self._node_id]

    def high_watermark(self, log_end_offset: int) -> int:
        """The end of the log."""
        return log_end_offset
