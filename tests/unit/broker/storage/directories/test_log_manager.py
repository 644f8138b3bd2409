"""All logs of a broker: start, stop, creation, deletion, failures."""

from pathlib import Path

import pytest

from seglog.broker.storage.directories.data_directories import NoUsableDirectoryError
from seglog.broker.storage.errors import (
    DiskFullError,
    FileError,
    LockedError,
    MissingFileError,
    StorageError,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import parent_directory
from seglog.broker.storage.log.log import Log
from seglog.config import BrokerConfig, ConfigError
from seglog.protocol.types import TopicPartition
from support.failing_disk import FailingDisk
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import NOW_MS, append_many, flush_log, names_in, offsets_of, read_all
from support.managed_logs import ManagedLogs, collected

MARKER = ".kafka_cleanshutdown"


def lose(broker: ManagedLogs, log: Log) -> None:
    """Let a file of one log be gone, as if by hand."""
    error = MissingFileError("open", log.directory, "no such file")
    broker.manager.failures.report(broker.manager.log_dir_of(log), error, log)


def folders_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def test_a_restart_loses_records_or_topics(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t", 2, {"segment.bytes": "500"})[1], 20)
    broker.stop()
    assert (tmp_path / MARKER).exists()
    broker = ManagedLogs(tmp_path)
    assert not (tmp_path / MARKER).exists()
    log = broker.log("t", 1)
    assert log.config.segment_bytes == 500
    assert offsets_of(read_all(log)) == list(range(20))
    assert log.offsets.recovery_point == log.offsets.high_watermark == 20
    broker.kill()


def test_a_killed_broker_loses_records(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t", 1, {"segment.bytes": "500"})[0], 20)
    broker.kill()
    assert not (tmp_path / MARKER).exists()
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("t"))) == list(range(20))
    broker.kill()


def test_every_restart_adds_files(tmp_path: Path) -> None:
    """C032."""
    broker = ManagedLogs(tmp_path)
    for log in broker.create_topic("t", 20):
        append_many(log, 1)
    broker.stop()
    counts = []
    for _ in range(3):
        ManagedLogs(tmp_path).stop()
        counts.append(len(list(tmp_path.rglob("*"))))
    assert len(set(counts)) == 1


def test_a_second_broker_changes_files(tmp_path: Path) -> None:
    """C076, MGR-2."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    before = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    with pytest.raises(LockedError, match="process"):
        ManagedLogs(tmp_path)
    after = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert after == before
    broker.kill()
    ManagedLogs(tmp_path).kill()


def test_one_of_several_directories_is_locked_and_the_others_stay_so(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path / "b")
    with pytest.raises(LockedError):
        ManagedLogs(tmp_path / "a", tmp_path / "b")
    ManagedLogs(tmp_path / "a").kill()
    broker.kill()


def test_the_same_folder_twice_locks_itself_out(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError, match="same folder"):
        ManagedLogs(tmp_path / "a", tmp_path / "b")


def test_partitions_pile_up_in_one_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    broker.create_topic("t", 5)
    assert {len(folders_in(first)), len(folders_in(second))} == {2, 3}
    broker.create_topic("u", 3)
    assert len(folders_in(first)) == len(folders_in(second)) == 4
    broker.kill()


def test_a_directory_counts_as_full_of_partitions_that_it_does_not_have(tmp_path: Path) -> None:
    """Those that went offline one by one, and those whose making was taken back."""
    first, second = tmp_path / "first", tmp_path / "second"
    disk = FailingDisk()
    broker = ManagedLogs(first, second, file_system=OsFileSystem(disk))
    for log in broker.create_topic("t", 4)[:3:2]:
        lose(broker, log)
    disk.full.add("u-2/")
    with pytest.raises(DiskFullError):
        broker.create_topic("u", 3)
    broker.catalog.delete_topic("u")
    made = broker.create_topic("v", 2)
    assert [parent_directory(log.directory) for log in made] == [str(first)] * 2
    broker.kill()


def test_new_partitions_go_where_no_record_is_taken(tmp_path: Path) -> None:
    """The disk guard refuses records in the directory with the fewest partitions."""
    first, second = tmp_path / "first", tmp_path / "second"
    broker = ManagedLogs(first, second)
    broker.create_topic("t", 5)
    full = broker.manager.log_dirs[1]
    full.refuses_writes = "log.dir.bytes.max is exceeded"
    made = broker.create_topic("u", 3)
    assert {parent_directory(log.directory) for log in made} == {str(first)}
    full.refuses_writes = None
    made = broker.create_topic("v", 3)
    assert {parent_directory(log.directory) for log in made} == {str(second)}
    broker.kill()


def test_new_partitions_keep_away_from_a_full_disk(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = ManagedLogs(first, second)
    broker.create_topic("t", 5)
    full = broker.manager.log_dirs[1]
    full.note_full()
    made = broker.create_topic("u", 3)
    assert {parent_directory(log.directory) for log in made} == {str(first)}
    full.note_room()
    made = broker.create_topic("v", 3)
    assert {parent_directory(log.directory) for log in made} == {str(second)}
    broker.kill()


def test_a_cordoned_directory_gets_partitions(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second, cordoned_log_dirs=(str(first),))
    broker.create_topic("t", 3)
    assert folders_in(first) == []
    changed = broker.config.with_dynamic({"cordoned.log.dirs": "*"})
    broker.manager.update_config(changed, broker.catalog)
    with pytest.raises(NoUsableDirectoryError, match="cordoned"):
        broker.create_topic("u")
    broker.kill()


def test_a_deleted_topic_blocks_its_name_or_comes_back(tmp_path: Path) -> None:
    """MGR-3."""
    broker = ManagedLogs(tmp_path, log_segment_delete_delay_ms=1000)
    append_many(broker.create_topic("t", 2)[0], 5)
    broker.delete_topic("t")
    assert broker.manager.get(TopicPartition("t", 0)) is None
    assert all(name.endswith("-delete") for name in folders_in(tmp_path))
    broker.create_topic("t")
    assert broker.log("t").offsets.log_end == 0
    assert broker.remove_files(NOW_MS + 999) == 0
    assert broker.remove_files(NOW_MS + 1000) == 2
    assert folders_in(tmp_path) == ["t-0"]
    broker.stop()


def test_the_folders_of_a_deleted_topic_stay_for_ever_after_a_crash(tmp_path: Path) -> None:
    """REC-17, and a stop between the catalog and the renaming."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t", 2)
    broker.create_topic("u")
    broker.delete_topic("u")
    broker.catalog.delete_topic("t")
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert len(broker.manager) == 0
    assert all(name.endswith("-delete") for name in folders_in(tmp_path))
    assert broker.remove_files(NOW_MS) == 3
    assert folders_in(tmp_path) == []
    broker.stop()


