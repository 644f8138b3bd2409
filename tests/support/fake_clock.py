"""A clock that stands still until it is moved, and a scheduler that is driven by it."""

import heapq
import inspect
from itertools import count

from seglog.broker.runtime.scheduler import ScheduledTask, TaskFunction


class FakeClock:
    """Wall and monotonic time with unrelated values, so that mixing them up fails a test."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 5_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def time_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        assert milliseconds >= 0
        self._wall_ms += milliseconds
        self._monotonic_ms += milliseconds

    def jump_wall(self, milliseconds: int) -> None:
        """Set the wall clock forward or back, as an operator or NTP does; no time passes."""
        self._wall_ms += milliseconds


class ManualTask:
    """A task of a ``ManualScheduler``."""

    def __init__(self, name: str, function: TaskFunction, period_ms: int | None) -> None:
        self.name = name
        self.function = function
        self.period_ms = period_ms
        self.cancelled = False
        self.runs = 0

    def cancel(self) -> None:
        self.cancelled = True

    def set_period(self, period_ms: int) -> None:
        """Counts from the next run on."""
        self.period_ms = period_ms


class ManualScheduler:
    """Runs tasks in the order they are due, while ``advance`` moves the clock.

    The error of a task reaches the test that moved the clock.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._order = count()
        self._due: list[tuple[int, int, ManualTask]] = []

    def schedule(
        self,
        name: str,
        function: TaskFunction,
        initial_delay_ms: int,
        period_ms: int | None = None,
    ) -> ScheduledTask:
        task = ManualTask(name, function, period_ms)
        self._push(self.clock.monotonic_ms() + initial_delay_ms, task)
        return task

    @property
    def task_names(self) -> list[str]:
        return sorted(task.name for _, _, task in self._due if not task.cancelled)

    def tasks(self, name: str) -> list[ManualTask]:
        """The tasks of one name that are due some time."""
        return [task for _, _, task in self._due if task.name == name and not task.cancelled]

    async def advance(self, milliseconds: int) -> None:
        """Move the clock, stopping at each task that is due on the way to run it."""
        end = self.clock.monotonic_ms() + milliseconds
        while self._due and self._due[0][0] <= end:
            due, _, task = heapq.heappop(self._due)
            self.clock.advance(max(0, due - self.clock.monotonic_ms()))
            await self._run(due, task)
        self.clock.advance(end - self.clock.monotonic_ms())

    async def _run(self, due: int, task: ManualTask) -> None:
        if task.cancelled:
            return
        if task.period_ms is not None:
            self._push(due + task.period_ms, task)
        task.runs += 1
        outcome = task.function()
        if inspect.isawaitable(outcome):
            await outcome

    def _push(self, due: int, task: ManualTask) -> None:
        heapq.heappush(self._due, (due, next(self._order), task))
