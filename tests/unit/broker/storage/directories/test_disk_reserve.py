"""Space kept back for what frees space (U2)."""

from pathlib import Path

import pytest

from seglog.broker.storage.directories.disk_reserve import RESERVE_BYTES, RESERVE_FILE, DiskReserve
from seglog.broker.storage.errors import DiskFullError, FileError
from seglog.broker.storage.files.file_system import OsFileSystem
from support.failing_disk import FailingDisk
from support.faulty_file_system import FaultyFileSystem


def test_the_reserve_is_there_again_as_soon_as_it_was_used(tmp_path: Path) -> None:
    disk = FailingDisk()
    files = OsFileSystem(disk)
    reserve = DiskReserve(files, str(tmp_path))
    reserve.keep()
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
    disk.full_until_unlinked(RESERVE_FILE)
    was_open: list[bool] = []

    def write() -> None:
        was_open.append(reserve.is_open)
        files.replace_atomically(f"{tmp_path}/small", b"x")

    reserve.write_to_free_space(write)
    assert was_open == [False, True]
    assert (tmp_path / "small").read_bytes() == b"x"
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
    assert not reserve.is_open


def test_the_reserve_has_room_for_a_large_catalog(tmp_path: Path) -> None:
    """Of thousands of topics: the new file lies beside the old one for a moment."""
    reserve = DiskReserve(OsFileSystem(), str(tmp_path))
    reserve.keep()
    (tmp_path / "seglog-catalog").write_bytes(bytes(1_000_000))
    reserve.keep()
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
    reserve.enlarge()
    assert (tmp_path / RESERVE_FILE).stat().st_size == 3_000_000


def test_a_full_disk_without_reserve_is_reported(tmp_path: Path) -> None:
    disk = FailingDisk()
    files = OsFileSystem(disk)
    reserve = DiskReserve(files, str(tmp_path))
    disk.full.add(str(tmp_path))
    reserve.keep()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DiskFullError):
        reserve.write_to_free_space(lambda: files.replace_atomically(f"{tmp_path}/small", b"x"))
    assert not reserve.is_open


@pytest.mark.parametrize("fails", ["unlink", "write"])
def test_records_are_not_refused_for_ever_because_the_reserve_was_not_changed_once(
    tmp_path: Path, fails: str
) -> None:
    """Giving it up fails, or making it anew half way: the file is there, and it counts as open."""
    disk = FaultyFileSystem()
    reserve = DiskReserve(disk, str(tmp_path))
    reserve.keep()
    attempts: list[int] = []

    def write() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            disk.calls.fail(fails, path_part=RESERVE_FILE)
            raise DiskFullError("write", "small", "No space left on device")

    try:
        reserve.write_to_free_space(write)
    except FileError:
        assert fails == "unlink"
    assert reserve.is_open
    assert (tmp_path / RESERVE_FILE).exists()
    reserve.keep()
    assert not reserve.is_open
    assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
