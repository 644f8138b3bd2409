"""TransactionTable: every transactional id of this broker, and whether it may be asked for yet.

After a start the states are read back from ``__transaction_state``. Until that is done everything
is answered with COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from seglog.broker.coordinator.internal_topics.loading import TopicLoader
from seglog.broker.coordinator.internal_topics.records import Place
from seglog.broker.coordinator.transactions.replay import TransactionReplay
from seglog.broker.coordinator.transactions.state import (
    AT_REST,
    PREPARED,
    TransactionMetadata,
    TransactionState,
)
from seglog.broker.coordinator.transactions.store import TRANSACTION_TOPIC, TransactionStore
from seglog.broker.errors import RequestError
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import StorageError
from seglog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

TRANSACTIONAL_ID_BYTES_MAX: Final = 32_767
"""What the length of a string in a record key can say."""


@dataclass(slots=True, eq=False)
class Transaction:
    """One transactional id.

    Attributes:
        metadata: its state, as the log has it.
        unmarked: of a decided transaction, the partitions whose marker is still to be written.
        is_repeat: whether markers may have been written before a start.
        is_waiting: whether something that it has logged is not yet as durable as it has to be.
        acknowledged: done when ``metadata`` is as durable as that; None where it was so at once.
    """

    metadata: TransactionMetadata
    unmarked: set[Place] = field(default_factory=set)
    is_repeat: bool = False
    is_waiting: bool = False
    acknowledged: "asyncio.Future[None] | None" = None

    @property
    def not_durable(self) -> "asyncio.Future[None] | None":
        """The future that an answer about ``metadata`` has to wait for; None if it is durable."""
        acknowledged = self.acknowledged
        if acknowledged is None or (acknowledged.done() and acknowledged.exception() is None):
            return None
        return acknowledged


@dataclass(slots=True)
class TransactionCounters:
    """What the coordinator has counted; a collector reads it.

    Attributes:
        commits: transactions that were committed.
        aborts: transactions that were aborted, for any reason.
        timeouts: those of them that had taken too long.
        expired_ids: unused transactional ids that were forgotten.
        failed_markers: attempts to write a marker that have to be made again.
        load_faults: records of the internal topic that could not be read at the start.
    """

    commits: int = 0
    aborts: int = 0
    timeouts: int = 0
    expired_ids: int = 0
    failed_markers: int = 0
    load_faults: int = 0


class TransactionTable:
    """The transactional ids.

    Args:
        services: of the broker.
        store: where their states are.

    Attributes:
        counters: what happened to transactions.
    """

    def __init__(self, services: Services, store: TransactionStore) -> None:
        self.counters = TransactionCounters()
        self._services = services
        self._store = store
        self._transactions: dict[str, Transaction] = {}
        self._loader = TopicLoader(
            services, store, TransactionReplay, self._take_over, _warn_not_loaded
        )
        self._is_loading = False
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._transactions.values()))

    # ---- access

    @property
    def is_loading(self) -> bool:
        """Whether some transactional ids may not be known yet."""
        return self._is_loading

    @property
    def is_stopped(self) -> bool:
        """Whether the broker is stopping."""
        return self._is_stopped

    def check(self, transactional_id: str) -> None:
        """Check whether a transactional id can be worked on.

        Raises:
            RequestError: its name is illegal, or it is not available now.
        """
        if self._is_stopped:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        if not transactional_id:
            raise RequestError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if (
            len(transactional_id) > TRANSACTIONAL_ID_BYTES_MAX // 4
            and len(transactional_id.encode()) > TRANSACTIONAL_ID_BYTES_MAX
        ):
            raise RequestError(ErrorCode.INVALID_REQUEST, "the transactional id is too long")
        if self._is_loading:
            raise RequestError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{TRANSACTION_TOPIC} is being read"
            )
        self._loader.check(transactional_id)

    def find(self, transactional_id: str) -> Transaction | None:
        """A transactional id, None if it is not known."""
        return self._transactions.get(transactional_id)

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """The state of a transactional id, None if it is not known."""
        found = self._transactions.get(transactional_id)
        return None if found is None else found.metadata

    def add(self, transaction: Transaction) -> None:
        """Take a transactional id in."""
        name = transaction.metadata.transactional_id
        assert name not in self._transactions, name
        self._transactions[name] = transaction

    def remove(self, transaction: Transaction) -> None:
        """Forget a transactional id."""
        del self._transactions[transaction.metadata.transactional_id]

    def counts(self) -> dict[TransactionState, int]:
        """How many transactional ids are in each state."""
        counts = dict.fromkeys(TransactionState, 0)
        for each in self._transactions.values():
            counts[each.metadata.state] += 1
        return counts

    def oldest_start_ms(self) -> int | None:
        """When the oldest transaction that is not completed began, None if all are."""
        return min(
            (
                each.metadata.started_ms
                for each in self._transactions.values()
                if each.metadata.state not in AT_REST
            ),
            default=None,
        )

    def highest_producer_id(self) -> int:
        """The highest producer id that is known here, -1 if there is none."""
        return max(
            (
                max(each.metadata.producer_id, each.metadata.next_producer_id)
                for each in self._transactions.values()
            ),
            default=-1,
        )

    # ---- loading

    def start(
        self,
        groups_loaded: Callable[[], Awaitable[None]],
        go_on: Callable[[Transaction], object],
    ) -> None:
        """Begin to read stored state.

        Args:
            groups_loaded: waits until the offsets of groups are read back: an end that is carried
                out again may concern them.
            go_on: told of each transaction whose end was decided and not completed.
        """
        self._is_loading = True
        self._loader.start(partial(self._load_all, groups_loaded, go_on))

    async def loaded(self) -> None:
        """Wait until everything is known that can be."""
        await self._loader.loaded()

    async def stop(self) -> None:
        """Be of no further use."""
        self._is_stopped = True
        await self._loader.stop()

    async def _load_all(
        self,
        groups_loaded: Callable[[], Awaitable[None]],
        go_on: Callable[[Transaction], object],
    ) -> None:
        started_ms = self._services.clock.monotonic_ms()
        await self._loader.load(self._services.config.transaction_state_log_load_buffer_size)
        await groups_loaded()
        self._is_loading = False
        if self._store.exists:
            logger.info(
                "event=transactions-loaded transactional_ids=%d faults=%d milliseconds=%d",
                len(self._transactions),
                self.counters.load_faults,
                self._services.clock.monotonic_ms() - started_ms,
            )
        for transaction in self:
            if transaction.metadata.state in PREPARED:
                go_on(transaction)
                # There may be many of them.
                await asyncio.sleep(0)

    def _take_over(self, replay: TransactionReplay) -> None:
        self.counters.load_faults += replay.faults
        for name, metadata in replay.transactions.items():
            known = self._transactions.get(name)
            if known is not None and known.metadata.updated_ms > metadata.updated_ms:
                # Files of a cluster that had other partitions here: the later word counts.
                continue
            is_decided = metadata.state in PREPARED
            unmarked = set(metadata.partitions) if is_decided else set()
            self._transactions[name] = Transaction(metadata, unmarked, is_decided)


def _warn_not_loaded(number: int, error: StorageError) -> None:
    logger.warning("event=transactions-not-loaded partition=%d error=%s", number, error)
