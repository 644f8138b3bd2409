"""Transactions: the parts of the transaction coordinator, put together."""

from collections.abc import Awaitable, Callable
from typing import Final

from seglog.broker.coordinator.internal_topics.topic import InternalTopic
from seglog.broker.coordinator.transactions.additions import TransactionAdditions
from seglog.broker.coordinator.transactions.coordinator import TransactionCoordinator
from seglog.broker.coordinator.transactions.endings import TransactionEndings
from seglog.broker.coordinator.transactions.expiry import TransactionExpiry
from seglog.broker.coordinator.transactions.markers import MarkerWriter
from seglog.broker.coordinator.transactions.producer_ids import ProducerIds
from seglog.broker.coordinator.transactions.store import TransactionStore
from seglog.broker.coordinator.transactions.table import TransactionTable
from seglog.broker.requests.services import Services
from seglog.broker.runtime.scheduler import Scheduler

TIMEOUT_TASK: Final = "transaction-abort-timed-out"
ID_EXPIRY_TASK: Final = "transactional-id-expiration"


class Transactions:
    """Everything about transactions.

    Args:
        services: of the broker.
        scheduler: for what comes round.
        offsets: the internal topic that holds the offsets of groups.

    Attributes:
        table: every transactional id.
        additions: adds to transactions, and lets records of them in.
        coordinator: makes owners and ends transactions.
        endings: transactions being ended.
        markers: writes into partitions.
        producer_ids: for all producers.
    """

    def __init__(self, services: Services, scheduler: Scheduler, offsets: InternalTopic) -> None:
        self._services = services
        self._scheduler = scheduler
        self._store = TransactionStore(services)
        self.table = TransactionTable(services, self._store)
        self.markers = MarkerWriter(services)
        self.producer_ids = ProducerIds(services, self._highest_producer_id)
        self.endings = TransactionEndings(
            services, scheduler, self.table, self._store, self.markers
        )
        self.additions = TransactionAdditions(services, self.table, offsets, self.endings)
        self.coordinator = TransactionCoordinator(
            services, self.table, self._store, self.endings, self.producer_ids
        )
        self._expiry = TransactionExpiry(
            services, self.table, self._store, self.endings, self.producer_ids
        )

    def start(self, groups_loaded: Callable[[], Awaitable[None]]) -> None:
        """Begin to read stored state, and schedule timeouts and expiry.

        Args:
            groups_loaded: waits until the offsets of groups are read back.
        """
        self.table.start(groups_loaded, self.endings.go_on)
        config = self._services.config
        for name, task, period_ms in (
            (
                TIMEOUT_TASK,
                self._expiry.abort_timed_out,
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            ),
            (
                ID_EXPIRY_TASK,
                self._expiry.forget_unused,
                config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
        ):
            self._scheduler.schedule(name, task, period_ms, period_ms)

    async def stop(self, deadline_seconds: float) -> None:
        """Be of no further use; what has begun comes to its end, if that is soon."""
        await self.table.stop()
        await self.endings.stop(deadline_seconds)
        await self._store.stop(deadline_seconds)

    async def _highest_producer_id(self) -> int:
        await self.table.loaded()
        return self.table.highest_producer_id()
