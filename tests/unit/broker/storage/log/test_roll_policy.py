"""When the active segment is sealed."""

from dataclasses import dataclass, field, replace
from itertools import product

from seglog.broker.storage.log.roll_policy import (
    RollReason,
    effective_segment_ms,
    roll_bounds,
    segment_jitter_ms,
    should_roll,
)
from seglog.config.log_config import LogConfig

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CONFIG = LogConfig(segment_bytes=1000, segment_ms=HOUR_MS)


@dataclass
class Index:
    is_full: bool = False


@dataclass
class Segment:
    base_offset: int = 0
    size_bytes: int = 500
    created_ms: int = NOW_MS - 60_000
    first_batch_timestamp: int | None = NOW_MS
    offset_index: Index = field(default_factory=Index)
    time_index: Index = field(default_factory=Index)


def decide(
    segment: Segment,
    config: LogConfig = CONFIG,
    *,
    incoming_bytes: int = 100,
    timestamp_ms: int = NOW_MS,
    last_offset: int = 10,
    jitter_ms: int = 0,
    now_ms: int = NOW_MS,
) -> RollReason | None:
    return should_roll(
        segment,
        config,
        incoming_bytes=incoming_bytes,
        incoming_max_timestamp_ms=timestamp_ms,
        incoming_last_offset=last_offset,
        jitter_ms=jitter_ms,
        now_ms=now_ms,
    )


def test_segment_may_hold_exactly_its_limit() -> None:
    """ROLL-13."""
    assert decide(Segment(), incoming_bytes=500) is None
    assert decide(Segment(), incoming_bytes=501) is RollReason.SIZE


def test_empty_segment_takes_whatever_comes() -> None:
    """ROLL-4, ROLL-14; a follower may write more than segment.bytes."""
    empty = Segment(size_bytes=0, first_batch_timestamp=None, created_ms=0)
    empty.offset_index.is_full = True
    assert decide(empty, incoming_bytes=5000) is None


def test_offset_that_does_not_fit_31_bits_rolls_even_an_empty_segment() -> None:
    """ROLL-1e."""
    assert decide(Segment(size_bytes=0), last_offset=2**31 - 1) is None
    assert decide(Segment(size_bytes=0), last_offset=2**31) is RollReason.OFFSET_RANGE


def test_age_is_measured_by_record_timestamps() -> None:
    """ROLL-2, ROLL-3: the wall clock alone does not roll a segment with timestamps."""
    assert decide(Segment(), now_ms=NOW_MS + 10 * HOUR_MS) is None
    assert decide(Segment(), timestamp_ms=NOW_MS + HOUR_MS) is None
    assert decide(Segment(), timestamp_ms=NOW_MS + HOUR_MS + 1) is RollReason.AGE


def test_segment_without_timestamps_ages_by_the_wall_clock() -> None:
    """ROLL-2."""
    old = Segment(first_batch_timestamp=-1, created_ms=NOW_MS - HOUR_MS - 1)
    assert decide(old, timestamp_ms=-1) is RollReason.AGE


def test_jitter_makes_a_segment_roll_earlier() -> None:
    """ROLL-1b."""
    assert decide(Segment(), timestamp_ms=NOW_MS + HOUR_MS, jitter_ms=1) is RollReason.AGE


def test_odd_timestamps_cannot_roll_a_segment_for_every_batch() -> None:
    """C003: at most one roll for age per log.roll.min.interval.ms of the broker's clock."""
    young = Segment(created_ms=NOW_MS - 999)
    assert decide(young, timestamp_ms=NOW_MS + 24 * HOUR_MS) is None
    young.created_ms = NOW_MS - 1000
    assert decide(young, timestamp_ms=NOW_MS + 24 * HOUR_MS) is RollReason.AGE


def test_short_segment_ms_is_not_held_back_by_the_minimum_interval() -> None:
    young = Segment(created_ms=NOW_MS - 201, first_batch_timestamp=NOW_MS - 201)
    assert decide(young, replace(CONFIG, segment_ms=200)) is RollReason.AGE


def test_clock_set_back_does_not_stop_rolls_for_age() -> None:
    ahead = Segment(created_ms=NOW_MS + HOUR_MS)
    assert decide(ahead, timestamp_ms=NOW_MS + 2 * HOUR_MS) is RollReason.AGE


def test_full_indexes_roll() -> None:
    """ROLL-1c, ROLL-1d."""
    assert decide(Segment(offset_index=Index(is_full=True))) is RollReason.OFFSET_INDEX_FULL
    assert decide(Segment(time_index=Index(is_full=True))) is RollReason.TIME_INDEX_FULL


def test_compaction_lag_shortens_the_age_of_compacted_segments() -> None:
    """ROLL-6."""
    config = replace(CONFIG, max_compaction_lag_ms=1000)
    assert effective_segment_ms(config) == HOUR_MS
    assert effective_segment_ms(replace(config, cleanup_policy=frozenset({"compact"}))) == 1000


def test_jitter_stays_within_its_bound_and_differs_between_logs() -> None:
    """ROLL-5."""
    assert segment_jitter_ms(CONFIG, "t-0", 0) == 0
    config = replace(CONFIG, segment_jitter_ms=5000)
    jitters = [segment_jitter_ms(config, f"t-{number}", 0) for number in range(50)]
    assert all(0 <= jitter < 5000 for jitter in jitters)
    assert len(set(jitters)) > 40
    short = replace(config, segment_ms=10)
    assert all(segment_jitter_ms(short, f"t-{number}", 0) < 10 for number in range(50))


def test_batch_within_the_bounds_never_rolls() -> None:
    """ROLL-1: what is decided by comparing with bounds is what asking anew would decide."""
    segment = Segment(base_offset=1000, size_bytes=500, first_batch_timestamp=NOW_MS)
    for jitter_ms in (0, 500):
        bounds = roll_bounds(segment, CONFIG, jitter_ms)
        assert bounds is not None
        for room, offset, timestamp_ms in product(
            (bounds.max_size_bytes - 500, bounds.max_size_bytes - 499),
            (bounds.max_offset, bounds.max_offset + 1),
            (bounds.max_timestamp_ms, bounds.max_timestamp_ms + 1),
        ):
            decision = decide(
                segment,
                incoming_bytes=room,
                timestamp_ms=timestamp_ms,
                last_offset=offset,
                jitter_ms=jitter_ms,
            )
            is_within = (
                room + 500 <= bounds.max_size_bytes
                and offset <= bounds.max_offset
                and timestamp_ms <= bounds.max_timestamp_ms
            )
            assert (decision is None) == is_within


def test_segment_that_ages_by_the_clock_has_no_bounds() -> None:
    """ROLL-3: whether it rolls is another question each millisecond."""
    assert roll_bounds(Segment(first_batch_timestamp=None, size_bytes=0), CONFIG, 0) is None
    assert roll_bounds(Segment(first_batch_timestamp=-1), CONFIG, 0) is None
