"""The leader epoch cache."""

import threading
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DiskFullError
from seglog.broker.storage.files.checkpoint import EpochEntry, LeaderEpochCheckpointFile
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.broker.storage.log.leader_epochs import UNDEFINED_EPOCH_END, LeaderEpochCache
from support.faulty_file_system import FaultyFileSystem


@pytest.fixture
def file(tmp_path: Path) -> LeaderEpochCheckpointFile:
    return LeaderEpochCheckpointFile(OsFileSystem(), str(tmp_path / "leader-epoch-checkpoint"))


def assign(cache: LeaderEpochCache, epoch: int, start_offset: int) -> bool:
    """Note an epoch and put it on disk, if it is news."""
    is_new = cache.note(epoch, start_offset)
    cache.begin_write().write()
    return is_new


@pytest.fixture
def cache(file: LeaderEpochCheckpointFile) -> LeaderEpochCache:
    cache = LeaderEpochCache(file)
    for epoch, start in ((2, 10), (4, 20), (7, 30)):
        assign(cache, epoch, start)
    return cache


def test_epoch_is_forgotten_by_a_crash(
    cache: LeaderEpochCache, file: LeaderEpochCheckpointFile
) -> None:
    """EPOCH-2: on disk when it was written."""
    assert LeaderEpochCache(file, file.read()).entries == cache.entries == (
        (2, 10), (4, 20), (7, 30),
    )  # fmt: skip
    assert not cache.has_unwritten_changes


def test_known_epoch_is_written_again(tmp_path: Path) -> None:
    """EPOCH-1: every append asks."""
    file_system = FaultyFileSystem()
    cache = LeaderEpochCache(LeaderEpochCheckpointFile(file_system, str(tmp_path / "e")))
    assert assign(cache, 1, 5)
    writes = file_system.calls.total
    assert not assign(cache, 1, 5)
    assert not assign(cache, 1, 100)
    assert file_system.calls.total == writes


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        ((7, 29), [(2, 10), (4, 20), (7, 29)]),
        ((8, 30), [(2, 10), (4, 20), (8, 30)]),
        ((8, 25), [(2, 10), (4, 20), (8, 25)]),
        ((8, 15), [(2, 10), (8, 15)]),
        ((4, 40), [(2, 10), (4, 40)]),
        ((3, 40), [(2, 10), (3, 40)]),
        ((1, 5), [(1, 5)]),
        ((9, 0), [(9, 0)]),
    ],
)
def test_contradicting_epochs_stay(
    cache: LeaderEpochCache, assigned: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    """EPOCH-2."""
    assert assign(cache, *assigned)
    assert list(cache.entries) == expected


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_negative_epoch_is_kept(cache: LeaderEpochCache, epoch: int, start: int) -> None:
    """EPOCH-3."""
    with pytest.raises(ValueError, match="negative"):
        assign(cache, epoch, start)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, UNDEFINED_EPOCH_END),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 99)),
        (8, UNDEFINED_EPOCH_END),
    ],
)
def test_end_of_an_epoch_is_wrong(
    cache: LeaderEpochCache, epoch: int, expected: tuple[int, int]
) -> None:
    """EPOCH-4."""
    assert cache.end_offset_for(epoch, 99) == expected


def test_empty_cache_knows_an_epoch(file: LeaderEpochCheckpointFile) -> None:
    cache = LeaderEpochCache(file)
    assert cache.end_offset_for(0, 5) == UNDEFINED_EPOCH_END
    assert cache.latest_epoch == -1
    assert cache.earliest_entry is None
    assert cache.epoch_for_offset(0) is None
    assert not cache.truncate_from_end(0)
    assert not cache.truncate_from_start(0)


