"""Recovery that takes segments away, itself cut short; and ends of segments that a cut has lost."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.files.layout import segment_path
from seglog.broker.storage.log.log import Log
from support.examples import first_ones_fast
from support.log_builder import (
    KEEP,
    append,
    append_many,
    base_offsets,
    flush_log,
    offsets_of,
    open_log,
    read_all,
)
from support.recording_file_system import Keep, RecordingFileSystem

SMALL = replace(KEEP, segment_bytes=350, segment_index_bytes=1200)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))


def written(directory: Path) -> Log:
    """A log of 14 records in segments of three, which is closed again."""
    log = open_log(directory, SMALL)
    append_many(log, 14, value_bytes=40)
    assert base_offsets(log) == [0, 3, 6, 9, 12]
    log.abandon()
    return log


def damage(log: Log, base_offset: int, position: int) -> None:
    """Change one byte of a data file."""
    path = Path(segment_path(log.directory, base_offset, ".log"))
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def shorten(log: Log, base_offset: int, batches: int) -> None:
    """Take batches off the end of a data file of three."""
    path = Path(segment_path(log.directory, base_offset, ".log"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3 * (3 - batches)])


@pytest.mark.parametrize("keep", [Keep.EVERYTHING, Keep.NOTHING, 1, 2, 3, 4])
def test_crash_while_recovery_removes_segments_ends_at_the_same_offset(
    tmp_path: Path, keep: Keep | int
) -> None:
    """REC-3, REC-4: a kill, and a power cut, after each change of the recovery."""
    (tmp_path / "disk").mkdir()
    damage(written(tmp_path / "disk" / "log"), base_offset=3, position=130)
    disk = RecordingFileSystem(tmp_path / "disk")
    again = open_log(tmp_path / "disk" / "log", SMALL, file_system=disk)
    assert offsets_of(read_all(again)) == [0, 1, 2, 3]
    assert base_offsets(again) == [0, 3]
    again.abandon()
    for change in range(len(disk.changes) + 1):
        target = disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
        log = open_log(target / "log", SMALL)
        assert (offsets_of(read_all(log)), log.offsets.log_end) == ([0, 1, 2, 3], 4), change
        log.abandon()
        shutil.rmtree(target)


def test_segments_go_from_the_highest_down_and_are_gone_before_the_cut(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    damage(written(tmp_path / "disk" / "log"), base_offset=3, position=130)
    disk = RecordingFileSystem(tmp_path / "disk")
    open_log(tmp_path / "disk" / "log", SMALL, file_system=disk)
    lines = [
        line for line in disk.change_lines() if line.endswith(".log") or "sync_directory" in line
    ]
    data_file = "log/00000000000000000003.log"
    expected = [
        *(f"unlink log/{base:020d}.log" for base in (12, 9, 6)),
        "sync_directory log",
        f"sync {data_file}",
    ]
    assert [line for line in lines if line in expected] == expected
    cut = next(line for line in disk.change_lines() if line.startswith(f"truncate {data_file}"))
    assert disk.change_lines().index("sync_directory log") < disk.change_lines().index(cut)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_log_ends_where_the_end_of_a_segment_is_lost_and_the_next_is_there(
    tmp_path: Path, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    """REC-4: whole batches are missing, so that no checksum tells."""
    shorten(written(tmp_path / "log"), base_offset=6, batches=lost)
    log = open_log(tmp_path / "log", SMALL, recovery_point=4)
    assert offsets_of(read_all(log)) == list(range(9 - lost))
    assert log.offsets.log_end == 9 - lost
    assert "event=end-of-segment-lost" in caplog.text
    assert append(log).first_offset == 9 - lost


def test_gap_that_compaction_may_have_made_is_kept(tmp_path: Path) -> None:
    """Below the recovery point or the log start, compacted, or without any recovery point."""
    shorten(written(tmp_path / "log"), base_offset=6, batches=2)
    kept = [*range(7), *range(9, 14)]
    for number, (config, recovery_point, log_start) in enumerate(
        [(SMALL, 10, 0), (SMALL, 0, 9), (COMPACTED, 0, 0), (SMALL, None, 0)]
    ):
        folder = shutil.copytree(tmp_path / "log", tmp_path / f"{number}")
        log = open_log(folder, config, recovery_point=recovery_point, log_start=log_start)
        start = log.offsets.log_start
        assert offsets_of(read_all(log)) == [offset for offset in kept if offset >= start]
        assert log.offsets.log_end == 14


def test_log_that_was_compacted_once_keeps_its_gaps(tmp_path: Path) -> None:
    """A gap within a segment says so, whatever the policy is today."""
    log = written(tmp_path / "log")
    shorten(log, base_offset=6, batches=2)
    path = Path(segment_path(log.directory, 0, ".log"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3] + content[len(content) // 3 * 2 :])
    log = open_log(tmp_path / "log", SMALL)
    assert offsets_of(read_all(log)) == [0, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13]


@pytest.mark.parametrize("seed", first_ones_fast(4, range(12)))
def test_power_cut_above_the_recovery_point_leaves_no_hole(tmp_path: Path, seed: int) -> None:
    """INV-2: whichever files have reached the disk, the log is a beginning of what was written."""
    (tmp_path / "disk" / "log").mkdir(parents=True)
    disk = RecordingFileSystem(tmp_path / "disk")
    log = open_log(tmp_path / "disk" / "log", SMALL, file_system=disk)
    append_many(log, 5, value_bytes=40)
    flush_log(log)
    append_many(log, 25, value_bytes=40)
    disk.sync_directory(log.directory)  # the names are there, as a journal leaves them
    generator = random.Random(seed)
    for _ in range(20):
        keep = generator.randrange(1 << 30)
        target = disk.after_power_cut(tmp_path / "after", keep=keep)
        again = open_log(target / "log", SMALL, recovery_point=5)
        log_end = again.offsets.log_end
        assert log_end >= 5
        assert offsets_of(read_all(again)) == list(range(log_end)), keep
        again.abandon()
        shutil.rmtree(target)
