"""Open descriptors stay below their limit, and none is closed under somebody's hands."""

import errno
import os
import threading
from pathlib import Path

import pytest

from seglog.broker.storage.errors import NoDescriptorError
from seglog.broker.storage.files.file_pool import HandlePool
from seglog.broker.storage.files.file_system import FileSlice, LogFile, OsFileSystem
from seglog.broker.storage.segment.offset_index import OffsetIndex
from support.faulty_file_system import FaultyFileSystem
from support.open_descriptors import open_descriptors


def make_files(file_system: OsFileSystem, directory: Path, count: int) -> list[LogFile]:
    return [
        file_system.open_log(str(directory / f"{number}.log"), create=True)
        for number in range(count)
    ]


def test_a_thousand_files_exhaust_the_descriptors(tmp_path: Path) -> None:
    """C032: 1000 logs with data file and index, 40 descriptors."""
    file_system = OsFileSystem(max_open_files=40)
    files = make_files(file_system, tmp_path, 1000)
    indexes = [
        OffsetIndex(file_system, str(tmp_path / f"{n}.index"), 0, 4096, create=True)
        for n in range(1000)
    ]
    for round_number in range(2):
        for number, (file, index) in enumerate(zip(files, indexes, strict=True)):
            file.append(b"%06d" % number)
            index.append(round_number + 1, number)
            if number % 100 == 0:
                assert open_descriptors(tmp_path) <= 40
    for number, (file, index) in enumerate(zip(files, indexes, strict=True)):
        assert file.read(0, 12) == b"%06d" % number * 2
        assert index.lookup(5) == (2, number)
    for file, index in zip(files, indexes, strict=True):
        file.close()
        index.close()
    assert open_descriptors(tmp_path) == 0
    assert file_system.open_files == 0


def test_slice_in_flight_is_evicted(tmp_path: Path) -> None:
    file_system = OsFileSystem(max_open_files=4)
    files = make_files(file_system, tmp_path, 40)
    for number, file in enumerate(files):
        file.append(b"%04d" % number)
    slices = [FileSlice(file, 0, 4) for file in files]  # more than the limit, all pinned
    for file in files:
        file.append(b"more")
    assert [os.pread(one.fileno(), 4, 0) for one in slices] == [b"%04d" % n for n in range(40)]
    for one in slices:
        one.release()
    make_files(file_system, tmp_path, 41)[40].append(b"x")
    assert file_system.open_files <= 5


def test_busy_file_is_closed_before_an_idle_one(tmp_path: Path) -> None:
    """Second chance: what was used since the last look stays."""
    file_system = OsFileSystem(max_open_files=8)
    busy, *others = make_files(file_system, tmp_path, 50)
    busy.append(b"x")
    handle = busy.acquire()
    handle.unpin()
    for file in others:
        busy.append(b"x")
        file.append(b"x")
    assert handle.try_pin()
    handle.unpin()


def test_sockets_took_all_descriptors(tmp_path: Path) -> None:
    """When the process has no descriptor left, idle files give theirs up."""

    class Exhausted(FaultyFileSystem):
        pass

    file_system = Exhausted(max_open_files=10)
    files = make_files(file_system, tmp_path, 10)
    for file in files[:9]:
        file.append(b"x")
    failures = [OSError(errno.EMFILE, "Too many open files")]
    real_open = file_system.calls.open

    def open_once_failing(path: str) -> int:
        if failures:
            raise failures.pop()
        return real_open(path)

    file_system.calls.open = open_once_failing  # type: ignore[method-assign]
    files[9].append(b"x")
    assert file_system.open_files <= 6
    assert not failures


@pytest.mark.parametrize("call", ["create", "open", "sync_directory", "list_directory"])
def test_sockets_that_took_all_descriptors_fail_a_disk(tmp_path: Path, call: str) -> None:
    """C032: small files find room among the idle ones; to have none is no failed disk."""
    file_system = FaultyFileSystem(max_open_files=10)
    for file in make_files(file_system, tmp_path, 8):
        file.append(b"x")
    real = getattr(file_system.calls, call)
    failures = 1

    def failing(*arguments: object) -> object:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return real(*arguments)

    setattr(file_system.calls, call, failing)
    file_system.replace_atomically(str(tmp_path / "small"), b"content")
    assert "small" in file_system.list_directory(str(tmp_path))
    assert file_system.open_files <= 5
    assert failures == 0
    failures = 1000
    with pytest.raises(NoDescriptorError) as raised:
        replace_and_list(file_system, tmp_path)
    assert not raised.value.takes_dir_offline


def replace_and_list(file_system: OsFileSystem, directory: Path) -> None:
    file_system.replace_atomically(str(directory / "small"), b"other")
    file_system.list_directory(str(directory))


def test_evictor_closes_what_another_thread_reads(tmp_path: Path) -> None:
    """Readers in threads of their own, with a pool that evicts all the time."""
    file_system = OsFileSystem(max_open_files=3)
    files = make_files(file_system, tmp_path, 12)
    for number, file in enumerate(files):
        file.append(b"%04d" % number * 8)
    wrong: list[object] = []

    def read_all(seed: int) -> None:
        try:
            for step in range(1500):
                number = (step * seed) % len(files)
                content = files[number].read(4 * (step % 8), 4)
                if content != b"%04d" % number:
                    wrong.append((number, content))
        except Exception as error:  # noqa: BLE001  # reported below
            wrong.append(error)

    threads = [threading.Thread(target=read_all, args=(seed,)) for seed in (1, 5, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for file in files:
        file.close()
    assert open_descriptors(tmp_path) == 0


@pytest.mark.parametrize("limit", [1, 2])
def test_tiny_limit_loops_for_ever(tmp_path: Path, limit: int) -> None:
    file_system = OsFileSystem(max_open_files=limit)
    for file in make_files(file_system, tmp_path, 10) * 3:
        file.append(b"x")
    assert file_system.open_files <= limit + 1


def test_pool_takes_the_descriptors_that_sockets_need() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        assert 100 <= HandlePool().limit <= 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
