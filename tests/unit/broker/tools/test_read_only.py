"""The tools' disk: nothing can be changed through it."""

import inspect
import os
from pathlib import Path

import pytest

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.broker.tools.read_only import ReadOnlyCalls, read_only_files

_HARMLESS = {"open", "close", "read", "read_into", "stat", "list_directory"}


def test_a_new_system_call_is_not_refused() -> None:
    """Whoever adds a call that changes something must refuse it for the tools."""
    names = {name for name, _ in inspect.getmembers(SystemCalls, inspect.isfunction)}
    for name in names - _HARMLESS:
        call = getattr(ReadOnlyCalls(), name)
        arguments = [0] * (len(inspect.signature(call).parameters) - 1)
        with pytest.raises(OSError, match="this tool only reads"):
            call("path", *arguments)


def test_a_file_is_opened_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    descriptor = ReadOnlyCalls().open(str(path))
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(descriptor, b"x")
    finally:
        os.close(descriptor)


def test_an_atomic_replacement_leaves_something(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    with pytest.raises(StorageError):
        read_only_files().replace_atomically(str(path), b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint"]
    assert path.read_bytes() == b"old"
