"""System calls that fail where a test wants it."""

import errno
import os

from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.types import Buffer
from support.own_paths import is_part_of


class FailingDisk(SystemCalls):
    """The real disk, except for paths that contain one of the given texts below the test's folder.

    Attributes:
        full: writes to these paths find no space.
        broken: every call on these paths is an I/O error.
        unreadable: files of these names cannot be opened, with the errno; they can be renamed.
    """

    def __init__(self) -> None:
        self.full: set[str] = set()
        self.broken: set[str] = set()
        self.unreadable: dict[str, int] = {}
        self._full_until_unlinked: str | None = None

    def full_until_unlinked(self, name: str) -> None:
        """Find no space anywhere until a file of this name is removed."""
        self._full_until_unlinked = name

    def _check(self, path: str, *, writes: bool = False) -> None:
        if any(is_part_of(part, path) for part in self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        is_full = self._full_until_unlinked is not None
        if writes and (is_full or any(is_part_of(part, path) for part in self.full)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def create(self, path: str, size: int) -> None:
        self._check(path)
        super().create(path, size)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        self._check(path, writes=True)
        return super().write(path, descriptor, data, position)

    def sync(self, path: str, descriptor: int) -> None:
        self._check(path)
        super().sync(path, descriptor)

    def sync_directory(self, path: str) -> None:
        self._check(path)
        super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._check(path)
        super().unlink(path)
        if self._full_until_unlinked is not None and path.endswith(self._full_until_unlinked):
            self._full_until_unlinked = None

    def make_directory(self, path: str) -> None:
        self._check(path)
        super().make_directory(path)

    def open(self, path: str) -> int:
        self._check(path)
        number = self.unreadable.get(os.path.basename(path))
        if number is not None:
            raise OSError(number, os.strerror(number), path)
        return super().open(path)

    def stat(self, path: str) -> os.stat_result:
        self._check(path)
        return super().stat(path)

    def list_directory(self, path: str) -> list[str]:
        self._check(path)
        return super().list_directory(path)
