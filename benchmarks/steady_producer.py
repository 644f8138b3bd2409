"""Produce requests at a fixed rate, and how long each took.

They come from a process of their own: in one with whoever asks for the cleaning, or fills the log,
they would wait for its interpreter too, and that would be counted as the broker's.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Final, TypeAlias, cast

from benchmarks.broker_frames import batch_of, produce_frame
from benchmarks.raw import RawConnection

REQUESTS_PER_SECOND: Final = 1000
_LOOKS_PER_SECOND: Final = 20
"""How often it is asked whether to end; seldom enough to cost nothing."""

_Ours: TypeAlias = "Connection[bool, list[float]]"
_Theirs: TypeAlias = "Connection[list[float], bool]"


class SteadyProducer:
    """The process, from the outside."""

    def __init__(self, orders: _Ours) -> None:
        self._orders = orders

    def during(self, action: Callable[[], object]) -> list[float]:
        """Milliseconds of every request while ``action`` runs, from when it should have left."""
        self._orders.send(True)
        action()
        self._orders.send(False)
        return self._orders.recv()


@contextmanager
def steady_producer(address: str, topic: str) -> Iterator[SteadyProducer]:
    """One for the partition 0 of a topic; silent until ``during``."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = cast("tuple[_Ours, _Theirs]", context.Pipe())
    process = context.Process(target=_produce, args=(address, topic, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()  # it is connected
        yield SteadyProducer(ours)
    finally:
        ours.close()
        process.join()


def _produce(address: str, topic: str, orders: _Theirs) -> None:
    """What the process does, until the other end of ``orders`` is closed."""
    connection = RawConnection(address)
    frame = produce_frame(connection, topic, batch_of(1, 100))
    orders.send([])
    with suppress(EOFError, BrokenPipeError):
        while orders.recv():
            orders.send(_until_told(connection, frame, orders))
    connection.close()


def _until_told(connection: RawConnection, frame: bytes, orders: _Theirs) -> list[float]:
    milliseconds: list[float] = []
    due = time.perf_counter()
    while len(milliseconds) % (REQUESTS_PER_SECOND // _LOOKS_PER_SECOND) or not orders.poll():
        due += 1 / REQUESTS_PER_SECOND
        delay = due - time.perf_counter()
        if delay > 0:
            time.sleep(delay)
        connection.socket.sendall(frame)
        connection.skip_answers(1)
        milliseconds.append((time.perf_counter() - due) * 1000)
    orders.recv()
    return milliseconds
