"""A disk of which one call fails, and the calls after it for a while: the n-th of a life."""

import errno
import os
from dataclasses import dataclass
from threading import Lock
from typing import Final

from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.types import Buffer

SHORT_WRITE = -1
"""In the place of an errno: a write leaves out half of its bytes."""
_MAKING = frozenset({"create", "write", "rename", "make_directory", "sync", "sync_directory"})
_REMOVING = frozenset({"truncate", "truncate_open", "unlink", "remove_directory"})
_ONLY_IN: Final = {
    # The other calls do not get these errors from any kernel: they need no space, no descriptor.
    errno.ENOSPC: _MAKING,
    errno.EMFILE: frozenset({"create", "open", "sync_directory"}),
    errno.EROFS: _MAKING | _REMOVING | {"set_modified_ms"},
    SHORT_WRITE: frozenset({"write"}),
}


@dataclass(frozen=True)
class Fault:
    """What fails.

    Attributes:
        number: which call, from 0 on.
        error: the errno, or ``SHORT_WRITE``.
        lasts: every later call fails, too, until the disk is well again.
    """

    number: int
    error: int
    lasts: bool

    def __str__(self) -> str:
        name = "short write" if self.error == SHORT_WRITE else errno.errorcode[self.error]
        return f"call {self.number}{' and all later ones' if self.lasts else ''}, {name}"


class NthCallFails(SystemCalls):
    """The real disk; in one folder the call of a fault fails. Calls count while it is armed.

    Attributes:
        operations: the calls that were counted, each with its file.
        failed: those that failed or were short.
    """

    def __init__(self, folder: str) -> None:
        self.operations: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self._folder = folder + "/"
        self._fault: Fault | None = None
        self._is_armed = False
        self._lock = Lock()

    def arm(self, fault: Fault | None) -> None:
        """Count from here on, and let the call of the fault fail."""
        self._fault, self._is_armed = fault, True

    def heal(self) -> None:
        """Everything works, and nothing is counted."""
        self._fault, self._is_armed = None, False

    def _attempt(self, operation: str, path: str) -> bool:
        """Raise if the call is to fail; whether it is to be short."""
        if not self._is_armed or not path.startswith(self._folder):
            return False
        with self._lock:
            number, fault = len(self.operations), self._fault
            self.operations.append((operation, path.removeprefix(self._folder)))
            is_hit = fault is not None and (
                number >= fault.number if fault.lasts else number == fault.number
            )
            if fault is None or not is_hit:
                return False
            if operation not in _ONLY_IN.get(fault.error, {operation}):
                return False
            self.failed.append(self.operations[number])
        if fault.error == SHORT_WRITE:
            return True
        raise OSError(fault.error, os.strerror(fault.error), path)

    def create(self, path: str, size: int) -> None:
        self._attempt("create", path)
        super().create(path, size)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        if self._attempt("write", path):
            data = memoryview(data)[: max(1, len(data) // 2)]
        return super().write(path, descriptor, data, position)

    def truncate(self, path: str, size: int) -> None:
        self._attempt("truncate", path)
        super().truncate(path, size)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        self._attempt("truncate_open", path)
        super().truncate_open(path, descriptor, size)

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
        super().unlink(path)

    def make_directory(self, path: str) -> None:
        self._attempt("make_directory", path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._attempt("remove_directory", path)
        super().remove_directory(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._attempt("set_modified_ms", path)
        super().set_modified_ms(path, modified_ms)

    def open(self, path: str) -> int:
        self._attempt("open", path)
        return super().open(path)
