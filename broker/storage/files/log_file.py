"""One append-only data file, and slices of it that are on their way to a reader.

A ``LogFile`` knows its size; the descriptor is opened on demand and may be closed by the pool at
any time, except while it is pinned. An append is one write at the end of the known size. If the
disk fills up in the middle, the written part is cut off again, so that no reader ever sees half a
batch; if even that fails the file takes no further append.
"""

import logging

from seglog.broker.storage.errors import (
    ClosedFileError,
    CorruptLogError,
    FileError,
    SliceCutError,
    error_from_os,
)
from seglog.broker.storage.files.file_pool import Handle, HandlePool, Pooled
from seglog.broker.storage.files.file_positions import FilePosition, FilePositions, sync_positions
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.broker.storage.ownership import Owned, owner_only
from seglog.protocol.types import Buffer

logger = logging.getLogger(__name__)


class LogFile(Owned):
    """An append-only file; one thread appends and truncates, any thread reads or syncs.

    Attributes:
        path: of the file; its owner changes it.
        positions: how far it was written, and how far it is on disk.
        cuts: to which sizes it was cut, one after the other. Slices that reach behind one of the
            later ones hold bytes that are no part of the log any more.
        lost: ranges that a reader found missing: another program has cut the file. Appends go on
            behind them, where the indexes say that the file ends.
    """

    __slots__ = (
        "_calls",
        "_descriptor",
        "_is_being_cut",
        "_is_closed",
        "_preallocated",
        "cuts",
        "lost",
        "path",
        "positions",
    )

    def __init__(
        self,
        calls: SystemCalls,
        pool: HandlePool,
        path: str,
        size: int,
        *,
        is_new: bool = False,
        preallocated: bool = False,
    ) -> None:
        self.path = path
        self.positions = FilePositions(size, is_new=is_new)
        self._calls = calls
        self._descriptor = Pooled(pool, self._open, calls.close)
        self._preallocated = preallocated
        self._is_closed = False
        self._is_being_cut = False
        self.cuts: tuple[int, ...] = ()
        self.lost: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        return f"LogFile({self.path!r}, size={self.size})"

    @property
    def size(self) -> int:
        """The end of the appended bytes; with preallocation the file itself is longer."""
        return self.positions.end

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

    def _open(self) -> int:
        return self._calls.open(self.path)

    @owner_only
    def append(self, data: Buffer) -> int:
        """Writes at the end and returns the position where ``data`` begins.

        Raises:
            DiskFullError: no space; the file is as it was before.
            FileError: any other failure; the file is as it was before, or takes nothing any more.
        """
        positions = self.positions
        positions.check()
        position = positions.end
        handle = self.acquire()
        try:
            end = self._write(handle.value, data, position)
        except OSError as error:
            self._undo_write(handle.value, position)
            raise error_from_os("append to", self.path, error) from error
        finally:
            handle.unpin()
        # After the write: a sync that has begun by then may not have seen the bytes.
        positions.advance(end)
        return position

    def _write(self, descriptor: int, data: Buffer, position: int) -> int:
        """Writes all of ``data``; returns the position behind it."""
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        written = self._calls.write(self.path, descriptor, data, position)
        while written < length:  # a nearly full disk takes a part; the next call says why
            rest = memoryview(data).cast("B")[written:]
            written += self._calls.write(self.path, descriptor, rest, position + written)
        return position + length

    def _undo_write(self, descriptor: int, size: int) -> None:
        self._preallocated = False
        try:
            self._calls.truncate_open(self.path, descriptor, size)
        except OSError as error:
            reason = error.strerror or str(error)
            self.positions.fail(FileError("cut a failed append off", self.path, reason))
            return
        self.positions.change(size)

    def read(self, position: int, length: int) -> bytes:
        """The bytes at ``position``; fewer at the end of the file.

        Raises:
            FileError: the file cannot be read.
        """
        handle = self.acquire()
        try:
            return self.read_held(handle.value, position, length)
        finally:
            handle.unpin()

    def read_held(self, descriptor: int, position: int, length: int) -> bytes:
        """The same through a descriptor of this file that the caller holds."""
        known_end = self.positions.end  # before the read: later appends are not missing
        try:
            content = self._calls.read(self.path, descriptor, length, position)
        except OSError as error:
            raise error_from_os("read", self.path, error) from error
        if len(content) < length:
            self.note_end(position + len(content), known_end)
        return content

    def note_end(self, position: int, known_end: int) -> None:
        """Take note that a reader found the end of the file at a position; from any thread.

        If more should be there, another program has cut the file. Without this, every reader would
        get a range that was once found in order, and its answer would end each time in the middle.

        Args:
            known_end: a position up to which there should have been something.
        """
        end = min(known_end, self.positions.end)
        if self._is_being_cut or position >= end:
            return
        if not any(start <= position < stop for start, stop in self.lost):
            self.lost = (*self.lost, (position, end))
            logger.error(
                "event=data-file-cut path=%s size=%d expected=%d", self.path, position, end
            )

    def lost_between(self, position: int, end: int) -> int | None:
        """The first position of a range that is known to be gone, None if all is there."""
        starts = [start for start, stop in self.lost if start < end and position < stop]
        return max(min(starts), position) if starts else None

    def read_into(self, position: int, target: memoryview) -> int:
        """Fills ``target`` from ``position`` on; returns how many bytes there were."""
        handle = self.acquire()
        try:
            count = 0
            while count < len(target):
                step = self._calls.read_into(
                    self.path, handle.value, target[count:], position + count
                )
                if step == 0:
                    break
                count += step
        except OSError as error:
            raise error_from_os("read", self.path, error) from error
        finally:
            handle.unpin()
        return count

    @owner_only
    def truncate(self, size: int) -> int:
        """Cuts everything from ``size`` on; returns how many bytes went.

        Raises:
            FileError: the file could not be cut; its size is as before.
        """
        if not 0 <= size <= self.size:
            raise FileError(f"truncate to {size}", self.path, f"its size is {self.size}")
        if size < self.size:
            self.withdraw(size)  # first: a slice sent meanwhile may be cut in the middle
        handle = self.acquire()
        self._is_being_cut = True
        try:
            self._calls.truncate_open(self.path, handle.value, size)
            removed = self.size - size
            self.positions.change(size)
        except OSError as error:
            raise error_from_os("truncate", self.path, error) from error
        finally:
            self._is_being_cut = False
            handle.unpin()
        self.lost = tuple((start, min(stop, size)) for start, stop in self.lost if start < size)
        self._preallocated = False
        return removed

    def withdraw(self, size: int = 0) -> None:
        """The bytes from ``size`` on leave the log: slices in flight that hold them are void."""
        self.cuts = (*self.cuts, size)

    def trim(self) -> None:
        """Gives back preallocated space that was not used."""
        if self._preallocated:
            self.truncate(self.size)

    def sync(self) -> None:
        """Waits until everything that was appended is on disk; raises as ``sync_held`` does."""
        handle = self.acquire()
        try:
            self.sync_held(handle.value)
        finally:
            handle.unpin()

    def sync_held(self, descriptor: int, target: FilePosition | None = None) -> None:
        """The same through a descriptor of this file that the caller holds; from any thread.

        Args:
            target: end of the bytes that have to be on disk; by default everything.

        Raises:
            FileError: the data on disk is unknown; the file is of no use any more, since the kernel
                may have dropped the pages and a second sync would lie. Or a sync that was begun by
                another thread has not ended.
        """
        sync_positions(self._calls, self.positions, self.path, descriptor, target)

    def close(self) -> None:
        """Lets go of the descriptor, once the slices in flight are done. Idempotent."""
        self._is_closed = True
        self._descriptor.close()


