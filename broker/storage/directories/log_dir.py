"""LogDir: one data directory, which is locked, identified, checkpointed and lost as a whole.

Its small files are read tolerantly: a safe value replaces a damaged one (a longer recovery, the
identity of the other directories), with a line in the log that names file and action.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from seglog.broker.storage.directories.checkpoint_writer import CheckpointWriter, Offsets
from seglog.broker.storage.directories.directory_lock import DirectoryLock
from seglog.broker.storage.directories.disk_reserve import DiskReserve
from seglog.broker.storage.directories.meta_properties import MetaProperties, read_meta_properties
from seglog.broker.storage.errors import (
    AccessDeniedError,
    CorruptFileError,
    DiskFullError,
    MissingFileError,
    OddFileError,
    StorageError,
)
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    CLOSED_LOGS,
    LEADER_EPOCH_FLOOR,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    parent_directory,
)
from seglog.broker.storage.log.closed_logs import (
    NO_CLOSED_LOGS,
    ClosedLogs,
    read_closed_logs,
    write_closed_logs,
)
from seglog.protocol.types import TopicPartition

logger = logging.getLogger(__name__)

_FLOOR_BYTES_MAX: Final = 11
_MARKER: Final = json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode()


class LogDirJob(NamedTuple):
    """Something for a worker to do in a data directory; it raises ``StorageError``.

    The thread that runs it reports an error (``StorageFailures.report``).
    """

    log_dir: "LogDir"
    run: Callable[[], None]


class LogDir:
    """One data directory.

    Attributes:
        path: as configured.
        stopped_cleanly: whether the last broker on it wrote the clean-shutdown marker.
        closed_logs: what its logs were then, until they are loaded.
        refuses_writes: why appends are refused for now, although the directory works (disk guard);
            None while they are accepted.
        is_full: whether a write found no room, and no write has found any since.
        read_only_reason: why nothing is written any more, while reading goes on; None before that.
        offline_reason: why the directory is not used any more; None while it is.
        reserve: space kept back for writes that free space.
        starts_when_lost: log start offsets of logs in it for the time when they are not served:
            those of its checkpoint at the start, and those of logs that went offline since. A
            checkpoint without them would bring deleted records back once the logs can be opened
            again.
        bytes_pending_deletion: bytes of files that are renamed but not removed yet.
        leader_epoch_floor: the least leader epoch in which its logs are led. It rises with each
            start that was not clean, or that finds records missing, so that clients can tell
            records that were lost from others that have their offsets now.
    """

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self.path = path
        self.stopped_cleanly = False
        self.closed_logs: ClosedLogs = NO_CLOSED_LOGS
        self.refuses_writes: str | None = None
        self.is_full = False
        self.read_only_reason: str | None = None
        self.offline_reason: str | None = None
        self.bytes_pending_deletion = 0
        self.reserve = DiskReserve(file_system, path)
        self.recovery_points = self._writer(file_system, RECOVERY_POINT_CHECKPOINT)
        self.log_starts = self._writer(file_system, LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._writer(file_system, REPLICATION_OFFSET_CHECKPOINT)
        self.leader_epoch_floor = 0
        self.owes_leader_epoch = False
        self.starts_when_lost: dict[TopicPartition, int] = {}
        self._file_system = file_system
        self._lock = DirectoryLock(path)

    def __repr__(self) -> str:
        return f"LogDir({self.path!r}, offline_reason={self.offline_reason!r})"

    @property
    def is_online(self) -> bool:
        """Whether it is in use."""
        return self.offline_reason is None

    @property
    def is_writing_checkpoint(self) -> bool:
        """Whether a write of a checkpoint has begun and has not ended."""
        writers = (self.recovery_points, self.log_starts, self.high_watermarks)
        return any(writer.is_writing for writer in writers)

    @property
    def is_writable_now(self) -> bool:
        """Whether it is in use and takes changes."""
        return self.offline_reason is None and self.read_only_reason is None

    @property
    def refusal(self) -> str | None:
        """Why records are refused, if they are, although the directory is read."""
        if self.reserve.is_open:
            return (
                f"data directory {self.path} is full, and its rest is for deletions: delete "
                "topics or records, or shorten retention"
            )
        if self.owes_leader_epoch:
            # Written in an epoch that the next start may begin again, if the power fails before.
            return f"data directory {self.path} has no room for its leader epoch: free some space"
        return self.read_only_reason or self.refuses_writes

    def note_full(self) -> None:
        """A write found no room: records are refused until there is some, as the log says once."""
        if not self.is_full:
            self.is_full = True
            logger.warning("event=log-dir-full directory=%s action=refuse-records", self.path)

    def note_room(self) -> None:
        """There is room again, or the directory is used no more."""
        if self.is_full:
            self.is_full = False
            logger.info("event=log-dir-has-room directory=%s", self.path)

    def is_writable(self) -> bool:
        """Whether this process may make files in the directory; asks the system."""
        return os.access(self.path, os.W_OK | os.X_OK)

    def is_there(self) -> bool:
        """Whether the folder has not been removed, or its disk unmounted, under our hands."""
        try:
            return self._file_system.exists(self._file(META_PROPERTIES))
        except StorageError:
            return False

    def loses_only_a_log(self, error: StorageError) -> bool:
        """Whether an error in the files of one log tells of something that was done by hand.

        A file that was removed, or that belongs to another user, as after a restore, says nothing
        about the disk, unless the whole directory is gone.
        """
        by_hand = MissingFileError | AccessDeniedError | OddFileError
        return isinstance(error, by_hand) and self.is_there()

    def check_same(self) -> None:
        """Make sure that no other directory is in the place of this one, before files are made.

        Appends to open files fail by themselves; a replaced file would be made in the bare mount
        point of an unmounted disk.

        Raises:
            MissingFileError: the directory was removed or its disk unmounted.
            FileError: it cannot be looked at.
        """
        self._lock.check_same_directory()

    def run_inside(self, write: Callable[[], None]) -> None:
        """Write files that are made anew, after ``check_same``; raises the errors of both."""
        self.check_same()
        write()

    def lock(self) -> None:
        """Make the directory if it is missing, and lock it.

        Raises:
            LockedError: another broker has it; no file was changed.
            StorageError: it cannot be made or used.
        """
        self._make(self.path)
        self._lock.acquire()

    def unlock(self) -> None:
        """Let another broker have it. Idempotent."""
        self._lock.release()

    def set_offline(self, error: Exception) -> None:
        """Use the directory no more; it stays locked, so that no other process uses it."""
        if self.offline_reason is None:
            self.offline_reason = str(error)
            logger.error("event=log-dir-offline directory=%s reason=%r", self.path, str(error))

    def set_read_only(self, error: Exception) -> None:
        """Write to the directory no more, until a restart; its files stay readable."""
        if self.read_only_reason is None:
            self.read_only_reason = (
                f"data directory {self.path} cannot be written to: {error}; let user id "
                f"{os.getuid()} write there again, then restart the broker"
            )
            logger.error("event=log-dir-read-only directory=%s reason=%r", self.path, str(error))

    def read_identity(self) -> MetaProperties | None:
        """Its ``meta.properties``; None if there is none or it is damaged, and may be replaced.

        Raises:
            UnknownFormatError: a newer version wrote it.
            FileError: the disk refused.
        """
        try:
            return read_meta_properties(self._file_system, self.path)
        except CorruptFileError as error:
            self._report_damage(error, "write-anew")
            return None

    def take_clean_marker(self) -> bool:
        """Notice and remove the clean-shutdown marker, so that a crash from here on counts.

        What the logs were is read and removed with it: it must not meet a later marker.

        Raises:
            FileError: the marker cannot be removed.
        """
        unlink, closed_logs = self._file_system.unlink, self._file(CLOSED_LOGS)
        self.stopped_cleanly = unlink(self._file(CLEAN_SHUTDOWN_MARKER), missing_ok=True)
        if self.stopped_cleanly:
            self.closed_logs = read_closed_logs(self._file_system, closed_logs)
        if unlink(closed_logs, missing_ok=True) or self.stopped_cleanly:
            self._file_system.sync_directory(self.path)
        return self.stopped_cleanly

    def write_closed_logs(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """Say what the logs are, before the marker; a full disk is passed over.

        Args:
            entries: names of folders with their encoded `ClosedLog`.

        Raises:
            FileError: the disk refused.
        """
        try:
            write_closed_logs(self._file_system, self._file(CLOSED_LOGS), entries)
        except DiskFullError as error:
            # The next start opens each log.
            logger.warning("event=closed-logs-not-written error=%s", error)

    def write_clean_marker(self) -> None:
        """Say that the next start needs no recovery; the last thing that is written."""
        path = self._file(CLEAN_SHUTDOWN_MARKER)
        self._file_system.replace_atomically(path, _MARKER)

    def read_leader_epoch_floor(self) -> None:
        """Take over the floor of the last start; 0 if there was none, or the file is damaged.

        Raises:
            FileError: the disk refused.
        """
        path = self._file(LEADER_EPOCH_FLOOR)
        try:
            content = self._file_system.read_file(path)
        except MissingFileError:
            return
        if content.strip().isdigit() and len(content) <= _FLOOR_BYTES_MAX:
            self.leader_epoch_floor = int(content)
        else:
            self._report_damage(CorruptFileError(path, "it holds no number"), "epochs-of-the-logs")

    def raise_leader_epoch_floor(self, highest_known: int) -> None:
        """Lead in an unused epoch from now on; it is on disk when this returns.

        Args:
            highest_known: the highest epoch that a log of the directory has.

        Raises:
            FileError: the disk refused.
        """
        self.leader_epoch_floor = max(self.leader_epoch_floor, highest_known) + 1
        self.owes_leader_epoch = True
        self.store_leader_epoch_floor()
        if self.owes_leader_epoch:
            logger.warning(
                "event=leader-epoch-not-stored directory=%s action=refuse-records", self.path
            )

    def store_leader_epoch_floor(self) -> None:
        """Put the leader epoch floor on disk; where there is no room, records are refused.

        Raises:
            FileError: the disk refused.
        """
        path, content = self._file(LEADER_EPOCH_FLOOR), b"%d\n" % self.leader_epoch_floor
        try:
            self.reserve.write_to_free_space(
                lambda: self._file_system.replace_atomically(path, content)
            )
        except DiskFullError as error:
            logger.debug("event=leader-epoch-not-stored error=%s", error)
        else:
            self.owes_leader_epoch = False

    def read_recovery_points(self) -> Offsets:
        """Recovery points; none if the file is damaged, so that everything counts as not synced."""
        return self._read(RECOVERY_POINT_CHECKPOINT, self.recovery_points, "recover-from-start")

    def lower_recovery_points(self, offsets: Offsets) -> None:
        """Put recovery points on disk before anything is appended below the old ones.

        On a disk that has no room for them the file is removed, which takes none: then everything
        counts as not synced.

        Raises:
            FileError: the disk refused.
        """
        write = self.recovery_points.job(offsets)
        if write is None:
            return
        try:
            self.reserve.write_to_free_space(write)
        except DiskFullError as error:
            logger.warning("event=recovery-points-removed directory=%s error=%s", self.path, error)
            self._file_system.unlink(self._file(RECOVERY_POINT_CHECKPOINT), missing_ok=True)
            self._file_system.sync_directory(self.path)

    def read_log_starts(self) -> Offsets:
        """Log start offsets above the first segment; none if the file is damaged."""
        starts = self._read(LOG_START_OFFSET_CHECKPOINT, self.log_starts, "start-at-first-segment")
        self.starts_when_lost = dict(starts)
        return starts

    def read_high_watermarks(self) -> Offsets:
        """High watermarks; none if the file is damaged."""
        return self._read(REPLICATION_OFFSET_CHECKPOINT, self.high_watermarks, "start-at-log-start")

    def read_cleaned(self) -> Offsets:
        """How far logs were compacted, also those that are not any more; none if that is damaged.

        The cleaner, which writes it, reports damage.
        """
        file = OffsetCheckpointFile(self._file_system, self._file(CLEANER_OFFSET_CHECKPOINT))
        try:
            return file.read()
        except CorruptFileError as error:
            logger.debug("event=cleaned-logs-unknown directory=%s error=%s", self.path, error)
            return {}

    def _read(self, name: str, writer: CheckpointWriter, action: str) -> Offsets:
        file = OffsetCheckpointFile(self._file_system, self._file(name))
        try:
            # Kafka creates these files empty, but never writes them so: its entries may be lost.
            offsets = file.read(empty_ok=False)
        except CorruptFileError as error:
            self._report_damage(error, action)
            writer.assume_written(None)
            return {}
        writer.assume_written(offsets)
        return offsets

    def _report_damage(self, error: CorruptFileError, action: str) -> None:
        logger.warning(
            "event=file-damaged file=%s reason=%r action=%s", error.path, error.reason, action
        )

    def _writer(self, file_system: FileSystem, name: str) -> CheckpointWriter:
        return CheckpointWriter(file_system, self._file(name), self.reserve)

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def _make(self, path: str) -> None:
        if not self._file_system.exists(path):
            self._make(parent_directory(path))
            try:
                self._file_system.make_directory(path)
            except StorageError:
                # Another broker may have been faster; the lock decides between the two.
                if not self._file_system.exists(path):
                    raise


def remove_directory_tree(file_system: FileSystem, path: str) -> None:
    """Remove the folder of a partition with its files; missing files do not matter.

    Raises:
        FileError: something could not be removed.
    """
    try:
        names = file_system.list_directory(path)
    except MissingFileError:
        return
    for name in names:
        try:
            file_system.unlink(f"{path}/{name}", missing_ok=True)
        except StorageError:
            # A folder inside, which no broker makes.
            remove_directory_tree(file_system, f"{path}/{name}")
    if os.path.islink(path):
        # An operator has moved the folder to another disk and left a link.
        file_system.remove_directory(os.path.realpath(path))
        file_system.unlink(path)
        return
    file_system.remove_directory(path)
