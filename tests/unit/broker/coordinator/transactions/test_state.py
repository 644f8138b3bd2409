"""The steps of a transactional id, as tables: fencing, retries, exhausted epochs."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from seglog.broker.coordinator.transactions.ownership import initialize
from seglog.broker.coordinator.transactions.state import (
    AT_REST,
    PREPARED,
    Claim,
    TransactionMetadata,
    TransactionState,
)
from seglog.broker.coordinator.transactions.transitions import (
    add_partitions,
    complete,
    end,
    fence,
    verify_partition,
)
from seglog.broker.errors import RequestError
from seglog.protocol.errors import ErrorCode

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMMITTED, ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
NOW = 1_000_000
FRESH = 900
PLACE = ("t", 1)
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE


def known(state: TransactionState, epoch: int = 5, **options: object) -> TransactionMetadata:
    """Transactional id "x" of producer 7."""
    metadata = TransactionMetadata("x", 7, epoch, 60_000, state, started_ms=NOW, updated_ms=NOW)
    if state is ONGOING or state in PREPARED:
        metadata = replace(metadata, partitions=frozenset({PLACE}))
    return replace(metadata, **options)  # type: ignore[arg-type] # the fields of a test


def told(step: Callable[[], TransactionMetadata | None]) -> object:
    """What comes of a step: an error, or state with producer id and epoch."""
    try:
        metadata = step()
    except RequestError as error:
        return error.code
    if metadata is None:
        return None
    return metadata.state, metadata.producer_id, metadata.producer_epoch


def begun(current: TransactionMetadata, expected: Claim | None = None) -> object:
    return told(lambda: initialize(current, expected, timeout_ms=9, now_ms=NOW + 1, fresh_id=FRESH))


@pytest.mark.parametrize(
    ("current", "expected", "outcome"),
    [
        (known(EMPTY, -1), None, (EMPTY, 7, 0)),
        (known(EMPTY, -1), Claim(3, 4), (EMPTY, 7, 0)),
        *((known(state), None, (EMPTY, 7, 6)) for state in sorted(AT_REST)),
        *((known(state), Claim(7, 5), (EMPTY, 7, 6)) for state in sorted(AT_REST)),
        *((known(state), None, CONCURRENT) for state in sorted(PREPARED)),
        *((known(state), Claim(7, 4), FENCED) for state in (EMPTY, ONGOING, PREPARE_ABORT)),
        (known(EMPTY), Claim(8, 5), FENCED),
        (known(EMPTY), Claim(7, 6), FENCED),
        # The same producer asks again because the answer was lost.
        (known(EMPTY, last_producer_epoch=4), Claim(7, 4), (EMPTY, 7, 5)),
        (known(ABORTED, last_producer_epoch=4), Claim(7, 4), (EMPTY, 7, 5)),
        (known(EMPTY, last_producer_epoch=4), Claim(7, 3), FENCED),
        # Whoever comes while a transaction is open has it aborted first, under a new epoch.
        (known(ONGOING), None, (PREPARE_ABORT, 7, 6)),
        (known(ONGOING), Claim(7, 5), (PREPARE_ABORT, 7, 6)),
        (known(ONGOING, 32_766), None, (PREPARE_ABORT, 7, 32_767)),
        # Its next epoch is in use, so nobody waits for the answer to the step before.
        (known(ONGOING, last_producer_epoch=4), Claim(7, 4), FENCED),
        # 32766 is the last epoch of an id.
        (known(EMPTY, 32_765), None, (EMPTY, 7, 32_766)),
        (known(EMPTY, 32_766), None, (EMPTY, FRESH, 0)),
        (known(ABORTED, 32_767), None, (EMPTY, FRESH, 0)),
        (known(COMMITTED, 32_766), Claim(7, 32_766), (EMPTY, FRESH, 0)),
        (
            known(EMPTY, 0, previous_producer_id=3, last_producer_epoch=32_766),
            Claim(3, 32_766),
            (EMPTY, 7, 0),
        ),
        (known(EMPTY, 0, previous_producer_id=3), Claim(3, 32_766), FENCED),
        # No producer is ever given the epoch that is left for markers.
        (known(ABORTED, 32_767, last_producer_epoch=32_766), Claim(7, 32_766), (EMPTY, FRESH, 0)),
    ],
)
def test_the_wrong_producer_becomes_the_owner(
    current: TransactionMetadata, expected: Claim | None, outcome: object
) -> None:
    """KIP-360, KIP-588."""
    assert begun(current, expected) == outcome


def test_an_owner_that_was_replaced_comes_back() -> None:
    """Only who has asked itself for a new epoch may ask for it again."""
    fenced = complete(initialize(known(ONGOING), None, timeout_ms=9, now_ms=NOW), NOW)
    assert begun(fenced, Claim(7, 5)) == FENCED
    own = complete(initialize(known(ONGOING), Claim(7, 5), timeout_ms=9, now_ms=NOW), NOW)
    assert begun(own, Claim(7, 5)) == (EMPTY, 7, 6)


def test_a_new_owner_inherits_partitions() -> None:
    started = initialize(known(COMMITTED), None, timeout_ms=9, now_ms=NOW + 1)
    assert (started.timeout_ms, started.updated_ms, started.started_ms) == (9, NOW + 1, -1)
    assert not started.partitions


@pytest.mark.parametrize(
    ("current", "claim", "outcome"),
    [
        (None, Claim(7, 5), MAPPING),
        (known(EMPTY), Claim(8, 5), MAPPING),
        (known(EMPTY), Claim(7, 4), FENCED),
        (known(EMPTY), Claim(7, 6), FENCED),
        *((known(state), Claim(7, 5), CONCURRENT) for state in sorted(PREPARED)),
        *((known(state), Claim(7, 5), (ONGOING, 7, 5)) for state in sorted({ONGOING, *AT_REST})),
    ],
)
def test_a_stranger_adds_partitions(
    current: TransactionMetadata | None, claim: Claim, outcome: object
) -> None:
    added = told(
        lambda: add_partitions(
            current, claim, frozenset({("u", 0)}), now_ms=NOW + 7, client_version=0
        )
    )
    assert added == outcome


def test_the_timeout_counts_from_another_moment_than_the_beginning() -> None:
    """The first partitions begin the transaction, further ones do not begin it again."""
    claim = Claim(7, 5)
    first = add_partitions(known(ABORTED), claim, frozenset({PLACE}), now_ms=50, client_version=0)
    assert (first.started_ms, first.partitions) == (50, {PLACE})
    assert add_partitions(first, claim, first.partitions, now_ms=60, client_version=0) is first
    second = add_partitions(first, claim, frozenset({("u", 0)}), now_ms=70, client_version=2)
    assert (second.started_ms, second.updated_ms, second.client_version) == (50, 70, 2)
    assert second.partitions == {PLACE, ("u", 0)}
    assert not second.is_timed_out(50 + 60_000)
    assert second.is_timed_out(50 + 60_001)
    assert not complete(
        end(second, claim, commit=True, bumps_epoch=False, now_ms=80), 80
    ).is_timed_out(NOW)


@pytest.mark.parametrize(
    ("current", "claim", "outcome"),
    [
        (None, Claim(7, 5), MAPPING),
        (known(ONGOING), Claim(8, 5), MAPPING),
        (known(ONGOING), Claim(7, 4), FENCED),
        (known(PREPARE_ABORT), Claim(7, 5), CONCURRENT),
        (known(ONGOING), Claim(7, 5), None),
        (known(EMPTY), Claim(7, 5), ErrorCode.TRANSACTION_ABORTABLE),
        (known(ONGOING, partitions=frozenset()), Claim(7, 5), ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_partition_counts_as_added(
    current: TransactionMetadata | None, claim: Claim, outcome: object
) -> None:
    """TXN-11."""
    assert told(lambda: verify_partition(current, claim, PLACE)) == outcome  # type: ignore[func-returns-value] # None is an outcome


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(
    ("current", "claim", "bumps_epoch", "same", "opposite"),
    [
        # current, who, new client?, outcome if it is (being) ended so, if it is otherwise
        (None, Claim(7, 5), False, MAPPING, MAPPING),
        ("prepared", Claim(7, 5), False, CONCURRENT, INVALID),
        ("complete", Claim(7, 5), False, "unchanged", INVALID),
        ("complete", Claim(8, 5), False, MAPPING, MAPPING),
        ("complete", Claim(7, 4), False, FENCED, FENCED),
        ("bumped prepared", Claim(7, 4), True, CONCURRENT, INVALID),
        ("bumped complete", Claim(7, 4), True, "unchanged", INVALID),
        ("bumped complete", Claim(7, 3), True, FENCED, FENCED),
        ("rotated complete", Claim(3, 32_766), True, "unchanged", INVALID),
        ("rotated complete", Claim(3, 32_765), True, MAPPING, MAPPING),
        # K7: the same owner with another client speaks of what it knows: an older one of the last
        # transaction, a newer one of the next.
        ("bumped complete", Claim(7, 5), False, "unchanged", INVALID),
        ("bumped complete", Claim(7, 4), False, FENCED, FENCED),
    ],
)
def test_an_end_that_is_repeated_does_something_else(
    current: str | None,
    claim: Claim,
    bumps_epoch: bool,
    commit: bool,
    same: object,
    opposite: object,
) -> None:
    """An answer may be lost: the same again is fine, the opposite is not."""
    states = {
        (True, "prepared"): PREPARE_COMMIT,
        (False, "prepared"): PREPARE_ABORT,
        (True, "complete"): COMMITTED,
        (False, "complete"): ABORTED,
    }
    for asked, outcome in ((commit, same), (not commit, opposite)):
        metadata = None
        if current is not None:
            metadata = known(states[commit, current.split()[-1]])
            if current.startswith("bumped"):
                metadata = replace(metadata, client_version=2, last_producer_epoch=4)
            if current.startswith("rotated"):
                metadata = replace(
                    metadata, client_version=2, producer_epoch=0, previous_producer_id=3
                )
        ended: object
        try:
            ended = end(metadata, claim, commit=asked, bumps_epoch=bumps_epoch, now_ms=NOW)
        except RequestError as error:
            ended = error.code
        assert ended == (metadata if outcome == "unchanged" else outcome), asked


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_takes_effect_before_its_markers(commit: bool) -> None:
    """One step decides, another one completes; each is of the owner only."""
    current = known(ONGOING)
    decided = end(current, Claim(7, 5), commit=commit, bumps_epoch=False, now_ms=NOW + 3)
    assert decided.state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
    assert (decided.owner, decided.partitions) == (Claim(7, 5), {PLACE})
    completed = complete(decided, NOW + 4)
    assert completed.state is (COMMITTED if commit else ABORTED)
    assert (completed.owner, completed.partitions) == (Claim(7, 5), frozenset())
    assert completed.started_ms == NOW
    for claim in (Claim(7, 4), Claim(7, 6)):
        assert (
            told(lambda c=claim: end(current, c, commit=commit, bumps_epoch=False, now_ms=NOW))  # type: ignore[misc] # bound now
            == FENCED
        )


def test_a_late_record_reaches_the_next_transaction() -> None:
    """KIP-890: each end raises the epoch, the marker has the new one already."""
    decided = end(known(ONGOING), Claim(7, 5), commit=True, bumps_epoch=True, now_ms=NOW)
    assert (decided.owner, decided.last_producer_epoch, decided.client_version) == ((7, 6), 5, 2)
    assert complete(decided, NOW).owner == Claim(7, 6)


def test_an_epoch_runs_over() -> None:
    """The marker of the last one has epoch 32767; the next transaction has another producer id."""
    current = known(ONGOING, 32_766)
    decided = end(
        current, Claim(7, 32_766), commit=True, bumps_epoch=True, now_ms=NOW, fresh_id=FRESH
    )
    assert decided.owner == Claim(7, 32_767)
    completed = complete(decided, NOW)
    assert completed.owner == Claim(FRESH, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (7, -1)
    again = end(completed, Claim(7, 32_766), commit=True, bumps_epoch=True, now_ms=NOW)
    assert again is completed


@pytest.mark.parametrize(
    ("state", "bumps_epoch", "commit", "outcome"),
    [
        (EMPTY, False, True, INVALID),
        (EMPTY, False, False, INVALID),
        (EMPTY, True, True, INVALID),
        (EMPTY, True, False, (PREPARE_ABORT, 7, 6)),
        (COMMITTED, True, False, (PREPARE_ABORT, 7, 6)),
        (ABORTED, True, False, (PREPARE_ABORT, 7, 6)),
        (COMMITTED, True, True, INVALID),
    ],
)
def test_a_transaction_ends_that_has_not_begun(
    state: TransactionState, bumps_epoch: bool, commit: bool, outcome: object
) -> None:
    """A client that adds partitions by writing may abort what has never arrived."""
    current = known(state, client_version=2 if bumps_epoch else 0)
    ended = told(
        lambda: end(current, Claim(7, 5), commit=commit, bumps_epoch=bumps_epoch, now_ms=NOW)
    )
    assert ended == outcome


def test_a_newer_client_commits_what_an_older_one_committed() -> None:
    """It speaks of a transaction that has not begun; an abort of that raises the epoch."""
    current = known(COMMITTED)
    assert told(lambda: end(current, Claim(7, 5), commit=True, bumps_epoch=True, now_ms=NOW)) == (
        INVALID
    )
    aborted = known(ABORTED)
    ended = told(lambda: end(aborted, Claim(7, 5), commit=False, bumps_epoch=True, now_ms=NOW))
    assert ended == (PREPARE_ABORT, 7, 6)


def test_a_producer_id_that_was_handed_out_waits_for_the_markers_of_the_one_before() -> None:
    """The last end of an id is answered with the decision: the next id is known from then on."""
    decided = end(
        known(ONGOING, 32_766),
        Claim(7, 32_766),
        commit=True,
        bumps_epoch=True,
        now_ms=NOW,
        fresh_id=FRESH,
    )
    claim = Claim(FRESH, 0)
    for step in (
        lambda: add_partitions(decided, claim, frozenset({PLACE}), now_ms=NOW, client_version=2),
        lambda: end(decided, claim, commit=True, bumps_epoch=True, now_ms=NOW),
        lambda: initialize(decided, claim, timeout_ms=9, now_ms=NOW),
    ):
        assert told(step) == CONCURRENT
    assert told(lambda: verify_partition(decided, claim, PLACE)) == CONCURRENT  # type: ignore[func-returns-value] # None is an outcome
    added = add_partitions(
        complete(decided, NOW), claim, frozenset({PLACE}), now_ms=NOW, client_version=2
    )
    assert added.owner == claim


@pytest.mark.parametrize("client_version", [0, 2])
def test_an_owner_that_was_timed_out_asks_for_its_epoch_and_goes_on(client_version: int) -> None:
    """KIP-588: it names what it was, and gets the epoch that the abort has taken."""
    current = known(ONGOING, client_version=client_version)
    aborted = complete(fence(current, NOW, -1, owner_goes_on=True), NOW)
    assert begun(aborted, Claim(7, 5)) == (EMPTY, 7, 6)


def test_a_client_that_was_too_slow_cannot_go_on() -> None:
    """With raised epochs its own abort finds the work done and tells it the new epoch."""
    current = known(ONGOING, client_version=2)
    aborted = complete(fence(current, NOW, -1, owner_goes_on=True), NOW)
    again = end(aborted, Claim(7, 5), commit=False, bumps_epoch=True, now_ms=NOW)
    assert (again.state, again.owner) == (ABORTED, Claim(7, 6))
    assert (
        told(lambda: end(aborted, Claim(7, 5), commit=True, bumps_epoch=True, now_ms=NOW))
        == INVALID
    )


def test_an_id_in_use_is_forgotten() -> None:
    for state in TransactionState:
        metadata = known(state)
        assert not metadata.is_expired(NOW + 99, 100)
        assert metadata.is_expired(NOW + 100, 100) == (state in AT_REST)
