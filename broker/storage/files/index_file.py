"""A small file of fixed-size entries; the indexes stand on it.

It is read with ``pread``, never through a map. A page of a map that cannot be read (a bad sector, a
file that another program cut) does not fail, it ends the process with SIGBUS, and a page that has
to come from the disk holds up every thread that waits for the interpreter. A read reports the
error, and costs a microsecond.

While its segment is active the file is sparse and longer than its content. Every write also fills
the slot behind it with zeros. So the block of the next slot exists, and the closing entry of a time
index never fails for want of space.
"""

from seglog.broker.storage.errors import (
    ClosedFileError,
    CorruptIndexError,
    DiskFullError,
    MissingFileError,
    error_from_os,
)
from seglog.broker.storage.files.file_pool import Handle, HandlePool, Pooled
from seglog.broker.storage.files.file_positions import FilePosition, FilePositions, sync_positions
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.broker.storage.ownership import Owned, owner_only


class IndexFile(Owned):
    """A file of fixed-size entries, opened on demand; one thread writes, any thread reads.

    Nothing is opened before the first use. ``entry_bytes`` is the size of a slot.

    Attributes:
        positions: how far entries were written, and how far they are on disk. The rest of the file
            behind its entries need not be.
    """

    __slots__ = ("_calls", "_descriptor", "_is_closed", "_size", "entry_bytes", "path", "positions")

    def __init__(
        self,
        calls: SystemCalls,
        pool: HandlePool,
        path: str,
        *,
        entry_bytes: int,
        is_new: bool = False,
    ) -> None:
        self.path = path
        self.entry_bytes = entry_bytes
        self.positions = FilePositions(0, is_new=is_new)
        self._calls = calls
        self._descriptor = Pooled(pool, lambda: calls.open(self.path), calls.close)
        self._size: int | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"IndexFile({self.path!r})"

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

    def has_size(self) -> bool:
        """Whether the file is there, as far as this object knows; it looks once."""
        try:
            return self.size >= 0
        except MissingFileError:
            return False

    def exists(self) -> bool:
        """Whether the file is there."""
        try:
            self._calls.stat(self.path)
        except OSError:
            return False
        return True

    def acquire(self) -> Handle[int]:
        """The descriptor (``value``), kept open until ``unpin``, even if the file is closed.

        Raises:
            ClosedFileError: this object was closed.
            FileError: it cannot be opened.
        """
        if self._is_closed:
            raise ClosedFileError("open", self.path)
        try:
            return self._descriptor.pin()
        except OSError as error:
            raise error_from_os("open", self.path, error) from error

    def read(self, position: int, length: int) -> bytes:
        """The bytes at ``position``, which lie inside the file.

        Raises:
            ClosedFileError: this object was closed.
            CorruptIndexError: the file is shorter than it was.
            FileError: it cannot be read.
        """
        handle = self.acquire()
        try:
            content = self._calls.read(self.path, handle.value, length, position)
        except OSError as error:
            raise error_from_os("read", self.path, error) from error
        finally:
            handle.unpin()
        if len(content) < length:
            raise CorruptIndexError(
                self.path,
                f"it ends at {position + len(content)} although its size was {self.size}",
            )
        return content

    @owner_only
    def write(self, position: int, data: bytes) -> None:
        """Writes ``data``, which lies inside the file, and clears the slot behind it.

        Raises:
            DiskFullError: there is no space; the bytes at ``position`` do not count.
            FileError: the file cannot be written.
        """
        self.positions.check()
        end = position + len(data)
        padded = data + bytes(min(self.entry_bytes, self.size - end))
        handle = self.acquire()
        try:
            written = self._calls.write(self.path, handle.value, padded, position)
        except OSError as error:
            raise error_from_os("write to", self.path, error) from error
        finally:
            handle.unpin()
        if written < len(padded):
            raise DiskFullError("write to", self.path, f"only {written} bytes were taken")
        self.positions.advance(end)

    @owner_only
    def resize(self, size: int) -> None:
        """Cuts the file, or lengthens it with a hole.

        Raises:
            FileError: the size cannot be changed.
        """
        if size == self.size:
            return
        try:
            self._calls.truncate(self.path, size)
        except OSError as error:
            raise error_from_os("resize", self.path, error) from error
        if size < self.size:
            self.positions.change(min(size, self.positions.end))
        self._size = size

    @owner_only
    def reset(self, size: int) -> None:
        """Makes the file if it is missing, drops its content, and gives it a size.

        Raises:
            DiskFullError, FileError: it cannot be done.
        """
        self._descriptor.drop()
        try:
            self._calls.create(self.path, 0)
            self._calls.truncate(self.path, 0)
            self._calls.truncate(self.path, size)
        except OSError as error:
            raise error_from_os("clear", self.path, error) from error
        self.positions.change(0)
        self._size = size

    def sync_held(self, descriptor: int, target: FilePosition | None = None) -> None:
        """Puts the entries on disk through a descriptor of this file; see ``LogFile``."""
        sync_positions(self._calls, self.positions, self.path, descriptor, target)

    def renamed(self, path: str) -> None:
        """Takes note that the file has another name now; the descriptor stays."""
        self.path = path

    def close(self) -> None:
        """Lets go of the descriptor; this object is of no further use. Idempotent."""
        self._is_closed = True
        self._descriptor.close()
