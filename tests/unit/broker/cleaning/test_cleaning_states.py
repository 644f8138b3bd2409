"""The transition table of the cleaner, its throttle and its pacer."""

import itertools
import math

import pytest

from seglog.broker.cleaning.cleaning_states import (
    TRANSITIONS,
    CleaningEvent,
    CleaningState,
    CleaningStates,
)
from seglog.broker.cleaning.pacing import PAUSE_SECONDS, QUIET_NS, TURN_NS, Pacer, pause_after
from seglog.broker.cleaning.throttle import Throttle
from seglog.broker.runtime.traffic import Traffic
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


class Machine:
    """A clock that moves when a pass works or pacer, and the traffic beside it."""

    def __init__(self) -> None:
        self.now_ns = 10**12
        self.traffic = Traffic()
        self.rested: list[float] = []
        self.pacer = Pacer(self.traffic, lambda: self.now_ns, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.rested.append(seconds)
        self.now_ns += math.ceil(seconds * 1e9)

    def work(self, elapsed_ns: int) -> None:
        self.now_ns += elapsed_ns
        self.pacer.pause_if_due()

    def request(self) -> None:
        self.traffic.last_work_ns = self.now_ns


def test_a_pass_keeps_its_processor_for_many_chunks_while_others_wait_for_it() -> None:
    machine = Machine()
    machine.request()
    for chunk in range(1, 13):
        machine.work(TURN_NS // 4)
        assert len(machine.rested) == chunk // 4
    assert set(machine.rested) == {PAUSE_SECONDS}


def test_an_idle_broker_is_cleaned_at_a_third_of_the_speed() -> None:
    """CLN-17."""
    machine = Machine()
    for _ in range(1000):
        machine.work(TURN_NS)
    assert machine.rested == []


def test_a_pass_at_full_speed_takes_no_notice_of_the_request_that_comes() -> None:
    """CLN-17: it rests at the next chunk, and stops to do so a while after the last request."""
    machine = Machine()
    machine.work(QUIET_NS)
    machine.request()
    machine.work(TURN_NS // 4)
    assert machine.rested == [PAUSE_SECONDS]
    machine.work(QUIET_NS)
    machine.work(QUIET_NS)
    assert machine.rested == [PAUSE_SECONDS]


@pytest.mark.parametrize(
    ("turn_ns", "quiet_ns", "seconds"),
    [
        (TURN_NS - 1, 0, 0.0),
        (TURN_NS, 0, PAUSE_SECONDS),
        (TURN_NS, -1, PAUSE_SECONDS),  # a request came between the two looks at the clock
        (TURN_NS, QUIET_NS - 1, PAUSE_SECONDS),
        (TURN_NS, QUIET_NS, 0.0),
    ],
)
def test_a_rest_is_due_a_chunk_too_early_or_too_late(
    turn_ns: int, quiet_ns: int, seconds: float
) -> None:
    assert pause_after(turn_ns, quiet_ns) == seconds


def test_a_rest_is_counted_as_part_of_the_turn_that_follows() -> None:
    """Where a machine sleeps for longer than asked, a pass would rest after each tiny chunk."""
    machine = Machine()
    machine.request()
    machine.work(TURN_NS)
    machine.pacer.pause_if_due()
    assert len(machine.rested) == 1


def test_rests_are_added_to_what_a_throttled_pass_waits_anyway() -> None:
    """CLN-14: the rate is what was set, with traffic and without."""
    machine = Machine()
    throttle = Throttle(50e6, lambda: machine.now_ns / 1e9, machine.sleep)
    started_ns, chunk_bytes = machine.now_ns, 256 * 1024
    for _ in range(1000):
        throttle.take(chunk_bytes, lambda: False)
        machine.request()
        machine.work(TURN_NS)
    rate = 1000 * chunk_bytes / ((machine.now_ns - started_ns) / 1e9)
    assert machine.rested.count(PAUSE_SECONDS) == 1000
    assert rate == pytest.approx(50e6, rel=0.05)
