"""One producer's transactions, one after the other: owner, open transaction, end.

The producer takes its transactional id over when it starts, which ends what a predecessor left
open and shuts that one out. Within a transaction everything goes on as without, only that nothing
is given another number: an error means that the transaction is aborted, and with its end the epoch
is raised. So whatever is still under way then is refused by the broker, and each transaction begins
its batches with number 0.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from seglog.clients.cluster import Cluster
from seglog.clients.config import ProducerConfig
from seglog.clients.coordinator import CoordinatorClient
from seglog.clients.errors import (
    BrokerError,
    ClientError,
    ProducerFencedError,
    TransactionAbortedError,
    broker_error,
)
from seglog.clients.models import GroupMetadata, OffsetAndMetadata
from seglog.clients.offsets import ByPartition, checked_offsets
from seglog.clients.producer.accumulator import RecordAccumulator
from seglog.clients.producer.batch import Outcome
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.producer.transaction_progress import State, TransactionProgress
from seglog.clients.producer.transactional_commits import (
    FATAL_ERRORS,
    Described,
    TransactionalCommits,
)
from seglog.clients.retry import answered_in_time
from seglog.protocol.api import (
    CoordinatorType,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import NO_PRODUCER_ID
from seglog.protocol.wording import naming


class HasGroup(Protocol):
    """A consumer, as far as it is of interest here."""

    def group_metadata(self) -> GroupMetadata: ...


class Transactions:
    """Carries the transactions of one producer out. Belongs to the loop.

    Args:
        config: of the producer, with a transactional id.
        cluster: connections and pauses.
        identity: gets the id and epoch.
        accumulator: where the records are that are not acknowledged.
        wake: lets the buffered records leave.

    Attributes:
        progress: how far they are.
    """

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        identity: ProducerIdentity,
        accumulator: RecordAccumulator,
        wake: Callable[[], object],
    ) -> None:
        assert config.transactional_id is not None
        self.transactional_id = config.transactional_id
        self.progress = TransactionProgress(config.transactional_id, config.transaction_timeout_ms)
        self._config = config
        self._cluster = cluster
        self._identity = identity
        self._accumulator = accumulator
        self._wake = wake
        self._coordinator = CoordinatorClient(
            cluster, self.transactional_id, CoordinatorType.TRANSACTION
        )

    # Owning the id.

    async def own(self) -> None:
        """Become the owner of the transactional id, or stay it after an error.

        Raises:
            ProducerFencedError: another producer has become the owner since.
            BrokerError: the broker refuses, for example a timeout over its limit.
            ClientTimeoutError, BrokerConnectionError: no answer within ``max_block_ms``.
        """
        request = InitProducerIdRequest(
            self.transactional_id,
            self._config.transaction_timeout_ms,
            self._identity.producer_id,
            self._identity.epoch,
        )
        try:
            response: InitProducerIdResponse = await self._ask(request)
        except BrokerError as error:
            raise self.progress.noted(error) from None
        self._identity.restart(response.producer_id, response.producer_epoch)
        self.progress.must_own_again = False

    # The steps of a transaction.

    async def begin(self) -> None:
        """Open a transaction; see ``AsyncProducer.begin_transaction``."""
        progress = self.progress
        if progress.state is not State.IDLE:
            raise progress.refusal("to begin another")
        if progress.must_own_again:
            await self.own()
        progress.enter(State.OPEN)
        self._wake()

    async def commit(self) -> None:
        """End the transaction; see ``AsyncProducer.commit_transaction``."""
        progress = self.progress
        if progress.state is State.OPEN:
            await self._flush()
            if not progress.has_written:
                progress.enter(State.IDLE)
                return
            progress.state = State.COMMITTING
        elif progress.state is not State.COMMITTING:
            raise progress.refusal("to commit")
        try:
            await self._end(commit=True)
        except BrokerError as error:
            if error.code in FATAL_ERRORS:
                raise progress.noted(error) from None
            if error.retriable:
                raise
            if error.code is ErrorCode.INVALID_TXN_STATE:
                limit = f"transaction_timeout_ms={self._config.transaction_timeout_ms}"
                words = f"the broker has aborted it, as it does with what takes longer than {limit}"
                error = BrokerError(f"{progress.about}: {words}", error.code)
            progress.fail(error)
            raise progress.refusal("to commit") from error

    async def abort(self) -> None:
        """End it without effect; see ``AsyncProducer.abort_transaction``."""
        progress = self.progress
        if not progress.may_abort:
            raise progress.refusal("to abort")
        progress.state = State.ABORTING
        error = TransactionAbortedError(f"{progress.about}: the transaction was aborted")
        for batch in self._accumulator.pending():
            batch.mark_error_seen()
            self._accumulator.finish(batch, Outcome(error=error))
        if not progress.has_written:
            progress.enter(State.IDLE)
            return
        if progress.must_own_again:
            # The owner gets the next epoch, with which the broker aborts an open transaction.
            await self.own()
            progress.enter(State.IDLE)
            return
        try:
            await self._end(commit=False)
        except BrokerError as refusal:
            if refusal.code is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise progress.noted(refusal) from None
            # The broker has forgotten the id, and with it any open transaction. If another
            # producer has it now, the next request gets an error.
            progress.must_own_again = True
            progress.enter(State.IDLE)

    async def give_up(self) -> None:
        """Abort an open transaction, if possible; for use when there is another error to raise."""
        if not self.progress.may_abort:
            return
        try:
            await self.abort()
        except ProducerFencedError as error:
            self._cluster.warn(
                "producer: %s; its transaction was aborted then", naming(self.progress.about, error)
            )
        except ClientError as error:
            self._cluster.warn(
                "producer: %s; its transaction times out", naming(self.progress.about, error)
            )

    async def abandon(self, timeout_s: float | None) -> None:
        """The producer is about to close: abort an open transaction, within the remaining time."""
        if not self.progress.may_abort:
            return
        self._cluster.warn(
            "producer: %s: closed with a transaction open: aborted", self.progress.about
        )
        try:
            async with asyncio.timeout(timeout_s):
                await self.give_up()
        except TimeoutError:
            self._cluster.warn(
                "producer: %s: not aborted in time, it times out", self.progress.about
            )

    async def send_offsets(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: str | GroupMetadata | HasGroup
    ) -> None:
        """Commit offsets with the transaction; see ``AsyncProducer``."""
        progress = self.progress
        if progress.state is not State.OPEN:
            raise progress.refusal("to send offsets")
        checked = checked_offsets(offsets)
        if isinstance(group, str):
            metadata = GroupMetadata(group)
        else:
            metadata = group if isinstance(group, GroupMetadata) else group.group_metadata()
        if not checked:
            return
        progress.has_written = True
        commits = TransactionalCommits(
            CoordinatorClient(self._cluster, metadata.group),
            Described(metadata),
            self.transactional_id,
            self._identity,
        )
        try:
            await commits.commit(checked, self._config.max_block_ms / 1000)
        except ClientError as error:
            raise progress.failed(error) from error.__cause__

    # Inner life.

    async def _flush(self) -> None:
        progress = self.progress
        progress.state = State.FLUSHING
        try:
            batches = self._accumulator.pending()
            self._wake()
            for batch in batches:
                await batch.wait_async()
                batch.mark_error_seen()
        finally:
            if progress.state is State.FLUSHING:
                progress.state = State.OPEN
        if progress.state is not State.OPEN:
            raise progress.refusal("to commit")

    async def _end(self, *, commit: bool) -> None:
        identity = self._identity
        request = EndTxnRequest(
            self.transactional_id,
            identity.producer_id,
            identity.epoch,
            commit,
            bumps_epoch=True,
        )
        response: EndTxnResponse = await self._ask(request)
        if NO_PRODUCER_ID in (response.producer_id, response.producer_epoch):
            words = "the broker named no epoch for the next transaction"
            raise broker_error(ErrorCode.UNSUPPORTED_VERSION, words, self.progress.about)
        identity.restart(response.producer_id, response.producer_epoch)
        self.progress.enter(State.IDLE)

    async def _ask(self, request: Any) -> Any:
        """Ask the coordinator, again while that can help and ``max_block_ms`` are not over."""
        return await answered_in_time(
            partial(self._ask_once, request),
            self._config.max_block_ms / 1000,
            self._coordinator.pause_s,
            on_retry=self._warn_unless_usual,
        )

    async def _ask_once(self, request: Any, left_s: float) -> Any:
        timeout_s = min(self._config.request_timeout_ms / 1000, left_s)
        response = await self._coordinator.ask(request, timeout_s)
        if response.error is not ErrorCode.NONE:
            raise self._coordinator.error(response.error)
        return response

    def _warn_unless_usual(self, error: ClientError) -> None:
        # To wait for the end of the transaction before is part of the protocol.
        is_usual = (
            isinstance(error, BrokerError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        )
        if not is_usual:
            self._coordinator.warn(error)
