"""The consequences of an error of a disk: reported from anywhere, decided only here.

failures.report(log_dir, error)            in any thread: a job in the directory has failed
failures.report(log_dir, error, log)       the same in the files of one log

out of descriptors or memory        nothing: it passes, and says nothing about the disk
full                                the directory is full until there is room (``is_full``)
a log's file removed or chown'ed    that log goes offline, the others are served
no write access (any more)          the directory is read only: reading goes on
anything else the disk says         the directory goes offline with its partitions
not of the disk                     a line in the log
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from seglog.broker.storage.directories.data_directories import (
    DataDirectories,
    NoUsableDirectoryError,
)
from seglog.broker.storage.directories.deletion_queue import DeletionQueue
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.directories.log_registry import LogRegistry
from seglog.broker.storage.errors import (
    AccessDeniedError,
    DiskFullError,
    NoDescriptorError,
    ReadOnlyError,
    StorageError,
)
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class StorageFailures:
    """Takes logs and directories out of service.

    Attributes:
        hand_over: runs a function on the thread that owns the logs; at once, until it is set.
        on_lost: told the partitions that are not served any more.
        on_full: told a directory in which a write found no room.
        on_none_left: told when the last directory has failed, after ``on_lost``.
        on_unwritable: told a directory that went offline or became read-only.
        damaged: directories with a log that was lost: they are not marked as stopped cleanly.
    """

    def __init__(
        self, directories: DataDirectories, registry: LogRegistry, deletions: DeletionQueue
    ) -> None:
        self.hand_over: Callable[[Callable[[], None]], object] = _at_once
        self.on_lost: Callable[[Sequence[TopicPartition]], None] = _ignore
        self.on_full: Callable[[LogDir], None] = _ignore
        self.on_none_left: Callable[[StorageError], None] = _ignore
        self.on_unwritable: Callable[[LogDir], None] = _ignore
        self.damaged: set[LogDir] = set()
        self._directories = directories
        self._registry = registry
        self._deletions = deletions

    def report(self, log_dir: LogDir, error: StorageError, log: Log | None = None) -> None:
        """Have the consequences of an error drawn; from any thread.

        Args:
            log_dir: where it happened.
            error: of the disk.
            log: whose files it is about, if it is about those of one log only.
        """
        self.hand_over(partial(self._decide, log_dir, error, log))

    def report_harmless(self, log_dir: LogDir, error: StorageError, log: Log) -> None:
        """The same for a step that has left a log as it was, so that it is served on.

        A file that was made immutable stops only retention.
        """
        if error.takes_dir_offline and not log_dir.loses_only_a_log(error):
            self.report(log_dir, error, log)

    def load_failed(
        self, log_dir: LogDir, topic_partition: TopicPartition, error: StorageError
    ) -> None:
        """Note at the start that a log cannot be opened, perhaps because of the whole disk.

        The partitions of such a directory are let go once all are loaded, by ``move_offline``.
        """
        self.damaged.add(log_dir)
        self._registry.set_offline([topic_partition], str(error))
        if error.takes_dir_offline and not log_dir.loses_only_a_log(error):
            log_dir.set_offline(error)

    def _decide(self, log_dir: LogDir, error: StorageError, log: Log | None) -> None:
        if not log_dir.is_online or isinstance(error, NoDescriptorError):
            return
        if isinstance(error, DiskFullError):
            self.on_full(log_dir)
        elif not error.takes_dir_offline:
            logger.warning("event=housekeeping-failed directory=%s error=%s", log_dir.path, error)
        elif isinstance(error, ReadOnlyError) or _is_denied(log_dir, error, log):
            log_dir.set_read_only(error)
            self.on_unwritable(log_dir)
        elif log is not None and log_dir.loses_only_a_log(error):
            self._lose_log(log_dir, error, log)
        else:
            self._lose_directory(log_dir, error)

    def _lose_log(self, log_dir: LogDir, error: StorageError, log: Log) -> None:
        if self._registry.get(log.topic_partition) is not log:
            return  # its topic is being deleted: there is nothing to lose
        logger.error("event=log-offline log=%s reason=%r", log.topic_partition, str(error))
        self._note_start(log_dir, log)
        self._registry.remove(log)
        log.abandon()
        self.damaged.add(log_dir)
        self._registry.set_offline([log.topic_partition], str(error))
        self.on_lost([log.topic_partition])

    def _lose_directory(self, log_dir: LogDir, error: StorageError) -> None:
        log_dir.set_offline(error)
        self.move_offline(log_dir)
        try:
            self._directories.check_any_online()
        except NoUsableDirectoryError as none_left:
            self.on_none_left(none_left)

    def move_offline(self, log_dir: LogDir) -> None:
        """Let go of what lies in a directory that is offline."""
        logs = list(self._registry.of_directory(log_dir))
        for log in logs:
            self._note_start(log_dir, log)
            self._registry.remove(log)
            log.abandon()
        partitions = [log.topic_partition for log in logs]
        reason = f"log directory {log_dir.path} is offline: {log_dir.offline_reason}"
        self._registry.set_offline(partitions, reason)
        self._deletions.forget(log_dir)
        self.on_unwritable(log_dir)
        self.on_lost(partitions)

    def _note_start(self, log_dir: LogDir, log: Log) -> None:
        """Have the log start of a log that goes offline kept in the checkpoint."""
        for each in self._directories.all:
            # A topic of that name may have been elsewhere before it was deleted and made anew.
            each.starts_when_lost.pop(log.topic_partition, None)
        if log.offsets.log_start > 0:
            log_dir.starts_when_lost[log.topic_partition] = log.offsets.log_start


def _is_denied(log_dir: LogDir, error: StorageError, log: Log | None) -> bool:
    """Whether an access that was refused tells of the directory, and not of one log's files."""
    return isinstance(error, AccessDeniedError) and (log is None or not log_dir.is_writable())


def _at_once(function: Callable[[], None]) -> None:
    function()


def _ignore(_what: object) -> None:
    return
