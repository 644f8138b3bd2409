"""The background tasks of a client: named, never lost, ended together."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

_logger = logging.getLogger("seglog.clients")


class TaskSet:
    """Holds tasks until they end; belongs to the loop that it is used on.

    Args:
        lost: called with the reason, as part of a sentence, when a vital task has failed or was
            cancelled by other code, as the end of ``asyncio.run`` does to all tasks.
    """

    def __init__(self, lost: Callable[[str], object]) -> None:
        self._lost = lost
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    def spawn(
        self, work: Coroutine[Any, Any, Any], name: str, *, is_vital: bool = False
    ) -> asyncio.Task[Any]:
        """Run ``work``; an exception that it lets out is a bug and is logged as one.

        Args:
            work: what to do.
            name: of the task.
            is_vital: whether the client would wait for ever without it.
        """
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        if is_vital:
            task.add_done_callback(self._miss)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("task %s failed", task.get_name(), exc_info=error)

    def _miss(self, task: asyncio.Task[Any]) -> None:
        if self._is_ending:
            return
        if task.cancelled():
            self._lost(f"its task {task.get_name()} was cancelled, as asyncio.run does at its end")
        elif (error := task.exception()) is not None:
            self._lost(f"its task {task.get_name()} has failed: {error!r}")

    async def cancel_all(self) -> None:
        """Cancel running tasks and wait until all of them have ended."""
        self._is_ending = True
        while tasks := [task for task in self._tasks if task is not asyncio.current_task()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
