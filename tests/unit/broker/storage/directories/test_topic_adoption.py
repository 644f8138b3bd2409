"""Folders in a data directory that only look like partitions, beside C026 and C029."""

import logging
import shutil
from pathlib import Path

import pytest

from seglog.broker.storage.errors import InvalidTopicNameError
from support.log_builder import append_many, offsets_of, open_log, read_all
from support.managed_logs import ManagedLogs


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.is_dir()}


def leave_backup(directory: Path, name: str) -> Path:
    folder = directory / name
    folder.mkdir(parents=True)
    (folder / "dump.tar").write_text("precious")
    return folder


def test_a_backup_named_by_its_date_makes_twenty_million_partitions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A first start, without a catalog: the start never came to its end."""
    folder = leave_backup(tmp_path, "backup-20231201")
    with caplog.at_level(logging.WARNING):
        broker = ManagedLogs(tmp_path)
    assert not broker.catalog.topics()
    assert f"event=foreign-folder-ignored path={folder}" in caplog.text
    broker.create_topic("t")
    broker.stop()
    ManagedLogs(tmp_path).stop()
    assert names_in(tmp_path) == {"backup-20231201", "t-0"}
    assert (folder / "dump.tar").read_text() == "precious"


def test_backups_of_the_same_name_in_two_directories_stop_the_start(tmp_path: Path) -> None:
    directories = (tmp_path / "a", tmp_path / "b")
    for directory in directories:
        leave_backup(directory, "backup-1")
    ManagedLogs(*directories).stop()


def test_an_empty_folder_of_a_topic_is_not_served(tmp_path: Path) -> None:
    """A kill between making the folder and its first file: the catalog says whose it is."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t", 2)
    broker.kill()
    shutil.rmtree(tmp_path / "t-1")
    (tmp_path / "t-1").mkdir()
    broker = ManagedLogs(tmp_path)
    append_many(broker.log("t", 1), 1)
    broker.stop()
    assert names_in(tmp_path) == {"t-0", "t-1"}


@pytest.mark.parametrize("name", ["t-0-20231201", "t-0-3", "u-4000000"])
def test_a_copy_of_a_partition_becomes_a_topic(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's folder with somebody's copy in it; the copy is kept, and nothing is made below it."""
    log = open_log(tmp_path / "t-0")
    append_many(log, 3)
    log.close()
    (tmp_path / "t-0/partition.metadata").write_text("version: 0\ntopic_id: sISpdGTBQR2dIcKkPpUZ9g")
    shutil.copytree(tmp_path / "t-0", tmp_path / name)
    with caplog.at_level(logging.WARNING):
        broker = ManagedLogs(tmp_path)
    assert [topic.name for topic in broker.catalog.topics()] == ["t"]
    assert offsets_of(read_all(broker.log("t"))) == [0, 1, 2]
    assert "-not-adopted topic=" in caplog.text
    broker.stop()
    assert len(names_in(tmp_path)) == 2


def test_the_records_of_a_topic_are_gone_with_each_restart(tmp_path: Path) -> None:
    """The folder ``__cluster_metadata-0`` is Kafka's own, and passed over at the start."""
    broker = ManagedLogs(tmp_path)
    with pytest.raises(InvalidTopicNameError, match="Kafka keeps its own metadata"):
        broker.create_topic("__cluster_metadata")
    broker.stop()
