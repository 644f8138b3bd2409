"""Waiting for what another process does: asks again and again, up to a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

ResultT = TypeVar("ResultT")

PAUSE_SECONDS = 0.02


def eventually(
    ask: Callable[[], ResultT],
    timeout: float = 10.0,
    until: Callable[[ResultT], bool] = bool,
) -> ResultT:
    """The first answer that ``until`` accepts (any true one); fails with the last one."""
    deadline = time.monotonic() + timeout
    while True:
        answer = ask()
        if until(answer):
            return answer
        assert time.monotonic() < deadline, f"not within {timeout} s; at last: {answer!r}"
        time.sleep(PAUSE_SECONDS)
