"""``Producer``: sends records in batches, from threads."""

# Made by python -m seglog.clients.blocking.generate.

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from seglog.clients.blocking.sending import BlockingSender
from seglog.clients.config import ProducerOptions
from seglog.clients.models import GroupMetadata, OffsetAndMetadata
from seglog.clients.producer.producer import AsyncProducer

if TYPE_CHECKING:
    from seglog.clients.offsets import ByPartition
    from seglog.clients.producer.transactions import HasGroup


class Producer(BlockingSender):
    """Sends records, in batches, to the partitions of topics.

    Records of one partition keep the order in which they were sent, also when requests fail and are
    tried again, and each is stored once (see ``enable_idempotence``). Use it as ``with``, or call
    ``close``. Threads may share it.

    With ``transactional_id`` everything is sent in transactions: ``with producer.transaction()``,
    or ``begin_transaction`` and ``commit_transaction``.

    Args:
        bootstrap_servers: "host:port" of a broker, several with commas or as a sequence.
        **options: see ``ProducerConfig``.

    Raises:
        ConfigurationError: an option that cannot be right.
        BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
        BrokerError: the broker does not give the transactional id.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__(AsyncProducer(bootstrap_servers, **options), "seglog-producer")

    def flush(self, timeout: float | None = None) -> None:
        """Send the buffered records now, without lingering, and wait for their outcome.

        Args:
            timeout: seconds; None waits until the delivery timeout has decided everything.

        Raises:
            FlushTimeoutError: not everything is decided in time.
            ClientError: the first error since the last ``flush`` that was not read.
        """
        self._call(self._twin.flush(timeout))

    def begin_transaction(self) -> None:
        """Open a transaction: records sent from now on are part of it.

        Raises:
            TransactionStateError: one is open, or the producer has no transactional id.
            ProducerFencedError: another producer has taken the transactional id over.
        """
        self._call(self._twin.begin_transaction())

    def commit_transaction(self) -> None:
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
        self._call(self._twin.commit_transaction())

    def abort_transaction(self) -> None:
        """End the transaction without effect; records that have not left yet never do.

        Raises:
            TransactionStateError: no transaction is open, or it is being committed.
            ProducerFencedError: another producer has taken the transactional id over.
            ClientTimeoutError, BrokerConnectionError: no answer within ``max_block_ms``; call it
                again.
        """
        self._call(self._twin.abort_transaction())

    def send_offsets_to_transaction(
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
        self._call(self._twin.send_offsets_to_transaction(offsets, group))
