"""What an application does about transactions: begin, send offsets, commit or abort."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from seglog.clients.errors import (
    ClientClosedError,
    ClientError,
    TransactionAbortedError,
    TransactionStateError,
)
from seglog.clients.models import GroupMetadata, OffsetAndMetadata

if TYPE_CHECKING:
    # A program that sends outside of transactions must not pay for them.
    from seglog.clients.offsets import ByPartition
    from seglog.clients.producer.dispatcher import Dispatcher
    from seglog.clients.producer.sender import Sender
    from seglog.clients.producer.transactions import HasGroup, Transactions


class TransactionalSteps:
    """The part of ``AsyncProducer`` that is about transactions."""

    _transactions: "Transactions | None"
    _sender: "Sender | None"
    _dispatcher: "Dispatcher"
    _refusal: str

    async def begin_transaction(self) -> None:
        """Open a transaction: records sent from now on are part of it.

        Raises:
            TransactionStateError: one is open, or the producer has no transactional id.
            ProducerFencedError: another producer has taken the transactional id over.
        """
        await self._in_transactions().begin()

    async def commit_transaction(self) -> None:
        """Wait for everything that was sent, then commit it with the offsets: all or nothing.

        Where it ends with a time-out or a lost connection the commit may have been done; call it
        again to find out.

        Raises:
            TransactionAbortedError: something in the transaction has failed, or it took longer than
                ``transaction_timeout_ms``: abort it.
            TransactionStateError: no transaction is open.
            ProducerFencedError: another producer has taken the transactional id over.
            ClientTimeoutError, BrokerConnectionError: no answer within ``max_block_ms``.
        """
        try:
            await self._in_transactions().commit()
        except ClientError:
            # It tells of them.
            self._forget_errors()
            raise

    async def abort_transaction(self) -> None:
        """End the transaction without effect; records that have not left yet never do.

        Raises:
            TransactionStateError: no transaction is open, or it is being committed.
            ProducerFencedError: another producer has taken the transactional id over.
            ClientTimeoutError, BrokerConnectionError: no answer within ``max_block_ms``; call it
                again.
        """
        await self._in_transactions().abort()
        self._forget_errors()

    async def send_offsets_to_transaction(
        self,
        offsets: "ByPartition[int | OffsetAndMetadata]",
        group: "str | GroupMetadata | HasGroup",
    ) -> None:
        """Commit how far a group has come, together with the transaction.

        Args:
            offsets: of each partition the offset of the next record to read; ``positions()`` of a
                consumer, for example.
            group: the consumer, which has to have ``auto_commit=False``; what its
                ``group_metadata()`` returns; or the name of a group without members.

        Raises:
            CommitFailedError: the consumer is no member of its group (any more).
            OffsetCommitError: some offsets are refused.
            TransactionStateError: no transaction is open.
            ClientError: anything else; the transaction can then only be aborted.
        """
        await self._in_transactions().send_offsets(offsets, group)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction around a block: committed at its end, aborted if it raises."""
        await self.begin_transaction()
        try:
            yield
        except BaseException:
            await self._give_up()
            raise
        try:
            await self.commit_transaction()
        except TransactionAbortedError:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        await self._in_transactions().give_up()
        self._forget_errors()

    def _forget_errors(self) -> None:
        """The errors of records went with their transaction."""
        self._dispatcher.outcomes.failed_batches = []

    def _in_transactions(self) -> "Transactions":
        if self._transactions is None:
            raise TransactionStateError("the producer has no transactional_id")
        if self._refusal:
            raise ClientClosedError(self._refusal)
        if self._sender is None:
            raise ClientClosedError("the producer is not started")
        return self._transactions
