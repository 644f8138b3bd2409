"""A bound on open descriptors: opened on demand, closed when others need room.

A ``Handle`` is one open descriptor. It is closed once, when it is retired (evicted, or its file was
closed) and is not pinned. The two may happen in different threads; each handle has a lock
that decides which comes first, and so has the pool's list of handles. No system call is made under
either. The locks are reentrant because an unreleased slice gives its pin back when the garbage
collector finds it, in any thread and in the middle of any line. Where every append and fetch passes
they are taken by name, with nothing between that can raise: half the price of a ``with``.
"""

import resource
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from seglog.broker.storage.errors import NO_RESOURCE

T = TypeVar("T")

MIN_OPEN_HANDLES: Final = 16
MAX_OPEN_HANDLES: Final = 16_384


class Handle(Generic[T]):
    """An open descriptor (``value``) that is closed when it is retired and unpinned."""

    __slots__ = ("_close", "_is_retired", "_lock", "_pins", "_recently_used", "value")

    def __init__(self, value: T, close: Callable[[T], None]) -> None:
        """A handle that is pinned once, by the caller."""
        self.value = value
        self._close = close
        self._lock = threading.RLock()
        self._pins = 1
        self._is_retired = False
        # Opening it is no second use: the newest goes last anyway.
        self._recently_used = False

    def try_pin(self) -> bool:
        """Keeps the value open until ``unpin``; False if it is on its way out already."""
        lock = self._lock
        lock.acquire()
        is_open = not self._is_retired
        if is_open:
            self._pins += 1
            self._recently_used = True
        lock.release()
        return is_open

    def unpin(self) -> None:
        """Gives up one ``try_pin``; callable from any thread."""
        lock = self._lock
        lock.acquire()
        self._pins -= 1
        is_last = self._is_retired and self._pins == 0
        lock.release()
        if is_last:
            self._close(self.value)

    def retire(self) -> None:
        """Closes the value now or, if it is pinned, with the last ``unpin``. Idempotent."""
        with self._lock:
            is_first = not self._is_retired
            self._is_retired = True
            is_last = is_first and self._pins == 0
        if is_last:
            self._close(self.value)

    def retire_if_idle(self) -> bool:
        """Retires it unless it is pinned, or was used since the last call; whether it went."""
        with self._lock:
            if self._pins or self._recently_used:
                self._recently_used = False
                return False
            is_first = not self._is_retired
            self._is_retired = True
        if is_first:
            self._close(self.value)
        return True


class HandlePool:
    """The open handles of one process, at most ``limit`` unless more are pinned at once.

    Eviction is second chance: the oldest handle goes unless it was used since it was last looked
    at. Keys are the objects that own the handles (by identity).
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = default_limit() if limit is None else limit
        self._lock = threading.RLock()
        self._open: OrderedDict[object, Handle[object]] = OrderedDict()

    def __len__(self) -> int:
        with self._lock:
            return len(self._open)

    def try_pin(self, owner: object) -> Handle[T] | None:
        """The handle of ``owner``, pinned; None if it has none that is open."""
        # One look into a dict needs no lock: it comes before or after a change.
        handle: Handle[T] | None = self._open.get(owner)  # type: ignore[assignment]  # one owner, one T
        return handle if handle is not None and handle.try_pin() else None

    def open(
        self, owner: object, open_value: Callable[[], T], close: Callable[[T], None]
    ) -> Handle[T]:
        """A pinned handle for ``owner``: a new one, or the one another thread has just opened."""
        self._make_room(self.limit)
        value = self.with_room(open_value)
        mine: Handle[T] = Handle(value, close)
        while True:
            with self._lock:
                winner: Handle[T] = self._open.setdefault(owner, mine)  # type: ignore[arg-type,assignment]  # one owner, one T
            if winner is mine:
                return mine
            if winner.try_pin():
                mine.retire()
                mine.unpin()
                return winner
            self._forget_retired(owner, winner)

    def with_room(self, action: Callable[[], T]) -> T:
        """The result of something that opens a descriptor; idle files give theirs up if need be.

        Raises:
            OSError: what ``action`` raises; EMFILE or ENOMEM only if giving up did not help.
        """
        try:
            return action()
        except OSError as error:
            if error.errno not in NO_RESOURCE:
                raise
        self._make_room(len(self) // 2)  # sockets took more than their share
        return action()

    def forget(self, owner: object) -> None:
        """Retires the handle of ``owner``, if it has one."""
        with self._lock:
            handle = self._open.pop(owner, None)
        if handle is not None:
            handle.retire()

    def _forget_retired(self, owner: object, handle: object) -> None:
        with self._lock:
            if self._open.get(owner) is handle:
                del self._open[owner]

    def _make_room(self, limit: int) -> None:
        chances = 2 * len(self)
        while chances > 0:
            chances -= 1
            with self._lock:
                if len(self._open) < limit or not self._open:
                    return
                owner, handle = next(iter(self._open.items()))
                self._open.move_to_end(owner)
            if handle.retire_if_idle():
                self._forget_retired(owner, handle)


class Pooled(Generic[T]):
    """A descriptor of one owner that is open when it is needed.

    Args:
        open_value: opens it; raises ``OSError``.
        close: closes an opened descriptor.
    """

    __slots__ = ("_close", "_is_closed", "_open_value", "_pool")

    def __init__(
        self, pool: HandlePool, open_value: Callable[[], T], close: Callable[[T], None]
    ) -> None:
        self._pool = pool
        self._open_value = open_value
        self._close = close
        self._is_closed = False

    def pin(self) -> Handle[T]:
        """The open value, kept until ``unpin``; raises what ``open_value`` raises."""
        handle: Handle[T] | None = self._pool.try_pin(self)
        if handle is None:
            handle = self._pool.open(self, self._open_value, self._close)
            if self._is_closed:
                # The owner closed it while this thread was opening it: nothing would close this
                # one, and a file that was removed would keep its blocks.
                self._pool.forget(self)
        return handle

    def drop(self) -> None:
        """Closes the value, now or with the last ``unpin``; ``pin`` opens it anew."""
        self._pool.forget(self)

    def close(self) -> None:
        """The same for good: a descriptor opened from now on is closed with its ``unpin``."""
        self._is_closed = True
        self._pool.forget(self)


def default_limit() -> int:
    """A quarter of the descriptors this process may open: the rest is for sockets."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_OPEN_HANDLES
    return max(MIN_OPEN_HANDLES, min(soft // 4, MAX_OPEN_HANDLES))
