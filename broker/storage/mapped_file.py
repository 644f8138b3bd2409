"""A small file that is read and written through shared memory; the indexes stand on it.

While its segment is active the file is sparse and longer than its content. A store into a hole of a
map on a full disk does not fail, it kills the process with SIGBUS; therefore every disk block is
reserved before the first store into it, which fails like any other write. One reserved slot is
always kept ahead of the content, so that the closing entry of a time index can never fail for want
of space.
"""

import mmap
from typing import Final

from seglog.broker.storage.errors import CorruptIndexError, FileError, error_from_os
from seglog.broker.storage.file_pool import Handle, HandlePool
from seglog.broker.storage.system_calls import SystemCalls

BLOCK_BYTES: Final = 4096


class MappedFile:
    """A file of fixed-size entries, mapped on demand; one thread writes, any thread reads.

    Nothing is opened before the first use. ``entry_bytes`` is only used to keep a slot ahead.
    """

    __slots__ = (
        "_allocated_end",
        "_calls",
        "_handle",
        "_is_closed",
        "_pool",
        "_size",
        "entry_bytes",
        "path",
    )

    def __init__(
        self, calls: SystemCalls, pool: HandlePool, path: str, *, entry_bytes: int
    ) -> None:
        self.path = path
        self.entry_bytes = entry_bytes
        self._calls = calls
        self._pool = pool
        self._handle: Handle[mmap.mmap] | None = None
        self._size: int | None = None
        self._allocated_end = 0
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
            FileError: it cannot be mapped, or this object was closed.
        """
        handle = self._handle
        if handle is not None and handle.try_pin():
            return handle
        if self._is_closed:
            raise FileError("map", self.path, "this file was closed")
        try:
            handle = self._pool.open(self, self._map, mmap.mmap.close)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError):
                raise error_from_os("map", self.path, error) from error
            raise CorruptIndexError(self.path, f"it cannot be mapped: {error}") from error
        self._handle = handle
        return handle

    def _map(self) -> mmap.mmap:
        return self._calls.map(self.path, self.size)

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
        """Stores ``data``, which lies inside the file.

        Raises:
            DiskFullError: there is no block for it; nothing was stored.
            FileError: the file cannot be mapped or extended.
        """
        self.reserve(position + len(data))
        handle = self.acquire()
        try:
            self._calls.write_mapped(self.path, handle.value, data, position)
        finally:
            handle.unpin()

    def reserve(self, end: int) -> None:
        """Makes sure that blocks exist up to ``end`` and one entry more.

        Raises:
            DiskFullError: they cannot be had.
        """
        wanted_end = min(end + self.entry_bytes, self.size)
        if wanted_end <= self._allocated_end:
            return
        first = max(self._allocated_end, (end - self.entry_bytes) // BLOCK_BYTES * BLOCK_BYTES)
        blocks_end = min(-(-wanted_end // BLOCK_BYTES) * BLOCK_BYTES, self.size)
        try:
            self._calls.allocate(self.path, first, blocks_end - first)
        except OSError as error:
            raise error_from_os("reserve space in", self.path, error) from error
        self._allocated_end = blocks_end

    def resize(self, size: int) -> None:
        """Cuts the file, or lengthens it with a hole.

        Raises:
            FileError: the size cannot be changed.
        """
        if size == self.size:
            return
        self._unmap()
        try:
            self._calls.truncate(self.path, size)
        except OSError as error:
            raise error_from_os("resize", self.path, error) from error
        self._size = size
        self._allocated_end = min(self._allocated_end, size)

    def reset(self, size: int) -> None:
        """Makes the file if it is missing, drops its content, and gives it a size.

        Raises:
            DiskFullError, FileError: it cannot be done.
        """
        self._unmap()
        try:
            self._calls.create(self.path, 0)
            self._calls.truncate(self.path, 0)
            self._calls.truncate(self.path, size)
        except OSError as error:
            raise error_from_os("clear", self.path, error) from error
        self._size = size
        self._allocated_end = 0

    def open_for_sync(self) -> int:
        """A descriptor of its own for ``fsync`` in another thread; the caller closes it."""
        try:
            return self._calls.open(self.path)
        except OSError as error:
            raise error_from_os("open", self.path, error) from error

    def renamed(self, path: str) -> None:
        """Takes note that the file has another name now; the map stays."""
        self.path = path

    def close(self) -> None:
        """Unmaps; the file object is of no further use. Idempotent."""
        self._is_closed = True
        self._unmap()

    def _unmap(self) -> None:
        self._pool.forget(self)
        if self._handle is not None:
            self._handle.retire()
            self._handle = None
