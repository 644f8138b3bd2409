"""Next to the field cases C026, C029 and C032: what people do to the files of a broker by hand.

They remove segments to make room, leave copies and folders between them, move a partition to
another disk and put a link in its place, and edit checkpoints.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.eventually import eventually
from support.memory_folder import memory_folder
from support.real_broker import SHORT_PERIODS, describe, log_lines, wait_for_line
from support.stopped_logs import segment_file
from support.wires import Wire, open_wire, read_records

EARLIEST, LATEST = -2, -1
SMALL = {"segment.bytes": 3000, "file.delete.delay.ms": 0}
BAD, GOOD = "bad", "good"


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with memory_folder() as folder:
        process = RunningBroker(folder, SHORT_PERIODS)
        process.start()
        yield process
        if process.is_running:
            process.kill()


def send(wire: Wire, topic: str, count: int = 1, *, keys: int = 3, size: int = 500) -> ErrorCode:
    for number in range(count):
        record = (time.time_ns() // 1_000_000, b"k%d" % (number % keys), bytes(size), ())
        answer = wire.produce(topic, build_batch([record]))
        if answer.error != ErrorCode.NONE:
            return answer.error
    return ErrorCode.NONE


def remove_segment(broker: RunningBroker, topic: str, base_offset: int = 0) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        segment_file(broker.data_directory / f"{topic}-0", base_offset, suffix).unlink()


@pytest.mark.slow
def test_retention_goes_on_past_a_removed_segment(broker: RunningBroker) -> None:
    """RET-16: retention met a missing file and did nothing for any topic from then on."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        for topic in ("a", BAD, GOOD):
            admin.create_topic(topic, partitions=1, configs=SMALL)
            assert send(wire, topic, 20) == ErrorCode.NONE
    broker.stop()
    broker.start()
    with Admin(broker.address) as admin, open_wire("native", broker.port) as wire:
        remove_segment(broker, BAD)
        for topic in ("a", BAD, GOOD):
            admin.alter_configs("topic", topic, {"retention.ms": 1})
        # Also its own: what follows it says how old it was.
        for topic in ("a", BAD, GOOD):
            eventually(lambda topic=topic: wire.find(topic, EARLIEST).offset == 20)
        assert send(wire, BAD) == ErrorCode.NONE
        assert describe(admin, GOOD).error == ErrorCode.NONE
        wait_for_line(broker, "event=segment-file-gone")
        assert not log_lines(broker, "task-failed")
    broker.stop()
    broker.start()
    with open_wire("kafka", broker.port) as wire:
        assert wire.find(BAD, EARLIEST).offset >= 20
        assert wire.find(BAD, LATEST).offset == 21


def test_retention_passes_a_segment_that_is_already_gone(
    broker: RunningBroker,
) -> None:
    """People remove the oldest files to make room, and retention does not find them to rename."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic(BAD, partitions=1, configs=SMALL)
        assert send(wire, BAD, 20) == ErrorCode.NONE
        remove_segment(broker, BAD)
        admin.alter_configs("topic", BAD, {"retention.ms": 1})
        eventually(lambda: wire.find(BAD, EARLIEST).offset == 20)
        assert send(wire, BAD) == ErrorCode.NONE
        wait_for_line(broker, "event=segment-file-gone")


@pytest.mark.slow
def test_compaction_goes_on_past_a_log_with_a_removed_segment(broker: RunningBroker) -> None:
    """CLN-8: the log is given up, with its reason; others are compacted."""
    configs = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 1.0}
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        for topic in (BAD, GOOD):
            admin.create_topic(topic, partitions=1, configs=configs)
            assert send(wire, topic, 20) == ErrorCode.NONE
    broker.stop()
    broker.start()
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        remove_segment(broker, BAD)
        for topic in (BAD, GOOD):
            admin.alter_configs("topic", topic, {"min.cleanable.dirty.ratio": 0.01})
        eventually(lambda: len(read_records(wire, GOOD)) < 15)
        wait_for_line(broker, "event=log-uncleanable log=bad-0")
        # What cannot be read is said of the partition, and of no other in the same answer.
        found = admin.describe_partitions(include_segments=True)
        errors = {place.topic: each.error for place, each in found.items()}
        assert errors == {BAD: ErrorCode.KAFKA_STORAGE_ERROR, GOOD: ErrorCode.NONE}
        assert not log_lines(broker, "task-failed")


def test_a_removed_folder_takes_only_its_partition_offline(broker: RunningBroker) -> None:
    """MGR-6: the folder of one partition is gone, the data directory is not."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        for topic in (BAD, GOOD):
            admin.create_topic(topic, partitions=1, configs=SMALL)
            assert send(wire, topic, 2) == ErrorCode.NONE
        shutil.rmtree(broker.data_directory / f"{BAD}-0")
        assert send(wire, BAD, 20) == ErrorCode.KAFKA_STORAGE_ERROR
        assert wire.find(BAD, LATEST).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert send(wire, GOOD, 20) == ErrorCode.NONE
        wait_for_line(broker, "event=log-offline log=bad-0")
        reason = describe(admin, BAD).error_message
        assert reason is not None
        assert reason.startswith("bad-0 is offline: open "), reason
        assert reason.endswith("No such file or directory")
        admin.delete_topic(BAD)
        admin.create_topic(BAD, partitions=1)
        assert send(wire, BAD) == ErrorCode.NONE
    assert broker.stop() == 0


