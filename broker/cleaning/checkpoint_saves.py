"""CheckpointSaves: how far logs are clean, kept on disk while the loop waits for no disk."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from seglog.broker.cleaning.checkpoints import CleanerCheckpoints
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

RunInDirectory = Callable[[str, Callable[[], None]], "asyncio.Future[None]"]


class CheckpointSaves:
    """The ``cleaner-offset-checkpoint`` of every data directory, written whenever it changes.

    Args:
        run_in_directory: runs a job that writes a checkpoint in a worker of a data directory.
    """

    def __init__(
        self,
        logs: LogManager,
        file_system: FileSystem,
        run_in_directory: RunInDirectory,
    ) -> None:
        self._logs = logs
        self._run_in_directory = run_in_directory
        self._loop = asyncio.get_running_loop()
        self._truncations: dict[TopicPartition, int] = {}
        self._being_written: set[str] = set()
        self._changed_since: set[str] = set()
        self._checkpoints = CleanerCheckpoints(file_system)
        log_ends = {log.topic_partition: log.offsets.log_end for log in logs.all_logs()}
        online = [log_dir.path for log_dir in logs.log_dirs if log_dir.is_online]
        self._outdated = {path for path in online if self._checkpoints.load(path, log_ends)}
        self._loop.call_soon(self._write_outdated)

    def first_dirty(self, log: Log) -> int | None:
        """The first dirty offset of a log, None if it was never cleaned, or cut since."""
        topic_partition = log.topic_partition
        if self._truncations.get(topic_partition, 0) != log.truncations:
            # Records appended after the cut would count as clean.
            self._truncations[topic_partition] = log.truncations
            self._drop(topic_partition)
        return self._checkpoints.get(self._logs.log_dir_of(log).path, log.topic_partition)

    def advance(self, log: Log, offset: int, failed: Callable[[StorageError], None]) -> None:
        """Take note of how far a log is clean.

        Args:
            failed: told if that cannot be written.
        """
        log_dir = self._logs.log_dir_of(log).path
        self._checkpoints.set(log_dir, log.topic_partition, offset)
        if log_dir in self._being_written:
            # Once more when that is done: many small logs that are cleaned one after the other
            # would each have the whole file written.
            self._changed_since.add(log_dir)
        else:
            self._write(log_dir, failed)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is deleted: a new one of the same name starts dirty."""
        self._truncations.pop(topic_partition, None)
        self._drop(topic_partition)

    def _drop(self, topic_partition: TopicPartition) -> None:
        for log_dir in self._logs.log_dirs:
            if self._checkpoints.forget(log_dir.path, topic_partition):
                # On disk before a topic of that name can be: after a crash it would pass for clean.
                if not self._outdated:
                    self._loop.call_soon(self._write_outdated)
                self._outdated.add(log_dir.path)

    def _write_outdated(self) -> None:
        while self._outdated:
            log_dir = self._outdated.pop()
            self._write(log_dir, partial(_note_unwritten, log_dir))

    def _write(self, log_dir: str, failed: Callable[[StorageError], None]) -> None:
        write = self._checkpoints.job(log_dir)
        if write is None:
            return

        def look_at_outcome(written: "asyncio.Future[None]") -> None:
            self._being_written.discard(log_dir)
            error = None if written.cancelled() else written.exception()
            if isinstance(error, StorageError):
                failed(error)
            if log_dir in self._changed_since:
                self._changed_since.discard(log_dir)
                self._write(log_dir, failed)

        place = next(each for each in self._logs.log_dirs if each.path == log_dir)
        self._being_written.add(log_dir)
        written = self._run_in_directory(log_dir, partial(place.run_inside, write))
        written.add_done_callback(look_at_outcome)


def _note_unwritten(log_dir: str, error: StorageError) -> None:
    logger.warning("event=cleaner-write-failed directory=%s error=%s", log_dir, error)
