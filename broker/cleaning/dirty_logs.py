"""DirtyLogs: which logs are worth a pass, found in rounds that leave the loop to others.

Whether a log is worth one changes with its rolls, its transactions, its settings and the time. So
all of them are looked at, once a round: not after each pass, which for N dirty logs would be N
times N looks, and not in one turn of the loop, which 10,000 logs would hold for 100 ms or more.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Final

from seglog.broker.storage.cleaner.candidates import CleanableLog
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition

_SLICE_SECONDS: Final = 0.001
_PAUSE_SECONDS: Final = 0.004
"""Between two slices, so that a round takes a fifth of the loop's time at most."""
_LOGS_MIN: Final = 8
"""So many are looked at in a slice, however long that takes: a small broker has one slice."""


class DirtyLogs:
    """The candidates of the last round.

    Args:
        look: finds the cleanable part of a log, None if it is not to be cleaned now.
        call_later: has the loop call something after so many seconds.
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        logs: LogManager,
        look: Callable[[Log], CleanableLog | None],
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        self._look = look
        self._monotonic = monotonic
        self._call_later = call_later
        self._found: dict[TopicPartition, CleanableLog] = {}
        self._by_ratio: list[tuple[float, int, CleanableLog]] = []
        self._serial = itertools.count()
        self._coming: Iterator[Log] | None = None
        self._next_slice: asyncio.TimerHandle | None = None

    @property
    def is_round_under_way(self) -> bool:
        """Whether not all logs have been looked at yet."""
        return self._coming is not None

    def begin_round(self, ended: Callable[[], None]) -> None:
        """Look at all logs anew, unless that is going on.

        Args:
            ended: called when it is done; at once where there are few logs.
        """
        if self._coming is None:
            self._found.clear()
            self._by_ratio.clear()
            self._coming = iter(list(self._logs.all_logs()))
            self._take_slice(ended)

    def stop(self) -> None:
        """Take no further slice."""
        self._coming = None
        if self._next_slice is not None:
            self._next_slice.cancel()

    def _take_slice(self, ended: Callable[[], None]) -> None:
        assert self._coming is not None
        end = self._monotonic() + _SLICE_SECONDS
        try:
            for number, log in enumerate(self._coming, 1):
                self.look_again(log)
                if number >= _LOGS_MIN and self._monotonic() >= end:
                    self._next_slice = self._call_later(
                        _PAUSE_SECONDS, partial(self._take_slice, ended)
                    )
                    return
        except BaseException:
            self._coming = None  # or there would never be another round
            raise
        self._coming = None
        ended()

    def look_again(self, log: Log) -> None:
        """Look at a log out of turn, for instance after a pass over it."""
        topic_partition = log.topic_partition
        cleanable = None
        if self._logs.get(topic_partition) is log:
            cleanable = self._look(log)
        if cleanable is not None and cleanable.is_eligible(log.config.min_cleanable_dirty_ratio):
            self._found[topic_partition] = cleanable
            heappush(self._by_ratio, (-cleanable.ratio, next(self._serial), cleanable))
        else:
            self._found.pop(topic_partition, None)

    def take_filthiest(self) -> tuple[Log, CleanableLog] | None:
        """The log with the greatest dirty ratio (CLN-6), as it is now; a candidate no more."""
        while self._by_ratio:
            _, _, best = heappop(self._by_ratio)
            if self._found.get(best.topic_partition) is not best:
                continue  # looked at again since, or taken
            del self._found[best.topic_partition]
            log = self._logs.get(best.topic_partition)
            cleanable = None if log is None else self._look(log)
            if log is None or cleanable is None:
                continue
            if cleanable.is_eligible(log.config.min_cleanable_dirty_ratio):
                return log, cleanable
        return None
