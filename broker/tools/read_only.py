"""The disk for tools: everything that would change something is refused before it is tried."""

# ruff: noqa: ARG002  # the arguments are those of the calls that are refused

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from seglog.broker.storage.files import OsFileSystem, SystemCalls
from seglog.broker.storage.layout import LOCK_FILE
from seglog.protocol.types import Buffer

_HELD: Final = frozenset({errno.EWOULDBLOCK, errno.EACCES})
_HOLDER_BYTES_MAX: Final = 300


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

    def write_vector(
        self, path: str, descriptor: int, data: Sequence[Buffer], position: int
    ) -> int:
        """Refused."""
        _refuse(path)

    def write_mapped(self, path: str, mapping: mmap.mmap, data: bytes, position: int) -> None:
        """Refused."""
        _refuse(path)

    def allocate(self, path: str, position: int, length: int) -> None:
        """Refused."""
        _refuse(path)

    def truncate(self, path: str, size: int) -> None:
        """Refused."""
        _refuse(path)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        """Refused."""
        _refuse(path)

    def sync(self, path: str, descriptor: int) -> None:
        """Refused: there is nothing of ours to put on disk."""
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

    def map(self, path: str, size: int) -> mmap.mmap:
        """Refused: index files are mapped for writing."""
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, "this tool only reads", path)


def read_only_files() -> OsFileSystem:
    """A file system on which nothing can be changed."""
    return OsFileSystem(ReadOnlyCalls())


class LockHolder(NamedTuple):
    """Who holds a data directory; ``name`` is empty if the lock file does not say."""

    name: str


def lock_holder(directory: str) -> LockHolder | None:
    """Who runs on a data directory now; None if nobody does, or it has no lock file.

    The lock is tried, shared, and let go at once; the file is not changed.
    """
    try:
        descriptor = os.open(f"{directory}/{LOCK_FILE}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _HELD:
            return None
        content = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode("utf-8", "replace")
        process_id, _, host = content.strip().partition(" ")
        return LockHolder(f"process {process_id} on {host}" if process_id.isdigit() else "")
    finally:
        os.close(descriptor)
    return None
