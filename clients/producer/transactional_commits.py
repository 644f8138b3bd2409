"""Committing the offsets of a group as part of a transaction."""

from typing import Final

from seglog.clients.coordinator import CoordinatorClient
from seglog.clients.group.commits import (
    Member,
    OffsetCommits,
    Offsets,
    Standing,
    commit_partitions,
)
from seglog.clients.models import GroupMetadata
from seglog.clients.producer.identity import ProducerIdentity
from seglog.protocol.api import TxnOffsetCommitRequest
from seglog.protocol.errors import ErrorCode

FATAL_ERRORS: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Answers after which the producer has to be closed."""
_ABOUT_THE_TRANSACTION: Final = FATAL_ERRORS | {
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.TRANSACTION_ABORTABLE,
}


class Described(Member):
    """An identity for commits, that of the described consumer."""

    def __init__(self, metadata: GroupMetadata) -> None:
        self._standing = Standing(metadata.generation, metadata.member_id, metadata.instance_id)

    def standing(self) -> Standing:
        return self._standing


class TransactionalCommits(OffsetCommits):
    """Stores offsets as part of a transaction."""

    about_all = OffsetCommits.about_all | _ABOUT_THE_TRANSACTION

    def __init__(
        self,
        coordinator: CoordinatorClient,
        member: Member,
        transactional_id: str,
        identity: ProducerIdentity,
    ) -> None:
        super().__init__(coordinator, member)
        self._transactional_id = transactional_id
        self._identity = identity

    def request(self, standing: Standing, offsets: Offsets) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            self._transactional_id,
            self._coordinator.key,
            self._identity.producer_id,
            self._identity.epoch,
            commit_partitions(offsets),
            standing.generation,
            standing.member_id,
            standing.instance_id,
            may_add=True,
        )
