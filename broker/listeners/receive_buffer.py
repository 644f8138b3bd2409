"""ReceiveBuffer: receives without copying record bytes, and costs idle connections nothing.

All connections receive into one shared buffer; a connection works on its frames at once, before the
next connection gets its turn. The connection keeps an unfinished rest:

* the beginning of a small frame is copied out, and put in front of the next bytes received;
* a frame over ``LARGE_FRAME_BYTES`` gets a buffer of the connection's own and is received straight
  into it, up to its last byte and no further, so that the next one begins at the front;
* where the work on a frame takes longer, the connection keeps the shared buffer itself, and the
  others get a new one.

The buffer does not trust an announced size: it grows as bytes really arrive.
"""

import mmap
from typing import Final

SHARED_BYTES_DEFAULT: Final = 262_144
LARGE_FRAME_BYTES: Final = 65_536
"""From here on a frame is worth a buffer of its own."""
GROWTH_STEP_BYTES: Final = 1_048_576
"""So much is reserved for a frame on its word alone; it costs memory only as it fills."""
_GROWTH_FACTOR: Final = 4
_SHRINK_FACTOR: Final = 4


def _reserve(size: int) -> memoryview:
    # Anonymous memory comes without pages: unlike a bytearray it is not filled with zeros first.
    return memoryview(mmap.mmap(-1, size))


class SharedBuffer:
    """The buffer that all connections of a thread receive into, one after the other."""

    __slots__ = ("_size", "view")

    def __init__(self, size: int = SHARED_BYTES_DEFAULT) -> None:
        self._size = size
        self.view = memoryview(bytearray(size))

    def give_away(self) -> None:
        """Leave the buffer to a connection that keeps it, and begin a new one."""
        self.view = memoryview(bytearray(self._size))


class ReceiveBuffer:
    """The unread bytes of one connection: ``view[start:end]``.

    The owner calls ``target``, receives into it, calls ``received``, reads frames by moving
    ``start``, and then ``settle``, or ``hold`` if it stopped before all whole frames were read.
    """

    __slots__ = ("_frame_bytes", "_is_own", "_shared", "end", "start", "view")

    def __init__(self, shared: SharedBuffer) -> None:
        self._shared = shared
        self._is_own = False
        self._frame_bytes = 0
        self.view = shared.view
        self.start = 0
        self.end = 0

    @property
    def held_bytes(self) -> int:
        """How much memory this connection keeps for itself."""
        return 0 if self.view is self._shared.view else self.view.nbytes

    def target(self) -> memoryview:
        """Where to receive next; never empty."""
        if self._is_own:
            return self.view[self.end : self.start + self._frame_bytes]
        unread = self.end - self.start
        shared = self._shared.view
        if unread:
            shared[:unread] = self.view[self.start : self.end]
        self.view, self.start, self.end = shared, 0, unread
        return shared[unread:]

    def received(self, count: int) -> None:
        """Say that ``count`` bytes were put into ``target``."""
        self.end += count

    def settle(self, frame_bytes: int) -> None:
        """Keep the unread rest: the beginning of a frame of ``frame_bytes`` (0: not known yet).

        Views of frames that were read become invalid.
        """
        unread = self.end - self.start
        if frame_bytes > LARGE_FRAME_BYTES:
            self._make_room(frame_bytes, unread)
        elif unread:
            self._keep_copy()
        elif self._is_own and self.end > LARGE_FRAME_BYTES:
            # The next frame is likely to be as large as the last one; it is received to its end.
            self.start = self.end = 0
        else:
            self.release_if_empty()

    def hold(self) -> None:
        """Keep all unread bytes, and every view of the buffer valid, until reading goes on."""
        if self.view is self._shared.view:
            self._shared.give_away()

    def keep_unread(self) -> None:
        """Keep all unread bytes; no view of the buffer is in use any more."""
        if self.end - self.start > LARGE_FRAME_BYTES:
            self.hold()
        elif self.end > self.start:
            self._keep_copy()
        elif not self._is_own:
            self.view, self.start, self.end = self._shared.view, 0, 0

    def release_if_empty(self) -> None:
        """Give memory back that is only kept because large frames came before."""
        if self.start == self.end:
            self._is_own = False
            self.view, self.start, self.end = self._shared.view, 0, 0

    def _keep_copy(self) -> None:
        rest = bytearray(self.view[self.start : self.end])
        self._is_own = False
        self.view, self.start, self.end = memoryview(rest), 0, len(rest)

    def _make_room(self, frame_bytes: int, unread: int) -> None:
        wanted = min(frame_bytes, max(GROWTH_STEP_BYTES, _GROWTH_FACTOR * unread))
        capacity = self.view.nbytes if self._is_own else 0
        if wanted > capacity or frame_bytes * _SHRINK_FACTOR < capacity:
            fresh = _reserve(wanted)
            fresh[:unread] = self.view[self.start : self.end]
            self.view = fresh
        elif self.start:
            self.view[:unread] = self.view[self.start : self.end]
        self._is_own = True
        self._frame_bytes = wanted
        self.start, self.end = 0, unread
