"""A file system that remembers every change, and what a power cut would have left of them.

The real files are written too. ``after_power_cut`` writes another folder with what the disk would
hold if the power had failed after the n-th change: everything that was synced, and of the rest as
much as ``keep`` says.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.types import Buffer
from support.disk_model import Change, Cut, DiskModel, Keep

__all__ = ["Change", "Keep", "RecordingCalls", "RecordingFileSystem"]


class RecordingCalls(SystemCalls):
    """Does and remembers; ``on_change`` is called after each change, with its number."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.changes: list[Change] = []
        self.on_change: Callable[[int], None] | None = None

    def _note(
        self, operation: str, path: str, position: int = 0, data: Buffer = b"", target: str = ""
    ) -> None:
        relative = os.path.relpath(target, self.root) if target else ""
        change = Change(
            operation, os.path.relpath(path, self.root), position, bytes(data), relative
        )
        self.changes.append(change)
        if self.on_change is not None:
            self.on_change(len(self.changes))

    def create(self, path: str, size: int) -> None:
        super().create(path, size)
        self._note("create", path, size)

    def write(self, path: str, descriptor: int, data: Buffer, position: int) -> int:
        written = super().write(path, descriptor, data, position)
        self._note("write", path, position, memoryview(data)[:written])
        return written

    def truncate(self, path: str, size: int) -> None:
        super().truncate(path, size)
        self._note("truncate", path, size)

    def truncate_open(self, path: str, descriptor: int, size: int) -> None:
        super().truncate_open(path, descriptor, size)
        self._note("truncate", path, size)

    def sync(self, path: str, descriptor: int) -> None:
        super().sync(path, descriptor)
        self._note("sync", path)

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self._note("sync_directory", path)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._note("rename", source, target=target)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._note("unlink", path)

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        self._note("make_directory", path)

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        self._note("remove_directory", path)


class RecordingFileSystem(OsFileSystem):
    """Everything below ``root`` is recorded; what is there at the beginning counts as synced."""

    def __init__(self, root: Path, *, max_open_files: int | None = None) -> None:
        self.calls = RecordingCalls(str(root))
        self._initial: dict[str, bytes | None] = {
            str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
            for path in root.rglob("*")
        }
        self._model, self._applied = DiskModel(self._initial), 0
        super().__init__(self.calls, max_open_files=max_open_files)

    @property
    def changes(self) -> list[Change]:
        """All changes so far, in order."""
        return self.calls.changes

    def change_lines(self, start: int = 0) -> list[str]:
        """The changes from a number on, one line each."""
        return [str(change) for change in self.changes[start:]]

    def after_power_cut(
        self, target: Path, *, changes: int | None = None, keep: Keep | Cut | int = Keep.NOTHING
    ) -> Path:
        """Writes what the disk holds if the power fails after so many changes (all of them).

        Args:
            target: a folder that does not exist yet.
            keep: what of the unsynced changes survives; an int seeds an arbitrary choice, in which
                a write may be kept, torn or lost while a later one survives.
        """
        end = len(self.changes) if changes is None else changes
        if end < self._applied:
            self._model, self._applied = DiskModel(self._initial), 0
        for change in self.changes[self._applied : end]:
            self._model.apply(change)
        self._applied = end
        self._model.write_to(target, Cut(random.Random(keep)) if isinstance(keep, int) else keep)
        return target
