"""Retention over many logs, the disk guard, checkpoints and flushes."""

import errno
import shutil
from pathlib import Path

import pytest

from seglog.broker.storage.directories.data_directories import NoUsableDirectoryError
from seglog.broker.storage.directories.log_dir import LogDirJob
from seglog.broker.storage.directories.retention_plan import RetentionFinding
from seglog.broker.storage.errors import FileError, MissingFileError, StorageError
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import FetchIsolation, Log
from support.failing_disk import FailingDisk
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import DAY_MS, NOW_MS, append, append_many, flush_log, offsets_of, read_all
from support.managed_logs import ManagedLogs, collected

SMALL = {"segment.bytes": "1000"}


def fill(log: Log, segments: int, *, first_ms: int = NOW_MS, step_ms: int = 1000) -> None:
    """Seal segments of about 1 KB, each ``step_ms`` younger than the one before."""
    for number in range(segments):
        append(log, [b"v" * 900], timestamps_ms=first_ms + number * step_ms)


def reasons(findings: list[RetentionFinding]) -> list[tuple[str, int, str]]:
    return [(f.topic_partition.topic, f.base_offset, f.reason) for f in findings]


def test_a_dry_run_deletes(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path, log_retention_ms=1000)
    log = broker.create_topic("t", 1, SMALL)[0]
    fill(log, 3, first_ms=NOW_MS - DAY_MS)
    housekeeping = broker.manager.housekeeping
    found = housekeeping.retention.run(NOW_MS, only=None, dry_run=True)
    assert reasons(found) == [("t", offset, "retention.ms") for offset in (0, 1, 2)]
    assert log.offsets.log_start == 0
    assert broker.run_retention(NOW_MS, only=["u"]) == []
    assert broker.run_retention(NOW_MS, only=["t"]) == found
    assert log.offsets.log_start == 3
    assert broker.run_retention(NOW_MS) == []
    broker.kill()


def test_segments_are_said_to_be_deleted_that_are_there(tmp_path: Path) -> None:
    """RET-12: the names find no room in the directory; who asked is told what is really gone."""
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk, log_retention_ms=1000)
    log = broker.create_topic("t", 1, SMALL)[0]
    fill(log, 4, first_ms=NOW_MS - DAY_MS)
    disk.calls.fail("rename", path_part=f"{2:020}.log", error=errno.ENOSPC)
    housekeeping = broker.manager.housekeeping
    found = broker.run_retention(NOW_MS)
    assert [each.base_offset for each in found] == [0, 1]
    assert housekeeping.retention.deleted_segments["retention.ms"] == 2
    found = broker.run_retention(NOW_MS)
    assert [each.base_offset for each in found] == [2, 3]
    broker.kill()


