"""Something that ends once, and its waiters: threads, tasks and callbacks."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

SIGNAL_CHECK_S: Final = 0.5
"""How often a thread that waits lets the interpreter look for signals."""
WAITS_FOR_ITSELF: Final = "a callback of the client must not wait for the client"
_this_thread = threading.local()


def forbid_waiting() -> None:
    """The calling thread brings completions about: one that it waited for would never come."""
    _this_thread.may_not_wait = True


def is_waiting_forbidden() -> bool:
    """Whether the calling thread is one of those."""
    return bool(getattr(_this_thread, "may_not_wait", False))


def wait_for_event(event: threading.Event, timeout_s: float | None) -> bool:
    """Block the calling thread until the event; returns whether it came in time.

    In short turns: Ctrl-C can get lost for as long as nothing else happens, where the signal
    arrives after the interpreter has looked for one and before the thread sleeps.
    """
    end_s = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SIGNAL_CHECK_S if end_s is None else max(0.0, end_s - time.monotonic())
        if event.wait(min(left_s, SIGNAL_CHECK_S)):
            return True
        if left_s <= 0:
            return False


class Completion:
    """Base of what can be waited for from any thread; it is finished on the loop's thread only."""

    __slots__ = ("_callbacks", "_is_done", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_done = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_done(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self._is_done

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on the loop's thread when it ends; here and now if it has ended."""
        with self._lock:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout_s: float | None) -> bool:
        """Block the calling thread until the end; returns whether it came in time."""
        if self._is_done:
            return True
        ended = threading.Event()
        self.add_callback(ended.set)
        return wait_for_event(ended, timeout_s)

    async def wait_async(self) -> None:
        """Wait for the end on the loop that brings it about."""
        if self._is_done:
            return
        waiter = asyncio.get_running_loop().create_future()
        self.add_callback(lambda: None if waiter.done() else waiter.set_result(None))
        await waiter

    def _finish(self) -> None:
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
