"""What an admin client can do about transactions."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from seglog.clients.cluster import Cluster
from seglog.clients.models import OpenTransaction, TransactionInfo
from seglog.clients.offsets import PartitionLike
from seglog.protocol.api import ListedTransaction

if TYPE_CHECKING:
    from seglog.clients.transaction_admin import TransactionAdmin


class TransactionTools:
    """The part of ``AsyncAdmin`` that is about transactions."""

    cluster: Cluster
    _timeout_s: float

    @property
    def _transactions(self) -> "TransactionAdmin":
        from seglog.clients.transaction_admin import TransactionAdmin

        return TransactionAdmin(self.cluster, self._timeout_s)

    async def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> Sequence[ListedTransaction]:
        """Transactional ids, by name.

        Args:
            states: only those in these states, if any are given.
            producer_ids: only those of these producers, if any are given.
            duration_ms: only those with a transaction that is open for longer; -1 takes all.
            pattern: a regular expression that whole names match.
        """
        return await self._transactions.matching(states, producer_ids, duration_ms, pattern)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionInfo]:
        """State, owner and partitions; raises ``TransactionalIdNotFoundError``."""
        return await self._transactions.describe(transactional_ids)

    async def open_transactions(
        self, partitions: Iterable[str | PartitionLike] | None = None
    ) -> list[OpenTransaction]:
        """Transactions that are open in partitions, and hold readers of decided records back.

        Args:
            partitions: topics or ``(topic, partition)`` pairs; None is all.

        Returns:
            By partition. One without ``transactional_id`` hangs: no coordinator will end it.
        """
        return await self._transactions.open_in(partitions)

    async def abort_transactions(self, transactional_ids: Iterable[str]) -> None:
        """Shut the producers of transactional ids out, and abort what they have open.

        Raises:
            TransactionalIdNotFoundError: there is no such id.
        """
        await self._transactions.abort(transactional_ids)

    async def abort_open_transaction(self, transaction: OpenTransaction) -> None:
        """End a hanging transaction in its partition, without effect.

        Its coordinator is not asked: one that has a transactional id is for
        ``abort_transactions``.
        """
        await self._transactions.abort_open(transaction)
