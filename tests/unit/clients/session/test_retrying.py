"""Pauses between attempts, and the limit on log lines."""

import logging

import pytest

from seglog.clients.session.retrying import Backoff, LimitedLogger, Patience


def test_pauses_double_up_to_their_maximum():
    backoff = Backoff(0.1, 1.0, uniform=lambda: 0.5)
    delays = [backoff.delay_s(attempt) for attempt in range(1, 7)]
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert backoff.delay_s(10_000) == 1.0


def test_jitter_spreads_the_pauses_but_not_below_their_minimum():
    """C063: at most two attempts a second, whatever the dice say."""
    low, high = Backoff(0.5, 3, uniform=lambda: 0.0), Backoff(0.5, 3, uniform=lambda: 0.999)
    assert low.delay_s(1) == pytest.approx(0.4)
    assert high.delay_s(1) == pytest.approx(0.6, abs=0.01)
    assert Backoff(0.5, 3, min_s=0.5, uniform=lambda: 0.0).delay_s(1) == 0.5


def test_a_trouble_is_logged_now_and_then_with_what_was_left_out(caplog):
    now = 0.0
    log = LimitedLogger(logging.getLogger("seglog.clients"), lambda: now, interval_s=5)
    for second in range(12):
        now = float(second)
        log.warning("attempt %d", second)
    assert [record.getMessage() for record in caplog.records] == [
        "attempt 0",
        "attempt 5 (4 more like this)",
        "attempt 10 (4 more like this)",
    ]


def patience(timeout_s=10.0):
    return Patience(lambda attempt: float(attempt), timeout_s, 100.0)


def test_attempts_end_where_the_next_pause_would_reach_the_deadline():
    made = patience()
    assert [made.pause_s(now) for now in (100.0, 101.0, 103.0)] == [1.0, 2.0, 3.0]
    assert made.left_s(106.0) == 4.0
    assert made.pause_s(106.0) is None


def test_progress_gives_the_whole_time_and_short_pauses_again():
    made = patience()
    made.pause_s(100.0)
    assert made.pause_s(101.0) == 2.0
    made.got_on(108.0)
    assert made.pause_s(108.0) == 1.0
    assert made.left_s(108.0) == 10.0


def test_what_passes_soon_or_never_is_given_up_earlier():
    made = patience()
    made.no_longer_than(2.0, 100.0)
    made.no_longer_than(5.0, 101.0)
    assert made.pause_s(100.5) == 1.0
    assert made.pause_s(101.5) is None


def test_an_attempt_gets_some_time_even_at_the_end():
    assert patience().left_s(1000.0) > 0
