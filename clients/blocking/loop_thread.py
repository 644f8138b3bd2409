"""An event loop on a thread of its own, for a client that is used from other threads.

The thread is a daemon: a program that forgets to close its clients ends all the same.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from seglog.clients.completion import SIGNAL_CHECK_S, WAITS_FOR_ITSELF, forbid_waiting
from seglog.clients.errors import ClientClosedError, ClientError

_STOP_TIMEOUT_S: Final = 5.0
_CLOSED_MEANWHILE: Final = "the client was closed meanwhile"
_ResultT = TypeVar("_ResultT")


class LoopThread:
    """Runs coroutines for other threads, uvloop's way where that is installed.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = _new_event_loop()
        self._process_id = os.getpid()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """Run ``work`` on the loop and wait for it; if the waiting is interrupted it is cancelled.

        Raises:
            ClientClosedError: the client is closed, or belongs to the process that this one was
                forked from.
        """
        self.admit(work)
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # The loop was closed since ``admit``.
            work.close()
            raise ClientClosedError(_CLOSED_MEANWHILE) from error
        try:
            return self._result_of(future)
        except CancelledError as error:
            raise ClientClosedError(_CLOSED_MEANWHILE) from error
        finally:
            future.cancel()

    def _result_of(self, future: "Future[_ResultT]") -> _ResultT:
        """The result, whenever it comes.

        Without a time limit Ctrl-C can get lost for as long as nothing else happens: the signal
        arrives after the interpreter has looked for one and before the thread sleeps on the
        future's lock.
        """
        while True:
            try:
                return future.result(SIGNAL_CHECK_S)
            except TimeoutError as error:
                if future.done():
                    return future.result()  # the work itself may have failed with a timeout
                if not self._thread.is_alive():
                    # Handed over while the loop ended: it was never run.
                    raise ClientClosedError(_CLOSED_MEANWHILE) from error

    def admit(self, work: Coroutine[Any, Any, Any]) -> None:
        """Raise what ``call`` would, before anything is done; ``work`` is closed then."""
        try:
            self.check()
        except ClientError:
            work.close()
            raise

    def check(self) -> None:
        """Raise as ``call`` does: this thread must not wait for the loop."""
        if self._is_stopped:
            raise ClientClosedError("the client is closed")
        if not self.is_of_this_process:
            raise ClientClosedError("the client was made before this process was forked")
        if threading.current_thread() is self._thread:
            raise ClientError(WAITS_FOR_ITSELF)

    def stop(self) -> None:
        """End the loop and the thread; idempotent."""
        self.stop_soon()
        if self.is_of_this_process and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_TIMEOUT_S)

    def stop_soon(self) -> None:
        """Ask the loop to end, without waiting."""
        if self.is_needed:
            self._is_stopped = True
            self._loop.call_soon_threadsafe(self._loop.stop)

    @property
    def is_of_this_process(self) -> bool:
        """Whether the thread runs here, and not in the process that this one was forked from."""
        return os.getpid() == self._process_id

    @property
    def is_needed(self) -> bool:
        """Whether the thread runs, and is not to end."""
        return self.is_of_this_process and not self._is_stopped

    def abandon(self, last_work: Coroutine[Any, Any, Any]) -> None:
        """Run ``last_work``, then end; for a client without references."""
        future = asyncio.run_coroutine_threadsafe(last_work, self._loop)
        future.add_done_callback(lambda _: self.stop_soon())

    def _run(self) -> None:
        forbid_waiting()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._is_stopped = True
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
