"""Deleted records stay deleted: what was acknowledged holds, whenever the power fails later."""

import random
import shutil
from pathlib import Path

import pytest

from support.disk_model import Cut
from support.examples import first_ones_fast
from support.log_builder import (
    NOW_MS,
    append,
    append_many,
    base_offsets,
    flush_log,
    offsets_of,
    read_all,
)
from support.managed_logs import ManagedLogs, collected
from support.recording_file_system import Keep, RecordingFileSystem


@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.EVERYTHING, 1, 2, 3])
def test_deleted_records_do_not_come_back_with_a_power_cut(
    tmp_path: Path, keep: Keep | int
) -> None:
    """DEL-8: retention takes the segments away, checkpoints are written, the files are removed."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordingFileSystem(root)
    broker = ManagedLogs(root, file_system=disk)
    (log,) = broker.create_topic("t", 1, {"segment.bytes": "400"})
    append_many(log, 12, value_bytes=40)
    flush_log(log)
    broker.checkpoint()
    target = base_offsets(log)[2]
    log.delete_records_before(target)
    broker.checkpoint()  # acknowledged
    acknowledged = len(disk.changes)
    broker.run_retention()
    assert base_offsets(log)[0] == target
    for _ in range(2):
        for job in collected(broker.manager.housekeeping.log_start_steps):
            job.run()
        broker.checkpoint()
    assert broker.remove_files(NOW_MS + 60_000) == 1
    for job in collected(broker.manager.housekeeping.log_start_steps):
        job.run()
    assert "t 0" not in (root / "log-start-offset-checkpoint").read_text()
    for change in range(acknowledged, len(disk.changes) + 1):
        left = disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
        again = ManagedLogs(left)
        assert offsets_of(read_all(again.log("t"))) == list(range(target, 12))
        assert again.log("t").offsets.log_start == target
        again.kill()
        shutil.rmtree(left)


def test_the_folder_is_synced_when_files_were_removed(tmp_path: Path) -> None:
    """S7: both the new names, before the files go, and that they are gone."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordingFileSystem(root)
    broker = ManagedLogs(root, file_system=disk)
    (log,) = broker.create_topic("t", 1, {"segment.bytes": "400"})
    append_many(log, 12, value_bytes=40)
    log.delete_records_before(base_offsets(log)[2])
    broker.run_retention()
    start = len(disk.changes)
    broker.remove_files(NOW_MS + 60_000)
    lines = disk.change_lines(start)
    assert lines[0] == lines[-1] == "sync_directory t-0"
    assert sum(line.startswith("unlink") for line in lines[1:-1]) >= 6


@pytest.mark.parametrize("is_synced_before", first_ones_fast(1, [False, True]))
def test_segments_taken_in_one_turn_leave_no_hole_where_names_have_no_order(
    tmp_path: Path, is_synced_before: bool
) -> None:
    """INV-3, RET-12: any of them may be back, whole or torn, without those between them."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordingFileSystem(root)
    broker = ManagedLogs(root, file_system=disk)
    (log,) = broker.create_topic("t", 1, {"segment.bytes": "400", "retention.bytes": "300"})
    disk.sync_directory(log.directory)
    broker.checkpoint()  # the recovery point stays at 0 on disk
    append_many(log, 16, value_bytes=40)
    if is_synced_before:
        flush_log(log)
    begun = len(disk.changes)
    assert len(broker.run_retention()) >= 3
    start = log.offsets.log_start
    if not is_synced_before:
        flush_log(log)
        begun = len(disk.changes)
    for job in collected(broker.manager.housekeeping.log_start_steps):
        job.run()
    broker.remove_files(NOW_MS + 60_000)
    for seed, change in enumerate([*range(begun, len(disk.changes) + 1)] * 4):
        cut = Cut(random.Random(seed), 512, names_in_order=False)
        left = disk.after_power_cut(tmp_path / "after", changes=change, keep=cut)
        again = ManagedLogs(left)
        found = again.log("t")
        assert found.offsets.log_end == 16, (seed, change)
        assert found.offsets.log_start in ([0, start] if is_synced_before else [start])
        assert offsets_of(read_all(found)) == [*range(found.offsets.log_start, 16)], (seed, change)
        again.kill()
        shutil.rmtree(left)


@pytest.mark.parametrize("keep", [Keep.NOTHING, 1])
def test_power_cut_after_retention_forgets_no_producer(tmp_path: Path, keep: Keep | int) -> None:
    """IDEM-14: its records are gone, and only the snapshot of the roll knows it."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordingFileSystem(root)
    broker = ManagedLogs(root, file_system=disk, log_retention_ms=1000)
    (log,) = broker.create_topic("t", 1)
    append(log, producer_id=7, sequence=0)
    flush_log(log)
    broker.checkpoint()
    begun = len(disk.changes)
    later_ms = NOW_MS + 2000
    broker.run_retention(later_ms)
    assert base_offsets(log) == [1]
    broker.remove_files(later_ms + 60_000)
    broker.checkpoint()
    for change in range(begun, len(disk.changes) + 1):
        left = disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
        again = ManagedLogs(left)
        assert append(again.log("t"), producer_id=7, sequence=0).is_duplicate, change
        again.kill()
        shutil.rmtree(left)
