"""One producer's transactions, one after the other: who owns the id, what is open, how it ends.

The producer takes its transactional id over when it starts, which ends what a predecessor left
open and shuts that one out. Within a transaction everything goes on as without, only that nothing
is given another number: an error means that the transaction is aborted, and with its end the epoch
is raised. So whatever is still under way then is refused by the broker, and each transaction begins
its batches with number 0.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from seglog.clients.cluster import Cluster
from seglog.clients.config import ProducerConfig
from seglog.clients.errors import (
    BrokerError,
    ClientError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
    broker_error,
)
from seglog.clients.group.coordinator import GroupCoordinator
from seglog.clients.models import GroupMetadata, OffsetAndMetadata
from seglog.clients.offsets import ByPartition, checked_offsets
from seglog.clients.producer.accumulator import RecordAccumulator
from seglog.clients.producer.batch import Outcome
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.producer.transactional_commits import (
    FATAL_ERRORS,
    Described,
    TransactionalCommits,
)
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

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_IS_IT_OURS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""Errors of a transaction after which only InitProducerId tells whether the id is still ours."""


class State(Enum):
    """Where a producer is with its transactions."""

    IDLE = "no transaction is open"
    OPEN = "a transaction is open"
    FAILED = "the transaction can only be aborted"
    FLUSHING = "the transaction is about to be committed"
    COMMITTING = "the transaction is being committed, or is already"
    ABORTING = "the transaction is being aborted"
    FATAL = "the producer has to be closed"


_TO_BE_ABORTED: Final = frozenset({State.OPEN, State.FAILED, State.ABORTING})


class HasGroup(Protocol):
    """A consumer, as far as it is of interest here."""

    def group_metadata(self) -> GroupMetadata: ...


