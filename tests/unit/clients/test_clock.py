"""The clock of a client is that of its loop."""

import asyncio
import time

import pytest

from seglog.clients.clock import fine_clock
from support.jumping_loop import JumpingLoop


def test_a_loop_made_from_asyncios_brings_its_own_clock() -> None:
    loop = JumpingLoop()
    try:
        assert fine_clock(loop)() == 1000.0
        loop.run_until_complete(asyncio.sleep(3600))
        assert fine_clock(loop)() == pytest.approx(4600.0)
    finally:
        loop.close()


def test_a_loop_that_counts_milliseconds_does_not_decide() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        assert fine_clock(loop) is time.monotonic
    finally:
        loop.close()
