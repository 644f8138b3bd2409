"""Which segments retention may delete."""

from dataclasses import dataclass, replace

from seglog.broker.storage.errors import MissingFileError
from seglog.broker.storage.log.retention import DeletionReason, RetentionBounds, deletable_segments
from seglog.config.log_config import LogConfig

NOW_MS = 1_700_000_000_000
KEEP_FOREVER = LogConfig(retention_ms=-1, retention_bytes=-1)
MIB = 1 << 20


@dataclass
class Segment:
    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int = NOW_MS


def decide(
    segments: list[Segment],
    config: LogConfig = KEEP_FOREVER,
    *,
    log_start: int = 0,
    high_watermark: int = 40,
) -> list[tuple[int, DeletionReason]]:
    bounds = RetentionBounds(log_start, high_watermark, 40)
    found = deletable_segments(segments, config, bounds, NOW_MS)
    return [(segment.base_offset, reason) for segment, reason in found]


def four_segments(size_bytes: int = 100, age_ms: int = 0) -> list[Segment]:
    return [Segment(base, size_bytes, NOW_MS - age_ms) for base in (0, 10, 20, 30)]


def test_without_limits_nothing_goes() -> None:
    assert decide(four_segments(age_ms=10**12)) == []


def test_segment_exactly_at_the_age_limit_stays() -> None:
    """RET-5: the comparison is strict."""
    config = replace(KEEP_FOREVER, retention_ms=1000)
    assert decide(four_segments(age_ms=1000), config) == []
    assert len(decide(four_segments(age_ms=1001), config)) == 4


def test_young_segment_shields_older_ones_behind_it() -> None:
    """RET-1: the first segment that does not qualify ends the pass."""
    segments = four_segments(age_ms=5000)
    segments[1].largest_timestamp_ms = NOW_MS
    assert decide(segments, replace(KEEP_FOREVER, retention_ms=1000)) == [(0, DeletionReason.TIME)]


def test_future_timestamps_postpone_deletion() -> None:
    """RET-5."""
    assert decide(four_segments(age_ms=-(10**10)), replace(KEEP_FOREVER, retention_ms=0)) == []


def test_empty_active_segment_is_never_deleted() -> None:
    """RET-3, RET-13."""
    segments = four_segments(age_ms=5000)
    segments[-1].size_bytes = 0
    found = decide(segments, replace(KEEP_FOREVER, retention_ms=1000))
    assert [base for base, _ in found] == [0, 10, 20]


def test_size_deletes_only_whole_segments_of_the_excess() -> None:
    """C009, RET-6: never below the limit, however little is over it."""
    config = replace(KEEP_FOREVER, retention_bytes=2 * MIB)
    first, second, active = Segment(0, MIB), Segment(10, 2 * MIB), Segment(20, MIB)
    assert decide([first, second, active], config) == [(0, DeletionReason.SIZE)]
    assert decide([second, active], config) == []
    active.size_bytes += MIB
    assert decide([second, active], config) == [(10, DeletionReason.SIZE)]


def test_size_never_takes_the_active_segment() -> None:
    """C009."""
    found = decide(four_segments(), replace(KEEP_FOREVER, retention_bytes=0))
    assert [base for base, _ in found] == [0, 10, 20]


def test_nothing_above_the_high_watermark_is_deleted() -> None:
    """RET-2."""
    by_age = replace(KEEP_FOREVER, retention_ms=1000)
    assert len(decide(four_segments(age_ms=5000), by_age, high_watermark=25)) == 2
    assert (
        len(decide(four_segments(), replace(KEEP_FOREVER, retention_bytes=0), high_watermark=10))
        == 1
    )
    assert decide(four_segments(age_ms=5000), by_age, high_watermark=9) == []


def test_log_start_deletes_what_ends_at_or_below_it() -> None:
    """RET-7, DEL-6: a partly obsolete segment stays."""
    assert decide(four_segments(), log_start=20) == [
        (0, DeletionReason.LOG_START),
        (10, DeletionReason.LOG_START),
    ]
    assert len(decide(four_segments(), log_start=19)) == 1


def test_steps_run_in_order_log_start_size_time() -> None:
    """RET-4."""
    config = LogConfig(retention_bytes=200, retention_ms=1000)
    segments = four_segments(age_ms=5000)
    assert [reason for _, reason in decide(segments, config, log_start=10)] == [
        DeletionReason.LOG_START,
        DeletionReason.SIZE,
        DeletionReason.TIME,
        DeletionReason.TIME,
    ]


def test_compact_only_and_empty_policy_delete_below_the_log_start_alone() -> None:
    """RET-8, C013."""
    for policy in (frozenset({"compact"}), frozenset[str]()):
        config = LogConfig(cleanup_policy=policy, retention_bytes=0, retention_ms=0)
        assert decide(four_segments(age_ms=5000), config, log_start=10) == [
            (0, DeletionReason.LOG_START)
        ]


class GoneSegment(Segment):
    """One whose file somebody has removed, before its time was ever asked for."""

    @property
    def largest_timestamp_ms(self) -> int:
        raise MissingFileError("look at", "0.log", "No such file or directory")

    @largest_timestamp_ms.setter
    def largest_timestamp_ms(self, value: int) -> None:
        """It is not known."""


def test_segment_whose_file_is_gone_keeps_all_others() -> None:
    """RET-16: the size rule does not need its time; by age it goes with what follows it."""
    by_age = replace(KEEP_FOREVER, retention_ms=1000)
    segments = four_segments(age_ms=5000)
    segments[0] = GoneSegment(0, 100)
    segments[2].largest_timestamp_ms = NOW_MS
    assert decide(segments, by_age) == [(0, DeletionReason.TIME), (10, DeletionReason.TIME)]
    segments[1].largest_timestamp_ms = NOW_MS
    assert decide(segments, by_age) == []
    by_both = replace(by_age, retention_bytes=300)
    assert decide(segments, by_both) == [(0, DeletionReason.SIZE)]
    segments[1] = GoneSegment(10, 100)
    assert decide(segments, by_both) == [(0, DeletionReason.SIZE)]
