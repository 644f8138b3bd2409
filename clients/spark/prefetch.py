"""Runs an iterator on a thread of its own, a few items ahead of its reader."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT")
_JOIN_TIMEOUT_S: Final = 5.0
_CLOSE_TIMEOUT_S: Final = 0.5
_CLOSE_POLL_S: Final = 0.005
_PUT_TIMEOUT_S: Final = 0.2


class _End:
    """The iterator has ended; with an error, if there is one."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Prefetcher(Generic[ItemT]):
    """Iterate over it, or leave early and call ``close``.

    Args:
        source: what to iterate over; runs on the thread, and is closed there.
        depth: how many items may wait.
        interrupt: called by ``close`` so that a source that waits for something ends.
    """

    def __init__(
        self, source: Generator[ItemT], depth: int, interrupt: Callable[[], object]
    ) -> None:
        self._source = source
        self._items: queue.Queue[ItemT | _End] = queue.Queue(depth)
        self._interrupt = interrupt
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="seglog-prefetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        end = _End(None)
        try:
            for item in self._source:
                self._put(item)
                if self._is_closed:
                    break
            self._source.close()
        except BaseException as error:  # noqa: BLE001 - raised again on the reader's thread
            end = _End(error)
        self._put(end)

    def _put(self, item: ItemT | _End) -> None:
        while not self._is_closed:
            with contextlib.suppress(queue.Full):
                self._items.put(item, timeout=_PUT_TIMEOUT_S)
                return

    def __iter__(self) -> Iterator[ItemT]:
        while True:
            item = self._items.get()
            if isinstance(item, _End):
                # It is over: nothing of it is left for ``close`` to interrupt.
                self._thread.join(_JOIN_TIMEOUT_S)
                if item.error is not None:
                    raise item.error
                return
            yield item

    def close(self) -> None:
        """End the thread, also if it is in the middle of something.

        A thread that waits for an unanswered connection is left to itself: it ends when that fails,
        and its results are dropped.
        """
        self._is_closed = True
        if self._thread.is_alive():
            self._interrupt()
        deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S
        while self._thread.is_alive() and time.monotonic() < deadline_s:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._items.get_nowait()
            self._thread.join(_CLOSE_POLL_S)
