"""The offsets of a log keep their order."""

import pytest

from seglog.broker.storage.log.offsets import LogOffsets


def offsets(**values: int) -> LogOffsets:
    return LogOffsets(**{"log_start": 0, "log_end": 100, "recovery_point": 0, **values})


def test_a_log_just_opened_shows_nothing_beyond_its_start() -> None:
    """HW-5: without a checkpoint the high watermark is the log start."""
    assert offsets(log_start=7).high_watermark == 7


def test_high_watermark_outside_the_log_is_held_at_its_bounds() -> None:
    """HW-1."""
    log = offsets(log_start=10)
    assert not log.set_high_watermark(3)
    assert log.set_high_watermark(1000)
    assert log.high_watermark == 100


def test_last_stable_never_exceeds_the_high_watermark() -> None:
    """TXN-9, HW-7."""
    log = offsets(high_watermark=50)
    assert log.last_stable == 50
    log.set_first_unstable(60)
    assert log.last_stable == 50
    log.set_first_unstable(20)
    assert log.last_stable == 20


def test_unstable_offset_below_the_log_start_does_not_pull_last_stable_below_it() -> None:
    """TXN-10."""
    log = offsets(high_watermark=50)
    log.set_first_unstable(20)
    log.advance_log_start(30)
    assert log.last_stable == 30


def test_log_start_above_the_high_watermark_takes_it_along() -> None:
    log = offsets(high_watermark=5)
    assert log.advance_log_start(40)
    assert not log.advance_log_start(39)
    assert (log.log_start, log.high_watermark) == (40, 40)


def test_truncation_pulls_every_offset_down() -> None:
    """TRUNC-5."""
    log = offsets(log_start=40, high_watermark=80, recovery_point=90)
    log.truncate(30)
    assert (log.log_start, log.high_watermark, log.log_end, log.recovery_point) == (30, 30, 30, 30)


def test_recovery_point_never_passes_the_end_nor_moves_back() -> None:
    log = offsets()
    assert log.advance_recovery_point(500)
    assert log.recovery_point == 100
    assert not log.advance_recovery_point(50)


def test_offsets_in_the_wrong_order_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        offsets(log_start=101)
    with pytest.raises(AssertionError):
        offsets().advance_log_end(99)
    with pytest.raises(AssertionError):
        offsets(recovery_point=101)


def test_restart_of_an_emptied_log() -> None:
    """TRUNC-9."""
    log = offsets(high_watermark=50, recovery_point=60)
    log.restart_at(10, log_start=5)
    assert (log.log_start, log.high_watermark, log.log_end, log.recovery_point) == (5, 10, 10, 10)
