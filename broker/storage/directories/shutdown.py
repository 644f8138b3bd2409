"""An orderly stop: every log on disk, then the checkpoints, then the clean-shutdown markers.

The marker makes the next start trust the files without looking, so it is written last, and only in
directories where nothing went wrong (FLUSH-6, FLUSH-7). A sync or a write that was begun and has
not ended, because its disk hangs, counts as gone wrong: it may fail after the stop.
"""

import logging
import os.path
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from seglog.broker.storage.directories.housekeeping import LogHousekeeping
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.parallel import RunParallel
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.reopening import entry_of

logger = logging.getLogger(__name__)


def close_directory(
    file_system: FileSystem,
    log_dir: LogDir,
    logs: Sequence[Log],
    housekeeping: LogHousekeeping,
    run_parallel: RunParallel,
    *,
    may_be_marked: bool,
) -> None:
    """Close all logs of a data directory and mark it; failures are logged.

    Args:
        logs: all that are in it.
        may_be_marked: False if a log in it could not be loaded, or the start was not completed and
            it was not marked when that began.
    """
    closed = run_parallel([partial(_close, file_system, log) for log in logs])
    is_complete = all(each.is_on_disk for each in closed)
    if log_dir.is_writing_checkpoint:
        # Another write would wait for its turn, perhaps for ever.
        logger.warning(
            'event=stop-incomplete directory=%s error="a checkpoint that was begun has not been'
            ' written"',
            log_dir.path,
        )
        return
    for _, write in housekeeping.checkpoint_jobs(only=log_dir):
        is_complete &= _attempt(log_dir, write)
    if is_complete and may_be_marked:
        entries = [(each.folder, each.entry) for each in closed if each.entry is not None]
        is_complete = _attempt(
            log_dir, partial(log_dir.run_inside, partial(log_dir.write_closed_logs, entries))
        )
    if is_complete and may_be_marked:
        _attempt(log_dir, partial(log_dir.run_inside, log_dir.write_clean_marker))


class _Closed(NamedTuple):
    """A log that was closed: whether all of it is on disk, and what the next start is told."""

    folder: str
    is_on_disk: bool
    entry: bytes | None = None


def _close(file_system: FileSystem, log: Log) -> _Closed:
    log.hand_over()
    folder = os.path.basename(log.directory)
    try:
        log.close()
    except StorageError as error:
        logger.warning("event=log-not-closed log=%s error=%s", log.topic_partition, error)
        return _Closed(folder, is_on_disk=False)
    # On a full disk a log can be closed without its side files; then it has to be recovered.
    if log.offsets.recovery_point != log.offsets.log_end:
        return _Closed(folder, is_on_disk=False)
    return _Closed(folder, is_on_disk=True, entry=entry_of(file_system, log))


def _attempt(log_dir: LogDir, action: Callable[[], None]) -> bool:
    try:
        action()
    except StorageError as error:
        logger.warning("event=stop-incomplete directory=%s error=%s", log_dir.path, error)
        return False
    return True
