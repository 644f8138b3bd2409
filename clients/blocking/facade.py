"""What the blocking clients have in common: their twin, its thread, and how they end."""

import atexit
import os
import warnings
import weakref
from collections.abc import Callable, Coroutine
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
        finalizer = weakref.finalize(self, _abandon, self._thread, twin, type(self).__name__)
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

    def leave_to_parent(self) -> None:
        """This process was forked: the client and its connection belong to the other one."""
        self._is_closed = True

    def _call(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        return self._thread.call(work)

    def _call_on_loop(self, function: Callable[[], _ResultT]) -> _ResultT:
        """Call what belongs on the loop's thread and does not wait."""
        return self._thread.call(_called(function))

    def _check_open(self) -> None:
        if self._is_closed:
            self._thread.check()

    def _end(self, last_work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        # Before anything changes: a thread that must not wait here leaves the client unchanged.
        self._thread.admit(last_work)
        self._is_closed = True
        _open_clients.discard(self)
        try:
            return self._thread.call(last_work)
        finally:
            self._thread.stop()


async def _called(function: Callable[[], _ResultT]) -> _ResultT:
    return function()


def _abandon(thread: LoopThread, twin: _Twin, kind: str) -> None:
    if thread.is_needed:
        thread.abandon(twin.close())
        _warn_of_unclosed(kind)


def _warn_of_unclosed(kind: str) -> None:
    warnings.warn(f"unclosed {kind}: call close() or use `with`", ResourceWarning, stacklevel=2)


_open_clients: "weakref.WeakSet[BlockingClient[Any]]" = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for client in list(_open_clients):
        client.close_at_exit()
        _warn_of_unclosed(type(client).__name__)


def _leave_clients_to_parent() -> None:
    for client in list(_open_clients):
        client.leave_to_parent()
    _open_clients.clear()


os.register_at_fork(after_in_child=_leave_clients_to_parent)
