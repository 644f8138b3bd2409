"""The operating system's file calls, one method each: the lowest part of the seam.

``files``, ``log_file`` and ``index_file`` hold the rules (what to do after a short write, in which
order to replace a file); this class holds none. A test passes a subclass that records the calls or
make one of them fail, and so exercises the real rules. All methods raise ``OSError``.
"""

# ruff: noqa: ARG002  # the paths are for subclasses that record calls or make them fail

import errno
import os
from typing import Final

from seglog.protocol.types import Buffer

FILE_MODE: Final = 0o644
_NO_WRITE_ACCESS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
DIRECTORY_MODE: Final = 0o755

# Only data and size matter; fdatasync spares the journal entry for the modification time.
_sync_data = getattr(os, "fdatasync", os.fsync)


class SystemCalls:
    """File calls by path and descriptor; stateless, usable from any thread."""

    # ---- changes

    def create(self, path: str, size: int) -> None:
        """Makes the file if it does not exist, empty or as a sparse file of ``size`` bytes."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            if size and os.fstat(descriptor).st_size == 0:
                os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        """Writes at ``position``; how many bytes were written may be less than there are."""
        try:
            return os.pwrite(descriptor, data, position)
        except OSError as error:
            raise _denied(error, path) from error

    def truncate(self, path: str, size: int) -> None:
        """Cuts the file, or lengthens it with a hole."""
        os.truncate(path, size)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        """The same on an open descriptor."""
        os.ftruncate(descriptor, size)

    def sync(self, path: str, descriptor: int) -> None:
        """Puts content and size on disk; the caller holds the descriptor."""
        _sync_data(descriptor)

    def sync_directory(self, path: str) -> None:
        """Puts the names in a directory on disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Renames, over an existing target."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Removes a file."""
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        """Makes one directory."""
        os.mkdir(path, DIRECTORY_MODE)

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        os.rmdir(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Sets access and modification time."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    # ---- no changes

    def open(self, path: str) -> int:
        """A descriptor for reading and writing of an existing file; only for reading if it must be.

        A file that may not be written any more is read on. A write through the descriptor fails.
        """
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in _NO_WRITE_ACCESS:
                raise
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        """Gives a descriptor back."""
        os.close(descriptor)

    def read(self, path: str, descriptor: int, length: int, position: int) -> bytes:
        """Reads at ``position``; fewer bytes than asked for at the end of the file."""
        return os.pread(descriptor, length, position)

    def read_into(self, path: str, descriptor: int, target: memoryview, position: int) -> int:
        """Reads at ``position`` into ``target``; returns how many bytes came."""
        return os.preadv(descriptor, [target], position)

    def stat(self, path: str) -> os.stat_result:
        """Size and modification time."""
        return os.stat(path)

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, unordered."""
        return os.listdir(path)


def _denied(error: OSError, path: str) -> OSError:
    """The error of a refused write: the file is for reading only, and no descriptor is bad."""
    if error.errno != errno.EBADF:
        return error
    return OSError(errno.EACCES, os.strerror(errno.EACCES), path)