@pytest.mark.parametrize("restart", [False, True])
def test_the_folder_of_an_offline_partition_outlives_its_topic(
    tmp_path: Path, *, restart: bool
) -> None:
    """MGR-3: one of its files was removed by hand, and it is not served any more."""
    first, second = tmp_path / "first", tmp_path / "second"
    broker = ManagedLogs(first, second, log_segment_delete_delay_ms=0)
    for log in broker.create_topic("t", 3):
        append_many(log, 5)
    damaged = broker.log("t", 1)
    lose(broker, damaged)
    if restart:
        broker.stop()
        data_file = Path(damaged.segments.active.log.path)
        data_file.unlink()
        data_file.mkdir()
        broker = ManagedLogs(first, second, log_segment_delete_delay_ms=0)
        assert damaged.topic_partition in broker.manager.offline_partitions
    broker.delete_topic("t")
    folders = folders_in(first) + folders_in(second)
    assert (len(folders), {name.rpartition("-")[2] for name in folders}) == (3, {"delete"})
    assert broker.remove_files(NOW_MS) == 3
    assert folders_in(first) + folders_in(second) == []
    broker.stop()


def test_checkpoints_of_a_deleted_topic_are_taken_for_a_new_one(tmp_path: Path) -> None:
    """The new log would be emptied at its old start offset, or not be recovered."""
    broker = ManagedLogs(tmp_path)
    old = broker.create_topic("t")[0]
    append_many(old, 50)
    flush_log(old)
    old.delete_records_before(40)
    broker.checkpoint()
    assert "t 0 40" in (tmp_path / "log-start-offset-checkpoint").read_text()
    broker.delete_topic("t")
    append_many(broker.create_topic("t")[0], 5)
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("t"))) == list(range(5))
    assert broker.log("t").offsets.recovery_point == 0
    broker.kill()


def test_deleted_records_come_back_after_a_kill(tmp_path: Path) -> None:
    """DEL-8, better than Kafka: the offset is on disk before the request is answered."""
    broker = ManagedLogs(tmp_path)
    log = broker.create_topic("t")[0]
    append_many(log, 50)
    log.delete_records_before(30)
    for job in collected(broker.manager.housekeeping.log_start_steps):
        job.run()
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("t"))) == list(range(30, 50))
    broker.kill()


