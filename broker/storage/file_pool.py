"""A bound on open descriptors: opened on demand, closed when others need room.

A ``Handle`` is one open descriptor. It is closed once, when it is retired (evicted, or its
file was closed) and nobody has pinned it. Retiring and pinning may happen in different threads:

    the user:    pin, then look whether it is retired (if so: unpin and open anew)
    the evictor: retire, then look whether it is pinned (if so: leave the closing to the last unpin)

At least one of the two sees the other, and ``list.append``/``list.pop``/``OrderedDict.popitem`` are
atomic, so no lock is needed and no descriptor is closed under somebody's hands.
"""

import resource
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from seglog.broker.storage.errors import NO_RESOURCE

T = TypeVar("T")

MIN_OPEN_HANDLES: Final = 16
MAX_OPEN_HANDLES: Final = 16_384


class Handle(Generic[T]):
    """An open descriptor (``value``) that is closed when it is retired and unpinned."""

    __slots__ = ("_closers", "_pins", "recently_used", "retired", "value")

    def __init__(self, value: T, close: Callable[[T], None]) -> None:
        self.value = value
        self.retired = False
        self.recently_used = False
        self._pins: list[None] = []
        self._closers = [close]

    def try_pin(self) -> bool:
        """Keeps the value open until ``unpin``; False if it is on its way out already."""
        self._pins.append(None)
        if self.retired:
            self.unpin()
            return False
        self.recently_used = True
        return True

    def unpin(self) -> None:
        """Gives up one ``try_pin``; callable from any thread."""
        self._pins.pop()
        if self.retired and not self._pins:
            self._close_once()

    def retire(self) -> None:
        """Closes the value now or, if it is pinned, with the last ``unpin``."""
        self.retired = True
        if not self._pins:
            self._close_once()

    @property
    def is_pinned(self) -> bool:
        """Whether somebody uses the value."""
        return bool(self._pins)

    def _close_once(self) -> None:
        try:
            close = self._closers.pop()
        except IndexError:
            return  # another thread was first
        close(self.value)


class HandlePool:
    """The open handles of one process, at most ``limit`` unless more are pinned at once.

    Eviction is second chance: the oldest handle goes unless it was used since it was last looked
    at. Keys are the objects that own the handles (by identity).
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = default_limit() if limit is None else limit
        self._open: OrderedDict[object, Handle[object]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, owner: object, open_value: Callable[[], T], close: Callable[[T], None]
    ) -> Handle[T]:
        """A pinned handle for ``owner``: a new one, or the one another thread has just opened."""
        self._make_room(self.limit)
        value = self.with_room(open_value)
        mine: Handle[T] = Handle(value, close)
        mine.try_pin()
        mine.recently_used = False  # opening it is no second use: the newest goes last anyway
        while True:
            winner: Handle[T] = self._open.setdefault(owner, mine)  # type: ignore[arg-type,assignment]  # one owner, one T
            if winner is mine:
                return mine
            if winner.try_pin():
                mine.retire()
                mine.unpin()
                return winner
            self.forget(owner)

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
        self._make_room(len(self._open) // 2)  # sockets took more than their share
        return action()

    def forget(self, owner: object) -> None:
        """Retires the handle of ``owner``, if it has one."""
        handle = self._open.pop(owner, None)
        if handle is not None:
            handle.retire()

    def _make_room(self, limit: int) -> None:
        chances = 2 * len(self._open)
        while len(self._open) >= limit and chances > 0:
            chances -= 1
            try:
                owner, handle = self._open.popitem(last=False)
            except KeyError:
                return
            if handle.is_pinned or handle.recently_used:
                handle.recently_used = False
                self._open.setdefault(owner, handle)
            else:
                handle.retire()


class Pooled(Generic[T]):
    """A descriptor of one owner that is open when it is needed.

    Args:
        open_value: opens it; raises ``OSError``.
        close: closes what was opened.
    """

    __slots__ = ("_close", "_handle", "_open_value", "_pool")

    def __init__(
        self, pool: HandlePool, open_value: Callable[[], T], close: Callable[[T], None]
    ) -> None:
        self._pool = pool
        self._open_value = open_value
        self._close = close
        self._handle: Handle[T] | None = None

    def pin(self) -> Handle[T]:
        """The open value, kept until ``unpin``; raises what ``open_value`` raises."""
        handle = self._handle
        if handle is not None and handle.try_pin():
            return handle
        handle = self._handle = self._pool.open(self, self._open_value, self._close)
        return handle

    def drop(self) -> None:
        """Closes the value, now or with the last ``unpin``; ``pin`` opens it anew."""
        self._pool.forget(self)
        if self._handle is not None:
            self._handle.retire()
            self._handle = None


def default_limit() -> int:
    """A quarter of the descriptors this process may open: the rest is for sockets."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_OPEN_HANDLES
    return max(MIN_OPEN_HANDLES, min(soft // 4, MAX_OPEN_HANDLES))
