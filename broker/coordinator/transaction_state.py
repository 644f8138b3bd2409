"""The state of one transactional id, and every step it may take; nothing here acts.

A step is a function from the state as it is to the state as it shall be; it raises what the client
is told if the step is not allowed. The new state is in force once it is in the log.

Epochs fence: whoever does not name the producer id and the epoch of the state is not its owner any
more. With client transaction version 2 (KIP-890) each end of a transaction raises the epoch, so
that nothing late can reach the next one; before, only a new owner or a timeout does. The last epoch
of an id that a producer uses is 32766: 32767 is left for a marker, and then a new id follows.

The rules are those of Kafka's transaction coordinator.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from seglog.broker.errors import RequestError
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP

EPOCH_MAX: Final = 32_767
EPOCH_BUMPING_VERSION: Final = 2
"""The client transaction version from which on every end raises the epoch."""

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class TransactionState(StrEnum):
    """Where a transactional id stands; Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided, with markers still to be written."""
AT_REST: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)
"""Without a transaction."""


class Claim(NamedTuple):
    """Who a producer says it is."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """What is known of one transactional id.

    Attributes:
        transactional_id: its name.
        producer_id: of its owner.
        producer_epoch: of its owner; -1 before the first one has been told.
        timeout_ms: how long a transaction of it may take.
        state: where it stands.
        partitions: of the transaction.
        last_producer_epoch: the epoch before, for an owner that asks again because the answer was
            lost; -1 if nobody may. It is not stored.
        previous_producer_id: the id before, for the same reason; -1 if there was none.
        next_producer_id: the id that follows when the transaction is complete; -1 for the same.
        started_ms: when the last transaction began, -1 if none has.
        updated_ms: when it last took a step.
        client_version: the transaction version of the client, 0 to 2.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Place] = frozenset()
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the owner's next epoch needs a new producer id."""
        return is_exhausted(self.producer_epoch)

    @property
    def is_commit(self) -> bool:
        """Whether it is being committed, or was."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def bumps_epoch(self) -> bool:
        """Whether its last transaction is one of those that end with a new epoch."""
        return self.client_version >= EPOCH_BUMPING_VERSION

    @property
    def owner(self) -> Claim:
        """What the owner of the transactional id has to say."""
        return Claim(self.producer_id, self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether its transaction has taken too long and is to be aborted."""
        return self.state is TransactionState.ONGOING and now_ms > self.started_ms + self.timeout_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether nobody has used it for so long that it may be forgotten."""
        return self.state in AT_REST and now_ms >= self.updated_ms + expiration_ms


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no producer may be given the epoch after this one."""
    return producer_epoch >= EPOCH_MAX - 1


# ---- beginning


def initialize(
    current: TransactionMetadata,
    expected: Claim | None,
    *,
    timeout_ms: int,
    now_ms: int,
    fresh_id: int = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """A producer asks to be the owner.

    Args:
        current: the state; of a new transactional id with epoch -1.
        expected: what a producer that goes on after an error believes to be (KIP-360); None for one
            that starts.
        timeout_ms: of its transactions.
        now_ms: wall clock.
        fresh_id: a producer id that nobody has, needed where ``current.is_exhausted``.

    Returns:
        EMPTY with what the producer is to use, or PREPARE_ABORT: the transaction that is open has
        to be aborted before, and the producer asks again.

    Raises:
        RequestError: CONCURRENT_TRANSACTIONS while an end is being carried out, PRODUCER_FENCED for
            one that expects what is no more.
    """
    if expected is not None and not _may_go_on(current, expected):
        raise _fenced(current, expected)
    if current.state in PREPARED:
        raise _concurrent(current)
    if current.state is TransactionState.ONGOING:
        is_owner = expected == current.owner
        if expected is not None and not is_owner:
            # It has used the epoch that followed, so this has been under way for too long.
            raise _fenced(current, expected)
        # The owner itself may ask again for what it then gets; anybody else shuts it out.
        return fence(current, now_ms, fresh_id, owner_goes_on=is_owner)
    return _owned(current, expected, timeout_ms=timeout_ms, now_ms=now_ms, fresh_id=fresh_id)


def _owned(
    current: TransactionMetadata,
    expected: Claim | None,
    *,
    timeout_ms: int,
    now_ms: int,
    fresh_id: int,
) -> TransactionMetadata:
    """EMPTY under the next epoch, or a new producer id; see ``initialize`` for the arguments."""
    rested = replace(
        current,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        timeout_ms=timeout_ms,
        started_ms=NO_TIMESTAMP,
        updated_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
        client_version=0,
    )
    is_usable = current.producer_epoch < EPOCH_MAX
    if expected is not None and is_usable and _is_repeated(current, expected):
        return rested
    last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
    if current.is_exhausted:
        assert fresh_id != NO_PRODUCER_ID, current
        return replace(
            rested,
            producer_id=fresh_id,
            producer_epoch=0,
            last_producer_epoch=last_epoch,
            previous_producer_id=current.producer_id,
        )
    return replace(
        rested, producer_epoch=current.producer_epoch + 1, last_producer_epoch=last_epoch
    )


def _may_go_on(current: TransactionMetadata, expected: Claim) -> bool:
    """Whether a producer that expects this is the owner, or was told nothing of its last step."""
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or expected == current.owner
        or _is_repeated(current, expected)
    )


