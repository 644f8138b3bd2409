"""A file system whose calls fail on demand, and a disk that fills up."""

import errno
import os
from collections import Counter
from dataclasses import dataclass

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.types import Buffer
from support.own_paths import is_part_of


@dataclass
class _Fault:
    operations: frozenset[str]
    number: int
    skip: int
    times: int | None
    path_part: str
    short_by: int


class FaultyCalls(SystemCalls):
    """Counts changing calls by name; those that a fault names raise ``OSError`` and do nothing."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.free_bytes: int | None = None
        self._faults: list[_Fault] = []
        self._fails_reads = False

    def fail(
        self,
        *operations: str,
        error: int = errno.EIO,
        skip: int = 0,
        times: int | None = 1,
        path_part: str = "",
        short_by: int = 0,
    ) -> None:
        """Lets calls fail.

        Args:
            operations: method names, e.g. ``"write"``; all changing calls if there are none.
                ``"read"``, which changes nothing, has to be named.
            error: the errno.
            skip: so many matching calls succeed first.
            times: so many fail then, None for all.
            path_part: only calls on paths that contain it, below the folder of the test.
            short_by: a write does not fail but leaves out so many bytes at its end.
        """
        self._fails_reads = self._fails_reads or "read" in operations
        self._faults.append(_Fault(frozenset(operations), error, skip, times, path_part, short_by))

    def heal(self) -> None:
        """From now on everything works."""
        self._faults.clear()
        self._fails_reads = False
        self.free_bytes = None

    @property
    def total(self) -> int:
        """How many changing calls there were."""
        return self.counts.total()

    def _attempt(self, operation: str, path: str) -> int:
        """Raises if the call is to fail; returns by how many bytes a write is to be short."""
        self.counts[operation] += 1
        for fault in self._faults:
            if operation not in fault.operations and (fault.operations or operation == "read"):
                continue
            if fault.times == 0 or not is_part_of(fault.path_part, path):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
            if fault.short_by:
                return fault.short_by
            raise OSError(fault.number, os.strerror(fault.number), path)
        return 0

    def _take_space(self, wanted: int, path: str) -> int:
        """How many bytes fit on the disk; none fit: no space left."""
        if self.free_bytes is None or wanted <= 0:
            return wanted
        granted = min(wanted, self.free_bytes)
        if granted == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.free_bytes -= granted
        return granted

    def create(self, path: str, size: int) -> None:
        self._attempt("create", path)
        super().create(path, size)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        wanted = len(data) - self._attempt("write", path)
        granted = self._take_space(max(wanted, 1), path)
        return super().write(path, descriptor, memoryview(data)[:granted], position)

    def truncate(self, path: str, size: int) -> None:
        self._attempt("truncate", path)
        super().truncate(path, size)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        self._attempt("truncate_open", path)
        before = os.fstat(descriptor).st_size
        super().truncate_open(path, descriptor, size)
        if self.free_bytes is not None:
            self.free_bytes += max(0, before - size)

    def sync(self, path: str, descriptor: int) -> None:
        self._attempt("sync", path)
        super().sync(path, descriptor)

    def sync_directory(self, path: str) -> None:
        self._attempt("sync_directory", path)
        super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._attempt("rename", source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._attempt("unlink", path)
        size = os.stat(path).st_blocks * 512
        super().unlink(path)
        if self.free_bytes is not None:
            self.free_bytes += size

    def make_directory(self, path: str) -> None:
        self._attempt("make_directory", path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._attempt("remove_directory", path)
        super().remove_directory(path)

    def read(self, path: str, descriptor: int, length: int, position: int) -> bytes:
        if self._fails_reads:
            self._attempt("read", path)
        return super().read(path, descriptor, length, position)


class FaultyFileSystem(OsFileSystem):
    """The disk of this machine with calls that fail on demand; see ``FaultyCalls.fail``."""

    def __init__(self, *, max_open_files: int | None = None) -> None:
        self.calls = FaultyCalls()
        super().__init__(self.calls, max_open_files=max_open_files)
