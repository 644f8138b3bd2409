"""Threads of which one runs at a time, and a seed that says which: an order replays exactly.

A thread that takes part is an actor. The baton goes from one to another only at a point: before and
after a call on the disk, at each turn of the event loop, and where an actor waits (for a job, for
the end of a thread, for an answer of the loop). At each point the seed chooses who goes on.

    with Interleaving(seed) as order:       threads and queues made here obey it
        loop = order.new_loop()
        ...

``threading.Thread``, ``threading.Lock``, ``queue.SimpleQueue`` and the waiting for a result of
``concurrent.futures.Future`` are replaced meanwhile, so that the pools of the broker itself are at
work, and not something in their place. A reentrant lock is as it is: it must not be held at a
point. Time is the loop's and passes only when everybody waits.
"""

import asyncio
import concurrent.futures
import os
import queue
import random
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

_STUCK_SECONDS: Final = 60.0
"""Nobody computes for so long: an actor waits where no other is let on."""
_HABITS: Final = (0.1, 0.3, 0.6)
"""How likely it is that another one goes on at a point; each seed has one of these."""


class DeadlockError(AssertionError):
    """Everybody waits, and nothing is due."""


class _AbandonedError(BaseException):
    """Unwinds the threads of a run that is over."""


class Actor:
    """One thread that takes part.

    Attributes:
        ready: while it waits, whether it may go on; None while it could.
        due: when a wait ends anyhow, in seconds of the order's time.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.turn = threading.Lock()
        self.turn.acquire()
        self.ready: Callable[[], bool] | None = None
        self.due: float | None = None
        self.is_over = False

    def may_go_on(self, now: float) -> bool:
        """Whether it has something to do."""
        return self.ready is None or self.ready() or (self.due is not None and self.due <= now)


class Interleaving:
    """The order in which actors go on; the thread that makes it is the first of them.

    Args:
        seed: chooses.

    Attributes:
        now: seconds since the beginning.
        trace: one line a point: who, and what it was about to do.
        random: for other choices of the same run.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.trace: list[str] = []
        self.random = random.Random(seed)
        self._habit = self.random.choice(_HABITS)
        self._main = Actor("loop")
        self._running = self._main
        self._actors = [self._main]
        self._by_thread = {threading.get_ident(): self._main}
        self._is_over = False
        self._replaced: list[tuple[object, str, Any]] = []

    # ---- as a context

    def __enter__(self) -> Self:
        order = self

        class OrderedThread(_OrderedThread):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                self.order = order

        class OrderedQueue(_OrderedQueue):
            def __init__(self) -> None:
                super().__init__(order)

        new_lock = threading.Lock

        def ordered_lock() -> Any:
            # The library's own are held by threads that are about to take part, or have ended.
            is_ours = sys._getframe(1).f_globals["__name__"].startswith("seglog.")
            return _OrderedLock(order, new_lock()) if is_ours else new_lock()

        wait = concurrent.futures.Future.result

        def result(future: "concurrent.futures.Future[Any]", timeout: float | None = None) -> Any:
            if order.here() is not None and not future.done():
                order.wait(future.done, "wait for the loop")
            return wait(future, timeout)

        self._replace(os, "urandom", self.random.randbytes)  # ids are part of names
        self._replace(time, "monotonic", lambda: self.now)
        self._replace(threading, "Thread", OrderedThread)
        self._replace(threading, "Lock", ordered_lock)
        self._replace(queue, "SimpleQueue", OrderedQueue)
        self._replace(concurrent.futures.Future, "result", result)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._end_others()
        finally:
            for owner, name, value in reversed(self._replaced):
                setattr(owner, name, value)

    def _replace(self, owner: object, name: str, value: object) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _end_others(self) -> None:
        """Let threads that wait for ever unwind, one after the other."""
        self._is_over = True
        for actor in self._actors[1:]:
            while not actor.is_over:
                self._hand_over(actor)

    # ---- points

    def here(self) -> Actor | None:
        """The actor of this thread."""
        return self._by_thread.get(threading.get_ident())

    def point(self, what: str) -> None:
        """Somebody else may go on here before ``what`` is done."""
        actor = self.here()
        if actor is None or self._is_over:
            return
        self.trace.append(f"{actor.name}: {what}")
        if len(self._actors) == 1 or self.random.random() >= self._habit:
            return
        others = [each for each in self._actors if each is not actor and each.may_go_on(self.now)]
        if others:
            self._hand_over(self.random.choice(others))

    def wait(self, ready: Callable[[], bool], what: str, seconds: float | None = None) -> bool:
        """Let others go on until ``ready``; False if so many seconds passed first."""
        actor = self.here()
        assert actor is not None, what
        self.trace.append(f"{actor.name}: {what}")
        actor.ready = ready
        actor.due = None if seconds is None else self.now + seconds
        try:
            chosen = self._next()
            if chosen is not actor:
                self._hand_over(chosen)
            return ready()
        finally:
            actor.ready = actor.due = None

    def _next(self) -> Actor:
        while True:
            found = [each for each in self._actors if each.may_go_on(self.now)]
            if found:
                return found[0] if len(found) == 1 else self.random.choice(found)
            times = [each.due for each in self._actors if each.due is not None]
            if not times:
                if self._is_over:
                    return self._main
                waiting = ", ".join(each.name for each in self._actors)
                raise DeadlockError(f"everybody waits: {waiting}")
            self.now = max(self.now, min(times))

    def _hand_over(self, chosen: Actor) -> None:
        actor = self._running
        self._running = chosen
        chosen.turn.release()
        self._take_turn(actor)

    def _take_turn(self, actor: Actor) -> None:
        if not actor.turn.acquire(timeout=_STUCK_SECONDS):
            frame = None
            for identity, each in self._by_thread.items():
                if each is self._running:
                    frame = sys._current_frames().get(identity)
            raise AssertionError(f"{self._running.name} stands still outside of a point: {frame}")
        if self._is_over and actor is not self._main:
            raise _AbandonedError

    # ---- threads

    def join_in(self, name: str) -> Actor:
        """Another thread will take part; it waits for its first turn."""
        actor = Actor(name)
        self._actors.append(actor)
        return actor

    def run_as(self, actor: Actor, work: Callable[[], None]) -> None:
        """Do the work of a thread that takes part."""
        self._by_thread[threading.get_ident()] = actor
        try:
            self._take_turn(actor)
            work()
        except _AbandonedError:
            pass
        finally:
            del self._by_thread[threading.get_ident()]
            actor.is_over = True
            self._actors.remove(actor)
            following = self._main if self._is_over else self._next()
            self._running = following
            following.turn.release()

    def new_loop(self) -> "OrderedLoop":
        """An event loop whose time is this order's."""
        return OrderedLoop(self)


