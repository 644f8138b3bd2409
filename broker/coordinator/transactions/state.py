"""The state of one transactional id, and values derived from it.

``transaction_ownership`` and ``transaction_steps`` say how it goes from one state to the next.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from seglog.broker.coordinator.internal_topics.records import Place
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP

EPOCH_MAX: Final = 32_767
EPOCH_BUMPING_VERSION: Final = 2
"""The client transaction version from which on every end raises the epoch."""


class TransactionState(StrEnum):
    """Where a transactional id stands; Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided, with markers still to be written."""
AT_REST: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)
"""Without a transaction."""


class Claim(NamedTuple):
    """The identity that a producer claims."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of one transactional id.

    Attributes:
        transactional_id: its name.
        producer_id: of its owner.
        producer_epoch: of its owner; -1 before the first one has been told.
        timeout_ms: how long a transaction of it may take.
        state: where it stands.
        partitions: of the transaction.
        last_producer_epoch: the epoch before, for an owner that asks again because the answer was
            lost; -1 if there is none. It is not stored.
        previous_producer_id: the id before, for the same reason; -1 if there was none.
        next_producer_id: the id that follows when the transaction is complete; -1 for the same.
        started_ms: when the last transaction began, -1 if none has.
        updated_ms: when it last took a step.
        client_version: the transaction version of the client, 0 to 2.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Place] = frozenset()
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the owner's next epoch needs a new producer id."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_commit(self) -> bool:
        """Whether it is being committed, or was."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def bumps_epoch(self) -> bool:
        """Whether its last transaction is one of those that end with a new epoch."""
        return self.client_version >= EPOCH_BUMPING_VERSION

    @property
    def owner(self) -> Claim:
        """What the owner of the transactional id has to say."""
        return Claim(self.producer_id, self.producer_epoch)

    @property
    def next_owner(self) -> Claim | None:
        """What the owner has to say once the transaction is complete, where it is told already.

        The end of the last epoch of a producer id hands the next id out when it is decided, and
        that is before the markers are written.
        """
        if self.next_producer_id == NO_PRODUCER_ID:
            return None
        return Claim(self.next_producer_id, 0)

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether its transaction has taken too long and is to be aborted."""
        return self.state is TransactionState.ONGOING and now_ms > self.started_ms + self.timeout_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether it was unused for so long that it may be forgotten."""
        return self.state in AT_REST and now_ms >= self.updated_ms + expiration_ms


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no producer may be given the epoch after this one."""
    return producer_epoch >= EPOCH_MAX - 1
