"""Space kept back for small files."""

from pathlib import Path

import pytest

from seglog.broker.storage.disk_reserve import (
    RESERVE_BYTES,
    RESERVE_FILE,
    keep_reserve,
    write_even_if_full,
)
from seglog.broker.storage.errors import DiskFullError
from seglog.broker.storage.files import OsFileSystem
from support.failing_disk import FailingDisk


def test_there_is_no_reserve_when_it_is_needed(tmp_path: Path) -> None:
    disk = FailingDisk()
    files = OsFileSystem(disk)
    directory = str(tmp_path)
    keep_reserve(files, directory)
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
    disk.full_until_unlinked(RESERVE_FILE)
    write_even_if_full(
        files, directory, lambda: files.replace_atomically(f"{directory}/small", b"x")
    )
    assert (tmp_path / "small").read_bytes() == b"x"
    keep_reserve(files, directory)
    assert (tmp_path / RESERVE_FILE).exists()


def test_a_full_disk_without_reserve_is_not_reported(tmp_path: Path) -> None:
    disk = FailingDisk()
    files = OsFileSystem(disk)
    directory = str(tmp_path)
    disk.full.add(directory)
    keep_reserve(files, directory)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DiskFullError):
        write_even_if_full(
            files, directory, lambda: files.replace_atomically(f"{directory}/small", b"x")
        )
