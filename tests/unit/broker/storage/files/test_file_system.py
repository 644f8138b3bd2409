"""Data files, slices of them, and the replacing of small files."""

import errno
import os
from pathlib import Path

import pytest

from seglog.broker.storage.errors import (
    CorruptLogError,
    DiskFullError,
    FileError,
    MissingFileError,
    SliceCutError,
)
from seglog.broker.storage.files.file_system import FileSlice, OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from support.faulty_file_system import FaultyFileSystem
from support.recording_file_system import RecordingFileSystem


@pytest.fixture
def faulty() -> FaultyFileSystem:
    return FaultyFileSystem()


def test_append_returns_where_the_bytes_begin(tmp_path: Path) -> None:
    file = OsFileSystem().open_log(str(tmp_path / "a.log"), create=True)
    assert file.append(b"one") == 0
    assert file.append(memoryview(b"twothree")) == 3
    assert file.size == 11
    assert (tmp_path / "a.log").read_bytes() == b"onetwothree"
    assert file.read(3, 3) == b"two"
    assert file.read(8, 100) == b"ree"


def test_short_write_is_taken_for_a_whole_one(faulty: FaultyFileSystem, tmp_path: Path) -> None:
    file = faulty.open_log(str(tmp_path / "a.log"), create=True)
    faulty.calls.fail("write", short_by=4)
    file.append(b"0123456789")
    assert (tmp_path / "a.log").read_bytes() == b"0123456789"


@pytest.mark.parametrize("preallocate_bytes", [0, 4096])
def test_full_disk_leaves_half_a_batch(
    faulty: FaultyFileSystem, tmp_path: Path, preallocate_bytes: int
) -> None:
    """C028: the failing append leaves nothing, and the next one works once there is space."""
    path = tmp_path / "a.log"
    file = faulty.open_log(str(path), create=True, preallocate_bytes=preallocate_bytes)
    file.append(b"kept")
    faulty.calls.free_bytes = 6
    with pytest.raises(DiskFullError) as caught:
        file.append(b"0123456789")
    assert not caught.value.takes_dir_offline
    assert file.size == 4
    assert path.read_bytes() == b"kept"
    faulty.calls.free_bytes = None
    assert file.append(b"next") == 4
    assert path.read_bytes() == b"keptnext"


def test_failed_write_is_reported_as_a_full_disk(faulty: FaultyFileSystem, tmp_path: Path) -> None:
    file = faulty.open_log(str(tmp_path / "a.log"), create=True)
    faulty.calls.fail("write", error=errno.EIO)
    with pytest.raises(FileError, match="append to") as caught:
        file.append(b"x")
    assert caught.value.takes_dir_offline
    assert file.append(b"y") == 0


def test_half_a_batch_that_cannot_be_cut_off_is_appended_to(
    faulty: FaultyFileSystem, tmp_path: Path
) -> None:
    """If the cut fails as well the file takes no more, and its directory must go offline."""
    file = faulty.open_log(str(tmp_path / "a.log"), create=True)
    file.append(b"kept")
    faulty.calls.free_bytes = 2
    faulty.calls.fail("truncate_open")
    with pytest.raises(DiskFullError):
        file.append(b"0123")
    faulty.calls.heal()
    failure = file.positions.failure
    assert failure is not None
    assert failure.takes_dir_offline
    with pytest.raises(FileError, match="cut a failed append off"):
        file.append(b"more")


def test_failed_sync_is_forgotten(faulty: FaultyFileSystem, tmp_path: Path) -> None:
    """The kernel drops the dirty pages after a failed sync: a second one would lie."""
    file = faulty.open_log(str(tmp_path / "a.log"), create=True)
    file.append(b"x")
    faulty.calls.fail("sync")
    with pytest.raises(FileError, match="sync"):
        file.sync()
    with pytest.raises(FileError, match="sync"):
        file.append(b"y")


def test_sync_without_a_change_costs_a_disk_write(tmp_path: Path) -> None:
    file_system = FaultyFileSystem()
    file = file_system.open_log(str(tmp_path / "a.log"), create=True)
    file.append(b"x")
    file.sync()
    file.sync()
    assert file_system.calls.counts["sync"] == 1
    file.append(b"y")
    file.sync()
    assert file_system.calls.counts["sync"] == 2


def test_preallocated_file_keeps_its_reserve(tmp_path: Path) -> None:
    """ROLL-16."""
    path = tmp_path / "a.log"
    file = OsFileSystem().open_log(str(path), create=True, preallocate_bytes=1000)
    assert (file.size, path.stat().st_size) == (0, 1000)
    file.append(b"abc")
    assert (file.size, path.stat().st_size) == (3, 1000)
    file.trim()
    assert path.read_bytes() == b"abc"


def test_truncation_beyond_the_end_makes_a_hole(tmp_path: Path) -> None:
    file = OsFileSystem().open_log(str(tmp_path / "a.log"), create=True)
    file.append(b"abc")
    with pytest.raises(FileError):
        file.truncate(4)
    assert file.truncate(1) == 2
    assert file.read(0, 10) == b"a"


