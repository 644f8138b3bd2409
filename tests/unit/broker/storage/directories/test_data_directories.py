"""The data directories of a broker that cannot use them."""

import errno
import os
from pathlib import Path

import pytest

from seglog.broker.storage.directories.data_directories import (
    DataDirectories,
    NoUsableDirectoryError,
)
from seglog.broker.storage.errors import error_from_os
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.config import BrokerConfig, ConfigError


def said_of(tmp_path: Path, number: int) -> str:
    """What a start says when each directory refuses so."""
    config = BrokerConfig(log_dirs=(str(tmp_path / "a"), str(tmp_path / "b")))
    directories = DataDirectories(OsFileSystem(), config)
    for log_dir in directories.all:
        error = OSError(number, os.strerror(number))
        log_dir.set_offline(error_from_os("open", f"{log_dir.path}/.lock", error))
    with pytest.raises(NoUsableDirectoryError) as caught:
        directories.check_any_online()
    return str(caught.value)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_volume_of_another_user_is_not_explained(tmp_path: Path, number: int) -> None:
    """The usual one of containers: it says who must be able to write where."""
    said = said_of(tmp_path, number)
    assert said.startswith(
        f"no data directory can be used: {tmp_path}/a: open {tmp_path}/a/.lock: "
    )
    assert f"{tmp_path}/b/.lock: {os.strerror(number)}" in said
    assert f"user id {os.getuid()} must be able to write" in said


def test_a_file_system_without_locks_is_not_explained(tmp_path: Path) -> None:
    """NFS whose lock service does not run."""
    assert said_of(tmp_path, errno.ENOLCK).endswith("if it is NFS, its lock service must run")


def test_a_broken_disk_is_taken_for_a_wrong_user(tmp_path: Path) -> None:
    assert "user id" not in said_of(tmp_path, errno.EIO)


@pytest.mark.parametrize("inner", ["disk-1", "logs", ".second", "disk-1/deeper"])
def test_a_directory_inside_another_one_passes_for_a_partition(tmp_path: Path, inner: str) -> None:
    """It was renamed as a stray, or became a topic at the next start."""
    outer = tmp_path / "data"
    (outer / inner).mkdir(parents=True)
    (tmp_path / "link").symlink_to(outer / inner)
    for paths in ((outer, outer / inner), (outer / inner, outer), (outer, tmp_path / "link")):
        config = BrokerConfig(log_dirs=tuple(str(path) for path in paths))
        with pytest.raises(ConfigError, match="lies inside"):
            DataDirectories(OsFileSystem(), config).lock()
    assert not list(tmp_path.rglob(".lock"))


def test_a_sibling_with_a_longer_name_passes_for_one_inside(tmp_path: Path) -> None:
    paths = (tmp_path / "data", tmp_path / "data-1")
    directories = DataDirectories(
        OsFileSystem(), BrokerConfig(log_dirs=tuple(str(path) for path in paths))
    )
    directories.lock()
    directories.unlock()