def test_deleted_records_come_back_when_a_folder_is_moved(tmp_path: Path) -> None:
    """By hand, to another data directory, while the broker is stopped."""
    first, second = tmp_path / "first", tmp_path / "second"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 2):
        append_many(log, 10)
        log.delete_records_before(4 + log.topic_partition.partition)
    broker.stop()
    (first / "t-0").rename(second / "t-0")
    (second / "t-1").rename(first / "t-1")
    for _ in range(2):
        broker = ManagedLogs(first, second)
        for number in (0, 1):
            assert offsets_of(read_all(broker.log("t", number))) == list(range(4 + number, 10))
        broker.stop()
    assert (second / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"


def test_a_long_name_cannot_be_deleted(tmp_path: Path) -> None:
    """MGR-4."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("x" * 249, 2)
    broker.delete_topic("x" * 249)
    assert broker.remove_files(NOW_MS + 60_000) == 2
    assert folders_in(tmp_path) == []
    broker.stop()


def test_a_creation_that_fails_leaves_folders_behind(tmp_path: Path) -> None:
    disk = FailingDisk()
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(disk))
    disk.full.add("t-3")
    with pytest.raises(DiskFullError):
        broker.create_topic("t", 5)
    assert folders_in(tmp_path) == []
    assert broker.manager.log_dirs[0].is_online
    broker.kill()


def test_missing_folders_stay_missing(tmp_path: Path) -> None:
    """A crash after the catalog was written and before the folders were made."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t")
    broker.catalog.grow_topic("t", 3)
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert len(broker.manager) == 3
    assert names_in(tmp_path / "t-2", "partition.metadata") == ["partition.metadata"]
    broker.kill()


def test_a_disk_that_is_not_mounted_is_taken_for_a_new_directory(tmp_path: Path) -> None:
    """MGR-7: its partitions were made anew in the mount point, and served without any record."""
    first, second, disk = tmp_path / "first", tmp_path / "second", tmp_path / "disk"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 4):
        append_many(log, 5)
    broker.stop()
    second.rename(disk)
    for number in range(2):
        second.mkdir(exist_ok=True)
        (second / "replication-offset-checkpoint").write_text("0\n0\n")
        broker = ManagedLogs(first, second)
        assert len(broker.manager) == 2 + number
        assert len(broker.manager.offline_partitions) == 2
        reason = broker.manager.log_dirs[1].offline_reason
        assert reason is not None
        assert f"{second} is empty, and partition t-1" in reason
        broker.create_topic(f"u{number}")
        broker.stop()
        assert names_in(second) == [".lock", "replication-offset-checkpoint"]
    for path in second.iterdir():
        path.unlink()
    second.rmdir()
    disk.rename(second)
    broker = ManagedLogs(first, second)
    assert [len(read_all(broker.log("t", number))) for number in range(4)] == [5] * 4
    broker.stop()


