"""The transition table of the cleaner, its throttle and its rests."""

import itertools

import pytest

from seglog.broker.cleaning.rests import REST_SECONDS, TURN_SECONDS, Rests
from seglog.broker.cleaning.states import TRANSITIONS, CleaningEvent, CleaningState, CleaningStates
from seglog.broker.cleaning.throttle import Throttle
from seglog.protocol.types import TopicPartition

LOG = TopicPartition("t", 0)


def test_an_aborted_pass_is_not_paused_when_it_ends() -> None:
    """CLN-9."""
    states = CleaningStates()
    states.apply(LOG, CleaningEvent.START)
    assert states.count(CleaningState.IN_PROGRESS) == 1
    states.apply(LOG, CleaningEvent.ABORT)
    assert states.apply(LOG, CleaningEvent.END) is CleaningState.PAUSED
    assert states.apply(LOG, CleaningEvent.RESUME) is CleaningState.IDLE


def test_two_pauses_end_with_the_first_resume() -> None:
    """CLN-9: pauses are counted."""
    states = CleaningStates()
    states.apply(LOG, CleaningEvent.PAUSE)
    states.apply(LOG, CleaningEvent.PAUSE)
    assert states.apply(LOG, CleaningEvent.RESUME) is CleaningState.PAUSED
    assert states.apply(LOG, CleaningEvent.RESUME) is CleaningState.IDLE


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in itertools.product(CleaningState, CleaningEvent) if pair not in TRANSITIONS],
)
def test_a_step_that_the_table_does_not_list_is_taken(
    state: CleaningState, event: CleaningEvent
) -> None:
    ways = {
        CleaningState.IDLE: [],
        CleaningState.IN_PROGRESS: [CleaningEvent.START],
        CleaningState.ABORTED: [CleaningEvent.START, CleaningEvent.ABORT],
        CleaningState.PAUSED: [CleaningEvent.PAUSE],
    }
    states = CleaningStates()
    for step in ways[state]:
        states.apply(LOG, step)
    assert states.of(LOG) is state
    with pytest.raises(AssertionError):
        states.apply(LOG, event)


@pytest.mark.parametrize("chunk", [1_000, 100_000, 5_000_000])
def test_a_throttled_cleaner_is_faster_than_its_rate(chunk: int) -> None:
    """CLN-14: over windows of 300 ms, whatever the size of the chunks."""
    now = 0.0
    waited: list[float] = []

    def wait(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds

    throttle = Throttle(1_000_000, lambda: now, wait)
    total = 0
    while total < 20_000_000:
        before = len(waited)
        throttle.take(chunk, lambda: False)
        assert len(waited) == before or sum(waited[before:]) >= 0.2
        total += chunk
        now += chunk / 50_000_000  # the disk takes its time as well
    assert 900_000 < total / now < 1_100_000


def test_a_throttled_pass_keeps_waiting_although_its_topic_is_deleted() -> None:
    """CLN-9: DeleteTopics, and each change of topics behind it, took as long as a chunk."""
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    throttle = Throttle(1000, lambda: now, wait)
    throttle.take(1_000_000, lambda: now >= 5)
    assert now < 5.2


def test_a_higher_rate_comes_too_late_for_a_pass_that_waits() -> None:
    """CLN-14: the setting is dynamic, and the wait of the old rate is none of the new one."""
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds
        throttle.bytes_per_second = 1e9

    throttle = Throttle(1000, lambda: now, wait)
    for _ in range(3):
        throttle.take(1_000_000, lambda: False)
    assert now < 0.2


def test_an_unlimited_cleaner_waits() -> None:
    throttle = Throttle(1.8e308, lambda: 0.0, lambda seconds: pytest.fail(f"waited {seconds}"))
    for _ in range(100):
        throttle.take(1 << 30, lambda: False)


def test_a_pass_keeps_its_processor_for_many_chunks_while_others_wait_for_it() -> None:
    now = 0.0
    rested: list[float] = []
    rests = Rests(lambda: now, rested.append)
    for chunk in range(1, 13):
        now += TURN_SECONDS / 4
        rests.rest_if_due()
        assert len(rested) == chunk // 4
    assert set(rested) == {REST_SECONDS}


def test_a_rest_is_counted_as_part_of_the_turn_that_follows() -> None:
    """Where a machine sleeps for longer than asked, a pass would rest after each tiny chunk."""
    now = 0.0
    rested: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        rested.append(seconds)
        now += 50 * TURN_SECONDS

    rests = Rests(lambda: now, sleep)
    now += TURN_SECONDS
    rests.rest_if_due()
    rests.rest_if_due()
    assert len(rested) == 1
