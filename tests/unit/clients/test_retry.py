"""Pauses between attempts, and the limit on log lines."""

import logging

import pytest

from seglog.clients.retry import Backoff, LimitedLogger


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
