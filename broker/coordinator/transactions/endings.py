"""TransactionEndings: carries out decisions, in an order that survives a crash at any point.

The decision goes into the log first (PrepareCommit or PrepareAbort), then a marker into each
partition, then that all is done (CompleteCommit or CompleteAbort). Each step waits until the one
before is as durable as acknowledged records are: with the page cache that is at once, with
``flush.messages`` it takes syncs. A start that finds a decision without its completion writes the
markers that are missing.

A marker that cannot be written, because the disk is full or its directory has failed, is tried
again until it can be, or until the partition is deleted. Meanwhile the transactional id is answered
with CONCURRENT_TRANSACTIONS.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeAlias

from seglog.broker.coordinator.internal_topics.answers import coordinator_error
from seglog.broker.coordinator.internal_topics.records import Place
from seglog.broker.coordinator.transactions.markers import MarkerWriter
from seglog.broker.coordinator.transactions.records import transaction_record
from seglog.broker.coordinator.transactions.state import PREPARED, TransactionMetadata
from seglog.broker.coordinator.transactions.store import TransactionStore
from seglog.broker.coordinator.transactions.table import Transaction, TransactionTable
from seglog.broker.coordinator.transactions.transitions import complete
from seglog.broker.errors import RequestError
from seglog.broker.requests.services import Services
from seglog.broker.runtime.scheduler import Scheduler
from seglog.protocol.errors import ErrorCode, RecordError, SeglogError

logger = logging.getLogger(__name__)

RETRY_TASK: Final = "transaction-markers"
RETRY_INTERVAL_MS: Final = 1_000
_SLICE: Final = 200
"""After so many markers others get their turn: some 10 ms."""

Acknowledgement: TypeAlias = asyncio.Future[None]
_Waits: TypeAlias = list[tuple[Place, Acknowledgement]]


class TransactionEndings:
    """Logs states and writes markers.

    Args:
        services: of the broker.
        scheduler: for further attempts.
        table: of the transactional ids.
        store: of their states.
        markers: writes into partitions.
    """

    def __init__(
        self,
        services: Services,
        scheduler: Scheduler,
        table: TransactionTable,
        store: TransactionStore,
        markers: MarkerWriter,
    ) -> None:
        self._services = services
        self._scheduler = scheduler
        self._table = table
        self._store = store
        self._markers = markers
        self._unfinished: set[Transaction] = set()
        self._is_retry_due = False
        self._waiting: set[asyncio.Task[None]] = set()

    @property
    def unfinished(self) -> int:
        """How many transactions wait for markers that could not be written."""
        return len(self._unfinished)

    def log(
        self, transaction: Transaction, metadata: TransactionMetadata
    ) -> Acknowledgement | None:
        """Put a state into force.

        Returns:
            What an answer that promises it has to wait for, None if it may be given at once.

        Raises:
            RequestError: it could not be stored; the state is as before.
        """
        try:
            record = transaction_record(metadata)
            acknowledged = self._store.append(metadata.transactional_id, [record])
        except SeglogError as error:
            raise coordinator_error(error) from error
        transaction.metadata, transaction.acknowledged = metadata, acknowledged
        return acknowledged

    def decide(
        self, transaction: Transaction, metadata: TransactionMetadata
    ) -> Acknowledgement | None:
        """Put a decision into force and carry it out; returns and raises as ``log`` does."""
        assert metadata.state in PREPARED, metadata
        acknowledged = self.log(transaction, metadata)
        transaction.unmarked = set(metadata.partitions)
        transaction.is_repeat = False
        counters = self._table.counters
        if metadata.is_commit:
            counters.commits += 1
        else:
            counters.aborts += 1
        if acknowledged is None:
            return self.go_on(transaction)
        transaction.is_waiting = True
        self._later(self._go_on_when_logged(transaction, acknowledged))
        return acknowledged

    def go_on(self, transaction: Transaction) -> Acknowledgement | None:
        """Write the markers that are missing, and that all is done once it is.

        Returns:
            Done when each was tried once, if they are too many to be written at once.
        """
        if transaction.is_waiting or transaction.metadata.state not in PREPARED:
            return None
        places = sorted(transaction.unmarked)
        if len(places) <= _SLICE:
            self._marked(transaction, self._mark_some(transaction, places))
            return None
        transaction.is_waiting = True
        tried: Acknowledgement = asyncio.get_running_loop().create_future()
        self._later(self._mark_in_slices(transaction, places, tried))
        return tried

    def _mark_some(self, transaction: Transaction, places: Sequence[Place]) -> _Waits:
        return [
            (place, acknowledged)
            for place in places
            if (acknowledged := self._mark(transaction, place)) is not None
        ]

    async def _mark_in_slices(
        self, transaction: Transaction, places: Sequence[Place], tried: Acknowledgement
    ) -> None:
        waits: _Waits = []
        try:
            for start in range(0, len(places), _SLICE):
                waits += self._mark_some(transaction, places[start : start + _SLICE])
                await asyncio.sleep(0)
        finally:
            # The decision is stored: if the broker stops amid this, the next start does the rest.
            tried.set_result(None)
        transaction.is_waiting = False
        self._marked(transaction, waits)

    def _marked(self, transaction: Transaction, waits: _Waits) -> None:
        """All markers were tried once; go on with what that has led to."""
        if waits:
            transaction.is_waiting = True
            self._later(self._go_on_when_marked(transaction, waits))
        elif transaction.unmarked or not self._complete(transaction):
            self._try_again(transaction)

    async def stop(self, deadline_seconds: float) -> None:
        """Let what waits for the disk come to its end, if that is soon; a start does the rest."""
        if self._waiting:
            await asyncio.wait(set(self._waiting), timeout=deadline_seconds)
        for task in self._waiting:
            task.cancel()

    # ---- steps

    def _mark(self, transaction: Transaction, place: Place) -> Acknowledgement | None:
        """Write one marker if that is possible; what its durability waits for."""
        metadata = transaction.metadata
        try:
            acknowledged = self._markers.write(
                place,
                metadata.owner,
                commit=metadata.is_commit,
                coordinator_epoch=self._coordinator_epoch(metadata, place),
                transaction_version=metadata.client_version,
                is_repeat=transaction.is_repeat,
            )
        except SeglogError as error:
            # Where nothing is open, as after a refused batch, readers miss nothing without it, and
            # the coordinator lets nothing more of this transaction in.
            is_needless = self._markers.has_nothing_open(place, metadata.producer_id)
            if not (is_needless or _is_pointless(error)):
                self._table.counters.failed_markers += 1
                # An offline directory stays so until a restart: said once, tried every second.
                is_first = transaction not in self._unfinished
                logger.log(
                    logging.WARNING if is_first else logging.DEBUG,
                    "event=marker-not-written transactional_id=%r partition=%s-%d error=%s",
                    metadata.transactional_id,
                    *place,
                    error,
                )
                return None
            logger.warning(
                "event=marker-left-out transactional_id=%r partition=%s-%d reason=%s",
                metadata.transactional_id,
                *place,
                error,
            )
            acknowledged = None
        transaction.unmarked.discard(place)
        return acknowledged

    def _coordinator_epoch(self, metadata: TransactionMetadata, place: Place) -> int:
        # There is no other coordinator. Files that have come from a cluster may tell of a later
        # term than the log of states does, and a marker of an earlier one would be refused.
        term = self._store.partition(metadata.transactional_id).leader_epoch
        return max(term, self._markers.known_coordinator_epoch(place, metadata.producer_id))

    def _complete(self, transaction: Transaction) -> bool:
        """Store that all markers are written; False if that is not possible now."""
        completed = complete(transaction.metadata, self._services.clock.time_ms())
        try:
            self.log(transaction, completed)
        except RequestError as error:
            logger.warning(
                "event=completion-not-stored transactional_id=%r error=%s",
                completed.transactional_id,
                error,
            )
            return False
        self._unfinished.discard(transaction)
        return True

    async def _go_on_when_logged(
        self, transaction: Transaction, acknowledged: Acknowledgement
    ) -> None:
        await asyncio.wait([acknowledged])
        if acknowledged.exception() is None:
            transaction.is_waiting = False
            self.go_on(transaction)
        # Otherwise it is unknown whether the decision is on the disk. It stays undone until the
        # next start, which finds it or finds the transaction open.

    async def _go_on_when_marked(self, transaction: Transaction, waits: _Waits) -> None:
        await asyncio.wait({acknowledged for _, acknowledged in waits})
        for place, acknowledged in waits:
            if acknowledged.exception() is not None:
                transaction.unmarked.add(place)
                transaction.is_repeat = True
        transaction.is_waiting = False
        self.go_on(transaction)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    # ---- further attempts

    def _try_again(self, transaction: Transaction) -> None:
        self._unfinished.add(transaction)
        if not self._is_retry_due and not self._table.is_stopped:
            self._is_retry_due = True
            self._scheduler.schedule(RETRY_TASK, self._retry, RETRY_INTERVAL_MS)

    def _retry(self) -> None:
        """The task: try the markers again that could not be written."""
        self._is_retry_due = False
        for transaction in list(self._unfinished):
            if not transaction.is_waiting:
                self.go_on(transaction)


def _is_pointless(error: SeglogError) -> bool:
    """Whether a marker need not, or can never, be written."""
    if isinstance(error, RequestError):
        # Deleted meanwhile. One that is offline has another code.
        return error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # A later owner has been there: its first batch has ended what this marker would have.
    return isinstance(error, RecordError) and error.code is ErrorCode.INVALID_PRODUCER_EPOCH
