"""One data directory."""

import logging
from pathlib import Path

import pytest

from seglog.broker.storage.directories.log_dir import LogDir, remove_directory_tree
from seglog.broker.storage.errors import FileError, LockedError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.protocol.types import TopicPartition
from support.failing_disk import FailingDisk

_T0 = TopicPartition("t", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> LogDir:
    return LogDir(OsFileSystem(), str(tmp_path))


def test_a_missing_directory_stops_the_start(tmp_path: Path) -> None:
    log_dir = LogDir(OsFileSystem(), str(tmp_path / "a/b"))
    log_dir.lock()
    assert (tmp_path / "a/b").is_dir()
    with pytest.raises(LockedError):
        LogDir(OsFileSystem(), str(tmp_path / "a/b")).lock()
    log_dir.unlock()


def test_a_crash_while_loading_counts_as_a_clean_stop(log_dir: LogDir, tmp_path: Path) -> None:
    """The marker goes as soon as it was seen."""
    assert not log_dir.take_clean_marker()
    log_dir.write_clean_marker()
    marker = tmp_path / ".kafka_cleanshutdown"
    assert marker.read_text() == '{"version":0,"brokerEpoch":-1}'
    assert log_dir.take_clean_marker()
    assert not marker.exists()
    assert log_dir.stopped_cleanly


@pytest.mark.parametrize("content", [b"", b"\0" * 30, b'{"vers', b'{"version":99}'])
def test_a_damaged_marker_costs_a_recovery(log_dir: LogDir, tmp_path: Path, content: bytes) -> None:
    """Only its existence matters; C029."""
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    assert log_dir.take_clean_marker()


@pytest.mark.parametrize("content", [b"\0" * 12, b"0\n2\nt 0 5\n", b"0\n1\nt 0", b"99\n1\nt 0 5\n"])
def test_a_damaged_checkpoint_is_believed_or_stops_the_start(
    log_dir: LogDir, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """C029: the log names file and action."""
    for name in (
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    ):
        (tmp_path / name).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert log_dir.read_recovery_points() == {}
        assert log_dir.read_log_starts() == {}
        assert log_dir.read_high_watermarks() == {}
    assert f"{tmp_path}/recovery-point-offset-checkpoint" in caplog.text
    assert "action=recover-from-start" in caplog.text
    assert log_dir.recovery_points.job({}) is not None


def test_checkpoints_are_lost(log_dir: LogDir, tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    assert log_dir.read_recovery_points() == {_T0: 5}
    assert log_dir.recovery_points.job({_T0: 5}) is None


def test_a_damaged_identity_stops_the_start(log_dir: LogDir, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"\0" * 100)
    assert log_dir.read_identity() is None


def test_a_failed_directory_is_used_again(log_dir: LogDir) -> None:
    log_dir.set_offline(FileError("sync", "/x", "broken"))
    log_dir.set_offline(FileError("sync", "/y", "later"))
    assert not log_dir.is_online
    assert "sync /x: broken" in str(log_dir.offline_reason)


def test_a_marker_that_cannot_be_removed_is_passed_over(tmp_path: Path) -> None:
    disk = FailingDisk()
    log_dir = LogDir(OsFileSystem(disk), str(tmp_path))
    log_dir.write_clean_marker()
    disk.broken.add(".kafka_cleanshutdown")
    with pytest.raises(FileError):
        log_dir.take_clean_marker()


def test_a_folder_that_is_half_gone_cannot_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.log").write_bytes(b"x")
    (folder / "inner/b").write_bytes(b"x")
    remove_directory_tree(OsFileSystem(), str(folder))
    assert not folder.exists()
    remove_directory_tree(OsFileSystem(), str(folder))
