"""What is in memory and what is on disk after a number of changes, and what a power cut leaves.

Content is durable after a sync of the file, a name after a sync of its directory (as POSIX has it,
and stricter than ext4 is). A sync may be one change, or a beginning and an end: then it covers what
was changed before its beginning. What a failed sync was to cover no later one brings to the disk.
"""

import random
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Keep(Enum):
    """What of the unsynced changes survives; a ``Cut`` in its place keeps an arbitrary part."""

    NOTHING = "nothing"
    EVERYTHING = "everything"


@dataclass(frozen=True)
class Cut:
    """A power cut that keeps what it likes.

    Attributes:
        random: chooses.
        sector_bytes: writes are torn at these borders of the file; 1: their beginning is kept.
        names_in_order: of what was done to a directory a beginning survives, as a journal has it;
            else any part.
    """

    random: random.Random
    sector_bytes: int = 1
    names_in_order: bool = True


@dataclass(frozen=True)
class Change:
    """One change: what was done to which file or folder, relative to the root.

    For the end of a sync ``position`` is the number of its beginning.
    """

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


@dataclass
class _Pending:
    """A change of a file that is not on disk."""

    number: int
    change: Change
    is_lost: bool = False


@dataclass
class _File:
    content: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    pending: list[_Pending] = field(default_factory=list)

    def apply(self, number: int, change: Change) -> None:
        _apply(self.content, change)
        self.pending.append(_Pending(number, change))

    def sync(self, upto: int) -> None:
        rest = []
        for each in self.pending:
            if each.number > upto or each.is_lost:
                rest.append(each)
            else:
                _apply(self.synced, each.change)
        self.pending = rest

    def lose(self, upto: int) -> None:
        for each in self.pending:
            each.is_lost = each.is_lost or each.number <= upto

    def survivor(self, keep: Keep | Cut) -> bytes:
        if keep is Keep.EVERYTHING:
            return bytes(self.content)
        content = bytearray(self.synced)
        if isinstance(keep, Cut):
            for each in self.pending:
                for change in _kept(each.change, keep):
                    _apply(content, change)
        return bytes(content)


def _kept(change: Change, cut: Cut) -> list[Change]:
    """What is left of one change: all, nothing, or parts of a write."""
    chance, sector = cut.random, cut.sector_bytes
    if chance.random() < 0.3:
        return []
    if change.operation != "write" or chance.random() >= 0.3:
        return [change]
    if sector == 1:
        torn = change.data[: chance.randrange(len(change.data) + 1)]
        return [Change("write", change.path, change.position, torn)]
    kept = []
    position, end = change.position, change.position + len(change.data)
    while position < end:
        border = min(end, (position // sector + 1) * sector)
        if chance.random() < 0.5:
            start = position - change.position
            data = change.data[start : start + border - position]
            kept.append(Change("write", change.path, position, data))
        position = border
    return kept


def _apply(content: bytearray, change: Change) -> None:
    if change.operation == "truncate":
        del content[change.position :]
        content.extend(bytes(change.position - len(content)))
    else:
        end = change.position + len(change.data)
        content.extend(bytes(max(0, end - len(content))))
        content[change.position : end] = change.data


_Names = dict[str, "_File | _Directory | None"]


@dataclass
class _Directory:
    names: "dict[str, _File | _Directory]" = field(default_factory=dict)
    synced: "dict[str, _File | _Directory]" = field(default_factory=dict)
    pending: list[tuple[int, _Names]] = field(default_factory=list)

    def change(self, number: int, changes: _Names) -> None:
        _rename(self.names, changes)
        self.pending.append((number, changes))

    def sync(self, upto: int) -> None:
        for number, changes in self.pending:
            if number <= upto:
                _rename(self.synced, changes)
        self.pending = [each for each in self.pending if each[0] > upto]

    def lose(self, upto: int) -> None:
        """Names are in a journal, which goes on after a failed sync or stops for good."""

    def survivors(self, keep: Keep | Cut) -> "dict[str, _File | _Directory]":
        if keep is Keep.EVERYTHING:
            return self.names
        names = dict(self.synced)
        if isinstance(keep, Cut):
            chance = keep.random
            kept = self.pending
            if keep.names_in_order:
                kept = kept[: chance.randrange(len(kept) + 1)]
            else:
                kept = [each for each in kept if chance.random() < 0.5]
            for _, changes in kept:
                _rename(names, changes)
        return names


def _rename(names: "dict[str, _File | _Directory]", changes: _Names) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class DiskModel:
    """Files and folders as changes make them; ``initial`` is on disk."""

    def __init__(self, initial: "dict[str, bytes | None]") -> None:
        self._root = _Directory()
        self._number = 0
        self._syncing: dict[int, _File | _Directory] = {}
        for path, content in sorted(initial.items()):
            parent, name = self._parent(path)
            if content is None:
                parent.names[name] = _Directory()
            else:
                parent.names[name] = _File(bytearray(content), bytearray(content))
        self._sync_all(self._root)

    def _sync_all(self, directory: _Directory) -> None:
        directory.synced = dict(directory.names)
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
        self._number += 1
        operation = change.operation
        if operation in {"sync", "sync_directory"}:
            self._node(change.path).sync(self._number)
        elif operation == "sync_begins":
            self._syncing[self._number] = self._node(change.path)
        elif operation == "sync_ends":
            self._syncing.pop(change.position).sync(change.position)
        elif operation == "sync_fails":
            self._syncing.pop(change.position).lose(change.position)
        elif operation in {"write", "truncate"}:
            node = self._node(change.path)
            assert isinstance(node, _File)
            node.apply(self._number, change)
        elif operation == "rename":
            self._rename(change.path, change.target)
        else:
            self._change_name(change)

    def _rename(self, path: str, target: str) -> None:
        parent, name = self._parent(path)
        target_parent, target_name = self._parent(target)
        node = parent.names[name]
        if target_parent is parent:
            parent.change(self._number, {name: None, target_name: node})
        else:
            parent.change(self._number, {name: None})
            target_parent.change(self._number, {target_name: node})

    def _change_name(self, change: Change) -> None:
        parent, name = self._parent(change.path)
        if change.operation == "create":
            if name not in parent.names:
                parent.change(self._number, {name: _File()})
            node = parent.names[name]
            assert isinstance(node, _File)
            if change.position and not node.content:
                cut = Change("truncate", change.path, change.position)
                node.apply(self._number, cut)
        elif change.operation == "make_directory":
            parent.change(self._number, {name: _Directory()})
        else:
            parent.change(self._number, {name: None})

    def write_to(self, target: Path, keep: Keep | Cut) -> None:
        """Makes a folder with what a power cut leaves."""
        self._write(self._root, target, keep)

    def _write(self, directory: _Directory, target: Path, keep: Keep | Cut) -> None:
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
