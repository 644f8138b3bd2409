"""How far the loading of logs is."""

from pathlib import Path

from seglog.broker.storage.directories.load_progress import DirectoryProgress, LoadProgress
from support.log_builder import append_many
from support.managed_logs import ManagedLogs


def test_every_log_of_a_directory_counts_once_it_is_loaded_or_could_not_be(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 6):
        append_many(log, 3)
    broker.kill()
    [spoiled] = list(first.glob("t-0/*.log"))
    spoiled.unlink()
    spoiled.mkdir()
    size_bytes = sum(path.stat().st_size for path in second.glob("t-*/*.log"))
    broker = ManagedLogs(first, second)
    assert len(broker.manager.offline_partitions) == 1
    at_first, at_second = broker.manager.load_progress.read()
    assert at_first[:3] == (str(first), 3, 3)
    assert at_second == (str(second), 3, 3, size_bytes)
    assert at_second.logs_remaining == 0
    broker.kill()


def test_logs_remain_until_they_are_done() -> None:
    progress = LoadProgress()
    assert progress.read() == []
    progress.expect("/data", 2)
    progress.log_done("/data", 100)
    assert progress.read() == [DirectoryProgress("/data", 1, 2, 100)]
    assert progress.read()[0].logs_remaining == 1
