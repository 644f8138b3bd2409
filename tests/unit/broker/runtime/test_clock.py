import time

from seglog.broker.runtime.clock import SystemClock


def test_wall_time_is_in_milliseconds_not_in_seconds() -> None:
    """C002: a time in seconds makes every record 50 years old."""
    before = time.time()
    now_ms = SystemClock().time_ms()
    assert before * 1000 - 1 <= now_ms <= time.time() * 1000


def test_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)
