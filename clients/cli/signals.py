"""Signals that end a program: a command ends in order, as with Ctrl-C, and at once."""

import contextlib
import io
import select
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import BinaryIO, Final

_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)
_CHECK_MS: Final = 500


@contextlib.contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP raise ``KeyboardInterrupt`` inside of the block.

    ``timeout``, systemd and containers end programs that way. Killed on the spot, a member of a
    group would not leave the group or commit the records it has printed, and a producer would lose
    its buffer.

    Yields:
        The numbers of those that have come.
    """
    come: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        come.append(number)
        raise KeyboardInterrupt

    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDINGS:
                # ``nohup`` has set the signal to be ignored: keep that.
                if signal.getsignal(number) is signal.SIG_DFL:
                    stack.callback(signal.signal, number, signal.signal(number, end))
        yield come


def wait_for_input(stream: BinaryIO) -> None:
    """Block until a stream has something to read, or its end.

    In short turns: while another thread sends, the reading one may be stopped after it has looked
    for signals and before it sleeps in the system. A Ctrl-C that comes just then wakes no thread,
    and takes effect with the next line of input, if ever there is one.
    """
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return  # in memory: it never blocks
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    while not poller.poll(_CHECK_MS):
        pass
