"""The lock on a data directory: one process at a time, also after a crash.

The locks are those of the kernel, which end with the process that holds them: one on the directory
(flock), which outlives a removed ``.lock``, and one on ``.lock`` of the kind that Apache Kafka
takes there (fcntl), so that no broker of Kafka runs on it either. The content of ``.lock``, process
id and host name, only tells a second process the holder.
"""

import errno
import fcntl
import os
import struct
from typing import Final

from seglog.broker.storage.errors import (
    LockedError,
    MissingFileError,
    StorageError,
    error_from_os,
)
from seglog.broker.storage.files.layout import LOCK_FILE

_HOLDER_BYTES_MAX: Final = 300
_HELD: Final = frozenset({errno.EWOULDBLOCK, errno.EACCES})
_OWNED_BY_DESCRIPTOR: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
"""Such a lock meets those of fcntl, but does not end when any descriptor of the file is closed."""
_ASK_FOR_OWNER: Final[int | None] = getattr(fcntl, "F_OFD_GETLK", None)
_LOCK_FORMAT: Final = "hhqqi4x"  # struct flock: type, whence, start, length, process
_WHOLE_FILE: Final = struct.pack(_LOCK_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class DirectoryLock:
    """The lock of one data directory, held from ``acquire`` to ``release``.

    It does not go through ``FileSystem``: it guards the files against other processes and is no
    data itself.
    """

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{LOCK_FILE}"
        self._descriptors: list[int] = []
        self._directory = directory
        self._identity: tuple[int, int] | None = None

    def acquire(self) -> None:
        """Take the lock, at once or not at all; a failure changes no file.

        Raises:
            LockedError: another process, or another object of this one, holds it.
            FileError: the lock file cannot be opened.
        """
        assert not self._descriptors, self.path
        try:
            self._lock_directory()
            self._lock_file()
            self._identity = self._look()
            self._write_holder()
        except StorageError:
            self.release()
            raise

    def _lock_directory(self) -> None:
        descriptor = self._open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                raise LockedError(self.path, _read_holder(self.path)) from error
            # A file system over a network may lock files only; then the file has to do.

    def _lock_file(self) -> None:
        descriptor = self._open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            if _OWNED_BY_DESCRIPTOR is None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                fcntl.fcntl(descriptor, _OWNED_BY_DESCRIPTOR, _WHOLE_FILE)
        except OSError as error:
            if error.errno in _HELD:
                raise LockedError(self.path, _read_holder(self.path)) from error
            raise error_from_os("lock", self.path, error) from error

    def _open(self, path: str, flags: int) -> int:
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise error_from_os("open", self.path, error) from error
        self._descriptors.append(descriptor)
        return descriptor

    def check_same_directory(self) -> None:
        """Make sure that the path still leads to the locked directory.

        Device and inode tell: under a disk that was unmounted there is the bare mount point. The
        open descriptor keeps the inode in use, so that no other folder gets its number.

        Raises:
            MissingFileError: the directory was removed, or another one is in its place.
            FileError: it cannot be looked at.
        """
        if self._descriptors and self._look() != self._identity:
            raise MissingFileError(
                "write to", self._directory, "it was removed, or its disk unmounted"
            )

    def _look(self) -> tuple[int, int]:
        try:
            status = os.stat(self._directory)
        except OSError as error:
            raise error_from_os("look at", self._directory, error) from error
        return status.st_dev, status.st_ino

    def release(self) -> None:
        """Let go of the lock. Idempotent; the file stays."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _write_holder(self) -> None:
        descriptor = self._descriptors[-1]
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {os.uname().nodename}\n".encode(), 0)
        except OSError as error:
            # A full disk must not keep the broker from starting; the lock itself holds.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise error_from_os("write", self.path, error) from error


def holder_of(directory: str) -> str | None:
    """The process that uses a data directory: "" if the file does not tell, None if there is none.

    The file's lock is only asked about. Where the file, or the system, does not know such locks,
    that of the directory is tried, shared, and let go at once. No file is changed.
    """
    path = f"{directory}/{LOCK_FILE}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        descriptor = None
    try:
        if descriptor is None or _ASK_FOR_OWNER is None:
            is_held = _is_directory_locked(directory)
        else:
            answer = fcntl.fcntl(descriptor, _ASK_FOR_OWNER, _WHOLE_FILE)
            is_held = struct.unpack(_LOCK_FORMAT, answer)[0] != fcntl.F_UNLCK
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return _read_holder(path) if is_held else None


def _is_directory_locked(directory: str) -> bool:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(descriptor)
    return False


def _read_holder(path: str) -> str:
    """The process named in the file; empty if there is no name or no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        content = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    process_id, _, host = content.strip().partition(" ")
    if not process_id.isascii() or not process_id.isdigit():
        return ""
    return f"process {process_id}" + (f" on {host}" if host else "")
