"""Puts the bytes of a stream together to frames, for readers without a buffer of their own.

Each large frame gets a buffer of exactly its size and is received straight into it: the views that
a decoder makes of it stay valid for as long as somebody holds them, and nothing is copied.
"""

from collections.abc import Callable
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
        self._wanted = 0

    def get_buffer(self) -> memoryview:
        """Where to put the next bytes; never empty."""
        return self._view[self._end :]

    def advance(self, count: int) -> list[Frame]:
        """Say that ``count`` bytes were put there; returns the frames that are whole now.

        Raises:
            ProtocolError: from ``frame_size``.
        """
        self._end += count
        frames: list[Frame] = []
        view, start, end = self._view, self._start, self._end
        size = 0
        while start < end:
            size = self._frame_size(view, start, end)
            if size == 0 or size > end - start:
                break
            frames.append((view, start, start + size))
            start += size
            size = 0
        self._start = start
        self._wanted = size
        self._make_room(handed_out=bool(frames))
        return frames

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Copy ``data`` in and return the frames that are whole now."""
        frames: list[Frame] = []
        with memoryview(data) as source:
            position = 0
            while position < source.nbytes:
                room = self.get_buffer()
                count = min(room.nbytes, source.nbytes - position)
                room[:count] = source[position : position + count]
                position += count
                frames += self.advance(count)
        return frames

    def _make_room(self, *, handed_out: bool) -> None:
        """Begin a new buffer where the old one is full or belongs to those who hold its frames."""
        held = self._end - self._start
        if not handed_out and self._end < self._view.nbytes:
            return
        # A frame is not believed before its bytes come: the buffer at most doubles what is there.
        size = max(self._scratch_bytes, min(self._wanted, max(2 * held, _GROWTH_FLOOR_BYTES)))
        if size <= held:
            size = held + self._scratch_bytes
        fresh = memoryview(bytearray(size))
        fresh[:held] = self._view[self._start : self._end]
        self._view, self._start, self._end = fresh, 0, held