def test_opening_what_is_not_there_makes_it(tmp_path: Path) -> None:
    file_system = OsFileSystem()
    with pytest.raises(MissingFileError):
        file_system.open_log(str(tmp_path / "a.log"))
    with pytest.raises(MissingFileError):
        file_system.read_file(str(tmp_path / "a"))
    assert not any(tmp_path.iterdir())


def test_deleted_segment_breaks_a_fetch_in_flight(tmp_path: Path) -> None:
    """READ-13: the descriptor stays until the last release, then it goes."""
    file_system = OsFileSystem()
    path = tmp_path / "a.log"
    file = file_system.open_log(str(path), create=True)
    file.append(b"0123456789")
    first, second = FileSlice(file, 2, 3), FileSlice(file, 5, 5)
    file.close()
    path.unlink()
    assert first.read() == b"234"
    first.release()
    first.release()
    assert os.pread(second.fileno(), 5, second.position) == b"56789"
    descriptor = second.fileno()
    second.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(FileError, match="closed"):
        file.read(0, 1)


def test_slice_whose_bytes_were_cut_off_is_void_whatever_follows_there(tmp_path: Path) -> None:
    """T6: other records in their place were sent for the old ones."""
    file = OsFileSystem().open_log(str(tmp_path / "a.log"), create=True)
    file.append(b"0123456789")
    below, across, behind = FileSlice(file, 0, 5), FileSlice(file, 3, 4), FileSlice(file, 7, 3)
    file.truncate(5)
    file.append(b"abcde")
    later = FileSlice(file, 3, 4)
    assert below.read() == b"01234"
    assert later.read() == b"34ab"
    for void in (across, behind):
        with pytest.raises(SliceCutError, match="cut to 5 bytes"):
            void.fileno()
        with pytest.raises(SliceCutError, match="ask again"):
            void.read()
    file.truncate(6)
    file.append(b"vwxyz")
    assert below.read() == b"01234"
    with pytest.raises(SliceCutError, match="cut to 6 bytes"):
        later.read()
    for each in (below, across, behind, later):
        each.release()


def test_slice_of_a_file_that_lost_its_end_is_not_given_short(tmp_path: Path) -> None:
    file = OsFileSystem().open_log(str(tmp_path / "a.log"), create=True)
    file.append(b"0123456789")
    whole = FileSlice(file, 2, 8)
    os.truncate(tmp_path / "a.log", 4)
    with pytest.raises(CorruptLogError, match="position 4"):
        whole.read()
    whole.release()


def test_forgotten_slice_leaks_its_descriptor(tmp_path: Path) -> None:
    file = OsFileSystem().open_log(str(tmp_path / "a.log"), create=True)
    descriptor = FileSlice(file, 0, 0).fileno()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_replaced_file_is_seen_half_written(tmp_path: Path) -> None:
    """Temporary, sync, rename, sync of the folder: at every power cut the old or the new text."""
    (tmp_path / "disk").mkdir()
    path = tmp_path / "disk" / "checkpoint"
    path.write_bytes(b"old")
    file_system = RecordingFileSystem(tmp_path / "disk")
    file_system.replace_atomically(str(path), b"new content")
    assert file_system.change_lines() == [
        "create checkpoint.tmp 0",
        "truncate checkpoint.tmp 0",
        "write checkpoint.tmp 0+11",
        "sync checkpoint.tmp",
        "rename checkpoint.tmp checkpoint",
        "sync_directory .",
    ]
    for changes in range(7):
        for seed in range(20):
            left = file_system.after_power_cut(
                tmp_path / f"{changes}-{seed}", changes=changes, keep=seed
            )
            content = (left / "checkpoint").read_bytes()
            assert content in ({b"new content"} if changes == 6 else {b"old", b"new content"})


@pytest.mark.parametrize("number", range(6))
def test_failed_replacement_loses_the_old_content(
    faulty: FaultyFileSystem, tmp_path: Path, number: int
) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    faulty.calls.fail(error=errno.ENOSPC, skip=number)
    with pytest.raises(FileError if number == 5 else DiskFullError):
        faulty.replace_atomically(str(path), b"new")
    # Only after the last step, the sync of the folder, may the new content be there.
    assert path.read_bytes() == (b"new" if number == 5 else b"old")
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
    faulty.replace_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_file_that_may_not_be_written_any_more_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """U28: a write to it says that access is denied, and not that a descriptor is bad."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    real_open = os.open

    def open_to_read(name: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(number, os.strerror(number), name)
        return real_open(name, flags, mode)

    monkeypatch.setattr(os, "open", open_to_read)
    calls = SystemCalls()
    descriptor = calls.open(str(path))
    assert calls.read(str(path), descriptor, 7, 0) == b"content"
    with pytest.raises(PermissionError):
        calls.write(str(path), descriptor, b"x", 0)
    calls.close(descriptor)