class Transactions:
    """The transactions of one producer. Belongs to the loop, but for ``check_open``.

    Args:
        config: of the producer, with a transactional id.
        cluster: connections and pauses.
        identity: gets the id and epoch.
        accumulator: where the records are that are not acknowledged.
        wake: lets what is in there leave.

    Attributes:
        state: where the producer is.
        has_written: whether the broker may know of the present transaction, or has to be told that
            its numbers are not used.
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
        self.state = State.IDLE
        self.has_written = False
        self._config = config
        self._cluster = cluster
        self._identity = identity
        self._accumulator = accumulator
        self._wake = wake
        self._coordinator = GroupCoordinator(
            cluster, self.transactional_id, CoordinatorType.TRANSACTION
        )
        self._about = f"transactional id {self.transactional_id}"
        self._error: ClientError | None = None
        self._must_own_again = False

    # Any thread.

    def check_open(self) -> None:
        """Whether records may be sent now.

        Raises:
            TransactionStateError: no transaction is open.
            TransactionAbortedError: the one that is has failed.
            ClientError: the producer has to be closed.
        """
        if self.state is not State.OPEN:
            raise self._refusal("to send records")

    @property
    def may_send(self) -> bool:
        """Whether records may leave: what slips in behind the end belongs to the next one."""
        return self.state not in {State.IDLE, State.COMMITTING, State.ABORTING}

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
            raise self._noted(error) from None
        self._identity.restart(response.producer_id, response.producer_epoch)
        self._must_own_again = False

    # The steps of a transaction.

    async def begin(self) -> None:
        """Open a transaction; see ``AsyncProducer.begin_transaction``."""
        if self.state is not State.IDLE:
            raise self._refusal("to begin another")
        if self._must_own_again:
            await self.own()
        self._error = None
        self.has_written = False
        self.state = State.OPEN
        self._wake()

    async def commit(self) -> None:
        """End the transaction; see ``AsyncProducer.commit_transaction``."""
        if self.state is State.OPEN:
            await self._flush()
            if not self.has_written:
                self.state = State.IDLE
                return
            self.state = State.COMMITTING
        elif self.state is not State.COMMITTING:
            raise self._refusal("to commit")
        try:
            await self._end(commit=True)
        except BrokerError as error:
            if error.code in FATAL_ERRORS:
                raise self._noted(error) from None
            if error.retriable:
                raise
            if error.code is ErrorCode.INVALID_TXN_STATE:
                limit = f"transaction_timeout_ms={self._config.transaction_timeout_ms}"
                words = f"the broker has aborted it, as it does with what takes longer than {limit}"
                error = BrokerError(f"{self._about}: {words}", error.code)
            self._fail(error)
            raise self._refusal("to commit") from error

    async def abort(self) -> None:
        """End it without effect; see ``AsyncProducer.abort_transaction``."""
        if self.state not in _TO_BE_ABORTED:
            raise self._refusal("to abort")
        self.state = State.ABORTING
        error = TransactionAbortedError(f"{self._about}: the transaction was aborted")
        for batch in self._accumulator.pending():
            batch.mark_error_seen()
            self._accumulator.finish(batch, Outcome(error=error))
        if not self.has_written:
            self._ended()
            return
        if self._must_own_again:
            # The owner gets the next epoch, with which whatever is open is aborted.
            await self.own()
            self._ended()
            return
        try:
            await self._end(commit=False)
        except BrokerError as refusal:
            if refusal.code is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                raise self._noted(refusal) from None
            # The broker has forgotten the id, and with it whatever could be aborted. If somebody
            # else has it now, we shall be told when we ask to go on.
            self._must_own_again = True
            self._ended()

    async def give_up(self) -> None:
        """Abort what is open, if that is possible; for when there is another error to be told."""
        if self.state not in _TO_BE_ABORTED:
            return
        try:
            await self.abort()
        except ClientError as error:
            self._cluster.warn(
                "producer: %s; its transaction times out", naming(self._about, error)
            )

    async def abandon(self, timeout_s: float | None) -> None:
        """The producer is about to close: abort what is open, within the time that is left."""
        if self.state not in _TO_BE_ABORTED:
            return
        self._cluster.warn("producer: %s: closed with a transaction open: aborted", self._about)
        try:
            async with asyncio.timeout(timeout_s):
                await self.give_up()
        except TimeoutError:
            self._cluster.warn("producer: %s: not aborted in time, it times out", self._about)

    async def send_offsets(
        self, offsets: ByPartition[int | OffsetAndMetadata], group: str | GroupMetadata | HasGroup
    ) -> None:
        """Commit offsets with the transaction; see ``AsyncProducer``."""
        if self.state is not State.OPEN:
            raise self._refusal("to send offsets")
        checked = checked_offsets(offsets)
        if isinstance(group, str):
            metadata = GroupMetadata(group)
        else:
            metadata = group if isinstance(group, GroupMetadata) else group.group_metadata()
        if not checked:
            return
        self.has_written = True
        commits = TransactionalCommits(
            GroupCoordinator(self._cluster, metadata.group),
            Described(metadata),
            self.transactional_id,
            self._identity,
        )
        try:
            await commits.commit(checked, self._config.max_block_ms / 1000)
        except ClientError as error:
            raise self.failed(error) from error.__cause__

    def failed(self, error: ClientError) -> ClientError:
        """Something in the transaction went wrong, so that it can only be aborted.

        Returns:
            The error to be told.
        """
        if isinstance(error, BrokerError) and error.code in FATAL_ERRORS:
            return self._noted(error)
        if self.state in {State.OPEN, State.FLUSHING}:
            self._fail(error)
        return error

    def refused(self, error: ClientError) -> ClientError:
        """Records of the transaction were given up; see ``failed``.

        An epoch that is too old comes of a transaction that the broker has aborted as well as of
        another producer. The abort finds out which: with our id and epoch only the owner gets the
        next one (KIP-360).
        """
        if not isinstance(error, BrokerError) or error.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
            return self.failed(error)
        told = BrokerError(
            f"{error.message}; the broker has aborted the transaction, as it does with what takes "
            f"longer than transaction_timeout_ms={self._config.transaction_timeout_ms}, or another "
            "producer has taken the transactional id over: aborting it tells which",
            error.code,
        )
        if self.state in {State.OPEN, State.FLUSHING}:
            self._fail(told)
        elif self.state is State.FAILED:
            self._must_own_again = True
        return told

    # Inner life.

    async def _flush(self) -> None:
        self.state = State.FLUSHING
        try:
            batches = self._accumulator.pending()
            self._wake()
            for batch in batches:
                await batch.wait_async()
                batch.mark_error_seen()
        finally:
            if self.state is State.FLUSHING:
                self.state = State.OPEN
        if self.state is not State.OPEN:
            raise self._refusal("to commit")

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
            raise broker_error(ErrorCode.UNSUPPORTED_VERSION, words, self._about)
        identity.restart(response.producer_id, response.producer_epoch)
        self._ended()

    def _ended(self) -> None:
        self._error = None
        self.has_written = False
        self.state = State.IDLE

    async def _ask(self, request: Any) -> Any:
        """Ask the coordinator, again while that can help and ``max_block_ms`` are not over."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._config.max_block_ms / 1000
        timeout_s = self._config.request_timeout_ms / 1000
        attempt = 0
        while True:
            attempt += 1
            response: Any = None
            try:
                left_s = max(0.001, deadline_s - loop.time())
                response = await self._coordinator.ask(request, min(timeout_s, left_s))
                error = self._error_of(response)
            except ClientError as failure:
                error = failure
            if error is None:
                return response
            pause_s = self._coordinator.pause_s(attempt)
            if not error.retriable or loop.time() + pause_s >= deadline_s:
                raise error
            if not _is_usual(error):
                self._coordinator.warn(error)
            await asyncio.sleep(pause_s)

    def _error_of(self, response: Any) -> ClientError | None:
        code = response.error
        return None if code is ErrorCode.NONE else self._coordinator.error(code)

    def _fail(self, error: ClientError) -> None:
        self.state = State.FAILED
        self._error = error
        if isinstance(error, BrokerError) and error.code in _IS_IT_OURS:
            self._must_own_again = True

    def _noted(self, error: BrokerError) -> BrokerError:
        """The error with what it means; a fatal one stays."""
        if error.code not in FATAL_ERRORS:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                return type(error)(
                    f"transaction_timeout_ms={self._config.transaction_timeout_ms} is over the "
                    "broker's transaction.max.timeout.ms",
                    error.code,
                )
            return error
        if error.code in _FENCED:
            error = ProducerFencedError(
                f"{self._about}: another producer has taken it over, or "
                f"a transaction took longer than {self._config.transaction_timeout_ms} ms "
                "(transaction_timeout_ms); close this producer",
                error.code,
            )
        self.state = State.FATAL
        self._error = error
        return error

    def _refusal(self, purpose: str) -> ClientError:
        """Why something cannot be done now."""
        error = self._error
        if self.state is State.FATAL:
            assert error is not None
            return error
        if self.state is State.FAILED:
            failed = TransactionAbortedError(f"{self._about}: {self.state.value}: {error}")
            failed.__cause__ = error
            return failed
        return TransactionStateError(
            f"{self._about}: {self.state.value}, so this is no time {purpose}"
        )


def _is_usual(error: ClientError) -> bool:
    """Whether to wait for it is part of the protocol."""
    return isinstance(error, BrokerError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