def test_partitions_are_made_anew_without_records_when_a_directory_is_not_configured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody takes a disk out of log.dirs; put back, it held partitions a second time."""
    first, second, moved = tmp_path / "first", tmp_path / "second", tmp_path / "moved"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 4):
        append_many(log, 5)
    broker.create_topic("u", 2)
    broker.stop()
    for _ in range(2):
        broker = ManagedLogs(first)
        offline = broker.manager.offline_partitions
        assert sorted(offline) == [("t", 1), ("t", 3), ("u", 1)]
        assert f"{second}, which is not in log.dirs any more" in offline[TopicPartition("t", 1)]
        assert len(broker.create_topic(f"new{_}", 2)) == 2
        broker.stop()
    assert f"event=log-dir-away directory={second} partitions_missing=3" in caplog.text
    broker = ManagedLogs(first)
    broker.delete_topic("u")
    broker.stop()
    second.rename(moved)
    broker = ManagedLogs(first, moved)
    assert [len(read_all(broker.log("t", number))) for number in range(4)] == [5] * 4
    assert not broker.manager.offline_partitions
    broker.remove_files(NOW_MS)
    assert [name for name in folders_in(moved) if "u-1" in name] == []
    broker.stop()
    caplog.clear()
    ManagedLogs(moved, first).stop()
    assert "log-dir-away" not in caplog.text


def test_a_directory_without_partitions_is_missed(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = ManagedLogs(first, second)
    broker.create_topic("t")
    broker.stop()
    broker = ManagedLogs(first)
    assert broker.manager.are_all_there
    broker.catalog.grow_topic("t", 2)
    broker.kill()
    broker = ManagedLogs(first)
    assert len(broker.manager) == 2
    broker.stop()


def test_a_new_directory_is_not_used_beside_the_old_ones(tmp_path: Path) -> None:
    """Nothing is missing; or what is missing is given up, as the reason says how to."""
    first, second, third = tmp_path / "first", tmp_path / "second", tmp_path / "third"
    broker = ManagedLogs(first)
    broker.create_topic("t", 2)
    broker.stop()
    broker = ManagedLogs(first, second)
    broker.create_topic("u", 4)
    assert [log_dir.is_online for log_dir in broker.manager.log_dirs] == [True, True]
    broker.stop()
    third.mkdir()
    (third / "meta.properties").touch()
    broker = ManagedLogs(first, third)
    assert (len(broker.manager), len(broker.manager.offline_partitions)) == (6, 0)
    broker.stop()


def test_new_settings_do_not_reach_logs_that_are_open(tmp_path: Path) -> None:
    """MGR-5."""
    broker = ManagedLogs(tmp_path)
    own, plain = (
        broker.create_topic("own", 1, {"segment.bytes": "500"})[0],
        broker.create_topic("p")[0],
    )
    changed = broker.config.with_dynamic({"log.segment.bytes": "777"})
    broker.manager.update_config(changed, broker.catalog)
    assert (own.config.segment_bytes, plain.config.segment_bytes) == (500, 777)
    broker.manager.update_topic_config("own", changed.log_config({"segment.bytes": "99"}))
    assert own.config.segment_bytes == 99
    broker.kill()


def test_one_failed_directory_takes_the_others_with_it(tmp_path: Path) -> None:
    """MGR-6, REC-18."""
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    logs = broker.create_topic("t", 4)
    for log in logs:
        append_many(log, 3)
    lost = broker.manager.log_dir_of(logs[0])
    gone: list[TopicPartition] = []
    broker.manager.failures.on_lost = gone.extend
    broker.manager.failures.report(lost, FileError("sync", "x", "broken"))
    assert len(gone) == 2
    assert broker.manager.get(logs[0].topic_partition) is None
    assert set(broker.manager.offline_partitions) == set(gone)
    kept = [log for log in logs if log.topic_partition not in gone]
    append_many(kept[0], 3)
    broker.create_topic("u", 1)
    assert not (Path(lost.path) / "u-0").exists()
    broker.stop()
    assert not (Path(lost.path) / MARKER).exists()
    other = second if lost.path == str(first) else first
    assert (other / MARKER).exists()


def test_the_last_directory_fails_and_the_broker_pretends_to_go_on(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    none_left: list[StorageError] = []
    broker.manager.failures.on_none_left = none_left.append
    broker.manager.failures.report(broker.manager.log_dirs[0], FileError("sync", "x", "broken"))
    assert isinstance(none_left[0], NoUsableDirectoryError)
    assert "broken" in str(none_left[0])
    broker.kill()


def test_a_directory_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    broker.create_topic("t", 4)
    broker.stop()
    disk = FailingDisk()
    disk.broken.add(f"{second}/t-")
    broker = ManagedLogs(first, second, file_system=OsFileSystem(disk))
    assert len(broker.manager) == 2
    assert len(broker.manager.offline_partitions) == 2
    assert [log_dir.is_online for log_dir in broker.manager.log_dirs] == [True, False]
    none_left: list[StorageError] = []
    broker.manager.failures.on_none_left = none_left.append
    broker.manager.failures.report(broker.manager.log_dirs[0], FileError("x", "y", "z"))
    assert isinstance(none_left[0], NoUsableDirectoryError)
    broker.kill()


def test_a_known_partition_is_made_anew_while_its_directory_is_away(tmp_path: Path) -> None:
    """MGR-7: it may live there, with records."""
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    broker.create_topic("t", 2)
    broker.stop()
    disk = FailingDisk()
    disk.broken.add(f"{second}/")
    broker = ManagedLogs(first, second, file_system=OsFileSystem(disk))
    assert len(broker.manager) == 1
    assert len(broker.manager.offline_partitions) == 1
    assert len(folders_in(first)) == 1
    broker.create_topic("new")
    broker.stop()


def test_a_log_that_cannot_be_closed_is_marked_as_clean(tmp_path: Path) -> None:
    """FLUSH-7."""
    first, second = tmp_path / "a", tmp_path / "b"
    disk = FailingDisk()
    broker = ManagedLogs(first, second, file_system=OsFileSystem(disk))
    logs = broker.create_topic("t", 2)
    for log in logs:
        append_many(log, 3)
    bad = parent_directory(logs[0].directory)
    disk.broken.add(f"{bad}/t-")
    broker.stop()
    marked = {path.parent for path in tmp_path.rglob(MARKER)}
    assert marked == {first, second} - {Path(bad)}


def test_stopping_during_the_start_costs_a_recovery(tmp_path: Path) -> None:
    ManagedLogs(tmp_path).stop()
    ManagedLogs(tmp_path, load=False).stop()
    assert (tmp_path / MARKER).exists()


def test_a_full_disk_stops_the_start(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t")[0], 5)
    broker.stop()
    (tmp_path / "seglog-catalog.copy").unlink()
    (tmp_path / "seglog-reserve").unlink()
    (tmp_path / "meta.properties").write_bytes(b"")
    disk = FailingDisk()
    disk.full.add(str(tmp_path))
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(disk))
    assert offsets_of(read_all(broker.log("t"))) == list(range(5))
    broker.stop()


def test_a_log_that_was_closed_on_a_full_disk_is_not_recovered(tmp_path: Path) -> None:
    """Its leader epochs could not be written, so the next start has to look at the batches."""
    disk = FailingDisk()
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(disk))
    append_many(broker.create_topic("t")[0], 5)
    disk.full.add("leader-epoch-checkpoint")
    broker.stop()
    assert not (tmp_path / MARKER).exists()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").leader_epochs.latest_epoch == 0
    broker.stop()


def test_a_stop_on_a_full_disk_leaves_the_reserve_for_what_frees_space(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    assert (tmp_path / "seglog-reserve").exists()
    broker.free_bytes = 1000
    broker.stop()
    assert (tmp_path / "seglog-reserve").exists()
    broker = ManagedLogs(tmp_path)
    (tmp_path / "seglog-reserve").unlink()
    for job in collected(broker.manager.housekeeping.recovery_point_steps):
        job.run()
    assert (tmp_path / "seglog-reserve").exists()
    broker.stop()


def test_who_the_node_is_changes_by_a_restart(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path, node_id=7)
    cluster_id = broker.manager.cluster_id
    broker.stop()
    (tmp_path / "meta.properties").write_bytes(b"\0" * 80)
    broker = ManagedLogs(tmp_path, node_id=7)
    assert broker.manager.cluster_id == cluster_id
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert broker.manager.node_id == 7
    broker.stop()


def test_settings_of_a_topic_that_contradict_the_brokers_have_no_name(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t", 1, {"max.compaction.lag.ms": "10"})
    broker.stop()
    with pytest.raises(ConfigError, match=r"^topic t: min\.compaction\.lag\.ms=20"):
        ManagedLogs(tmp_path, log_cleaner_min_compaction_lag_ms=20)


def test_a_delay_of_zero_hangs_the_stop(tmp_path: Path) -> None:
    """MGR-9."""
    broker = ManagedLogs(tmp_path, log_segment_delete_delay_ms=0)
    broker.create_topic("t")
    broker.delete_topic("t")
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert broker.remove_files(NOW_MS) == 1
    broker.stop()


def test_settings_made_at_run_time_are_forgotten(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    broker.catalog.alter_broker({"log.segment.bytes": "99"}, {})
    broker.stop()
    broker = ManagedLogs(tmp_path)
    config, errors = BrokerConfig().restore_dynamic(
        broker.catalog.dynamic, broker.catalog.dynamic_defaults
    )
    assert config.log_segment_bytes == 99
    assert not errors
    broker.stop()


def test_a_stop_touches_no_partition_that_nobody_wrote_to(tmp_path: Path) -> None:
    """S10: nothing is opened, written or synced for it, neither at the start nor at the stop."""
    broker = ManagedLogs(tmp_path)
    for log in broker.create_topic("t", 20, {"segment.bytes": "300"}):
        for _ in range(3):
            append_many(log, 1)
    broker.stop()
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk)
    written = broker.log("t", 3)
    append_many(written, 1)
    disk.calls.counts.clear()
    broker.stop()
    synced = disk.calls.counts["sync"]
    assert disk.calls.counts["write"] < 12
    assert synced < 12
    for _ in range(2):
        disk.calls.counts.clear()
        broker = ManagedLogs(tmp_path, file_system=disk)
        assert len(read_all(broker.log("t", 3))) == 4
        assert len(read_all(broker.log("t", 4))) == 3
        broker.stop()
        assert disk.calls.total < 20, disk.calls.counts
    broker = ManagedLogs(tmp_path)
    log = broker.log("t", 5)
    for number in range(5):
        append_many(log, 1)
        assert log.offsets.log_end == 4 + number
    broker.kill()
