"""Truncations that are cut short, and what is appended behind them: no log has a hole.

The checkpoints of the directory are written by others; here the recovery point and the log start
that a start finds are those of before, until the lower ones have been written.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.log.log import Log
from support.log_builder import (
    KEEP,
    NOW_MS,
    append_many,
    base_offsets,
    flush_log,
    offsets_of,
    open_log,
    read_all,
)
from support.recording_file_system import Keep, RecordingFileSystem

SMALL = replace(KEEP, segment_bytes=350, segment_index_bytes=1200)
KEEPS: list[Keep | int] = [Keep.EVERYTHING, Keep.NOTHING, 1, 2, 3]


class Follower:
    """A log of 12 records on a recorded disk, all of them synced."""

    def __init__(self, root: Path) -> None:
        (root / "log").mkdir(parents=True)
        self.disk = RecordingFileSystem(root)
        self.log: Log = open_log(root / "log", SMALL, file_system=self.disk)
        append_many(self.log, 12, value_bytes=40)
        flush_log(self.log)
        self.disk.sync_directory(self.log.directory)
        assert base_offsets(self.log) == [0, 3, 6, 9]
        assert self.log.offsets.recovery_point == 12

    @property
    def change(self) -> int:
        return len(self.disk.changes)

    def reopened(self, target: Path, change: int, keep: Keep | int, recovery_point: int) -> Log:
        left = self.disk.after_power_cut(target, changes=change, keep=keep)
        return open_log(left / "log", SMALL, recovery_point=recovery_point)


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path / "disk")


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("target", [0, 1, 3, 5, 11])
def test_truncation_that_is_cut_short_leaves_a_whole_log(
    follower: Follower, tmp_path: Path, target: int, keep: Keep | int
) -> None:
    """T1, TRUNC-1, TRUNC-3: a beginning of the old log that is at least as long as the new one."""
    truncation = follower.log.begin_truncation(target, NOW_MS)
    assert follower.log.offsets.recovery_point == target  # and is on disk before the log is cut
    start = follower.change
    truncation.run()
    follower.log.finish_truncation(truncation)
    end = follower.change
    for change in range(start, end + 1):
        again = follower.reopened(tmp_path / "after", change, keep, target)
        log_end = again.offsets.log_end
        assert target <= log_end <= 12
        assert offsets_of(read_all(again)) == list(range(log_end))
        assert change < end or log_end == target
        again.abandon()
        shutil.rmtree(tmp_path / "after")


@pytest.mark.parametrize("keep", KEEPS)
def test_what_is_appended_behind_a_truncation_is_verified(
    follower: Follower, tmp_path: Path, keep: Keep | int
) -> None:
    """T2, TRUNC-12: a torn tail is found, for the recovery point was lowered first."""
    truncation = follower.log.begin_truncation(2, NOW_MS)
    truncation.run()
    follower.log.finish_truncation(truncation)
    start = follower.change
    append_many(follower.log, 9, value_bytes=40)
    for change in range(start, follower.change + 1):
        again = follower.reopened(tmp_path / "after", change, keep, 2)
        log_end = again.offsets.log_end
        assert log_end >= 2
        assert offsets_of(read_all(again)) == list(range(log_end))
        again.abandon()
        shutil.rmtree(tmp_path / "after")


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("target", [0, 4, 6, 9, 12, 500])
def test_restart_that_is_cut_short_leaves_the_old_log_or_the_new_one(
    follower: Follower, tmp_path: Path, target: int, keep: Keep | int
) -> None:
    """T2, TRUNC-9: never offset 0 in the place of the new start, never a hole."""
    truncation = follower.log.begin_restart(target, NOW_MS)
    recovery_point = follower.log.offsets.recovery_point
    assert recovery_point <= target
    start = follower.change
    truncation.run()
    follower.log.finish_truncation(truncation)
    append_many(follower.log, 2)
    for change in range(start, follower.change + 1):
        again = follower.reopened(tmp_path / "after", change, keep, recovery_point)
        offsets = again.offsets
        assert offsets_of(read_all(again)) == list(range(offsets.log_start, offsets.log_end))
        assert offsets.log_end <= 12 or target <= offsets.log_start <= offsets.log_end
        again.abandon()
        shutil.rmtree(tmp_path / "after")
    assert offsets_of(read_all(follower.log)) == [target, target + 1]
    assert base_offsets(follower.log) == [target]
