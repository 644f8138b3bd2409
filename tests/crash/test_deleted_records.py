"""Deleted records stay deleted: what was acknowledged holds, whenever the power fails later."""

import shutil
from pathlib import Path

import pytest

from support.log_builder import NOW_MS, append_many, base_offsets, offsets_of, read_all
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
    log.flush()
    broker.checkpoint()
    target = base_offsets(log)[2]
    log.delete_records_before(target)
    broker.checkpoint()  # acknowledged
    acknowledged = len(disk.changes)
    broker.manager.housekeeping.run_retention(NOW_MS, only=None, dry_run=False)
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
    broker.manager.housekeeping.run_retention(NOW_MS, only=None, dry_run=False)
    start = len(disk.changes)
    broker.remove_files(NOW_MS + 60_000)
    lines = disk.change_lines(start)
    assert lines[0] == lines[-1] == "sync_directory t-0"
    assert sum(line.startswith("unlink") for line in lines[1:-1]) >= 6
