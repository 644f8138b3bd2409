"""The disk for tools: everything that would change something is refused before it is tried."""

# ruff: noqa: ARG002  # the arguments are those of the calls that are refused

import errno
import os
from typing import NoReturn

from seglog.broker.storage.files.file_system import OsFileSystem, SystemCalls
from seglog.protocol.types import Buffer


class ReadOnlyCalls(SystemCalls):
    """System calls that open for reading and refuse all changes with ``EROFS``."""

    def open(self, path: str) -> int:
        """A descriptor that cannot write."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def create(self, path: str, size: int) -> None:
        """Refused."""
        _refuse(path)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        """Refused."""
        _refuse(path)

    def truncate(self, path: str, size: int) -> None:
        """Refused."""
        _refuse(path)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        """Refused."""
        _refuse(path)

    def sync(self, path: str, descriptor: int) -> None:
        """Refused: the tools write nothing that needs a sync."""
        _refuse(path)

    def sync_directory(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        """Refused."""
        _refuse(source)

    def unlink(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def make_directory(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def remove_directory(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Refused."""
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "this tool only reads", path)


def read_only_files() -> OsFileSystem:
    """A file system on which nothing can be changed."""
    return OsFileSystem(ReadOnlyCalls())
