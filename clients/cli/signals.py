"""Signals that end a program: a command ends in order, as with Ctrl-C."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP raise ``KeyboardInterrupt`` inside of the block.

    ``timeout``, systemd and containers end programs that way. Killed on the spot, a member of a
    group would leave without a word and without committing what it has printed, and a producer
    without what is in its buffer.

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
                # Who starts a program with ``nohup`` wants it to be ignored.
                if signal.getsignal(number) is signal.SIG_DFL:
                    stack.callback(signal.signal, number, signal.signal(number, end))
        yield come
