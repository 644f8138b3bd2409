"""Writing the offset checkpoints of a data directory without holding up the event loop.

The owner of the logs collects the offsets (fast, on its own thread) and gets a job for a worker,
or none if nothing has changed since the last one:

    owner:    job = writer.job(offsets)
    worker:   job()

Jobs may run in several workers at once: each writes what is newest when its turn comes. When a job
is done the disk has what the job was made for, or something newer.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial

from seglog.broker.storage.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.disk_reserve import DiskReserve
from seglog.broker.storage.files import FileSystem
from seglog.protocol.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointWriter:
    """The newest state of one checkpoint file, and whether the disk has it.

    Args:
        reserve: of the directory, for what frees space; None if nothing that is written does.
    """

    def __init__(
        self, file_system: FileSystem, path: str, reserve: DiskReserve | None = None
    ) -> None:
        self._reserve = reserve
        self._file = OffsetCheckpointFile(file_system, path)
        # Guards the two states; the turn is held during a write, the lock never.
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._newest: Offsets = {}
        self._written: Offsets | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a job has begun to write and has not ended; on a dying disk it may never."""
        return self._turn.locked()

    def job(self, offsets: Offsets, *, frees_space: bool = False) -> Callable[[], None] | None:
        """What has to be run so that the disk has ``offsets``; None if it has them.

        The job raises ``StorageError``; then the old file is still there.

        Args:
            frees_space: whether space will be freed by it, so that it may use the reserve for that.
        """
        with self._lock:
            self._newest = offsets
            if self._written == offsets:
                return None
            return partial(self._write, frees_space=frees_space)

    def assume_written(self, offsets: Offsets | None) -> None:
        """Note what the disk has; None if that is not known, so that the next job writes."""
        with self._lock:
            self._newest = {} if offsets is None else offsets
            self._written = offsets

    def may_know(self, topic_partitions: Collection[TopicPartition]) -> bool:
        """Whether the file on disk may have an entry for one of some partitions."""
        with self._lock:
            written = self._written
        return written is None or any(each in written for each in topic_partitions)

    def _write(self, *, frees_space: bool) -> None:
        with self._turn:
            with self._lock:
                newest = self._newest
                if self._written == newest:
                    return  # the one before has written it
                # What the file holds from now on is not known before the write is done.
                self._written = None
            write = partial(self._file.write, newest)
            if frees_space and self._reserve is not None:
                self._reserve.write_to_free_space(write)
            else:
                write()
            with self._lock:
                self._written = newest
