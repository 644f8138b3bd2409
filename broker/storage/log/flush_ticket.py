"""One flush of a log: made and finished by the owner of the log, run once, in any thread."""

import logging
import threading
from collections.abc import Sequence
from enum import Enum, auto

from seglog.broker.storage.errors import DiskFullError, FileError, MissingFileError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.leader_epochs import EpochWrite
from seglog.broker.storage.log.producer_snapshot_files import SnapshotWrite, sync_snapshot
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.segment_files import SegmentSync

logger = logging.getLogger(__name__)


class _State(Enum):
    WAITING = auto()
    RUNNING = auto()
    DONE = auto()
    INCOMPLETE = auto()
    FAILED = auto()
    GIVEN_UP = auto()


class FlushTicket:
    """The files that have to be on disk, and whether they are.

    Attributes:
        up_to: everything below this offset is on disk once the ticket ``is_done``.
        continues_to: where the flush ends that this ticket is a part of; None for its last one.
        sealed: the sealed segments that are synced with their indexes.
        generation: of the log's content; a truncation in the meantime makes the ticket worthless.
        last_append_ms: when the newest record it covers was appended.
        snapshot_paths: producer snapshots that are synced.
        snapshot_writes: those that are written.
        epochs: leader epochs that are written.
    """

    __slots__ = (
        "_directory",
        "_failure",
        "_file_system",
        "_lock",
        "_snapshots_done",
        "_state",
        "_syncs",
        "continues_to",
        "epochs",
        "generation",
        "last_append_ms",
        "sealed",
        "snapshot_paths",
        "snapshot_writes",
        "up_to",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        segments: Sequence[tuple[LogSegment, bool]],
        *,
        up_to: int,
        continues_to: int | None,
        generation: int,
        last_append_ms: int,
        snapshot_paths: Sequence[str],
        snapshot_writes: Sequence[SnapshotWrite],
        epochs: EpochWrite | None,
    ) -> None:
        """Hold the files of segments, each with or without its indexes.

        Raises:
            StorageError: a file cannot be opened; nothing is held.
        """
        self.up_to = up_to
        self.continues_to = continues_to
        self.generation = generation
        self.last_append_ms = last_append_ms
        self.sealed = tuple(segment for segment, with_indexes in segments if with_indexes)
        self.snapshot_paths = tuple(snapshot_paths)
        self.snapshot_writes = tuple(snapshot_writes)
        self._snapshots_done: list[tuple[SnapshotWrite, bool]] = []
        self.epochs = epochs
        self._lock = threading.Lock()
        self._state = _State.WAITING
        self._failure: BaseException | None = None
        self._file_system = file_system
        self._directory = directory
        self._syncs: list[SegmentSync] = []
        try:
            for segment, with_indexes in segments:
                self._syncs.append(segment.begin_sync(with_indexes=with_indexes))
        except StorageError:
            self._release()
            raise

    @property
    def is_done(self) -> bool:
        """Whether all of it is on disk, so that the recovery point may move."""
        with self._lock:
            return self._state is _State.DONE

    @property
    def is_over(self) -> bool:
        """Whether no thread works on it or ever will."""
        with self._lock:
            return self._state not in (_State.WAITING, _State.RUNNING)

    @property
    def sync_failure(self) -> BaseException | None:
        """The error after which the data on disk is unknown; None if there is none."""
        with self._lock:
            return self._failure

    def snapshots_done(self) -> list[tuple[SnapshotWrite, bool]]:
        """The snapshots that it has written, or has found no room for (False)."""
        with self._lock:
            return list(self._snapshots_done)

    def give_up(self) -> bool:
        """Take back a ticket that was not begun; False, and nothing happens, if it was."""
        with self._lock:
            if self._state is not _State.WAITING:
                return self._state is _State.GIVEN_UP
            self._state = _State.GIVEN_UP
        self._release()
        return True

    def run(self) -> None:
        """Sync data and indexes, then snapshots, names and leader epochs (FLUSH-2).

        Does nothing if the ticket was given up meanwhile.

        Raises:
            FileError: the data on disk is unknown.
            DiskFullError: there is no room, or no descriptor, for a side file; the records are on
                disk, but the recovery point stays, and another flush may move it.
        """
        with self._lock:
            if self._state is not _State.WAITING:
                return
            self._state = _State.RUNNING
        state, failure = _State.FAILED, None
        try:
            for sync in self._syncs:
                sync.run()
            state = _State.DONE if self._sync_side_files() else _State.INCOMPLETE
        except (DiskFullError, MissingFileError):
            raise  # a side file found no room, or was not opened; the syncs before it count
        except BaseException as error:
            failure = error
            raise
        finally:
            self._release()
            with self._lock:
                self._state, self._failure = state, failure

    def _sync_side_files(self) -> bool:
        """Whether the recovery point may move: the records themselves are on disk already."""
        new_names = [positions for sync in self._syncs for positions in sync.new_names]
        try:
            for path in self.snapshot_paths:
                sync_snapshot(self._file_system, path)
            for write in self.snapshot_writes:
                is_written = write.run(sync=True)
                with self._lock:
                    self._snapshots_done.append((write, is_written))
            is_synced = self.epochs is not None and self.epochs.write()
            has_names = new_names or self.snapshot_paths or self.snapshot_writes
            if not is_synced and has_names:
                self._file_system.sync_directory(self._directory)
        except DiskFullError as error:
            # Recovery finds the epochs in the batches, as long as it scans them.
            logger.warning(
                "event=recovery-point-kept directory=%s error=%s", self._directory, error
            )
            raise
        except FileError as error:
            if self._file_system.exists(self._directory):
                raise
            # The whole log is being deleted; its folder was renamed under our hands.
            logger.debug("event=recovery-point-kept directory=%s error=%s", self._directory, error)
            return False
        for positions in new_names:
            positions.name_synced()
        return True

    def _release(self) -> None:
        while self._syncs:
            self._syncs.pop().release()
