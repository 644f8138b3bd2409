"""Deleted records stay deleted when their log goes offline, and its directory does not."""

import errno
from pathlib import Path

import pytest

from seglog.broker.storage.errors import error_from_os
from seglog.protocol.types import TopicPartition
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import NOW_MS, append_many
from support.managed_logs import ManagedLogs

NAME = TopicPartition("t", 0)


def broker_with_deleted_records(folder: Path) -> ManagedLogs:
    """A broker whose partition t-0 begins at 5, within its only segment; that is on disk."""
    broker = ManagedLogs(folder)
    for log in broker.create_topic("t", 2):
        append_many(log, 9)
    log = broker.log("t")
    log.set_high_watermark(9)
    assert log.follow_log_start(5)
    broker.checkpoint()
    return broker


def lose(broker: ManagedLogs) -> None:
    log = broker.log("t")
    (log_dir,) = broker.manager.log_dirs
    denied = OSError(errno.EACCES, "Permission denied")
    broker.manager.failures.report(log_dir, error_from_os("append to", "it", denied), log)
    assert log_dir.is_writable_now
    assert NAME in broker.manager.offline_partitions


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "kill"])
def test_log_that_goes_offline_keeps_its_start(tmp_path: Path, clean: bool) -> None:
    broker = broker_with_deleted_records(tmp_path)
    lose(broker)
    broker.checkpoint()
    broker.stop() if clean else broker.kill()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.log_start == 5
    broker.stop()


def test_log_that_cannot_be_opened_keeps_its_start(tmp_path: Path) -> None:
    broker_with_deleted_records(tmp_path).stop()
    (tmp_path / "t-0").chmod(0o755)  # a change of rights: its log is looked at
    disk = FaultyFileSystem()
    disk.calls.fail("read", error=errno.EACCES, path_part="t-0/", times=None)
    broker = ManagedLogs(tmp_path, file_system=disk)
    assert NAME in broker.manager.offline_partitions
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.log_start == 5
    broker.stop()


def test_start_of_an_offline_log_goes_with_its_topic(tmp_path: Path) -> None:
    """Another topic of the name begins at 0."""
    broker = broker_with_deleted_records(tmp_path)
    lose(broker)
    broker.checkpoint()
    broker.delete_topic("t")
    broker.remove_files(NOW_MS)
    broker.create_topic("t")
    broker.checkpoint()
    lose(broker)
    broker.checkpoint()
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.log_start == 0
    broker.stop()
