"""How a producer becomes the owner of a transactional id, or goes on as its owner; pure functions.

Epochs fence: a producer that does not name the producer id and the epoch of the state is not its
owner any more. A new owner gets the next epoch. The last epoch of an id that a producer uses is
32766: 32767 is left for a marker, and then a new id follows.

The rules are those of Kafka's transaction coordinator.
"""

from dataclasses import replace

from seglog.broker.coordinator.transactions.state import (
    EPOCH_MAX,
    PREPARED,
    Claim,
    TransactionMetadata,
    TransactionState,
    is_exhausted,
)
from seglog.broker.coordinator.transactions.transitions import concurrent_error, fence, fenced_error
from seglog.protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP


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
        fresh_id: an unused producer id, needed where ``current.is_exhausted``.

    Returns:
        EMPTY with what the producer is to use, or PREPARE_ABORT: the transaction that is open has
        to be aborted before, and the producer asks again.

    Raises:
        RequestError: CONCURRENT_TRANSACTIONS while an end is being carried out, PRODUCER_FENCED for
            one that expects an older state.
    """
    if expected is not None and expected == current.next_owner:
        raise concurrent_error(current)
    if expected is not None and not _may_go_on(current, expected):
        raise fenced_error(current, expected)
    if current.state in PREPARED:
        raise concurrent_error(current)
    if current.state is TransactionState.ONGOING:
        is_owner = expected == current.owner
        if expected is not None and not is_owner:
            # It has used the epoch that followed, so this has been under way for too long.
            raise fenced_error(current, expected)
        # The owner itself may repeat the request and gets the same; any other producer fences it.
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
    """Whether the same producer has already taken the step from the expected state."""
    if NO_PRODUCER_EPOCH in (current.last_producer_epoch, current.producer_epoch):
        return False
    if expected.producer_epoch != current.last_producer_epoch:
        return False
    return expected.producer_id == current.producer_id or (
        expected.producer_id == current.previous_producer_id
        and is_exhausted(expected.producer_epoch)
    )
