"""Named tasks that run again and again, or once after a delay.

A task is a function of no arguments, called on the event-loop thread. If it returns an awaitable
the run lasts until that is done; blocking work goes to a worker pool inside it. A task never
overlaps itself: the next run is due one period after the last one was due, at once if that is past.
A run that fails is logged, and the task runs again at its next time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

logger = logging.getLogger(__name__)

TaskFunction = Callable[[], Awaitable[object] | None]

RETENTION_TASK: Final = "kafka-log-retention"
FLUSHER_TASK: Final = "kafka-log-flusher"
RECOVERY_POINT_CHECKPOINT_TASK: Final = "kafka-recovery-point-checkpoint"
LOG_START_OFFSET_CHECKPOINT_TASK: Final = "kafka-log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT_TASK: Final = "high-watermark-checkpoint"
DELETE_FILE_TASK: Final = "delete-file"


class ScheduledTask(Protocol):
    """A task that has been scheduled."""

    name: str

    def cancel(self) -> None:
        """Run it no more; a run that has begun goes on to its end."""
        ...

    def set_period(self, period_ms: int) -> None:
        """Run it at another pace from now on; the next time one such period from now at the latest.

        Only for a task that was scheduled with a period.
        """
        ...


class Scheduler(Protocol):
    """Where tasks are scheduled; tests pass one that is driven by hand."""

    def schedule(
        self,
        name: str,
        function: TaskFunction,
        initial_delay_ms: int,
        period_ms: int | None = None,
    ) -> ScheduledTask:
        """Run ``function`` after ``initial_delay_ms``, then every ``period_ms`` (None: only once).

        Raises:
            RuntimeError: the scheduler has been stopped.
        """
        ...


class AsyncioScheduler:
    """Schedules tasks on the timers of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[_LoopTask] = set()
        self._stopping = False

    def schedule(
        self,
        name: str,
        function: TaskFunction,
        initial_delay_ms: int,
        period_ms: int | None = None,
    ) -> ScheduledTask:
        """See ``Scheduler.schedule``."""
        if self._stopping:
            raise RuntimeError(f"the scheduler is stopped and takes no task {name!r}")
        if initial_delay_ms < 0 or (period_ms is not None and period_ms < 1):
            raise ValueError(f"task {name!r}: delay {initial_delay_ms} ms, period {period_ms} ms")
        task = _LoopTask(self._loop, name, function, period_ms, self._tasks)
        self._tasks.add(task)
        task.arm(self._loop.time() + initial_delay_ms / 1000)
        return task

    @property
    def task_names(self) -> list[str]:
        """The names of all tasks that are due some time."""
        return sorted(task.name for task in self._tasks)

    async def stop(self, deadline_seconds: float) -> bool:
        """Cancel all tasks, wait for the runs that have begun; False if the deadline passed first.

        Runs that are late are cancelled.
        """
        self._stopping = True
        running = [task.run for task in self._tasks if task.run is not None]
        for task in list(self._tasks):
            task.cancel()
        if not running:
            return True
        _, late = await asyncio.wait(running, timeout=deadline_seconds)
        for run in late:
            logger.warning("event=task-late task=%s", run.get_name())
            run.cancel()
        return not late


class _LoopTask:
    """One task of an ``AsyncioScheduler``: waiting for its timer, or running."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        function: TaskFunction,
        period_ms: int | None,
        siblings: "set[_LoopTask]",
    ) -> None:
        self.name = name
        self.run: asyncio.Task[None] | None = None
        self._loop = loop
        self._function = function
        self._period_ms = period_ms
        self._siblings = siblings
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled = False

    def arm(self, due: float) -> None:
        """Begin a run when the clock of the loop shows ``due``."""
        self._due = due
        self._timer = self._loop.call_at(due, self._begin)

    def cancel(self) -> None:
        """See ``ScheduledTask.cancel``."""
        self._cancelled = True
        self._siblings.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def set_period(self, period_ms: int) -> None:
        """See ``ScheduledTask.set_period``."""
        assert self._period_ms is not None, f"task {self.name!r} runs only once"
        if period_ms < 1:
            raise ValueError(f"task {self.name!r}: period {period_ms} ms")
        self._period_ms = period_ms
        if self._timer is not None:
            self._timer.cancel()
            self.arm(min(self._due, self._loop.time() + period_ms / 1000))

    def _begin(self) -> None:
        self._timer = None
        self.run = self._loop.create_task(self._invoke(), name=self.name)
        self.run.add_done_callback(self._end)

    async def _invoke(self) -> None:
        outcome = self._function()
        if outcome is not None:
            await outcome

    def _end(self, run: "asyncio.Task[None]") -> None:
        self.run = None
        if not run.cancelled() and (error := run.exception()) is not None:
            logger.error("event=task-failed task=%s", self.name, exc_info=error)
        if self._cancelled:
            return
        if self._period_ms is None:
            self._siblings.discard(self)
        else:
            self.arm(max(self._due + self._period_ms / 1000, self._loop.time()))
