"""Writing the offset checkpoints of a data directory without holding up the event loop.

The owner of the logs collects the offsets (fast, on its own thread) and gets a job for a worker,
or none if nothing has changed since the last one:

    owner:    job = writer.job(offsets)
    worker:   job()

Of very many logs the owner collects in slices, and others have their turn in between:

    owner:    ticket = writer.begin()
              ...
              job = writer.job(offsets, ticket)

The offsets are of different moments then. Each entry is about its own partition and nothing reads
two of them together, so it suffices that none of them falls below a value in use:

    recovery points     records on disk stay there; a lower one means more to verify
    high watermarks     only the first guess of a start, which bounds them by the log's end
    log starts          those that were acknowledged as deleted must not fall: collections that were
                        begun before one that has come to its end are worth nothing any more
    all                 a deleted topic must not come back, its offsets would be taken for those of
                        a later one of that name: ``forget`` holds for collections under way too

Jobs may run in several workers at once: each writes the newest offsets when its turn comes. When a
job is done the disk has the offsets of the job, or newer ones.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial

from seglog.broker.storage.directories.disk_reserve import DiskReserve
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import FileSystem
from seglog.protocol.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointWriter:
    """The newest state of one checkpoint file, and whether the disk has it.

    Args:
        reserve: of the directory, for writes that free space; None if there are none.
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
        self._begun = 0
        self._newest_ticket = 0
        self._forgotten: dict[TopicPartition, int] = {}
        self._written: Offsets | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a job has begun to write and has not ended; on a dying disk it may never."""
        return self._turn.locked()

    def begin(self) -> int:
        """Begin to collect offsets in slices; the result goes into ``job``."""
        with self._lock:
            self._begun += 1
            return self._begun

    def forget(self, topic_partitions: Collection[TopicPartition]) -> None:
        """Leave deleted partitions out of the present write and collection."""
        with self._lock:
            if self._begun > self._newest_ticket:
                self._forgotten.update(dict.fromkeys(topic_partitions, self._begun))
            self._newest = _without(self._newest, topic_partitions)

    def job(
        self, offsets: Offsets, ticket: int | None = None, *, frees_space: bool = False
    ) -> Callable[[], None] | None:
        """The job after which the disk has ``offsets``; None if it has them.

        The job raises ``StorageError``; then the old file is still there.

        Args:
            ticket: of ``begin``; None if they were collected in one go, just now.
            frees_space: whether space will be freed by it, so that it may use the reserve for that.
        """
        with self._lock:
            if ticket is None:
                self._begun += 1
                ticket = self._begun
            if ticket > self._newest_ticket:
                self._accept(offsets, ticket)
            if self._written == self._newest:
                return None
            return partial(self._write, frees_space=frees_space)

    def _accept(self, offsets: Offsets, ticket: int) -> None:
        forgotten = self._forgotten
        self._newest = _without(offsets, [each for each, at in forgotten.items() if ticket <= at])
        self._newest_ticket = ticket
        self._forgotten = {each: at for each, at in forgotten.items() if at > ticket}

    def assume_written(self, offsets: Offsets | None) -> None:
        """Note the offsets on disk; None if they are unknown, so that the next job writes."""
        with self._lock:
            self._newest = {} if offsets is None else offsets
            self._written = offsets

    def may_know(self, topic_partitions: Collection[TopicPartition]) -> bool:
        """Whether the file on disk has, or is about to get, an entry for one of some partitions."""
        with self._lock:
            written, newest = self._written, self._newest
        return written is None or any(
            each in written or each in newest for each in topic_partitions
        )

    def _write(self, *, frees_space: bool) -> None:
        with self._turn:
            with self._lock:
                newest = self._newest
                if self._written == newest:
                    return  # the one before has written it
                # The contents of the file are unknown until the write is done.
                self._written = None
            write = partial(self._file.write, newest)
            if frees_space and self._reserve is not None:
                self._reserve.write_to_free_space(write)
            else:
                write()
            with self._lock:
                self._written = newest


def _without(offsets: Offsets, left_out: Collection[TopicPartition]) -> Offsets:
    if not any(each in offsets for each in left_out):
        return offsets
    left_out = frozenset(left_out)
    return {each: offset for each, offset in offsets.items() if each not in left_out}