class _OrderedThread(threading.Thread):
    """A thread that is an actor."""

    order: Interleaving

    def start(self) -> None:
        self.actor = self.order.join_in(self.name)
        super().start()

    def run(self) -> None:
        self.order.run_as(self.actor, super().run)

    def join(self, timeout: float | None = None) -> None:
        if self.order.here() is None or self.order.wait(
            lambda: self.actor.is_over, f"join {self.name}", timeout
        ):
            super().join()


class _OrderedLock:
    """A ``threading.Lock`` that may be held at a point: another actor waits for it as actors do."""

    def __init__(self, order: Interleaving, lock: threading.Lock) -> None:
        self._order = order
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        if self._order.here() is None:
            return self._lock.acquire(timeout=timeout)
        seconds = None if timeout < 0 else timeout
        while not self._lock.acquire(blocking=False):
            if not self._order.wait(lambda: not self._lock.locked(), "wait for a lock", seconds):
                return False
        return True

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()


class _OrderedQueue:
    """A ``queue.SimpleQueue`` whose reader waits as an actor does."""

    def __init__(self, order: Interleaving) -> None:
        self._order = order
        self._items: deque[Any] = deque()

    def put(self, item: object) -> None:
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items and not (
            block and self._order.wait(lambda: bool(self._items), "wait for a job", timeout)
        ):
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class _OrderedSelector(selectors.DefaultSelector):  # type: ignore[valid-type, misc]  # by platform
    """No sockets: a turn of the loop is a point, and an idle loop waits."""

    loop: "OrderedLoop"

    def select(self, timeout: float | None = None) -> list[Any]:
        self.loop.between_turns(timeout)
        return []


class OrderedLoop(asyncio.SelectorEventLoop):
    """The event loop of an order.

    Attributes:
        on_turn: called after each turn.
    """

    def __init__(self, order: Interleaving) -> None:
        selector = _OrderedSelector()
        super().__init__(selector)
        selector.loop = self
        self.on_turn: Callable[[], None] | None = None
        self._order = order
        self._is_called = False

    def time(self) -> float:
        return self._order.now

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> Any:
        self._is_called = True
        return super().call_soon_threadsafe(*args, **options)

    def between_turns(self, timeout: float | None) -> None:
        """What stands for the waiting for events."""
        if self.on_turn is not None:
            self.on_turn()
        if timeout is not None and timeout <= 0:
            self._order.point("turn")
        elif not self._is_called:
            self._order.wait(lambda: self._is_called, "idle", timeout)
        self._is_called = False
