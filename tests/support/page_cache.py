"""What of the files is on disk, by the promises of a kernel that keeps no more than it must.

A sync covers what was written before it began, once it has come back without an error. After one
that failed the pages are gone: no later sync brings them back. A name is on disk after a sync of
its folder. Every call is a point of an interleaving; nothing is really synced.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.types import Buffer
from support.disk_model import Change
from support.interleaving import Interleaving


class _File:
    """The pages of one file: ranges, each with the number of the change that made it dirty."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.dirty: list[tuple[int, int, int]] = []
        self.lost: list[tuple[int, int, int]] = []

    def covers(self, start: int, end: int) -> bool:
        return not any(first < end and start < last for first, last, _ in self.dirty + self.lost)


class PageCache:
    """Knows the files that were changed since the beginning; what was there before is on disk."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._by_path: dict[str, _File] = {}
        self._names: dict[str, dict[str, int]] = {}
        self._number = 0

    # ---- changes

    def made(self, path: str, inode: int, size: int) -> None:
        """A file was made."""
        if path not in self._by_path:
            file = self._by_path[path] = self._files[inode] = _File(path)
            self._name_changed(path)
            if size:
                self._add(file, 0, 0)

    def written(self, path: str, inode: int, start: int, end: int) -> None:
        """Bytes were written."""
        self._add(self._file(path, inode), start, end)

    def cut(self, path: str, inode: int, size: int) -> None:
        """A file was given another size."""
        file = self._file(path, inode)
        for ranges in (file.dirty, file.lost):
            ranges[:] = [(a, min(b, size), number) for a, b, number in ranges if a < size]
        self._add(file, size, size)

    def renamed(self, source: str, target: str) -> None:
        """A file or a folder got another name."""
        inside = source + "/"
        for path in [each for each in self._by_path if each == source or each.startswith(inside)]:
            file = self._by_path.pop(path)
            file.path = target + path.removeprefix(source)
            self._by_path[file.path] = file
        if source in self._names:
            self._names[target] = self._names.pop(source)
        self._name_changed(source)
        self._name_changed(target)

    def removed(self, path: str) -> None:
        """A name is gone."""
        self._by_path.pop(path, None)
        self._names.pop(path, None)
        self._name_changed(path)

    def made_directory(self, path: str) -> None:
        """A folder was made."""
        self._name_changed(path)

    def begin_sync(self, path: str, inode: int) -> Callable[[bool], None]:
        """A sync of a file begins; call what is returned when it ends, with whether it worked."""
        file, upto = self._file(path, inode), self._number

        def end(worked: bool) -> None:
            if not worked:
                file.lost += [each for each in file.dirty if each[2] <= upto]
            file.dirty = [each for each in file.dirty if each[2] > upto]

        return end

    def begin_directory_sync(self, path: str) -> Callable[[bool], None]:
        """The same for the names in a folder."""
        names, upto = self._names.get(path, {}), self._number

        def end(worked: bool) -> None:
            for name in [each for each, number in names.items() if worked and number <= upto]:
                del names[name]

        return end

    def _add(self, file: _File, start: int, end: int) -> None:
        self._number += 1
        file.dirty.append((start, end, self._number))

    def _file(self, path: str, inode: int) -> _File:
        file = self._files.get(inode)
        if file is None:
            file = self._files[inode] = self._by_path[path] = _File(path)
        return file

    def _name_changed(self, path: str) -> None:
        self._number += 1
        folder, _, name = path.rpartition("/")
        self._names.setdefault(folder, {})[name] = self._number

    # ---- questions

    def path_of(self, inode: int) -> str:
        """What a file is called now."""
        return self._files[inode].path

    def is_on_disk(self, inode: int, start: int, end: int) -> bool:
        """Whether a power cut leaves these bytes of a file."""
        return self._files[inode].covers(start, end)

    def is_whole(self, path: str) -> bool:
        """Whether a power cut leaves a file as it is, its size included."""
        file = self._by_path.get(path)
        return file is None or not (file.dirty or file.lost)

    def has_name(self, path: str) -> bool:
        """Whether a power cut leaves this name in its folder."""
        folder, _, name = path.rpartition("/")
        return name not in self._names.get(folder, {})


class HangingSync:
    """A sync of a data file that does not come back until it is let go, and fails then.

    Args:
        skip: so many syncs of data files go well first.
    """

    def __init__(self, skip: int) -> None:
        self.skip = skip
        self.is_let_go = False
        self.has_begun = False

    def begins(self, path: str) -> bool:
        """Whether the sync that is about to begin is the one."""
        if self.has_begun or not path.endswith(".log"):
            return False
        self.skip -= 1
        self.has_begun = self.skip < 0
        return self.has_begun


class OrderedCalls(SystemCalls):
    """Calls on a folder in memory, each of them a point of an order, and a change that is noted.

    Args:
        order: decides at each point; None if nothing overlaps.
        root: the folder; what is traced and noted is relative to it, so that it can be compared.
        hanging: a sync that hangs, if one does.

    Attributes:
        cache: what is on disk.
        changes: what was done, for a ``DiskModel``.
    """

    def __init__(
        self, order: Interleaving | None, root: Path, hanging: HangingSync | None = None
    ) -> None:
        self.cache = PageCache()
        self.changes: list[Change] = []
        self._order = order
        self._root = f"{root}/"
        self._hanging = hanging

    def _point(self, what: str, path: str) -> None:
        if self._order is not None:
            self._order.point(f"{what} {path.removeprefix(self._root)}")

    def _note(self, operation: str, path: str, position: int = 0, data: bytes = b"") -> int:
        relative = path.removeprefix(self._root)
        self.changes.append(Change(operation, relative, position, data))
        return len(self.changes)

    def create(self, path: str, size: int) -> None:
        self._point("create", path)
        super().create(path, size)
        self.cache.made(path, os.stat(path).st_ino, size)
        self._note("create", path, size)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        self._point("write", path)
        written = super().write(path, descriptor, data, position)
        self._written(path, descriptor, bytes(memoryview(data)[:written]), position)
        return written

    def _written(self, path: str, descriptor: int, data: bytes, position: int) -> None:
        self.cache.written(path, os.fstat(descriptor).st_ino, position, position + len(data))
        self._note("write", path, position, data)
        self._point("written", path)

    def truncate(self, path: str, size: int) -> None:
        self._point("truncate", path)
        super().truncate(path, size)
        self.cache.cut(path, os.stat(path).st_ino, size)
        self._note("truncate", path, size)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        self._point("truncate", path)
        super().truncate_open(path, descriptor, size)
        self.cache.cut(path, os.fstat(descriptor).st_ino, size)
        self._note("truncate", path, size)

    def sync(self, path: str, descriptor: int) -> None:
        self._point("sync", path)
        end = self.cache.begin_sync(path, os.fstat(descriptor).st_ino)
        begun = self._note("sync_begins", self.cache.path_of(os.fstat(descriptor).st_ino))
        hanging, order = self._hanging, self._order
        if hanging is not None and order is not None and hanging.begins(path):
            order.wait(lambda: hanging.is_let_go, "hang in the sync")
            end(False)
            self._note("sync_fails", path, begun)
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        self._point("sync ends", path)
        end(True)
        self._note("sync_ends", path, begun)

    def sync_directory(self, path: str) -> None:
        self._point("sync directory", path)
        os.stat(path)
        end = self.cache.begin_directory_sync(path)
        begun = self._note("sync_begins", path)
        self._point("sync ends", path)
        end(True)
        self._note("sync_ends", path, begun)

    def rename(self, source: str, target: str) -> None:
        self._point("rename", target)
        super().rename(source, target)
        self.cache.renamed(source, target)
        source, target = (each.removeprefix(self._root) for each in (source, target))
        self.changes.append(Change("rename", source, target=target))

    def unlink(self, path: str) -> None:
        self._point("unlink", path)
        super().unlink(path)
        self.cache.removed(path)
        self._note("unlink", path)

    def make_directory(self, path: str) -> None:
        self._point("make directory", path)
        super().make_directory(path)
        self.cache.made_directory(path)
        self._note("make_directory", path)

    def remove_directory(self, path: str) -> None:
        self._point("remove directory", path)
        super().remove_directory(path)
        self.cache.removed(path)
        self._note("remove_directory", path)

    def close(self, descriptor: int) -> None:
        if self._order is not None:
            self._order.point("close")
        super().close(descriptor)
