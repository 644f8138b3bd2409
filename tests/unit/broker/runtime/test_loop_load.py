"""How busy the loop is."""

import asyncio
import time

import pytest

from seglog.broker.runtime import loop_load
from seglog.broker.runtime.loop_load import BusyTimes, LoopLoad

SECOND = 1_000_000_000


class Clock:
    """Time that goes on when told to, and what was done in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = self.cpu_ns = self.sockets_ns = self.handlers_ns = 0
        monkeypatch.setattr(loop_load.time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(loop_load.time, "thread_time_ns", lambda: self.cpu_ns)

    def read(self) -> BusyTimes:
        return BusyTimes(self.sockets_ns, self.handlers_ns)

    def go_on(self, *, sockets: float = 0, handlers: float = 0, cpu: float = 0) -> None:
        """One second, of which the parts were spent so."""
        self.now_ns += SECOND
        self.sockets_ns += round(sockets * SECOND)
        self.handlers_ns += round(handlers * SECOND)
        self.cpu_ns += round(cpu * SECOND)


async def test_loop_that_waits_for_a_disk_counts_as_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The larger one counts: time in callbacks, or CPU time of what no socket has asked for."""
    clock = Clock(monkeypatch)
    load = LoopLoad(asyncio.get_running_loop(), clock.read)
    load.start()
    assert load.idle_shares() == (1, 1)
    clock.go_on(sockets=0.8, handlers=0.6, cpu=0.1)
    load._tick()
    assert load.idle_shares() == pytest.approx((0.2, 0.4))
    clock.go_on(cpu=0.4)
    assert load.idle_shares() == pytest.approx((0.4, 0.7))
    assert load.busy_seconds() == pytest.approx((1.2, 0.6))
    load.stop()
    load.stop()


async def test_one_busy_minute_is_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares are those of the last minute, sums those since the start."""
    clock = Clock(monkeypatch)
    load = LoopLoad(asyncio.get_running_loop(), clock.read)
    load.start()
    for busy in (1.0, 0.25):
        for _ in range(60):
            clock.go_on(sockets=busy, handlers=busy, cpu=busy)
            load._tick()
    assert load.idle_shares() == pytest.approx((0.75, 0.75))
    assert load.busy_seconds() == pytest.approx((75, 75))
    load.stop()


async def test_more_than_everything_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks differ by a little."""
    clock = Clock(monkeypatch)
    load = LoopLoad(asyncio.get_running_loop(), clock.read)
    load.start()
    clock.go_on(sockets=1.01, handlers=1.01)
    assert load.idle_shares() == (0, 0)
    load.stop()
    assert time.monotonic_ns() == clock.now_ns
