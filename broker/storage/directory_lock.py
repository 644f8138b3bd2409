"""The lock on a data directory: one process at a time, whatever a crash leaves behind.

What counts is the kernel's lock on ``.lock`` (flock), which ends with the process that holds it.
The content, process id and host name, only tells a second one who was first.
"""

import errno
import fcntl
import os
from typing import Final

from seglog.broker.storage.errors import LockedError, MissingFileError, error_from_os
from seglog.broker.storage.layout import LOCK_FILE

_HOLDER_BYTES_MAX: Final = 300
_HELD: Final = frozenset({errno.EWOULDBLOCK, errno.EACCES})


class DirectoryLock:
    """The lock of one data directory, held from ``acquire`` to ``release``.

    It does not go through ``FileSystem``: it guards what others do to the files and is no data
    itself.
    """

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{LOCK_FILE}"
        self._descriptor: int | None = None
        self._directory = directory
        self._identity: tuple[int, int] | None = None

    def acquire(self) -> None:
        """Take the lock, at once or not at all; a failure changes no file.

        Raises:
            LockedError: another process, or another object of this one, holds it.
            FileError: the lock file cannot be opened.
        """
        assert self._descriptor is None, self.path
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise error_from_os("open", self.path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            if error.errno in _HELD:
                raise LockedError(self.path, holder) from error
            raise error_from_os("lock", self.path, error) from error
        self._descriptor = descriptor
        self._identity = self._look()
        self._write_holder(descriptor)

    def check_same_directory(self) -> None:
        """Make sure that what was locked is still what the path leads to.

        Device and inode tell: under a disk that was unmounted there is the bare mount point. The
        open lock file keeps the inode of its folder in use, so that no other gets its number.

        Raises:
            MissingFileError: the directory was removed, or another one is in its place.
            FileError: it cannot be looked at.
        """
        if self._descriptor is not None and self._look() != self._identity:
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
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write_holder(self, descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {os.uname().nodename}\n".encode(), 0)
        except OSError as error:
            # A full disk must not keep the broker from starting; the lock itself holds.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                self.release()
                raise error_from_os("write", self.path, error) from error


def _read_holder(descriptor: int) -> str:
    try:
        content = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode("utf-8", "replace")
    except OSError:
        return ""
    process_id, _, host = content.strip().partition(" ")
    if not process_id.isascii() or not process_id.isdigit():
        return ""
    return f"process {process_id}" + (f" on {host}" if host else "")
