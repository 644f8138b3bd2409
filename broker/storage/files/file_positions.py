"""How far a file was written, and how far it is known to be on disk.

One thread appends to a file, another one syncs it, and a third may close it. Their shared state is
here, under one lock:

    appender:  writes up to 300           advance(300)
    syncer:    begin_sync()  -> 300       the bytes written before the sync begins
    appender:  writes up to 400           advance(400)
    syncer:    fsync ... end_sync(300)    the 100 bytes behind it may or may not be on disk

A flag in the place of the two positions says too much whenever a write and the beginning of a sync
overlap: the flag that the syncer takes down may be that of a write which is not in the file yet.

A sync that failed is never repeated. The kernel may have dropped the pages that it could not write,
and reports success the next time. One that was begun and has not ended may still fail, and the
kernel tells only one caller of a failure: until it ends no other sync of the file is believed.
"""

import threading
from typing import NamedTuple

from seglog.broker.storage.errors import FileError, StorageError, sync_error
from seglog.broker.storage.files.system_calls import SystemCalls


class FilePosition(NamedTuple):
    """A moment in the life of a file; the later one is the greater one.

    Attributes:
        changes: how often the file was cut, or changed elsewhere than at its end.
        end: where it ended then, in bytes.
    """

    changes: int
    end: int


_UNKNOWN = FilePosition(0, -1)


class FilePositions:
    """Written up to, synced up to, and whether a sync failed; every method from any thread.

    Args:
        end: the length of the contents of the file, in bytes.
        is_new: the file was made just now, and is empty. Of an older file it is unknown which bytes
            are on disk, and whether its name is, unless ``assume_synced`` says it.

    Attributes:
        end: where the file ends, in bytes; changed by ``advance`` and ``change`` only.
    """

    __slots__ = (
        "_changes",
        "_failure",
        "_is_name_synced",
        "_is_syncing",
        "_lock",
        "_synced",
        "end",
    )

    def __init__(self, end: int, *, is_new: bool = False) -> None:
        # Reentrant: the garbage collector may run a finalizer that comes here at any point.
        self._lock = threading.RLock()
        self._changes = 0
        self.end = end
        self._synced = FilePosition(0, end) if is_new else _UNKNOWN
        self._is_name_synced = False
        self._is_syncing = False
        self._failure: StorageError | None = None

    def __repr__(self) -> str:
        return f"FilePositions(written={self.written}, synced={self.synced})"

    @property
    def written(self) -> FilePosition:
        """Everything up to here is in the file."""
        with self._lock:
            return FilePosition(self._changes, self.end)

    @property
    def synced(self) -> FilePosition:
        """Everything up to here is on disk."""
        with self._lock:
            return self._synced

    @property
    def needs_sync(self) -> bool:
        """Whether something was written that is not known to be on disk, or a sync has failed."""
        with self._lock:
            return self._synced < (self._changes, self.end) or self._failure is not None

    @property
    def needs_name_sync(self) -> bool:
        """Whether its folder was not synced since the file was made."""
        with self._lock:
            return not self._is_name_synced

    @property
    def failure(self) -> StorageError | None:
        """Why nothing may be written or synced any more; None while it may."""
        with self._lock:
            return self._failure

    # ---- writing

    def check(self) -> None:
        """Make sure that the file may be written; raises the error that made it unusable."""
        if self._failure is not None:
            raise self._failure

    def advance(self, end: int) -> None:
        """Note that bytes were appended; after the write."""
        # By name, with nothing between that can raise: half the price of ``with``, at each append.
        self._lock.acquire()
        self.end = end
        self._lock.release()

    def change(self, end: int) -> None:
        """Note that the file was cut to ``end``, or changed within; after the change."""
        with self._lock:
            self._changes += 1
            self.end = end

    def fail(self, failure: StorageError) -> StorageError:
        """Note that the contents of the file or the disk are unknown; the first reason stays."""
        with self._lock:
            if self._failure is None:
                self._failure = failure
            return self._failure

    # ---- syncing

    def assume_synced(self) -> None:
        """Note that all of it is on disk, its name included: the last stop has said so."""
        with self._lock:
            self._synced = FilePosition(self._changes, self.end)
            self._is_name_synced = True

    def begin_sync(self, path: str, target: FilePosition | None = None) -> FilePosition | None:
        """Claim the next sync of the file; None if everything up to ``target`` is on disk already.

        After it the caller syncs, and says how that ended: ``end_sync``, or ``fail``.

        Args:
            path: of the file, for messages.
            target: end of the bytes that have to be on disk; by default the written end.

        Returns:
            The end of the bytes that the sync will cover.

        Raises:
            FileError: an earlier sync has failed, or has not ended.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            written = FilePosition(self._changes, self.end)
            if self._synced >= (written if target is None else target):
                return None
            if self._is_syncing:
                raise FileError("sync", path, "a sync of it that was begun has not ended")
            self._is_syncing = True
            return written

    def end_sync(self, covered: FilePosition) -> None:
        """Note that everything up to ``covered`` is on disk."""
        with self._lock:
            self._is_syncing = False
            self._synced = max(self._synced, covered)

    def name_synced(self) -> None:
        """Note that the folder of the file was synced after the file had been made."""
        with self._lock:
            self._is_name_synced = True


def sync_positions(
    calls: SystemCalls,
    positions: FilePositions,
    path: str,
    descriptor: int,
    target: FilePosition | None = None,
) -> None:
    """Sync the file that ``positions`` are of, unless everything up to ``target`` is on disk.

    Raises:
        FileError: the data on disk is unknown, now and for ever; or another sync has not ended.
    """
    covered = positions.begin_sync(path, target)
    if covered is None:
        return
    try:
        calls.sync(path, descriptor)
    except OSError as error:
        raise positions.fail(sync_error(path, error)) from error
    positions.end_sync(covered)
