"""Where a producer is with its transactions, and what an error means for that. No I/O."""

from enum import Enum
from typing import Final

from seglog.clients.errors import (
    BrokerError,
    ClientError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
)
from seglog.clients.producer.transactional_commits import FATAL_ERRORS
from seglog.protocol.errors import ErrorCode

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_IS_IT_OURS: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""Errors after which only InitProducerId tells whether this producer still owns its id."""


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


class TransactionProgress:
    """How far the transactions of one producer are. Belongs to the loop, but for ``check_open``.

    Args:
        transactional_id: for messages.
        timeout_ms: what a transaction may take.

    Attributes:
        about: the transactional id, for messages.
        state: where the producer is.
        has_written: whether the broker may know of the present transaction, or has to be told that
            its numbers are not used.
        must_own_again: whether only the broker knows the owner of the id now.
    """

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.about = f"transactional id {transactional_id}"
        self.state = State.IDLE
        self.has_written = False
        self.must_own_again = False
        self._timeout_ms = timeout_ms
        self._error: ClientError | None = None

    def check_open(self) -> None:
        """Whether records may be sent now.

        Raises:
            TransactionStateError: no transaction is open.
            TransactionAbortedError: the one that is has failed.
            ClientError: the producer has to be closed.
        """
        if self.state is not State.OPEN:
            raise self.refusal("to send records")

    @property
    def may_send(self) -> bool:
        """Whether records may leave: what slips in behind the end belongs to the next one."""
        return self.state not in {State.IDLE, State.COMMITTING, State.ABORTING}

    @property
    def may_abort(self) -> bool:
        """Whether there is something to abort."""
        return self.state in _TO_BE_ABORTED

    def enter(self, state: State) -> None:
        """A transaction begins (``OPEN``) or is over (``IDLE``): nothing has happened in it."""
        self._error = None
        self.has_written = False
        self.state = state

    def failed(self, error: ClientError) -> ClientError:
        """Something in the transaction went wrong, so that it can only be aborted.

        Returns:
            The error to be told.
        """
        if isinstance(error, BrokerError) and error.code in FATAL_ERRORS:
            return self.noted(error)
        if self.state in {State.OPEN, State.FLUSHING}:
            self.fail(error)
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
            f"longer than transaction_timeout_ms={self._timeout_ms}, or another "
            "producer has taken the transactional id over: aborting it tells which",
            error.code,
        )
        if self.state in {State.OPEN, State.FLUSHING}:
            self.fail(told)
        elif self.state is State.FAILED:
            self.must_own_again = True
        return told

    def fail(self, error: ClientError) -> None:
        """The transaction can only be aborted, because of this error."""
        self.state = State.FAILED
        self._error = error
        if isinstance(error, BrokerError) and error.code in _IS_IT_OURS:
            self.must_own_again = True

    def noted(self, error: BrokerError) -> BrokerError:
        """The error with what it means; a fatal one stays."""
        if error.code not in FATAL_ERRORS:
            if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                return type(error)(
                    f"transaction_timeout_ms={self._timeout_ms} is over the "
                    "broker's transaction.max.timeout.ms",
                    error.code,
                )
            return error
        if error.code in _FENCED:
            error = ProducerFencedError(
                f"{self.about}: another producer has taken it over, or "
                f"a transaction took longer than {self._timeout_ms} ms "
                "(transaction_timeout_ms); close this producer",
                error.code,
            )
        self.state = State.FATAL
        self._error = error
        return error

    def refusal(self, purpose: str) -> ClientError:
        """Why something cannot be done now."""
        error = self._error
        if self.state is State.FATAL:
            assert error is not None
            return error
        if self.state is State.FAILED:
            failed = TransactionAbortedError(f"{self.about}: {self.state.value}: {error}")
            failed.__cause__ = error
            return failed
        return TransactionStateError(
            f"{self.about}: {self.state.value}, so this is no time {purpose}"
        )
