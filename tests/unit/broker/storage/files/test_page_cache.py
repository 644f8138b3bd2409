"""Whether a range of a file is in memory."""

import os
from pathlib import Path

import pytest

from seglog.broker.storage.files import page_cache
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.log_file import FileSlice, LogFile
from seglog.broker.storage.files.page_cache import bring_in, is_resident

SIZE = 4 * 1024 * 1024


@pytest.fixture
def cold(tmp_path: Path) -> FileSlice:
    """4 MiB that the kernel was asked to forget; skipped where it does not."""
    file: LogFile = OsFileSystem().open_log(str(tmp_path / "0.log"), create=True)
    file.append(bytes(SIZE))
    file.sync()
    whole = FileSlice(file, 0, SIZE)
    os.posix_fadvise(whole.fileno(), 0, SIZE, os.POSIX_FADV_DONTNEED)
    if is_resident(whole):
        pytest.skip("this file system keeps what it was asked to forget, or cannot say")
    return whole


def test_forgotten_range_is_not_taken_for_one_in_memory(cold: FileSlice) -> None:
    assert not is_resident(FileSlice(cold.file, SIZE // 2, 100))
    bring_in([cold])
    assert is_resident(cold)


def test_range_that_is_forgotten_in_part_is_noticed(cold: FileSlice) -> None:
    bring_in([cold])
    os.posix_fadvise(cold.fileno(), SIZE // 2, SIZE // 2, os.POSIX_FADV_DONTNEED)
    assert not is_resident(cold)
    assert is_resident(FileSlice(cold.file, 0, SIZE // 4))


def test_range_beyond_the_end_of_a_truncated_file_does_not_hold_up(cold: FileSlice) -> None:
    """A truncation came between reading and sending: sending finds that out."""
    cold.file.truncate(SIZE // 4)
    bring_in([cold])
    assert is_resident(cold)


def test_empty_range_is_in_memory(cold: FileSlice) -> None:
    assert is_resident(FileSlice(cold.file, 0, 0))


def test_file_system_that_cannot_say_is_believed_to_be_fast(
    cold: FileSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere every fetch would go through a worker for nothing, or fail."""

    def refuse(*_: object) -> int:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    assert is_resident(cold)
    monkeypatch.undo()
    monkeypatch.setattr(page_cache, "_NO_WAIT", 0)
    assert is_resident(cold)
