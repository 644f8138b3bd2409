"""How far each log has been cleaned: ``cleaner-offset-checkpoint`` in every data directory."""

import logging
from collections.abc import Callable, Mapping

from seglog.broker.storage.directories.checkpoint_writer import CheckpointWriter
from seglog.broker.storage.errors import CorruptFileError
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import CLEANER_OFFSET_CHECKPOINT
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)


class CleanerCheckpoints:
    """The first dirty offset of each log that was ever cleaned.

    A damaged file reads as empty: its logs are cleaned from their start again.
    """

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        self._writers: dict[str, CheckpointWriter] = {}

    def load(self, log_dir: str, log_ends: Mapping[TopicPartition, int]) -> bool:
        """Read the file of a data directory; whether it has to be written anew, soon.

        Entries without a log, or beyond its end, are dropped: records appended there later would
            count as clean, also for a later start.

        Args:
            log_ends: the log end offset of each log in the directory.
        """
        path = f"{log_dir}/{CLEANER_OFFSET_CHECKPOINT}"
        writer = self._writers[log_dir] = CheckpointWriter(self._file_system, path)
        try:
            offsets = OffsetCheckpointFile(self._file_system, path).read(empty_ok=False)
        except CorruptFileError as error:
            logger.warning(
                "event=damaged-file path=%s action=clean-from-start reason=%r", path, str(error)
            )
            self._offsets[log_dir] = {}
            writer.assume_written(None)
            return True
        known = dict(offsets)
        writer.assume_written(known)
        for topic_partition, offset in list(offsets.items()):
            log_end = log_ends.get(topic_partition, -1)
            if offset > log_end:
                del offsets[topic_partition]
                logger.warning(
                    "event=cleaner-checkpoint-dropped log=%s offset=%d log_end=%d",
                    topic_partition,
                    offset,
                    log_end,
                )
        self._offsets[log_dir] = offsets
        return known != offsets

    def get(self, log_dir: str, topic_partition: TopicPartition) -> int | None:
        """The first dirty offset, None if the log was never cleaned."""
        return self._offsets.get(log_dir, {}).get(topic_partition)

    def set(self, log_dir: str, topic_partition: TopicPartition, offset: int) -> None:
        """Take note of how far a log is clean."""
        self._offsets.setdefault(log_dir, {})[topic_partition] = offset

    def forget(self, log_dir: str, topic_partition: TopicPartition) -> bool:
        """The log is gone, a new one of the same name starts dirty; whether there was an entry."""
        return self._offsets.get(log_dir, {}).pop(topic_partition, None) is not None

    def job(self, log_dir: str) -> Callable[[], None] | None:
        """The job that writes the file, for a worker; None if the disk has it all."""
        return self._writers[log_dir].job(dict(self._offsets.get(log_dir, {})))
