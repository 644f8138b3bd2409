"""An event loop whose time jumps: where nothing happens, it goes on at the next timer at once.

Clients and the fake broker on such a loop wait for seconds of its clock that take no time. What
comes from outside (sockets, other threads) is waited for before the clock jumps.
"""

import asyncio
import selectors
from typing import Any

_GRACE_S = 0.005
"""How long something real, such as the bytes of a socket, may take to show."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """Runs on sockets of this process; ``time()`` begins at 1000 and moves by jumps only."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self.now_s = 1000.0
        self.calls_elsewhere = 0
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """As ever; time stands still until the thread has answered."""
        future = super().run_in_executor(executor, func, *args)
        self.calls_elsewhere += 1
        future.add_done_callback(self._answered)
        return future

    def _answered(self, _: object) -> None:
        self.calls_elsewhere -= 1


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)  # There is something to do already.
        if timeout is None or self._loop.calls_elsewhere:
            return super().select(None)
        found = super().select(_GRACE_S)
        if not found:
            self._loop.now_s += timeout
        return found
