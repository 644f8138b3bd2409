"""The one seam between the storage layer and the disk.

Everything that changes a file or directory goes through a ``FileSystem``; ``OsFileSystem`` is the
real one. It turns ``OSError`` into this package's errors and keeps the number of open descriptors
below a limit (see ``file_pool``). Tests hand it other ``SystemCalls``, which record writes or make
the n-th call fail.
"""

import errno
import logging
from typing import Final, NamedTuple, Protocol

from seglog.broker.storage.errors import (
    NO_DESCRIPTOR,
    StorageError,
    error_from_os,
    sync_error,
)
from seglog.broker.storage.files.file_pool import HandlePool
from seglog.broker.storage.files.index_file import IndexFile
from seglog.broker.storage.files.log_file import FileSlice, LogFile
from seglog.broker.storage.files.system_calls import SystemCalls

__all__ = [
    "FileSlice",
    "FileStamp",
    "FileSystem",
    "IndexFile",
    "LogFile",
    "OsFileSystem",
    "SystemCalls",
]

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65536
_NO_DIRECTORY_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors of file systems without a sync of directories (SMB, some of FUSE), not of failed syncs."""


class FileStamp(NamedTuple):
    """What tells a file, or a folder, from what it was before: its size in bytes, its times, its
    inode. A program may set the time of modification, but not that of the change of the inode.
    """

    size: int
    modified_ns: int
    changed_ns: int
    inode: int


class FileSystem(Protocol):
    """The disk for the storage layer; every method raises ``StorageError`` subclasses.

    Changes of names (create, rename, unlink) are durable only after ``sync_directory``.
    """

    @property
    def max_open_files(self) -> int:
        """How many unused data and index files stay open."""
        ...

    def open_log(
        self,
        path: str,
        *,
        create: bool = False,
        preallocate_bytes: int = 0,
        known_size: int | None = None,
    ) -> LogFile:
        """An append-only file; with ``create`` it is made if it does not exist.

        ``known_size`` spares a look at a file whose size has just been seen.
        """
        ...

    def open_index(
        self, path: str, *, entry_bytes: int, max_bytes: int, create: bool = False
    ) -> IndexFile:
        """An index file; with ``create`` it is made, sparse, ``max_bytes`` cut to whole entries."""
        ...

    def replace_atomically(self, path: str, content: bytes) -> None:
        """Puts ``content`` under ``path``: after a crash the old or the new content is there."""
        ...

    def write_file(self, path: str, content: bytes, *, sync: bool) -> None:
        """Writes a file directly, for content that protects itself by a checksum."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory, over an existing file."""
        ...

    def unlink(self, path: str, *, missing_ok: bool = False) -> bool:
        """Removes a file; whether there was one."""
        ...

    def make_directory(self, path: str) -> None:
        """Makes one directory; its parent exists."""
        ...

    def remove_directory(self, path: str) -> None:
        """Removes an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Puts the names in a directory on disk."""
        ...

    def sync_file(self, path: str) -> None:
        """Puts the content of a file on disk."""
        ...

    def truncate(self, path: str, size: int) -> None:
        """Cuts a file that is not open."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def read_file(self, path: str) -> bytes:
        """The whole content of a small file; ``MissingFileError`` if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory has that name."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        ...

    def stamp(self, path: str) -> FileStamp:
        """What tells a file or folder from an earlier or later one of its name."""
        ...

    def modified_ms(self, path: str) -> int:
        """Time of the last modification, milliseconds since the epoch."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Sets the time of the last modification."""
        ...


