"""What the blocking clients have in common: their twin, its thread, and how they end."""

import atexit
import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from seglog.clients.blocking.loop_thread import LoopThread

EXIT_TIMEOUT_S: Final = 2.0
"""How long the end of the interpreter waits for what a client that was not closed has to send."""


class _Twin(Protocol):
    def start(self) -> Coroutine[Any, Any, Any]: ...
    def close(self) -> Coroutine[Any, Any, Any]: ...


TwinT = TypeVar("TwinT", bound=_Twin)
_ResultT = TypeVar("_ResultT")


class BlockingClient(Generic[TwinT]):
    """Runs an async client on a thread of its own; connects when it is made.

    Args:
        twin: the async client, not started.
        name: of the thread.

    Raises:
        BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
    """

    def __init__(self, twin: TwinT, name: str) -> None:
        self._twin = twin
        self._thread = LoopThread(name)
        self._is_closed = False
        try:
            self._call(twin.start())
        except BaseException:
            self._thread.call(twin.close())
            self._thread.stop()
            raise
        _open_clients.add(self)
        finalizer = weakref.finalize(self, _abandon, self._thread, twin)
        finalizer.atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> Any:
        """Disconnect and end the thread; idempotent."""
        if not self._is_closed:
            self._end(self._twin.close())
        return None

    def close_at_exit(self) -> None:
        """Close, because the interpreter ends."""
        self.close()

    def _call(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        return self._thread.call(work)

    def _end(self, last_work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        self._is_closed = True
        _open_clients.discard(self)
        try:
            return self._thread.call(last_work)
        finally:
            self._thread.stop()


def _abandon(thread: LoopThread, twin: _Twin) -> None:
    thread.abandon(twin.close())


_open_clients: "weakref.WeakSet[BlockingClient[Any]]" = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for client in list(_open_clients):
        client.close_at_exit()
