"""Writing the offset checkpoints of a data directory without holding up the event loop.

The owner of the logs collects the offsets (fast, on its own thread) and gets a job for a worker,
or none if nothing has changed since the last one:

    owner:    job = writer.job(offsets)
    worker:   job()

Jobs may run in several workers at once: each writes what is newest when it begins, one at a time.
"""

from collections.abc import Callable, Mapping
from functools import partial

from seglog.broker.storage.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.disk_reserve import write_even_if_full
from seglog.broker.storage.files import FileSystem
from seglog.broker.storage.layout import parent_directory
from seglog.protocol.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointWriter:
    """The newest state of one checkpoint file, and whether the disk has it."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self._file = OffsetCheckpointFile(file_system, path)
        self._newest: Offsets = {}
        self._written: Offsets | None = None
        # Taken by the one who writes; taking and putting back an item of a list is atomic.
        self._turn = [None]

    def job(self, offsets: Offsets) -> Callable[[], None] | None:
        """What has to be run so that the disk has ``offsets``; None if it has them.

        The job raises ``StorageError``; then the old file is still there.
        """
        self._newest = offsets
        return None if self._written == offsets else self._write

    def assume_written(self, offsets: Offsets | None) -> None:
        """Note what the disk has; None if that is not known, so that the next job writes."""
        self._newest = {} if offsets is None else offsets
        self._written = offsets

    def _write(self) -> None:
        while self._written != self._newest:
            try:
                self._turn.pop()
            except IndexError:
                return  # the one who has the turn looks for something newer when it is done
            try:
                newest = self._newest
                directory = parent_directory(self._file.path)
                write = partial(self._file.write, newest)
                write_even_if_full(self._file_system, directory, write)
                self._written = newest
            finally:
                self._turn.append(None)
