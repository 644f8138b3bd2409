"""A file system that remembers every change, and what a power cut would have left of them.

The real files are written too. ``after_power_cut`` writes another folder with what the disk would
hold if the power had failed after the n-th change: everything that was synced, and of the rest as
much as ``keep`` says. Content is durable after a sync of the file, a name after a sync of
its directory (as POSIX has it, and stricter than ext4 is).
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from seglog.broker.storage.files import OsFileSystem
from seglog.broker.storage.system_calls import SystemCalls
from seglog.protocol.types import Buffer


class Keep(Enum):
    """What of the unsynced changes survives; a seed (int) in its place keeps an arbitrary part."""

    NOTHING = "nothing"
    EVERYTHING = "everything"


@dataclass(frozen=True)
class Change:
    """One change: what was done to which file or folder, relative to the root."""

    operation: str
    path: str
    position: int = 0
    data: bytes = b""
    target: str = ""

    def __str__(self) -> str:
        """One line of a golden file."""
        if self.operation == "write":
            return f"write {self.path} {self.position}+{len(self.data)}"
        if self.operation in {"truncate", "create"}:
            return f"{self.operation} {self.path} {self.position}"
        return f"{self.operation} {self.path}" + (f" {self.target}" if self.target else "")


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


@dataclass
class _File:
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    pending: list[Change] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        _apply(self.content, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.synced = bytes(self.content)
        self.pending.clear()

    def survivor(self, keep: "Keep | random.Random") -> bytes:
        if keep is Keep.EVERYTHING:
            return bytes(self.content)
        if keep is Keep.NOTHING:
            return self.synced
        content = bytearray(self.synced)
        for change in self.pending:
            if keep.random() < 0.3:
                continue
            if change.operation == "write" and keep.random() < 0.3:
                torn = change.data[: keep.randrange(len(change.data) + 1)]
                change = Change("write", change.path, change.position, torn)
            _apply(content, change)
        return bytes(content)


def _apply(content: bytearray, change: Change) -> None:
    if change.operation == "truncate":
        del content[change.position :]
        content.extend(bytes(change.position - len(content)))
    else:
        end = change.position + len(change.data)
        content.extend(bytes(max(0, end - len(content))))
        content[change.position : end] = change.data


@dataclass
class _Directory:
    names: "dict[str, _File | _Directory]" = field(default_factory=dict)
    synced: "dict[str, _File | _Directory]" = field(default_factory=dict)
    pending: "list[dict[str, _File | _Directory | None]]" = field(default_factory=list)

    def change(self, changes: "dict[str, _File | _Directory | None]") -> None:
        _rename(self.names, changes)
        self.pending.append(changes)

    def sync(self) -> None:
        self.synced = dict(self.names)
        self.pending.clear()

    def survivors(self, keep: "Keep | random.Random") -> "dict[str, _File | _Directory]":
        if keep is Keep.EVERYTHING:
            return self.names
        names = dict(self.synced)
        if keep is not Keep.NOTHING:
            # A journal keeps a beginning of what was done to a directory.
            for changes in self.pending[: keep.randrange(len(self.pending) + 1)]:
                _rename(names, changes)
        return names


def _rename(
    names: "dict[str, _File | _Directory]", changes: "dict[str, _File | _Directory | None]"
) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class DiskModel:
    """What is in memory and what is on disk, after a number of changes."""

    def __init__(self, initial: "dict[str, bytes | None]") -> None:
        self._root = _Directory()
        for path, content in sorted(initial.items()):
            parent, name = self._parent(path)
            if content is None:
                parent.names[name] = _Directory()
            else:
                parent.names[name] = _File(bytearray(content), content)
        self._sync_all(self._root)

    def _sync_all(self, directory: _Directory) -> None:
        directory.sync()
        for node in directory.names.values():
            if isinstance(node, _Directory):
                self._sync_all(node)

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *folders, name = Path(path).parts
        directory = self._root
        for folder in folders:
            node = directory.names[folder]
            assert isinstance(node, _Directory), path
            directory = node
        return directory, name

    def _node(self, path: str) -> "_File | _Directory":
        if path == ".":
            return self._root
        parent, name = self._parent(path)
        return parent.names[name]

    def apply(self, change: Change) -> None:
        """Repeats one change."""
        if change.operation in {"sync", "sync_directory"}:
            self._node(change.path).sync()
        elif change.operation in {"write", "truncate"}:
            node = self._node(change.path)
            assert isinstance(node, _File)
            node.apply(change)
        elif change.operation == "rename":
            self._rename(change.path, change.target)
        else:
            self._change_name(change)

    def _rename(self, path: str, target: str) -> None:
        parent, name = self._parent(path)
        target_parent, target_name = self._parent(target)
        node = parent.names[name]
        if target_parent is parent:
            parent.change({name: None, target_name: node})
        else:
            parent.change({name: None})
            target_parent.change({target_name: node})

    def _change_name(self, change: Change) -> None:
        parent, name = self._parent(change.path)
        if change.operation == "create":
            if name not in parent.names:
                parent.change({name: _File()})
            node = parent.names[name]
            assert isinstance(node, _File)
            if change.position and not node.content:
                node.apply(Change("truncate", change.path, change.position))
        elif change.operation == "make_directory":
            parent.change({name: _Directory()})
        else:
            parent.change({name: None})

    def write_to(self, target: Path, keep: "Keep | random.Random") -> None:
        """Makes a folder with what a power cut leaves."""
        self._write(self._root, target, keep)

    def _write(self, directory: _Directory, target: Path, keep: "Keep | random.Random") -> None:
        target.mkdir(parents=True, exist_ok=True)
        for name, node in directory.survivors(keep).items():
            if isinstance(node, _Directory):
                self._write(node, target / name, keep)
            else:
                _write_sparse(target / name, node.survivor(keep))


def _write_sparse(path: Path, content: bytes) -> None:
    """Preallocated indexes are mostly zeros."""
    with path.open("wb") as file:
        file.write(content.rstrip(b"\0"))
        file.truncate(len(content))


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
        self, target: Path, *, changes: int | None = None, keep: "Keep | int" = Keep.NOTHING
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
        self._model.write_to(target, random.Random(keep) if isinstance(keep, int) else keep)
        return target
