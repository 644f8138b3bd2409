"""A small file that is read through shared memory; the indexes stand on it.

While its segment is active the file is sparse and longer than its content. It is written with
``pwrite``, not through the map, for two reasons. A store into a hole of a map on a full disk does
not fail, it kills the process with SIGBUS. And the first store into each page makes the file system
allocate its block on the spot, which takes ext4 milliseconds while every log waits; a write call is
a microsecond, and the map sees the same pages.

Every write also fills the slot behind it with zeros. So the block of the next slot exists, and the
closing entry of a time index never fails for want of space.
"""

import mmap
from collections.abc import Callable
from typing import TypeVar

from seglog.broker.storage.errors import (
    ClosedFileError,
    CorruptIndexError,
    DiskFullError,
    error_from_os,
)
from seglog.broker.storage.file_pool import Handle, HandlePool, Pooled
from seglog.broker.storage.system_calls import SystemCalls

T = TypeVar("T")


class MappedFile:
    """A file of fixed-size entries, opened on demand; one thread writes, any thread reads.

    Nothing is opened before the first use. ``entry_bytes`` is the size of a slot.
    """

    __slots__ = ("_calls", "_descriptor", "_is_closed", "_map", "_size", "entry_bytes", "path")

    def __init__(
        self, calls: SystemCalls, pool: HandlePool, path: str, *, entry_bytes: int
    ) -> None:
        self.path = path
        self.entry_bytes = entry_bytes
        self._calls = calls
        self._descriptor = Pooled(pool, lambda: calls.open(self.path), calls.close)
        self._map = Pooled(pool, lambda: calls.map(self.path, self.size), mmap.mmap.close)
        self._size: int | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"MappedFile({self.path!r})"

    @property
    def size(self) -> int:
        """Length of the file in bytes, holes included.

        Raises:
            MissingFileError: there is no such file.
        """
        if self._size is None:
            try:
                self._size = self._calls.stat(self.path).st_size
            except OSError as error:
                raise error_from_os("look at", self.path, error) from error
        return self._size

    def exists(self) -> bool:
        """Whether the file is there."""
        try:
            self._calls.stat(self.path)
        except OSError:
            return False
        return True

    def acquire(self) -> Handle[mmap.mmap]:
        """The map (``value``), kept until ``unpin``; the file must not be empty.

        Raises:
            ClosedFileError: this object was closed.
            FileError: it cannot be mapped.
        """
        return self._pin("map", self._map.pin)

    def _pin(self, operation: str, pin: Callable[[], Handle[T]]) -> Handle[T]:
        if self._is_closed:
            raise ClosedFileError(operation, self.path)
        try:
            return pin()
        except OSError as error:
            raise error_from_os(operation, self.path, error) from error
        except ValueError as error:  # what mmap says when the file is shorter than its map
            raise CorruptIndexError(self.path, f"it cannot be mapped: {error}") from error

    def read(self, position: int, length: int) -> bytes:
        """A copy of some bytes; fewer at the end of the file."""
        if position >= self.size:
            return b""
        handle = self.acquire()
        try:
            return handle.value[position : position + length]
        finally:
            handle.unpin()

    def write(self, position: int, data: bytes) -> None:
        """Writes ``data``, which lies inside the file, and clears the slot behind it.

        Raises:
            DiskFullError: there is no space; what is at ``position`` does not count.
            FileError: the file cannot be written.
        """
        end = position + len(data)
        padded = data + bytes(min(self.entry_bytes, self.size - end))
        handle = self._pin("open", self._descriptor.pin)
        try:
            written = self._calls.write(self.path, handle.value, padded, position)
        except OSError as error:
            raise error_from_os("write to", self.path, error) from error
        finally:
            handle.unpin()
        if written < len(padded):
            raise DiskFullError("write to", self.path, f"only {written} bytes were taken")

    def resize(self, size: int) -> None:
        """Cuts the file, or lengthens it with a hole.

        Raises:
            FileError: the size cannot be changed.
        """
        if size == self.size:
            return
        self._map.drop()
        try:
            self._calls.truncate(self.path, size)
        except OSError as error:
            raise error_from_os("resize", self.path, error) from error
        self._size = size

    def reset(self, size: int) -> None:
        """Makes the file if it is missing, drops its content, and gives it a size.

        Raises:
            DiskFullError, FileError: it cannot be done.
        """
        self._map.drop()
        self._descriptor.drop()
        try:
            self._calls.create(self.path, 0)
            self._calls.truncate(self.path, 0)
            self._calls.truncate(self.path, size)
        except OSError as error:
            raise error_from_os("clear", self.path, error) from error
        self._size = size

    def open_for_sync(self) -> int:
        """A descriptor of its own for ``fsync`` in another thread; the caller closes it."""
        try:
            return self._calls.open(self.path)
        except OSError as error:
            raise error_from_os("open", self.path, error) from error

    def renamed(self, path: str) -> None:
        """Takes note that the file has another name now; map and descriptor stay."""
        self.path = path

    def close(self) -> None:
        """Unmaps; the file object is of no further use. Idempotent."""
        self._is_closed = True
        self._map.drop()
        self._descriptor.drop()