class OsFileSystem:
    """The disk of this machine.

    Args:
        calls: the system calls to use.
        max_open_files: how many unused data and index files stay open; by default a quarter of the
            descriptors that the process may open.
    """

    def __init__(
        self, calls: SystemCalls | None = None, *, max_open_files: int | None = None
    ) -> None:
        self._calls = SystemCalls() if calls is None else calls
        self._pool = HandlePool(max_open_files)
        self._syncs_directories = True

    @property
    def open_files(self) -> int:
        """How many data and index files are open now."""
        return len(self._pool)

    @property
    def max_open_files(self) -> int:
        """How many may stay open."""
        return self._pool.limit

    def open_log(
        self,
        path: str,
        *,
        create: bool = False,
        preallocate_bytes: int = 0,
        known_size: int | None = None,
    ) -> LogFile:
        if known_size is not None:
            return LogFile(self._calls, self._pool, path, known_size)
        try:
            if create:
                self._create(path, preallocate_bytes)
            size = self._calls.stat(path).st_size
        except OSError as error:
            raise error_from_os("open", path, error) from error
        if create and size == preallocate_bytes:
            preallocated = preallocate_bytes > 0
            return LogFile(self._calls, self._pool, path, 0, is_new=True, preallocated=preallocated)
        return LogFile(self._calls, self._pool, path, size)

    def open_index(
        self, path: str, *, entry_bytes: int, max_bytes: int, create: bool = False
    ) -> IndexFile:
        index = IndexFile(self._calls, self._pool, path, entry_bytes=entry_bytes, is_new=create)
        if create:
            try:
                self._create(path, max_bytes // entry_bytes * entry_bytes)
            except OSError as error:
                raise error_from_os("create", path, error) from error
        return index

    def _create(self, path: str, size: int) -> None:
        self._pool.with_room(lambda: self._calls.create(path, size))

    def _open(self, path: str) -> int:
        return self._pool.with_room(lambda: self._calls.open(path))

    def replace_atomically(self, path: str, content: bytes) -> None:
        temporary = path + ".tmp"
        try:
            self.write_file(temporary, content, sync=True)
            self.rename(temporary, path)
        except StorageError:
            self._discard(temporary)
            raise
        self.sync_directory(path.rpartition("/")[0] or ".")

    def _discard(self, path: str) -> None:
        """Removes the leftovers of a failed operation; the caller reports the failure itself."""
        try:
            self._calls.unlink(path)
        except OSError:
            return

    def write_file(self, path: str, content: bytes, *, sync: bool) -> None:
        try:
            self._create(path, 0)
            descriptor = self._open(path)
            try:
                self._calls.truncate_open(path, descriptor, 0)
                written = 0
                while written < len(content):
                    rest = memoryview(content)[written:]
                    written += self._calls.write(path, descriptor, rest, written)
                if sync:
                    self._calls.sync(path, descriptor)
            finally:
                self._calls.close(descriptor)
        except OSError as error:
            raise error_from_os("write", path, error) from error

    def rename(self, source: str, target: str) -> None:
        try:
            self._calls.rename(source, target)
        except OSError as error:
            raise error_from_os(f"rename to {target}", source, error) from error

    def unlink(self, path: str, *, missing_ok: bool = False) -> bool:
        try:
            self._calls.unlink(path)
        except FileNotFoundError as error:
            if missing_ok:
                return False
            raise error_from_os("delete", path, error) from error
        except OSError as error:
            raise error_from_os("delete", path, error) from error
        return True

    def make_directory(self, path: str) -> None:
        try:
            self._calls.make_directory(path)
        except OSError as error:
            raise error_from_os("make directory", path, error) from error

    def remove_directory(self, path: str) -> None:
        try:
            self._calls.remove_directory(path)
        except OSError as error:
            raise error_from_os("remove directory", path, error) from error

    def sync_directory(self, path: str) -> None:
        try:
            self._pool.with_room(lambda: self._calls.sync_directory(path))
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # it was not even opened
                raise error_from_os("sync", path, error) from error
            if error.errno not in _NO_DIRECTORY_SYNC:
                raise sync_error(path, error) from error
            if self._syncs_directories:
                self._syncs_directories = False
                logger.warning(
                    "event=directory-sync-unsupported path=%s reason=%r", path, error.strerror
                )

    def sync_file(self, path: str) -> None:
        try:
            descriptor = self._open(path)
        except OSError as error:
            raise error_from_os("sync", path, error) from error
        try:
            self._calls.sync(path, descriptor)
        except OSError as error:
            raise sync_error(path, error) from error
        finally:
            self._calls.close(descriptor)

    def truncate(self, path: str, size: int) -> None:
        try:
            self._calls.truncate(path, size)
        except OSError as error:
            raise error_from_os("truncate", path, error) from error

    def list_directory(self, path: str) -> list[str]:
        try:
            return sorted(self._pool.with_room(lambda: self._calls.list_directory(path)))
        except OSError as error:
            raise error_from_os("list", path, error) from error

    def read_file(self, path: str) -> bytes:
        try:
            descriptor = self._open(path)
            try:
                return self._read_to_end(path, descriptor)
            finally:
                self._calls.close(descriptor)
        except OSError as error:
            raise error_from_os("read", path, error) from error

    def _read_to_end(self, path: str, descriptor: int) -> bytes:
        content = b""
        while True:
            part = self._calls.read(path, descriptor, _READ_BYTES, len(content))
            content += part
            if len(part) < _READ_BYTES:
                return content  # a file gives less than it is asked for at its end alone

    def exists(self, path: str) -> bool:
        try:
            self._calls.stat(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise error_from_os("look at", path, error) from error
        return True

    def size(self, path: str) -> int:
        try:
            return self._calls.stat(path).st_size
        except OSError as error:
            raise error_from_os("look at", path, error) from error

    def stamp(self, path: str) -> FileStamp:
        try:
            found = self._calls.stat(path)
        except OSError as error:
            raise error_from_os("look at", path, error) from error
        return FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def modified_ms(self, path: str) -> int:
        try:
            return self._calls.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            raise error_from_os("look at", path, error) from error

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        try:
            self._calls.set_modified_ms(path, modified_ms)
        except OSError as error:
            raise error_from_os("set the time of", path, error) from error
