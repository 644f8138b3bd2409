"""Lines to standard output and standard error, which never hold up the caller.

Unread, a pipe takes 64 KiB, a terminal stopped with Ctrl-S about 4 KiB, a file on a hanging disk
nothing. Then a write waits, and the event loop and every client would wait with it. Lines therefore
go into a bounded queue, and a thread writes them. It drops and counts lines that do not fit.
"""

import atexit
import os
import queue
import select
import threading
from collections.abc import Callable
from typing import Final

QUEUED_BYTES_MAX: Final = 4 * 1024 * 1024
"""How much waits for a reader: some 30,000 events."""
_WRITE_BYTES_MAX: Final = 64 * 1024
_FLUSH_SECONDS: Final = 1.0
"""How long the end of the process waits for a reader."""


class LineOutput:
    """A descriptor that is written by a thread of its own, begun with the first line.

    Each counter has one writer: the callers, under a lock, or the thread.

    Args:
        descriptor: where lines go.
        queued_bytes_max: lines beyond it are dropped.

    Attributes:
        on_dropped: told how many lines are missing once there is room again, by the thread.
    """

    def __init__(self, descriptor: int, queued_bytes_max: int = QUEUED_BYTES_MAX) -> None:
        self.on_dropped: Callable[[int], None] | None = None
        self._descriptor = descriptor
        self._queued_bytes_max = queued_bytes_max
        self._lines: queue.SimpleQueue[bytes | threading.Event] = queue.SimpleQueue()
        self._accepting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._accepted_bytes = 0
        self._refused_lines = 0
        self._taken_bytes = 0
        self._lost_lines = 0
        self._reported_lines = 0

    @property
    def dropped_lines(self) -> int:
        """Lines that were not written: they were not read, or the descriptor failed."""
        return self._refused_lines + self._lost_lines

    def write(self, line: str) -> None:
        """Have a line written, without its end; returns at once."""
        data = line.encode(errors="backslashreplace") + b"\n"
        with self._accepting:
            if self._accepted_bytes - self._taken_bytes + len(data) > self._queued_bytes_max:
                self._refused_lines += 1
                return
            self._accepted_bytes += len(data)
            self._lines.put(data)
            if self._thread is None:
                self._begin()

    def flush(self, timeout_seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until all lines so far are written; False if that takes too long."""
        if self._thread is None:
            return True
        written = threading.Event()
        self._lines.put(written)
        return written.wait(timeout_seconds)

    def _begin(self) -> None:
        self._thread = threading.Thread(
            target=self._run, name=f"output-{self._descriptor}", daemon=True
        )
        self._thread.start()
        atexit.register(self.flush)

    def _run(self) -> None:
        while True:
            waiting: list[threading.Event] = []
            data = self._next_lines(waiting)
            if data:
                self._write_all(data)
            self._report()
            for event in waiting:
                event.set()

    def _next_lines(self, waiting: list[threading.Event]) -> bytes:
        """The lines that are there, up to a bound and the next flush; waits for the first one."""
        parts: list[bytes] = []
        size = 0
        while size < _WRITE_BYTES_MAX and (not parts or not self._lines.empty()):
            entry = self._lines.get()
            if isinstance(entry, threading.Event):
                waiting.append(entry)
                break
            parts.append(entry)
            size += len(entry)
        self._taken_bytes += size
        return b"".join(parts)

    def _report(self) -> None:
        dropped = self._refused_lines - self._reported_lines
        if dropped and self._lines.empty() and self.on_dropped is not None:
            self._reported_lines += dropped
            self.on_dropped(dropped)

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                # Another process has made the shared pipe non-blocking.
                self._wait_for_room()
            except OSError:
                # The reader is gone, or the disk is full. There is no other place to say so.
                self._lost_lines += bytes(rest).count(b"\n")
                return

    def _wait_for_room(self) -> None:
        writable = select.poll()  # ``select`` takes no descriptor above 1023
        writable.register(self._descriptor, select.POLLOUT)
        writable.poll()


STANDARD_OUTPUT: Final = LineOutput(1)
STANDARD_ERROR: Final = LineOutput(2)
