"""The background tasks of a client: named, never lost, ended together."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_logger = logging.getLogger("seglog.clients")


class TaskSet:
    """Holds tasks until they end; belongs to the loop that it is used on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work``; an exception that it lets out is a bug and is logged as one."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("task %s failed", task.get_name(), exc_info=error)

    async def cancel_all(self) -> None:
        """Cancel what is running and wait until all of it has ended."""
        while tasks := [task for task in self._tasks if task is not asyncio.current_task()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