def test_epoch_of_an_offset_is_wrong(cache: LeaderEpochCache) -> None:
    assert [cache.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 1000)] == [
        None, 2, 2, 4, 7,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "kept"), [(31, 3), (30, 2), (29, 2), (20, 1), (10, 0), (0, 0), (-1, 3)]
)
def test_truncation_from_the_end_keeps_too_much(
    cache: LeaderEpochCache, offset: int, kept: int
) -> None:
    """EPOCH-5; TRUNC-1 for offsets at the log end."""
    before = cache.entries
    assert cache.truncate_from_end(offset) == (kept < 3)
    assert cache.entries == before[:kept]
    assert cache.has_unwritten_changes == (kept < 3)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (9, [(2, 10), (4, 20), (7, 30)]),
        (10, [(2, 10), (4, 20), (7, 30)]),
        (15, [(2, 15), (4, 20), (7, 30)]),
        (20, [(4, 20), (7, 30)]),
        (25, [(4, 25), (7, 30)]),
        (99, [(7, 99)]),
    ],
)
def test_truncation_from_the_start_forgets_the_covering_epoch(
    cache: LeaderEpochCache,
    file: LeaderEpochCheckpointFile,
    offset: int,
    expected: list[tuple[int, int]],
) -> None:
    """EPOCH-5: the epoch that covers the log start stays; the file is written later."""
    changed = cache.truncate_from_start(offset)
    assert list(cache.entries) == expected
    assert changed == (offset > 10)
    if changed:
        assert file.read() != expected
        cache.begin_write().write()
    assert file.read() == expected


def test_clear_leaves_an_epoch(cache: LeaderEpochCache, file: LeaderEpochCheckpointFile) -> None:
    """EPOCH-6."""
    cache.clear()
    assert cache.entries == ()
    assert cache.has_unwritten_changes
    cache.begin_write().write()
    assert file.read() == []


def test_full_disk_forgets_that_the_file_is_old(tmp_path: Path) -> None:
    file_system = FaultyFileSystem()
    file = LeaderEpochCheckpointFile(file_system, str(tmp_path / "e"))
    cache = LeaderEpochCache(file, [EpochEntry(1, 5)])
    file_system.calls.free_bytes = 0
    with pytest.raises(DiskFullError):
        assign(cache, 2, 9)
    assert cache.has_unwritten_changes
    assert cache.latest_epoch == 2
    file_system.calls.heal()
    cache.begin_write().write()
    assert file.read() == [(1, 5), (2, 9)]


def test_moved_folder_gets_the_old_file(cache: LeaderEpochCache, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    cache.moved(str(tmp_path / "moved" / "leader-epoch-checkpoint"))
    assign(cache, 9, 90)
    assert (tmp_path / "moved" / "leader-epoch-checkpoint").read_text().endswith("9 90\n")


def test_write_begun_before_a_cut_leaves_the_newer_epochs(
    cache: LeaderEpochCache, file: LeaderEpochCheckpointFile
) -> None:
    """T3: a flush collects the epochs, the log is truncated, and only then does the flush write."""
    cache.note(8, 40)
    before = cache.begin_write()
    cache.truncate_from_end(30)
    assert cache.begin_write().write()
    assert not before.write()
    assert file.read() == [(2, 10), (4, 20)]


def test_writers_of_one_file_take_turns(tmp_path: Path) -> None:
    """T3: the loop begins a leadership while a worker flushes."""
    entered, go_on = threading.Event(), threading.Event()

    class SlowCalls(SystemCalls):
        def rename(self, source: str, target: str) -> None:
            entered.set()
            assert go_on.wait(30)
            super().rename(source, target)

    file = LeaderEpochCheckpointFile(OsFileSystem(SlowCalls()), str(tmp_path / "e"))
    cache = LeaderEpochCache(file)
    cache.note(1, 10)
    first = threading.Thread(target=cache.begin_write().write)
    first.start()
    assert entered.wait(30)
    cache.note(2, 20)
    second = threading.Thread(target=cache.begin_write().write)
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert file.read() == [(1, 10), (2, 20)]
    assert not cache.has_unwritten_changes
