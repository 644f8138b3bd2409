"""The steps of a transaction: partitions are added, it ends, all markers are written.

A step is a function from the state as it is to the state as it shall be; it raises what the client
is told if the step is not allowed. Nothing here acts: the new state is in force once it is in the
log.

With client transaction version 2 (KIP-890) each end of a transaction raises the epoch, so that
nothing late can reach the next one; before, only a new owner or a timeout does.

The rules are those of Kafka's transaction coordinator.
"""

from dataclasses import replace

from seglog.broker.coordinator.internal_topics.records import Place
from seglog.broker.coordinator.transactions.state import (
    AT_REST,
    EPOCH_BUMPING_VERSION,
    EPOCH_MAX,
    PREPARED,
    Claim,
    TransactionMetadata,
    TransactionState,
    is_exhausted,
)
from seglog.broker.errors import RequestError
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# ---- adding


def check_owner(current: TransactionMetadata | None, claim: Claim) -> TransactionMetadata:
    """Whether a producer owns the transactional id, and no end is being carried out.

    Raises:
        RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    if current is not None and claim == current.next_owner:
        raise concurrent_error(current)
    if current is None or current.producer_id != claim.producer_id:
        raise _unmapped_error(current, claim)
    if current.producer_epoch != claim.producer_epoch:
        raise fenced_error(current, claim)
    if current.state in PREPARED:
        raise concurrent_error(current)
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
        claim: the identity that the producer claims.
        commit: or abort.
        bumps_epoch: whether the client knows that the next transaction has another epoch.
        now_ms: wall clock.
        fresh_id: an unused producer id, needed where ``current.is_exhausted`` and
            ``bumps_epoch``.

    Returns:
        PREPARE_COMMIT or PREPARE_ABORT; ``current`` itself if it has ended so already and the
        request is a repetition.

    Raises:
        RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or
            INVALID_TXN_STATE.
    """
    is_repeated = (
        bumps_epoch and current is not None and current.bumps_epoch and _has_ended(current, claim)
    )
    if current is not None and claim == current.next_owner:
        raise concurrent_error(current)
    if current is None or (current.producer_id != claim.producer_id and not is_repeated):
        raise _unmapped_error(current, claim)
    if not is_repeated and current.producer_epoch != claim.producer_epoch:
        raise fenced_error(current, claim)
    state = current.state
    if state is TransactionState.ONGOING:
        return _decided(
            current, commit=commit, bumps_epoch=bumps_epoch, now_ms=now_ms, fresh_id=fresh_id
        )
    if state in PREPARED and commit == current.is_commit:
        raise concurrent_error(current)
    if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT) and (
        commit == current.is_commit and (is_repeated or not bumps_epoch)
    ):
        # A client that raises its epoch repeats itself under the epoch that it had; under the new
        # one it speaks of the next transaction.
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
        fresh_id: an unused producer id, needed where ``current.is_exhausted``.
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


# ---- refusing


def _unmapped_error(current: TransactionMetadata | None, claim: Claim) -> RequestError:
    if current is None:
        reason = f"there is no such transactional id for producer {claim.producer_id}"
    else:
        reason = (
            f"transactional id {current.transactional_id!r} belongs to producer "
            f"{current.producer_id}, not {claim.producer_id}"
        )
    return RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)


def fenced_error(current: TransactionMetadata, claim: Claim) -> RequestError:
    """What a producer is told that is not the owner any more."""
    return RequestError(
        ErrorCode.PRODUCER_FENCED,
        f"transactional id {current.transactional_id!r} belongs to producer "
        f"{current.producer_id} with epoch {current.producer_epoch}, not to "
        f"{claim.producer_id} with epoch {claim.producer_epoch}",
    )


def concurrent_error(current: TransactionMetadata) -> RequestError:
    """What a producer is told while markers are being written."""
    return RequestError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"the end of a transaction of {current.transactional_id!r} is being carried out",
    )
