"""The leader epoch after a start that was not clean (S5, KIP-320)."""

import errno
import shutil
from pathlib import Path

import pytest

from support.faulty_file_system import FaultyFileSystem
from support.log_builder import append, flush_log
from support.managed_logs import ManagedLogs
from support.recording_file_system import Keep, RecordingFileSystem


def epoch_of(broker: ManagedLogs, topic: str = "t") -> int:
    """In which the broker leads a partition, as `Partition` takes it over."""
    log = broker.log(topic)
    return max(log.leader_epoch_floor, log.leader_epochs.latest_epoch)


def test_epoch_rises_with_each_start_that_was_not_clean(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    assert epoch_of(broker) == 0
    for expected in (1, 2, 3):
        broker.kill()
        broker = ManagedLogs(tmp_path)
        assert epoch_of(broker) == expected
    broker.stop()


@pytest.mark.parametrize("has_appended", [False, True])
def test_epoch_stays_over_clean_stops(tmp_path: Path, has_appended: bool) -> None:
    """Clients take no older epoch for true than they have seen."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    broker.kill()
    broker = ManagedLogs(tmp_path)
    if has_appended:
        append(broker.log("t"), leader_epoch=1)
    for _ in range(3):
        broker.stop()
        broker = ManagedLogs(tmp_path)
        assert epoch_of(broker) == 1
    broker.stop()


def test_partition_that_is_made_in_the_place_of_a_lost_one_has_a_later_epoch(
    tmp_path: Path,
) -> None:
    """KIP-320: a client that has seen epoch 2 takes a leader of epoch 0 for one of the past."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    for _ in range(2):
        broker.kill()
        broker = ManagedLogs(tmp_path)
    assert epoch_of(broker) == 2
    broker.kill()
    shutil.rmtree(tmp_path / "t-0")
    broker = ManagedLogs(tmp_path)
    assert epoch_of(broker) == 3
    broker.create_topic("u")
    assert epoch_of(broker, "u") == 3
    broker.stop()


def test_epoch_is_above_that_of_every_log(tmp_path: Path) -> None:
    """Of those that another broker has led, too."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    append(broker.log("t"), leader_epoch=57)
    flush_log(broker.log("t"))
    broker.create_topic("u")
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert epoch_of(broker, "t") == epoch_of(broker, "u") == 58
    broker.stop()


def test_tail_that_was_lost_and_written_anew_has_another_epoch(tmp_path: Path) -> None:
    """Twice, and nothing but the floor has reached the disk in between."""
    root = tmp_path / "disk"
    root.mkdir()
    broker = ManagedLogs(root)
    broker.create_topic("t")
    append(broker.log("t"), leader_epoch=0)
    broker.stop()
    seen = []
    for number in range(3):
        disk = RecordingFileSystem(root)
        broker = ManagedLogs(root, file_system=disk)
        seen.append(epoch_of(broker))
        assert append(broker.log("t"), leader_epoch=seen[-1]).first_offset == 1
        root = disk.after_power_cut(tmp_path / f"cut-{number}", keep=Keep.NOTHING)
        broker.kill()
    assert seen == [0, 1, 2]


def test_damaged_floor_is_found_from_the_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    append(broker.log("t"), leader_epoch=5)
    flush_log(broker.log("t"))
    broker.kill()
    (tmp_path / "seglog-leader-epoch").write_bytes(b"\0\0\n")
    broker = ManagedLogs(tmp_path)
    assert epoch_of(broker) == 6
    assert "event=file-damaged" in caplog.text
    broker.stop()


def test_records_wait_until_the_epoch_of_a_start_on_a_full_disk_is_stored(tmp_path: Path) -> None:
    """S5: else the next start would begin the same epoch, and nobody could tell the two apart."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    broker.kill()
    disk = FaultyFileSystem()
    disk.calls.fail(path_part="seglog-leader-epoch", error=errno.ENOSPC, times=None)
    broker = ManagedLogs(tmp_path, file_system=disk)
    (log_dir,) = broker.manager.log_dirs
    epoch = epoch_of(broker)
    assert log_dir.refusal is not None
    assert "leader epoch" in log_dir.refusal
    log_dir.store_leader_epoch_floor()
    assert log_dir.refusal is not None
    disk.calls.heal()
    log_dir.store_leader_epoch_floor()
    assert log_dir.refusal is None
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert epoch_of(broker) == epoch + 1
    broker.stop()
