"""TransactionExpiry: ends transactions that take too long, forgets unused ids."""

import asyncio
import logging
from typing import Final

from seglog.broker.coordinator.transactions.endings import TransactionEndings
from seglog.broker.coordinator.transactions.producer_ids import ProducerIds
from seglog.broker.coordinator.transactions.records import transaction_tombstone
from seglog.broker.coordinator.transactions.store import TransactionStore
from seglog.broker.coordinator.transactions.table import Transaction, TransactionTable
from seglog.broker.coordinator.transactions.transitions import fence
from seglog.broker.requests.services import Services
from seglog.protocol.errors import SeglogError
from seglog.protocol.types import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

_SLICE: Final = 100
"""After so many at a time others get their turn."""


class TransactionExpiry:
    """What time does to transactional ids.

    Args:
        services: of the broker.
        table: of the transactional ids.
        store: of their states.
        endings: carries out aborts.
        producer_ids: gives new ones.
    """

    def __init__(
        self,
        services: Services,
        table: TransactionTable,
        store: TransactionStore,
        endings: TransactionEndings,
        producer_ids: ProducerIds,
    ) -> None:
        self._services = services
        self._table = table
        self._store = store
        self._endings = endings
        self._producer_ids = producer_ids

    async def abort_timed_out(self) -> None:
        """The task: abort transactions that are older than the timeout of their producer."""
        if self._table.is_loading:
            return
        now_ms = self._services.clock.time_ms()
        timed_out = [each for each in self._table if each.metadata.is_timed_out(now_ms)]
        for number, transaction in enumerate(timed_out, 1):
            try:
                await self._abort(transaction)
            except SeglogError as error:
                logger.warning(
                    "event=timeout-abort-failed transactional_id=%r error=%s",
                    transaction.metadata.transactional_id,
                    error,
                )
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    async def _abort(self, transaction: Transaction) -> None:
        fresh_id = NO_PRODUCER_ID
        if transaction.metadata.is_exhausted:
            fresh_id = await self._producer_ids.take_or_reserve()
        metadata = transaction.metadata
        now_ms = self._services.clock.time_ms()
        if not metadata.is_timed_out(now_ms):
            return
        # Its owner learns the new epoch by asking for it, and goes on (KIP-588).
        aborted = fence(metadata, now_ms, fresh_id, owner_goes_on=True)
        self._endings.decide(transaction, aborted)
        self._table.counters.timeouts += 1
        logger.info(
            "event=transaction-timed-out transactional_id=%r producer_id=%d epoch=%d "
            "partitions=%d age_ms=%d timeout_ms=%d",
            metadata.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            len(metadata.partitions),
            now_ms - metadata.started_ms,
            metadata.timeout_ms,
        )

    async def forget_unused(self) -> None:
        """The task: delete transactional ids that have not been used for long."""
        if self._table.is_loading:
            return
        config = self._services.config
        expiration_ms = config.transactional_id_expiration_ms
        now_ms = self._services.clock.time_ms()
        unused = [each for each in self._table if each.metadata.is_expired(now_ms, expiration_ms)]
        forgotten = 0
        for number, transaction in enumerate(unused, 1):
            if transaction.metadata.is_expired(now_ms, expiration_ms):
                forgotten += self._forget(transaction)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        self._table.counters.expired_ids += forgotten
        if forgotten:
            logger.info("event=transactional-ids-expired count=%d", forgotten)

    def _forget(self, transaction: Transaction) -> bool:
        name = transaction.metadata.transactional_id
        try:
            self._store.append(name, [transaction_tombstone(name)])
        except SeglogError as error:
            logger.warning(
                "event=transactional-id-not-expired transactional_id=%r error=%s", name, error
            )
            return False
        self._table.remove(transaction)
        return True