FOREIGN_FILES = (
    "99999999999999999999.log",  # twenty digits, but no offset
    "99999999999999999999.snapshot",
    "000000000000000000007.log",
    "7.log",
    "\u00b2.snapshot",
    "00000000000000000000.log.bak",
)
FOREIGN_FOLDERS = ("backup", "old.deleted", "copy.tmp", "00000000000000000000.log.bak2")


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_start_ignores_foreign_files_between_the_segments(
    broker: RunningBroker, stop: str
) -> None:
    """They are left alone, and so is the partition."""
    folder = broker.data_directory / f"{GOOD}-0"
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic(GOOD, partitions=1, configs=SMALL)
        assert send(wire, GOOD, 20) == ErrorCode.NONE
    broker.stop() if stop == "clean" else broker.kill()
    for name in FOREIGN_FILES:
        (folder / name).write_bytes(b"")
    for name in FOREIGN_FOLDERS:
        (folder / name).mkdir()
        (folder / name / "file").write_bytes(b"mine")
    broker.start()
    with open_wire("kafka", broker.port) as wire:
        assert [each.offset for each in read_records(wire, GOOD)] == list(range(20))
        assert send(wire, GOOD, 20) == ErrorCode.NONE
    names = {path.name for path in folder.iterdir()}
    assert names.issuperset(FOREIGN_FILES)
    assert names.issuperset(FOREIGN_FOLDERS)


@pytest.mark.slow
def test_a_folder_named_like_a_segment_takes_only_its_partition_offline(
    broker: RunningBroker,
) -> None:
    """REC-18: that one partition is offline, with the reason."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        for topic in (BAD, GOOD):
            admin.create_topic(topic, partitions=1)
            assert send(wire, topic, 3) == ErrorCode.NONE
    broker.stop()
    (broker.data_directory / f"{BAD}-0" / "00000000000000000002.log").mkdir()
    broker.start()
    with open_wire("kafka", broker.port) as wire:
        assert len(read_records(wire, GOOD)) == 3
        assert wire.find(BAD, LATEST).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert any("it is a folder" in line for line in wait_for_line(broker, "log-not-loaded"))


@pytest.mark.slow
def test_a_partition_behind_a_link_is_served_and_deleted_with_it(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Moved to another disk: served, offline while that disk is missing, and deleted with it."""
    place = broker.data_directory / f"{GOOD}-0"
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic(GOOD, partitions=1, configs=SMALL)
        admin.create_topic("other", partitions=1)
        assert send(wire, GOOD, 5) == ErrorCode.NONE
    broker.stop()
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    disk.mkdir()
    shutil.move(place, disk / "moved")
    place.symlink_to(disk / "moved")
    disk.rename(elsewhere)  # not mounted
    broker.start()
    with open_wire("kafka", broker.port) as wire:
        assert wire.find(GOOD, LATEST).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert send(wire, "other") == ErrorCode.NONE
    assert any("is a link" in line for line in wait_for_line(broker, "log-not-loaded"))
    assert broker.stop() == 0
    assert place.is_symlink()
    elsewhere.rename(disk)
    broker.start()
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        assert len(read_records(wire, GOOD)) == 5
        assert send(wire, GOOD, 5) == ErrorCode.NONE
        admin.delete_topic(GOOD)
        eventually(lambda: not list(disk.iterdir()))
        eventually(lambda: not list(broker.data_directory.glob("*-delete")))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [-1, -5, 10**15])
def test_a_start_survives_an_impossible_recovery_point(broker: RunningBroker, offset: int) -> None:
    """After a kill it is where recovery begins."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic(GOOD, partitions=1, configs=SMALL)
        assert send(wire, GOOD, 20) == ErrorCode.NONE
    broker.kill()
    checkpoint = broker.data_directory / "recovery-point-offset-checkpoint"
    checkpoint.write_text(f"0\n1\n{GOOD} 0 {offset}\n")
    broker.start()
    with open_wire("kafka", broker.port) as wire:
        assert [each.offset for each in read_records(wire, GOOD)] == list(range(20))