def _is_repeated(current: TransactionMetadata, expected: Claim) -> bool:
    """Whether the step from what is expected to what is has been taken for the same producer."""
    if NO_PRODUCER_EPOCH in (current.last_producer_epoch, current.producer_epoch):
        return False
    if expected.producer_epoch != current.last_producer_epoch:
        return False
    return expected.producer_id == current.producer_id or (
        expected.producer_id == current.previous_producer_id
        and is_exhausted(expected.producer_epoch)
    )


# ---- adding


def check_owner(current: TransactionMetadata | None, claim: Claim) -> TransactionMetadata:
    """Whether a producer owns the transactional id, and no end is being carried out.

    Raises:
        RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    if current is None or current.producer_id != claim.producer_id:
        raise _unmapped(current, claim)
    if current.producer_epoch != claim.producer_epoch:
        raise _fenced(current, claim)
    if current.state in PREPARED:
        raise _concurrent(current)
    return current


def add_partitions(
    current: TransactionMetadata | None,
    claim: Claim,
    partitions: frozenset[Place],
    *,
    now_ms: int,
    client_version: int,
) -> TransactionMetadata:
    """Partitions become part of the transaction, which begins with the first ones.

    Returns:
        ``current`` itself if they all were part of it before.

    Raises:
        RequestError: as ``check_owner``.
    """
    current = check_owner(current, claim)
    if current.state is not TransactionState.ONGOING:
        return replace(
            current,
            state=TransactionState.ONGOING,
            partitions=partitions,
            started_ms=now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )
    if partitions <= current.partitions:
        return current
    return replace(
        current,
        partitions=current.partitions | partitions,
        updated_ms=now_ms,
        client_version=client_version,
    )


def verify_partition(current: TransactionMetadata | None, claim: Claim, place: Place) -> None:
    """Whether a partition is part of the transaction (TXN-11).

    Raises:
        RequestError: as ``check_owner``; TRANSACTION_ABORTABLE if it is not.
    """
    current = check_owner(current, claim)
    if current.state is not TransactionState.ONGOING or place not in current.partitions:
        raise RequestError(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"{place[0]}-{place[1]} was not added to the transaction of "
            f"{current.transactional_id!r}",
        )


# ---- ending


def end(
    current: TransactionMetadata | None,
    claim: Claim,
    *,
    commit: bool,
    bumps_epoch: bool,
    now_ms: int,
    fresh_id: int = NO_PRODUCER_ID,
) -> TransactionMetadata:
    """The owner commits or aborts.

    Args:
        current: the state.
        claim: who says so.
        commit: or abort.
        bumps_epoch: whether the client knows that the next transaction has another epoch.
        now_ms: wall clock.
        fresh_id: a producer id that nobody has, needed where ``current.is_exhausted`` and
            ``bumps_epoch``.

    Returns:
        PREPARE_COMMIT or PREPARE_ABORT; ``current`` itself if it has ended so already and the
        request is a repetition.

    Raises:
        RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or
            INVALID_TXN_STATE.
    """
    is_repeated = current is not None and current.bumps_epoch and _has_ended(current, claim)
    if current is None or (current.producer_id != claim.producer_id and not is_repeated):
        raise _unmapped(current, claim)
    if not is_repeated and current.producer_epoch != claim.producer_epoch:
        raise _fenced(current, claim)
    state = current.state
    if state is TransactionState.ONGOING:
        return _decided(
            current, commit=commit, bumps_epoch=bumps_epoch, now_ms=now_ms, fresh_id=fresh_id
        )
    if state in PREPARED and commit == current.is_commit and (is_repeated or not bumps_epoch):
        raise _concurrent(current)
    if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT) and (
        commit == current.is_commit and (is_repeated or not current.bumps_epoch)
    ):
        return current
    if state in AT_REST and bumps_epoch and not commit and not is_repeated:
        # A client that adds partitions by writing to them cannot know that nothing has arrived.
        begun = replace(current, started_ms=now_ms, partitions=frozenset())
        return _decided(begun, commit=False, bumps_epoch=True, now_ms=now_ms, fresh_id=fresh_id)
    raise RequestError(
        ErrorCode.INVALID_TXN_STATE,
        f"the transaction of {current.transactional_id!r} is {state}, "
        f"it cannot be {'committed' if commit else 'aborted'}",
    )


def _has_ended(current: TransactionMetadata, claim: Claim) -> bool:
    """Whether the epoch has been raised by the end of the transaction that a producer speaks of."""
    if claim.producer_id == current.producer_id:
        return claim.producer_epoch + 1 == current.producer_epoch and current.state not in (
            TransactionState.EMPTY,
            TransactionState.ONGOING,
        )
    return (
        claim.producer_id == current.previous_producer_id
        and is_exhausted(claim.producer_epoch)
        and current.producer_epoch == 0
        and current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    )


def fence(
    current: TransactionMetadata, now_ms: int, fresh_id: int, *, owner_goes_on: bool
) -> TransactionMetadata:
    """Abort the open transaction without its owner, under a new epoch.

    Args:
        current: ONGOING.
        now_ms: wall clock.
        fresh_id: a producer id that nobody has, needed where ``current.is_exhausted``.
        owner_goes_on: whether the owner may learn the new epoch by asking; not if another one
            takes its place.
    """
    assert current.state is TransactionState.ONGOING, current
    if current.bumps_epoch:
        decided = _decided(
            current, commit=False, bumps_epoch=True, now_ms=now_ms, fresh_id=fresh_id
        )
    else:
        decided = replace(
            _decided(current, commit=False, bumps_epoch=False, now_ms=now_ms, fresh_id=fresh_id),
            producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
        )
    last_epoch = current.producer_epoch if owner_goes_on else NO_PRODUCER_EPOCH
    return replace(decided, last_producer_epoch=last_epoch)


def _decided(
    current: TransactionMetadata,
    *,
    commit: bool,
    bumps_epoch: bool,
    now_ms: int,
    fresh_id: int,
) -> TransactionMetadata:
    state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    decided = replace(current, state=state, updated_ms=now_ms, client_version=0)
    if not bumps_epoch:
        return decided
    assert not current.is_exhausted or fresh_id != NO_PRODUCER_ID, current
    return replace(
        decided,
        producer_epoch=min(current.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=current.producer_epoch,
        next_producer_id=fresh_id if current.is_exhausted else NO_PRODUCER_ID,
        client_version=EPOCH_BUMPING_VERSION,
    )


def complete(current: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All markers are written."""
    assert current.state in PREPARED, current
    state = (
        TransactionState.COMPLETE_COMMIT if current.is_commit else TransactionState.COMPLETE_ABORT
    )
    completed = replace(current, state=state, partitions=frozenset(), updated_ms=now_ms)
    if current.next_producer_id == NO_PRODUCER_ID:
        return completed
    return replace(
        completed,
        producer_id=current.next_producer_id,
        producer_epoch=0,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def _unmapped(current: TransactionMetadata | None, claim: Claim) -> RequestError:
    if current is None:
        reason = f"there is no such transactional id for producer {claim.producer_id}"
    else:
        reason = (
            f"transactional id {current.transactional_id!r} belongs to producer "
            f"{current.producer_id}, not {claim.producer_id}"
        )
    return RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)


def _fenced(current: TransactionMetadata, claim: Claim) -> RequestError:
    return RequestError(
        ErrorCode.PRODUCER_FENCED,
        f"transactional id {current.transactional_id!r} belongs to producer "
        f"{current.producer_id} with epoch {current.producer_epoch}, not to "
        f"{claim.producer_id} with epoch {claim.producer_epoch}",
    )


def _concurrent(current: TransactionMetadata) -> RequestError:
    return RequestError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"the end of a transaction of {current.transactional_id!r} is being carried out",
    )
