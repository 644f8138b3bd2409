"""An orderly stop: every log on disk, then the checkpoints, then the clean-shutdown markers.

The marker makes the next start trust the files without looking, so it is written last, and only in
directories where nothing went wrong (FLUSH-6, FLUSH-7). A sync or a write that was begun and has
not ended, because its disk hangs, counts as gone wrong: it may fail when nobody looks any more.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from seglog.broker.storage.data_directories import DataDirectories
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.layout import parent_directory
from seglog.broker.storage.log import Log
from seglog.broker.storage.log_dir import LogDir
from seglog.broker.storage.log_housekeeping import LogHousekeeping
from seglog.broker.storage.log_registry import LogRegistry
from seglog.broker.storage.parallel import RunParallel

logger = logging.getLogger(__name__)


class _Closed(NamedTuple):
    path: str
    is_complete: bool


def close_logs(
    directories: DataDirectories,
    registry: LogRegistry,
    housekeeping: LogHousekeeping,
    run_parallel: RunParallel,
    *,
    damaged: set[LogDir],
    is_loaded: bool,
) -> None:
    """Close all logs and mark the directories; what fails is logged.

    Args:
        damaged: directories that get no marker, because a log in them could not be loaded.
        is_loaded: whether the start was completed. If not, directories that were marked when it
            began are marked again, since nothing was changed in them.
    """
    damaged_paths = {log_dir.path for log_dir in damaged}
    housekeeping.make_room_to_stop()
    closed = run_parallel([partial(_close, log) for log in registry.all()])
    damaged_paths.update(each.path for each in closed if not each.is_complete)
    for log_dir in directories.online:
        if log_dir.is_writing_checkpoint:
            logger.warning(
                'event=stop-incomplete directory=%s error="a checkpoint that was begun has not been'
                ' written"',
                log_dir.path,
            )
            damaged_paths.add(log_dir.path)
    for log_dir, write in housekeeping.checkpoint_jobs():
        if log_dir.is_writing_checkpoint:
            continue  # it would wait for its turn, perhaps for ever
        if not _attempt(log_dir, write):
            damaged_paths.add(log_dir.path)
    for log_dir in directories.online:
        if log_dir.path not in damaged_paths and (is_loaded or log_dir.stopped_cleanly):
            _attempt(log_dir, partial(log_dir.run_inside, log_dir.write_clean_marker))


def _close(log: Log) -> _Closed:
    path = parent_directory(log.directory)
    try:
        log.close()
    except StorageError as error:
        logger.warning("event=log-not-closed log=%s error=%s", log.topic_partition, error)
        return _Closed(path, is_complete=False)
    # On a full disk a log can be closed without its side files; then it has to be recovered.
    return _Closed(path, is_complete=log.offsets.recovery_point == log.offsets.log_end)


def _attempt(log_dir: LogDir, action: Callable[[], None]) -> bool:
    try:
        action()
    except StorageError as error:
        logger.warning("event=stop-incomplete directory=%s error=%s", log_dir.path, error)
        return False
    return True