class FileSlice:
    """A range of a data file on its way to a reader; it holds the descriptor until ``release``.

    Satisfies ``RecordSource``. The bytes stay readable when the segment is deleted or compacted
    meanwhile. A truncation that takes some of them makes the slice void: other records may be
    written in their place, and a reader would be given those for the old ones. ``release`` is
    idempotent and may be called from any thread.
    """

    __slots__ = ("_cuts_before", "_handle", "file", "length", "position")

    def __init__(self, file: LogFile, position: int, length: int) -> None:
        self._handle: Handle[int] | None = None  # before acquire, for __del__ when that fails
        self.file = file
        self.position = position
        self.length = length
        self._cuts_before = len(file.cuts)
        self._handle = file.acquire()

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, position={self.position}, length={self.length})"

    def fileno(self) -> int:
        """The descriptor, for ``os.sendfile``; valid until ``release``.

        To be asked for before each call that sends, on the thread that appends.

        Raises:
            SliceCutError: a truncation has taken bytes of the slice away.
        """
        if self._handle is None:
            raise FileError("read", self.file.path, "the slice was released")
        self._check()
        return self._handle.value

    def _check(self) -> None:
        cuts = self.file.cuts
        if len(cuts) == self._cuts_before:
            return
        size = min(cuts[self._cuts_before :])
        if size < self.position + self.length:
            raise SliceCutError(self.file.path, self.position, self.length, size)

    def note_end(self, position: int) -> None:
        """Take note that the file ends at a position of it, although the slice goes on."""
        self.file.note_end(position, self.position + self.length)

    def read(self) -> bytes:
        """The bytes themselves.

        Raises:
            SliceCutError: a truncation has taken bytes of the slice away.
            CorruptLogError: the file has lost its end.
            FileError: it cannot be read.
        """
        content = self.file.read_held(self.fileno(), self.position, self.length)
        self._check()
        if len(content) < self.length:
            raise CorruptLogError(
                self.file.path, self.position + len(content), "the file ends within a slice of it"
            )
        return content

    def release(self) -> None:
        """Lets the descriptor go."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.unpin()

    def __del__(self) -> None:
        # A connection that broke may have dropped its answer: the descriptor must not stay behind.
        self.release()
