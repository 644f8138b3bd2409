"""What the checkpoints of a data directory say of its logs when a broker starts."""

from collections.abc import Iterable
from typing import NamedTuple

from seglog.broker.storage.directories.checkpoint_writer import Offsets
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition


class StartCheckpoints(NamedTuple):
    """The offsets of one data directory, by partition.

    Attributes:
        recovery_points: up to where the records are known to be on disk.
        log_starts: where logs begin, as far as that lies within a segment, or is in doubt.
        high_watermarks: a first guess.
        cleaned: up to where logs were compacted.
    """

    recovery_points: Offsets
    log_starts: Offsets
    high_watermarks: Offsets
    cleaned: Offsets

    @classmethod
    def read(cls, log_dir: LogDir) -> "StartCheckpoints":
        """Those of a directory; a damaged file reads as empty.

        Raises:
            FileError: the disk refused.
        """
        return cls(
            log_dir.read_recovery_points(),
            log_dir.read_log_starts(),
            log_dir.read_high_watermarks(),
            log_dir.read_cleaned(),
        )

    def recovery_point(self, topic_partition: TopicPartition) -> int | None:
        """The synced end of a log: 0 for a new one; None if the file is lost."""
        if not self.recovery_points:
            return None
        return max(0, self.recovery_points.get(topic_partition, 0))

    def lowered(self, logs: Iterable[Log]) -> Offsets:
        """The recovery points of logs that end below those that are on disk."""
        return {
            log.topic_partition: log.offsets.recovery_point
            for log in logs
            if log.offsets.recovery_point < self.recovery_points.get(log.topic_partition, 0)
        }

    def is_moved(
        self,
        topic_partition: TopicPartition,
        others: Iterable["StartCheckpoints"],
        *,
        stopped_cleanly: bool,
    ) -> bool:
        """Whether a folder was put here by hand since the last stop, or from another directory.

        Its records need not be on disk, however this directory was stopped, and gaps between them
        need not be losses: all of it has to be verified, and gaps are to be kept.
        """
        if not self.recovery_points or topic_partition in self.recovery_points:
            return False
        return stopped_cleanly or any(topic_partition in each.recovery_points for each in others)
