"""Signals that reach a command while it waits."""

import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import BinaryIO

import pytest

from seglog.clients.cli.signals import wait_for_input
from support.eventually import eventually


def is_asleep(thread_id: int) -> bool:
    """Whether a thread of this process waits in the system."""
    text = Path(f"/proc/self/task/{thread_id}/stat").read_text()
    return text.rpartition(")")[2].split()[0] == "S"


def test_a_signal_that_wakes_nobody_is_lost() -> None:
    """A signal may come after a thread has looked for one and before it sleeps.

    What is seen from there on is the same as here, where another thread takes the signal: the
    interpreter knows of it, and the system lets the main thread sleep.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main_id = threading.get_native_id()
    is_blocked = threading.Event()

    def take_signal() -> None:
        assert is_blocked.wait(10)
        eventually(lambda: is_asleep(main_id))
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    def wait(stream: BinaryIO) -> None:
        is_blocked.set()
        wait_for_input(stream)

    reading, writing = os.pipe()
    before = signal.signal(signal.SIGUSR1, end)
    taker = threading.Thread(target=take_signal)
    taker.start()
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        with os.fdopen(reading, "rb") as stream, pytest.raises(KeyboardInterrupt):
            wait(stream)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        taker.join()
        signal.signal(signal.SIGUSR1, before)
        os.close(writing)


def test_the_end_of_a_pipe_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        wait_for_input(stream)
