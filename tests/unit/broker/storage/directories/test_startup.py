"""What the data directories hold at the start, and what becomes of it (C029, REC-17, REC-19)."""

import logging
import shutil
from pathlib import Path

import pytest

from seglog.broker.storage.directories.scan import DuplicatePartitionError, NoDataDirectoryError
from seglog.broker.storage.directories.topic_catalog import UnreadableCatalogError
from seglog.broker.storage.errors import FileError
from seglog.protocol.types import TopicPartition
from support.log_builder import (
    DAY_MS,
    NOW_MS,
    append,
    append_many,
    flush_log,
    offsets_of,
    open_log,
    read_all,
)
from support.managed_logs import ManagedLogs


def folders_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    match how:
        case "empty":
            path.write_bytes(b"")
        case "zeros":
            path.write_bytes(bytes(len(content)))
        case "half":
            path.write_bytes(content[: len(content) // 2])
        case "version":
            first, line_feed, rest = content.partition(b"\n")
            path.write_bytes(first.replace(b"0", b"99").replace(b" 1 ", b" 99 ") + line_feed + rest)


READ_AT_START = {
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["empty", "zeros", "half", "version"])
@pytest.mark.parametrize("killed", [True, False])
def test_a_damaged_side_file_stops_the_start_or_costs_records(
    tmp_path: Path, how: str, killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """C029: every file that holds no records, one start each."""
    pristine = tmp_path / "pristine"
    broker = ManagedLogs(pristine)
    for log in broker.create_topic("t", 2, {"segment.bytes": "500", "retention.ms": "-1"}):
        append_many(log, 10)
        append(log, [b"x"], producer_id=7, sequence=0)
        log.delete_records_before(3)
    broker.checkpoint()
    if killed:
        broker.kill()
    else:
        broker.stop()
    side_files = [
        path.relative_to(pristine)
        for path in sorted(pristine.rglob("*"))
        if path.is_file() and path.suffix not in {".log", ".index", ".timeindex", ".lock"}
    ]
    assert len(side_files) > 12
    for side_file in side_files:
        directory = tmp_path / f"copy-{side_file.name}-{side_file.parent.name}"
        shutil.copytree(pristine, directory)
        damage(directory / side_file, how)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            broker = ManagedLogs(directory)
        topic = broker.catalog.get("t")
        assert topic is not None, side_file
        assert topic.configs["retention.ms"] == "-1", side_file
        for partition in (0, 1):
            found = offsets_of(read_all(broker.log("t", partition)))
            assert found[-8:] == list(range(3, 11)), side_file
        # The cleaner's checkpoint is read by the cleaner; a kill leaves no epochs behind.
        assert side_file.name not in READ_AT_START or side_file.name in caplog.text
        broker.stop()
        ManagedLogs(directory).stop()
        shutil.rmtree(directory)


def test_an_unknown_folder_is_served_or_removed(tmp_path: Path) -> None:
    """REC-19."""
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t")[0], 3)
    broker.stop()
    shutil.copytree(tmp_path / "t-0", tmp_path / "unknown-0")
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-5")
    broker = ManagedLogs(tmp_path)
    assert len(broker.manager) == 1
    assert broker.remove_files(NOW_MS + DAY_MS) == 0
    strays = [name for name in folders_in(tmp_path) if name.endswith("-stray")]
    assert sorted(name.partition(".")[0] for name in strays) == ["t-5", "unknown-0"]
    broker.stop()
    ManagedLogs(tmp_path).stop()


def test_a_folder_of_an_earlier_topic_of_the_same_name_is_served(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t")[0], 3)
    broker.stop()
    shutil.copytree(tmp_path / "t-0", tmp_path.parent / "old")
    broker = ManagedLogs(tmp_path)
    broker.delete_topic("t")
    broker.remove_files(NOW_MS + DAY_MS)
    broker.create_topic("t")
    broker.stop()
    shutil.rmtree(tmp_path / "t-0")
    shutil.copytree(tmp_path.parent / "old", tmp_path / "t-0")
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.log_end == 0
    assert len([name for name in folders_in(tmp_path) if name.endswith("-stray")]) == 1
    broker.stop()


def test_a_folder_of_kafka_cannot_be_opened(tmp_path: Path) -> None:
    """No catalog: topics come from the folders, and nothing is deleted by default retention."""
    for name in ("flights-0", "flights-1", "__consumer_offsets-3"):
        log = open_log(tmp_path / name)
        append_many(log, 5)
        log.close()
    (tmp_path / "flights-1/partition.metadata").write_text(
        "version: 0\ntopic_id: sISpdGTBQR2dIcKkPpUZ9g"
    )
    (tmp_path / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\n"
    )
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    broker = ManagedLogs(tmp_path, log_retention_ms=1000)
    assert broker.manager.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    flights = broker.catalog.get("flights")
    assert flights is not None
    assert flights.partition_count == 2
    assert flights.topic_id.hex() == "b084a97464c1411d9d21c2a43e9519f6"
    assert offsets_of(read_all(broker.log("flights", 1))) == list(range(5))
    offsets = broker.catalog.get("__consumer_offsets")
    assert offsets is not None
    assert offsets.configs["cleanup.policy"] == "compact"
    assert broker.manager.housekeeping.retention.run(NOW_MS + DAY_MS, only=None, dry_run=True) == []
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert len(broker.manager) == 6
    broker.stop()


def test_a_catalog_that_cannot_be_read_is_replaced_by_defaults(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t", 1, {"retention.ms": "-1"})
    broker.stop()
    for name in ("seglog-catalog", "seglog-catalog.copy"):
        damage(tmp_path / name, "half")
    with pytest.raises(UnreadableCatalogError):
        ManagedLogs(tmp_path)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    for name in ("seglog-catalog", "seglog-catalog.copy"):
        (tmp_path / name).unlink()
    broker = ManagedLogs(tmp_path)
    topic = broker.catalog.get("t")
    assert topic is not None
    assert topic.configs["retention.ms"] == "-1"
    broker.stop()


def test_a_topic_that_only_the_damaged_copy_knew_is_lost(tmp_path: Path) -> None:
    """A kill between the first copy and the second, and damage to the first."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("old")
    older = (tmp_path / "seglog-catalog.copy").read_bytes()
    append_many(broker.create_topic("new", 2)[1], 3)
    broker.kill()
    (tmp_path / "seglog-catalog.copy").write_bytes(older)
    damage(tmp_path / "seglog-catalog", "half")
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("new", 1))) == [0, 1, 2]
    assert broker.catalog.get("old") is not None
    broker.stop()


@pytest.mark.parametrize(
    "name",
    ["backup", "t-x", "t-99999999999", "-1", "a-b-delete", "#recycle", "System Volume Information"],
)
def test_a_foreign_folder_is_named_and_left_alone(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """U28: it may be a partition whose name was damaged, but keeps no other from being served."""
    ManagedLogs(tmp_path).stop()
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text("x")
    ManagedLogs(tmp_path).stop()
    assert f"event=foreign-folder-ignored path={tmp_path / name}" in caplog.text
    assert (tmp_path / name / "file").read_text() == "x"


def test_half_written_state_files_of_a_killed_broker_are_gone_after_the_start(
    tmp_path: Path,
) -> None:
    """A checkpoint in which nothing changes is not written again, and would keep its leftover."""
    ManagedLogs(tmp_path).stop()
    own = {path.name for path in tmp_path.iterdir()} - {".lock", "seglog-reserve"}
    names = {*own, "cleaner-offset-checkpoint", "log-start-offset-checkpoint"}
    for name in names:
        (tmp_path / f"{name}.tmp").write_text("0\n1\n")
    (tmp_path / "notes.tmp").write_text("of the operator")
    (tmp_path / "meta.properties.tmp").unlink(missing_ok=True)
    (tmp_path / "meta.properties.tmp").mkdir()
    broker = ManagedLogs(tmp_path)
    left = sorted(path.name for path in tmp_path.glob("*.tmp"))
    broker.stop()
    assert len(own) > 3
    assert left == ["meta.properties.tmp", "notes.tmp"]


@pytest.mark.parametrize("other", [False, True])
def test_a_folder_full_of_something_else_is_refused_and_nothing_left_in_it(
    tmp_path: Path, *, other: bool
) -> None:
    """U14: ``log.dirs=/etc``, alone or behind a good one."""
    etc, good = tmp_path / "etc", tmp_path / "good"
    (etc / "ssl").mkdir(parents=True)
    (etc / "passwd").write_text("x")
    with pytest.raises(NoDataDirectoryError, match=r"holds 'ssl' .*make an empty"):
        ManagedLogs(*([good, etc] if other else [etc]))
    assert sorted(path.name for path in etc.iterdir()) == ["passwd", "ssl"]
    assert not good.exists()
    (etc / "meta.properties").write_text("")
    ManagedLogs(etc).stop()


def test_a_disk_with_folders_of_the_system_alone_becomes_a_data_directory(tmp_path: Path) -> None:
    for name in ("lost+found", "#recycle", "System Volume Information", ".Trash-1000"):
        (tmp_path / name).mkdir()
    ManagedLogs(tmp_path).stop()


@pytest.mark.parametrize(
    "name", ["lost+found", ".snapshot", ".Trash-1000", "remote-log-index-cache"]
)
def test_a_folder_of_the_system_stops_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    broker = ManagedLogs(tmp_path)
    assert len(broker.manager) == 0
    broker.stop()
    assert (tmp_path / name).exists()


def test_a_topic_with_a_dot_in_front_is_taken_for_trash(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic(".t")[0], 3)
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert broker.log(".t").offsets.log_end == 3
    broker.stop()


def test_one_of_two_folders_of_a_partition_is_chosen_by_chance(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 2):
        append_many(log, 1)
    broker.stop()
    for name in ("t-0", "t-1"):
        if not (second / name).exists():
            shutil.copytree(first / name, second / name)
    with pytest.raises(DuplicatePartitionError, match=r"t-\d is in"):
        ManagedLogs(first, second)


@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("records", [0, 3])
def test_a_double_that_holds_nothing_keeps_no_broker_down(
    tmp_path: Path, where: str, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What a creation that failed has left on a failed disk is set aside, and kept."""
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 2):
        append_many(log, records)
    there = {name: next(tmp_path.glob(f"*/{name}")) for name in ("t-0", "t-1")}
    other_name = next(name for name, path in there.items() if path.parent.name != where)
    double = tmp_path / where / other_name
    double.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (double / f"{0:020}{suffix}").touch()
    broker.stop()
    broker = ManagedLogs(first, second)
    assert [log.offsets.log_end for log in broker.manager.all_logs()] == [records] * 2
    [stray] = tmp_path.glob("*/*-stray")
    assert list(stray.iterdir())
    assert not list(stray.glob("*.log")) or not (stray / f"{0:020}.log").stat().st_size
    assert "reason=empty-double" in caplog.text
    broker.stop()


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_that_was_moved_by_hand_loses_what_is_behind_a_gap(
    tmp_path: Path, *, clean: bool
) -> None:
    """Its checkpoints stayed behind: all of it is verified, and gaps of compactions are kept."""
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    logs = broker.create_topic("t", 2, {"segment.bytes": "300"})
    for log in logs:
        append_many(log, 12)
        flush_log(log)
    broker.checkpoint()
    (moved,) = (log for log in logs if log.directory.startswith(f"{first}/"))
    number, bases = moved.topic_partition.partition, moved.segments.base_offsets
    assert len(bases) > 3
    (broker.stop if clean else broker.kill)()
    for path in (first / f"t-{number}").glob(f"{bases[1]:020}.*"):
        path.unlink()  # as a compaction may have done, while that was the policy
    shutil.move(first / f"t-{number}", second / f"t-{number}")
    broker = ManagedLogs(first, second)
    found = broker.log("t", number)
    assert found.offsets.log_end == 12
    gone = range(bases[1], bases[2])
    assert [each.offset for each in read_all(found)] == [n for n in range(12) if n not in gone]
    broker.stop()


@pytest.mark.parametrize("with_another", [False, True])
def test_a_directory_comes_back_with_a_topic_that_was_deleted_meanwhile(
    tmp_path: Path, *, with_another: bool
) -> None:
    """MGR-6, REC-17: its folders go, and one of the same name does not keep the broker down."""
    first, second = tmp_path / "a", tmp_path / "b"
    broker = ManagedLogs(first, second)
    for log in broker.create_topic("t", 2):
        append_many(log, 3)
    lost = broker.manager.log_dirs[1]
    broker.manager.failures.report(lost, FileError("sync", "x", "broken"))
    broker.delete_topic("t")
    if with_another:
        append_many(broker.create_topic("t", 2)[1], 5)
    broker.stop()
    broker = ManagedLogs(first, second)
    assert folders_in(second)[0].endswith("-stray" if with_another else "-delete")
    assert [str(log.topic_partition) for log in broker.manager.all_logs()] == (
        ["t-0", "t-1"] if with_another else []
    )
    if with_another:
        assert len(read_all(broker.log("t", 1))) == 5
    broker.stop()


FUTURE = "t-1.0123456789abcdef0123456789abcdef-future"


def test_a_partition_of_which_only_a_copy_is_left_is_offline_until_it_is_renamed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = ManagedLogs(tmp_path)
    for log in broker.create_topic("t", 2):
        append_many(log, 3)
    broker.stop()
    (tmp_path / "t-1").rename(tmp_path / FUTURE)
    broker = ManagedLogs(tmp_path)
    assert [log.topic_partition.partition for log in broker.manager.all_logs()] == [0]
    reason = broker.manager.offline_partitions[TopicPartition("t", 1)]
    assert f"rename {tmp_path}/{FUTURE} to {tmp_path}/t-1 " in reason
    assert "event=only-copy-left log=t-1" in caplog.text
    assert not (tmp_path / "t-1").exists()
    broker.stop()
    (tmp_path / FUTURE).rename(tmp_path / "t-1")
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("t", 1))) == [0, 1, 2]
    broker.stop()


@pytest.mark.parametrize("reason", ["empty", "of an earlier topic", "beside its own folder"])
def test_a_copy_that_is_not_missed_keeps_no_partition_offline(tmp_path: Path, reason: str) -> None:
    broker = ManagedLogs(tmp_path)
    log, other = broker.create_topic("t", 2)
    append_many(log, 3)
    append_many(other, 3)
    broker.stop()
    shutil.copytree(tmp_path / "t-1", tmp_path / FUTURE)
    if reason != "beside its own folder":
        shutil.rmtree(tmp_path / "t-1")
    if reason == "empty":
        (tmp_path / FUTURE / f"{0:020}.log").write_bytes(b"")
    elif reason == "of an earlier topic":
        (tmp_path / FUTURE / "partition.metadata").write_text(
            "version: 0\ntopic_id: sISpdGTBQR2dIcKkPpUZ9g"
        )
    broker = ManagedLogs(tmp_path)
    assert not broker.manager.offline_partitions
    expected = [0, 1, 2] if reason == "beside its own folder" else []
    assert offsets_of(read_all(broker.log("t", 1))) == expected
    assert (tmp_path / FUTURE).is_dir()
    broker.stop()


def test_plain_files_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("x")
    (tmp_path / "no-number").write_text("x")
    ManagedLogs(tmp_path).stop()
