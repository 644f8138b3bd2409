"""Puts the bytes of a stream together to frames, for readers without a buffer of their own.

Each large frame gets a buffer of exactly its size and is received straight into it: the views that
a decoder makes of it stay valid for as long as they are held, and nothing is copied.
"""

from collections.abc import Callable, Iterator
from typing import Final

SCRATCH_BYTES_DEFAULT: Final = 65_536
_GROWTH_FLOOR_BYTES: Final = 1024 * 1024

FrameSize = Callable[[memoryview, int, int], int]
Frame = tuple[memoryview, int, int]
"""A buffer, and where in it one whole frame begins and ends."""


class FrameAssembler:
    """Receives into ``get_buffer()`` and gives back whole frames.

    Args:
        frame_size: of a dialect: the size of the frame at a position, 0 while unknown.
        scratch_bytes: how much is received at once while no frame is being waited for.
    """

    def __init__(self, frame_size: FrameSize, scratch_bytes: int = SCRATCH_BYTES_DEFAULT) -> None:
        self._frame_size = frame_size
        self._scratch_bytes = scratch_bytes
        self._view = memoryview(bytearray(scratch_bytes))
        self._start = 0
        self._end = 0
        self._is_shared = False

    def get_buffer(self) -> memoryview:
        """Where to put the next bytes; never empty once ``next_frame`` has returned None."""
        return self._view[self._end :]

    def advance(self, count: int) -> None:
        """Say that ``count`` bytes were put there; ask ``next_frame`` until it returns None."""
        self._end += count

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, None if more bytes are needed.

        One at a time, because decoding a frame can change how the next one is read.

        Raises:
            ProtocolError: from ``frame_size``.
        """
        start, end = self._start, self._end
        size = self._frame_size(self._view, start, end) if start < end else 0
        if size and size <= end - start:
            self._start = start + size
            self._is_shared = True
            return self._view, start, start + size
        if self._is_shared or end == self._view.nbytes:
            self._begin_buffer(size)
        return None

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame]:
        """Copy ``data`` in and yield the frames that become whole."""
        with memoryview(data) as source:
            position = 0
            while position < source.nbytes:
                room = self.get_buffer()
                count = min(room.nbytes, source.nbytes - position)
                room[:count] = source[position : position + count]
                position += count
                self.advance(count)
                while (frame := self.next_frame()) is not None:
                    yield frame

    def _begin_buffer(self, wanted_bytes: int) -> None:
        """Leave the old buffer, full or read from by others, and take the unread rest along."""
        held = self._end - self._start
        # The announced size is not trusted before its bytes come: the buffer at most doubles.
        size = max(self._scratch_bytes, min(wanted_bytes, max(2 * held, _GROWTH_FLOOR_BYTES)))
        if size <= held:
            size = held + self._scratch_bytes
        fresh = memoryview(bytearray(size))
        fresh[:held] = self._view[self._start : self._end]
        self._view, self._start, self._end = fresh, 0, held
        self._is_shared = False