def test_nobody_hears_of_timestamps_ahead_of_the_clock_that_hold_retention_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RET-5: once for each segment that is the oldest, by the task as it runs."""
    broker = ManagedLogs(tmp_path, log_retention_ms=1000)
    log = broker.create_topic("t", 1, SMALL)[0]
    fill(log, 2, first_ms=NOW_MS + 1_800_000)
    for _ in range(3):
        assert broker.run_retention(NOW_MS) == []
    assert caplog.text.count("event=future-timestamps") == 1
    assert "base_offset=0" in caplog.text
    broker.kill()


def test_files_go_at_once_or_never(tmp_path: Path) -> None:
    """RET-12; a reader that has begun finishes."""
    broker = ManagedLogs(tmp_path, log_retention_bytes=0)
    log = broker.create_topic("t", 1, SMALL)[0]
    fill(log, 3)
    read = log.read(0, 10_000, isolation=FetchIsolation.LOG_END)
    assert read.slice is not None
    broker.run_retention()
    folder = tmp_path / "t-0"
    assert len(list(folder.glob("*.log.deleted"))) == 2
    assert broker.remove_files(NOW_MS + 59_999) == 0
    assert broker.remove_files(NOW_MS + 60_000) == 1
    assert list(folder.glob("*.deleted")) == []
    assert len(read.slice.read()) > 900
    read.slice.release()
    broker.stop()
    assert broker.manager.log_dirs[0].bytes_pending_deletion == 0


def test_a_topic_outgrows_its_total_limit(tmp_path: Path) -> None:
    """The oldest segments of all partitions go first, whole ones, never below the limit."""
    broker = ManagedLogs(tmp_path)
    old, young = broker.create_topic("t", 2, {**SMALL, "retention.bytes.total": "4000"})
    fill(old, 4, first_ms=NOW_MS, step_ms=10)
    fill(young, 4, first_ms=NOW_MS + 15, step_ms=10)
    size = old.segments.active.size_bytes
    findings = broker.run_retention()
    gone = [(f.topic_partition.partition, f.base_offset) for f in findings]
    assert gone == [(0, 0), (0, 1), (1, 0)]
    kept = old.segment_bytes_total + young.segment_bytes_total
    assert 4000 <= kept < 4000 + size
    assert {f.reason for f in findings} == {"retention.bytes.total"}
    counted = broker.manager.housekeeping
    assert counted.retention.deleted_segments == {"retention.bytes.total": 3}
    assert counted.retention.deleted_bytes == {"retention.bytes.total": 3 * size}
    assert broker.run_retention() == []
    broker.kill()


@pytest.mark.parametrize("limit", ["retention.bytes.total", "log.dir.bytes.max"])
def test_records_from_the_future_are_not_spared_at_the_cost_of_others(
    tmp_path: Path, limit: str
) -> None:
    """U11: their segments count as old as their files."""
    broker = ManagedLogs(tmp_path, log_dir_bytes_max=3000 if limit == "log.dir.bytes.max" else -1)
    configs = {**SMALL, "message.timestamp.after.max.ms": str(2**62)}
    if limit == "retention.bytes.total":
        configs[limit] = "3000"
    future, innocent = broker.create_topic("t", 2, configs)
    fill(future, 5, first_ms=NOW_MS + 4000 * DAY_MS)
    for segment in list(future.segments)[:-1]:
        segment.files.set_modified_ms(NOW_MS - 1000)
    fill(innocent, 2, first_ms=NOW_MS - 10)
    findings = broker.run_retention()
    assert {(each.topic_partition.partition, each.reason) for each in findings} == {(0, limit)}
    assert innocent.offsets.log_start == 0
    broker.kill()


def test_a_partition_that_the_future_holds_is_named(tmp_path: Path) -> None:
    """U11: until its oldest segment is of the past."""
    broker = ManagedLogs(tmp_path, log_retention_ms=1000)
    held, _ = broker.create_topic("t", 2, {**SMALL, "message.timestamp.after.max.ms": str(2**62)})
    fill(held, 2, first_ms=NOW_MS + DAY_MS)
    housekeeping = broker.manager.housekeeping
    broker.run_retention(NOW_MS)
    assert housekeeping.retention.held_by_future == [held.topic_partition]
    broker.run_retention(NOW_MS + 3 * DAY_MS)
    assert housekeeping.retention.held_by_future == []
    broker.kill()


def test_the_active_segment_or_unseen_records_go_for_the_total_limit(tmp_path: Path) -> None:
    """RET-2."""
    broker = ManagedLogs(tmp_path)
    log = broker.create_topic("t", 1, {**SMALL, "retention.bytes.total": "0"})[0]
    fill(log, 2)
    append(log, [b"v" * 900], committed=False)
    append(log, [b"v" * 900], committed=False)
    broker.run_retention()
    assert log.offsets.log_start == 2
    log.set_high_watermark(log.offsets.log_end)
    broker.run_retention()
    assert log.segments.base_offsets == [3]
    broker.kill()


def test_logs_that_are_compacted_too_are_left_to_the_cleaner(tmp_path: Path) -> None:
    """RET-8, RET-14: it has no rule of retention."""
    broker = ManagedLogs(tmp_path)
    log = broker.create_topic("t", 1, {**SMALL, "cleanup.policy": "compact,delete"})[0]
    fill(log, 3)
    log.delete_records_before(2)
    assert len(broker.run_retention(NOW_MS)) == 2
    broker.kill()


def test_a_data_directory_grows_beyond_its_limit(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path, log_dir_bytes_max=5000)
    old, young = broker.create_topic("old", 1, SMALL)[0], broker.create_topic("young", 1, SMALL)[0]
    fill(young, 3, first_ms=NOW_MS)
    fill(old, 4, first_ms=NOW_MS - DAY_MS)
    log_dir = broker.manager.log_dirs[0]
    dry = broker.manager.housekeeping.retention.run(NOW_MS, only=None, dry_run=True)
    assert log_dir.refuses_writes is None
    findings = broker.guard_disks(NOW_MS)
    assert findings == dry
    assert reasons(findings) == [
        ("old", 0, "log.dir.bytes.max"),
        ("old", 1, "log.dir.bytes.max"),
    ]
    assert old.segment_bytes_total + young.segment_bytes_total <= 5000
    assert log_dir.refuses_writes is None
    assert broker.remove_files(NOW_MS) == 1, "space that is needed now does not wait a minute"
    assert broker.guard_disks(NOW_MS) == []
    broker.kill()


def test_a_full_directory_takes_more_or_refuses_for_ever(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path, log_dir_bytes_max=1500)
    kept = broker.create_topic("kept", 1, {**SMALL, "cleanup.policy": "compact"})[0]
    fill(kept, 3)
    log_dir = broker.manager.log_dirs[0]
    assert broker.guard_disks(NOW_MS) == []
    assert log_dir.refuses_writes is not None
    assert "log.dir.bytes.max is 1500" in log_dir.refuses_writes
    kept.delete_records_before(2)
    broker.run_retention(NOW_MS)
    assert log_dir.refuses_writes is None
    broker.kill()


def test_free_space_falls_below_the_mark(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path, log_dir_free_bytes_min=10_000)
    log = broker.create_topic("t", 1, SMALL)[0]
    fill(log, 5)
    log_dir = broker.manager.log_dirs[0]
    broker.free_bytes = 10_000
    assert broker.guard_disks(NOW_MS) == []
    broker.free_bytes = 9_000
    assert len(broker.guard_disks(NOW_MS)) == 2
    assert broker.guard_disks(NOW_MS) == [], "what is about to go counts as free"
    broker.free_bytes = 1_000
    broker.remove_files(NOW_MS)
    assert len(broker.guard_disks(NOW_MS)) == 2
    assert log_dir.refuses_writes is not None
    assert "log.dir.free.bytes.min is 10000" in log_dir.refuses_writes
    config = broker.config.with_dynamic({"log.dir.free.bytes.min": "0"})
    broker.manager.update_config(config, broker.catalog)
    broker.guard_disks(NOW_MS)
    assert log_dir.refuses_writes is None
    broker.kill()


def test_a_broken_disk_stops_retention_everywhere(tmp_path: Path) -> None:
    """MGR-6."""
    first, second = tmp_path / "a", tmp_path / "b"
    disk = FailingDisk()
    broker = ManagedLogs(first, second, file_system=OsFileSystem(disk), log_retention_bytes=0)
    logs = broker.create_topic("t", 2, SMALL)
    for log in logs:
        fill(log, 3)
    disk.broken.add(f"{first}/")
    broker.run_retention()
    [lost] = broker.manager.offline_partitions
    assert broker.manager.get(lost) is None
    [kept] = broker.manager.all_logs()
    assert len(kept.segments) == 1
    fill(kept, 3)
    disk.broken.add(f"{second}/")
    none_left: list[StorageError] = []
    broker.manager.failures.on_none_left = none_left.append
    broker.run_retention()
    assert isinstance(none_left[0], NoUsableDirectoryError)
    broker.kill()


def test_a_log_is_not_synced_when_its_time_has_come(tmp_path: Path) -> None:
    """FLUSH-1."""
    broker = ManagedLogs(tmp_path)
    plain = broker.create_topic("plain")[0]
    timed = broker.create_topic("timed", 1, {"flush.ms": "1000"})[0]
    append_many(plain, 1)
    append_many(timed, 1)
    assert not plain.is_flush_due(NOW_MS + 5000)
    assert not timed.is_flush_due(NOW_MS + 999)
    assert timed.is_flush_due(NOW_MS + 1000)
    flush_log(timed)
    assert not timed.is_flush_due(NOW_MS + 5000)
    broker.kill()


def test_retention_takes_one_log_after_the_other(tmp_path: Path) -> None:
    """S10: between two steps others run, and a topic may go; no step is for more than one log."""
    broker = ManagedLogs(tmp_path, log_retention_ms=1000, log_dir_bytes_max=1 << 30)
    for log in broker.create_topic("t", 20, SMALL):
        fill(log, 3, first_ms=NOW_MS - DAY_MS)
    for log in broker.create_topic("u", 5, SMALL):
        fill(log, 3, first_ms=NOW_MS - DAY_MS)
    findings: list[RetentionFinding] = []
    housekeeping = broker.manager.housekeeping
    steps = housekeeping.retention.steps(NOW_MS, findings, only=None, dry_run=False)
    looked_at = 0
    for _ in steps:
        gone = {finding.topic_partition for finding in findings}
        assert len(gone) <= looked_at + 1
        looked_at = len(gone)
        if looked_at == 10 and broker.catalog.get("t") is not None:
            broker.delete_topic("t")
    assert len({each.topic_partition for each in findings}) == 10 + 5
    assert findings == sorted(findings)
    broker.kill()


def test_no_segment_goes_whose_log_start_is_not_on_disk(tmp_path: Path) -> None:
    """DEL-8: two runs of retention find segments of one log, the second one while the first waits.

    The second one has begun to plan before the first found anything.
    """
    broker = ManagedLogs(tmp_path, log_retention_ms=1000)
    broker.create_topic("a", 1, SMALL)
    [log] = broker.create_topic("t", 1, SMALL)
    fill(log, 4, first_ms=NOW_MS - DAY_MS, step_ms=3000)
    retention = broker.manager.housekeeping.retention
    later: list[RetentionFinding] = []
    steps = retention.steps(NOW_MS, later, only=["a", "t"], dry_run=False)
    next(steps)
    found = retention.run(NOW_MS - DAY_MS + 2000, only=["t"], dry_run=False)
    assert [each.base_offset for each in found] == [0]
    on_disk = log.offsets.log_start
    for _ in steps:  # the checkpoint with the log start of the first run is being written
        pass
    retention.take_away([log], NOW_MS)
    assert log.segments.base_offsets[0] <= on_disk
    broker.run_retention(NOW_MS)
    assert log.segments.base_offsets == [4]
    broker.kill()


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_topic_deleted_between_two_slices_is_in_no_checkpoint(
    tmp_path: Path, *, is_made_anew: bool
) -> None:
    """S10: its recovery point would be taken for that of a later topic of the same name."""
    broker = ManagedLogs(tmp_path)
    for log in [*broker.create_topic("t", 60), *broker.create_topic("u", 60)]:
        append_many(log, 3)
        flush_log(log)
    jobs: list[LogDirJob] = []
    steps = broker.manager.housekeeping.recovery_point_steps(jobs)
    next(steps)
    next(steps)
    broker.delete_topic("t")
    if is_made_anew:
        broker.create_topic("t", 60)
    for _ in steps:
        pass
    for job in jobs:
        job.run()
    file = OffsetCheckpointFile(OsFileSystem(), f"{tmp_path}/recovery-point-offset-checkpoint")
    found = file.read()
    assert {topic_partition.topic for topic_partition, offset in found.items() if offset} == {"u"}
    assert len(found) >= 60
    broker.kill()


def test_offsets_are_collected_of_a_few_logs_at_a_time(tmp_path: Path) -> None:
    """S10: log starts of 10,000 partitions took 32 to 40 ms in one turn."""
    broker = ManagedLogs(tmp_path)
    broker.create_topic("t", 220)
    housekeeping = broker.manager.housekeeping
    jobs: list[LogDirJob] = []
    for steps in (
        housekeeping.recovery_point_steps,
        housekeeping.log_start_steps,
        housekeeping.high_watermark_steps,
    ):
        assert len(list(steps(jobs))) >= 4
    broker.kill()


def test_an_incomplete_collection_of_a_directory_that_fails_is_not_written(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path / "a", tmp_path / "b")
    broker.create_topic("t", 120)
    jobs: list[LogDirJob] = []
    steps = broker.manager.housekeeping.high_watermark_steps(jobs)
    next(steps)
    lost = broker.manager.log_dirs[0]
    broker.manager.failures.report(lost, FileError("sync", "x", "broken"))
    for _ in steps:
        pass
    assert [job.log_dir for job in jobs] == [broker.manager.log_dirs[1]]
    broker.kill()


def test_an_idle_broker_writes_checkpoints_for_ever(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t")[0], 3)
    broker.checkpoint()
    names = [name for name in tmp_path.iterdir() if name.name.endswith("-checkpoint")]
    before = {path: path.stat().st_mtime_ns for path in names}
    broker.checkpoint()
    assert {path: path.stat().st_mtime_ns for path in names} == before
    assert collected(broker.manager.housekeeping.high_watermark_steps) == []
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.high_watermark == 3
    broker.kill()


def test_checkpoints_are_written_below_a_disk_that_was_unmounted(tmp_path: Path) -> None:
    """Nothing is made in the bare mount point, at a stop neither; the directory goes offline."""
    data = tmp_path / "data"
    broker = ManagedLogs(data)
    append_many(broker.create_topic("t")[0], 3)
    data.rename(tmp_path / "unmounted")
    data.mkdir()
    housekeeping = broker.manager.housekeeping
    jobs = [*housekeeping.checkpoint_jobs(), *collected(housekeeping.recovery_point_steps)]
    assert len(jobs) >= 2
    for job in jobs:
        with pytest.raises(MissingFileError, match="unmounted") as caught:
            job.run()
        assert caught.value.takes_dir_offline
    broker.stop()
    assert list(data.iterdir()) == []


def test_topics_are_made_below_a_disk_that_was_unmounted(tmp_path: Path) -> None:
    """Neither catalog nor folders; they would be hidden again as soon as the disk is back."""
    first, second = tmp_path / "first", tmp_path / "second"
    broker = ManagedLogs(first, second)
    broker.create_topic("t", 2)
    second.rename(tmp_path / "unmounted")
    second.mkdir()
    broker.create_topic("u", 4)
    assert list(broker.manager.offline_partitions) == [("t", 1)]
    assert [log_dir.is_online for log_dir in broker.manager.log_dirs] == [True, False]
    broker.create_topic("v")
    assert list(second.iterdir()) == []
    broker.stop()
    assert list(second.iterdir()) == []


def test_a_folder_that_somebody_removed_takes_its_directory_offline(tmp_path: Path) -> None:
    """By hand, while the broker runs; then its topic is deleted."""
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t", 2)[1], 3)
    shutil.rmtree(tmp_path / "t-0")
    broker.delete_topic("t")
    assert not broker.manager.offline_partitions
    assert broker.manager.log_dirs[0].is_online
    append_many(broker.create_topic("t")[0], 3)
    broker.stop()


def test_a_start_offset_at_a_segment_base_is_checkpointed(tmp_path: Path) -> None:
    """DEL-8."""
    broker = ManagedLogs(tmp_path)
    log = broker.create_topic("t", 1, SMALL)[0]
    fill(log, 4)
    log.delete_records_before(2)
    broker.checkpoint()
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\nt 0 2\n"
    broker.run_retention()
    broker.checkpoint()
    assert checkpoint.read_text() == "0\n1\nt 0 2\n", "a power cut may still bring segments back"
    for job in collected(broker.manager.housekeeping.log_start_steps):
        job.run()
    broker.checkpoint()
    assert checkpoint.read_text() == "0\n0\n"
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("t"))) == [2, 3]
    broker.kill()
