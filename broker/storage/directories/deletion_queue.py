"""Files and folders that wait for their removal: the work of the task ``delete-file``.

A deleted segment or partition is renamed at once and removed after ``file.delete.delay.ms``, so
that its readers can finish. The owner of the logs queues removals and takes the due ones; a worker
does the removal itself, which blocks.
"""

import heapq
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import DiskFullError, StorageError

logger = logging.getLogger(__name__)

_BATCH_MAX: Final = 64
"""Removals handed out at a time, so that stopping need not wait for ten thousand folders."""
_AGAIN_MS: Final = 10_000
"""After so long a removal is tried again that found no descriptor, or no room for its names."""


@dataclass(order=True)
class Deletion:
    """One removal; ``run`` blocks and raises ``StorageError``.

    Attributes:
        due_ms: when it may run, wall clock.
        log_dir: where it frees ``size_bytes``.
        what: the file or folder, for the log.
    """

    due_ms: int
    order: int
    log_dir: LogDir = field(compare=False)
    what: str = field(compare=False)
    size_bytes: int = field(compare=False)
    run: Callable[[], None] = field(compare=False, repr=False)


class DeletionQueue:
    """Files that wait for removal, soonest first; used by the owner of the logs only."""

    def __init__(self) -> None:
        self._waiting: list[Deletion] = []
        self._count = 0
        self._seen_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, due_ms: int, log_dir: LogDir, what: str, size_bytes: int, run: Callable[[], None]
    ) -> None:
        """Have something removed at a time."""
        self._count += 1
        log_dir.bytes_pending_deletion += size_bytes
        heapq.heappush(self._waiting, Deletion(due_ms, self._count, log_dir, what, size_bytes, run))

    def take_due(self, now_ms: int, busy: Collection[LogDir] = frozenset()) -> list[Deletion]:
        """Take removals that are due, some at a time; each is run and then reported by ``done``.

        Args:
            busy: directories whose removals wait.
        """
        if now_ms < self._seen_ms:
            # The clock was set back. Nothing may keep the disk full for as long as that.
            for deletion in self._waiting:
                deletion.due_ms -= self._seen_ms - now_ms
        self._seen_ms = now_ms
        due: list[Deletion] = []
        passed_over: list[Deletion] = []
        while self._waiting and self._waiting[0].due_ms <= now_ms and len(due) < _BATCH_MAX:
            deletion = heapq.heappop(self._waiting)
            (passed_over if deletion.log_dir in busy else due).append(deletion)
        for deletion in passed_over:
            heapq.heappush(self._waiting, deletion)
        return due

    def hurry(self, log_dir: LogDir, now_ms: int) -> None:
        """Make everything due that waits in a directory, because its space is needed."""
        for deletion in self._waiting:
            if deletion.log_dir is log_dir:
                deletion.due_ms = min(deletion.due_ms, now_ms)
        heapq.heapify(self._waiting)

    def done(self, deletion: Deletion, error: StorageError | None = None) -> None:
        """Note the outcome of a removal; the next start repeats a failed one.

        Not where it only lacked a descriptor, or room: that passes, and the next start may be far.
        """
        if isinstance(error, DiskFullError) and deletion.log_dir.is_writable_now:
            logger.info("event=deletion-postponed file=%s error=%s", deletion.what, error)
            deletion.due_ms = self._seen_ms + _AGAIN_MS
            heapq.heappush(self._waiting, deletion)
            return
        deletion.log_dir.bytes_pending_deletion -= deletion.size_bytes
        if error is not None:
            logger.warning("event=deletion-failed file=%s error=%s", deletion.what, error)

    def forget(self, log_dir: LogDir) -> None:
        """Drop the removals of a directory that has failed."""
        self._waiting = [each for each in self._waiting if each.log_dir is not log_dir]
        heapq.heapify(self._waiting)
        log_dir.bytes_pending_deletion = 0
