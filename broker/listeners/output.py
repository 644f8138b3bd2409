"""OutputQueue: unsent output of a connection, bytes by ``send``, ranges of files by ``sendfile``.

Putting in sends nothing; ``flush`` sends the gathered output, so that the answers to all requests
of one receive event leave together.
"""

import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

from seglog.protocol.dialect import Part
from seglog.protocol.errors import SeglogError

BYTES_PER_TURN: Final = 4 * 1024 * 1024
"""So much of one connection is sent before the others get their turn."""
_JOINED_PART_BYTES: Final = 16_384
"""Smaller pieces are put together to one; copying them is cheaper than describing them."""
_JOINED_BYTES: Final = 65_536
_MORE_FOLLOWS: Final = getattr(socket, "MSG_MORE", 0)


class FileRange(Protocol):
    """A range of an open file, which stays open until ``release``."""

    position: int
    length: int

    def fileno(self) -> int:
        """The descriptor of the file; raises ``SeglogError`` if the range has lost its bytes."""
        ...

    def note_end(self, position: int) -> None:
        """Take note that the file ends at a position, within the range."""
        ...

    def release(self) -> None:
        """Let the file go. Idempotent."""
        ...


class SourceTruncatedError(OSError):
    """The range of a file that was announced to the client is not there any more, or not whole."""


class OutputQueue:
    """Parts of frames on their way into one non-blocking socket.

    Attributes:
        queued_bytes: how much waits, bytes of files included.
        sent_bytes: how much has been sent since the connection began.
    """

    __slots__ = ("_descriptor", "_file_bytes_sent", "_parts", "_send", "queued_bytes", "sent_bytes")

    def __init__(self, connected: socket.socket) -> None:
        self._send = connected.send
        self._descriptor = connected.fileno()
        self._parts: deque[Part] = deque()
        self._file_bytes_sent = 0
        self.queued_bytes = 0
        self.sent_bytes = 0

    def put(self, parts: Sequence[Part]) -> None:
        """Queue the parts of one frame. A ``FileRange`` belongs to the queue from now on."""
        self._parts.extend(parts)
        self.queued_bytes += length_of(parts)

    def flush(self) -> bool:
        """Send until nothing is left (True), or the socket is full or the turn is over (False).

        Raises:
            OSError: the connection is lost, or a file cannot be read.
        """
        turn_end = self.sent_bytes + BYTES_PER_TURN
        parts = self._parts
        try:
            while parts:
                if isinstance(parts[0], (bytes, memoryview, bytearray)):
                    self._send_bytes(parts[0])
                else:
                    self._send_file(cast("FileRange", parts[0]))
                if self.sent_bytes >= turn_end:
                    return not parts
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def close(self) -> None:
        """Drop everything and let go of the files."""
        parts = self._parts
        while parts:
            release_part(parts.popleft())
        self.queued_bytes = 0

    def _send_bytes(self, first: bytes | memoryview | bytearray) -> None:
        parts = self._parts
        data = first
        if len(parts) > 1:
            data = self._join_small(first)
        is_followed_by_file = len(parts) > 1 and not isinstance(
            parts[1], (bytes, memoryview, bytearray)
        )
        sent = self._send(data, _MORE_FOLLOWS if is_followed_by_file else 0)
        self.sent_bytes += sent
        self.queued_bytes -= sent
        if sent == len(data):
            parts.popleft()
        else:
            parts[0] = memoryview(data)[sent:]

    def _join_small(self, first: bytes | memoryview | bytearray) -> bytes | memoryview | bytearray:
        """Put small pieces at the front together; the result is the new front."""
        parts = self._parts
        gathered: list[bytes | memoryview | bytearray] = []
        length = 0
        while parts:
            part = parts[0]
            if (
                not isinstance(part, (bytes, memoryview, bytearray))
                or len(part) > _JOINED_PART_BYTES
                or length > _JOINED_BYTES
            ):
                break
            gathered.append(part)
            length += len(part)
            parts.popleft()
        if not gathered:
            return first
        joined = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        parts.appendleft(joined)
        return joined

    def _send_file(self, source: FileRange) -> None:
        done = self._file_bytes_sent
        rest = source.length - done
        if rest > 0:
            try:
                descriptor = source.fileno()
            except SeglogError as error:
                raise SourceTruncatedError(str(error)) from error
            sent = os.sendfile(
                self._descriptor,
                descriptor,
                source.position + done,
                min(rest, BYTES_PER_TURN),
            )
            if sent == 0:
                source.note_end(source.position + done)
                raise SourceTruncatedError(
                    f"{source!r} ends {rest} bytes before its announced length"
                )
            self.sent_bytes += sent
            self.queued_bytes -= sent
            rest -= sent
        if rest:
            self._file_bytes_sent = source.length - rest
        else:
            self._file_bytes_sent = 0
            self._parts.popleft()
            source.release()


def length_of(parts: Sequence[Part]) -> int:
    """How many bytes these parts are."""
    length = 0
    for part in parts:
        if isinstance(part, (bytes, bytearray)):
            length += len(part)
        elif isinstance(part, memoryview):
            length += part.nbytes
        else:
            length += part.length
    return length


def release_part(part: Part) -> None:
    """Release the descriptor of a part, if it is one of a file."""
    if not isinstance(part, (bytes, memoryview, bytearray)):
        cast("FileRange", part).release()
