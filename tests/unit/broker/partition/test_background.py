"""The tasks of the scheduler, driven by hand."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple
from unittest.mock import AsyncMock

import pytest

from seglog.broker.partition.background import BackgroundWork
from seglog.broker.storage.directories.log_dir import LogDir
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import Log
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition
from support.broker_parts import NOW_MS, BrokerParts, batch_of
from support.fake_clock import FakeClock, ManualScheduler
from support.faulty_file_system import FaultyFileSystem

MINUTE_MS = 60_000


class Setup(NamedTuple):
    broker: BrokerParts
    scheduler: ManualScheduler

    def checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """What a checkpoint file of the data directory says."""
        return dict(OffsetCheckpointFile(OsFileSystem(), f"{self.broker.log_dir}/{name}").read())

    def files_of(self, partition: str) -> list[str]:
        """The data files of a partition's folder."""
        return sorted(
            name for name in os.listdir(self.broker.log_dir / partition) if ".log" in name
        )


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    """A broker whose tasks are scheduled; topic ``t`` has three sealed segments."""
    clock = FakeClock(NOW_MS)
    settings = {
        "log.retention.check.interval.ms": "10000",
        "log.flush.scheduler.interval.ms": "1000",
        "log.initial.task.delay.ms": "500",
    }
    broker = await BrokerParts.start(tmp_path, settings, clock=clock)
    scheduler = ManualScheduler(clock)
    broker.services.background.schedule(scheduler, broker.services.config)
    yield Setup(broker, scheduler)
    await broker.stop()


async def fill(setup: Setup, configs: dict[str, str]) -> None:
    await setup.broker.create_topic("t", 1, {"segment.bytes": "1000", **configs})
    for _ in range(8):
        await setup.broker.produce([("t", 0, batch_of(bytes(400)))])
    await setup.broker.quiet()


async def test_tasks_have_kafkas_names(setup: Setup) -> None:
    """Who knows Kafka finds them in logs and thread lists under the names that he knows."""
    assert setup.scheduler.task_names == [
        "delete-file",
        "disk-guard",
        "high-watermark-checkpoint",
        "kafka-log-flusher",
        "kafka-log-retention",
        "kafka-log-start-offset-checkpoint",
        "kafka-recovery-point-checkpoint",
    ]


async def test_expired_segments_vanish_at_once_and_their_files_after_the_delay(
    setup: Setup,
) -> None:
    """RET-5, RET-12, RET-14"""
    await fill(setup, {"retention.ms": "5000", "file.delete.delay.ms": "30000"})
    await setup.scheduler.advance(4000)
    assert setup.broker.offsets("t", 0) == (0, 8)
    await setup.scheduler.advance(7000)
    assert setup.broker.offsets("t", 0) == (8, 8)
    assert len([name for name in setup.files_of("t-0") if name.endswith(".deleted")]) == 4
    await setup.scheduler.advance(28_000)
    assert len([name for name in setup.files_of("t-0") if name.endswith(".deleted")]) == 4
    await setup.scheduler.advance(4000)
    assert setup.files_of("t-0") == [f"{8:020}.log"]


async def test_a_run_of_retention_waits_for_the_one_under_way(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is told that segments are gone; the task may have begun to take them away."""
    await fill(setup, {"retention.ms": "5000", "file.delete.delay.ms": "30000"})
    clock = setup.broker.services.clock
    assert isinstance(clock, FakeClock)
    clock.advance(6000)
    background = setup.broker.services.background
    storing, may_store = asyncio.Event(), asyncio.Event()
    store = background.store_log_starts

    async def store_later(wanted: Mapping[Log, int]) -> dict[LogDir, StorageError]:
        storing.set()
        await may_store.wait()
        return await store(wanted)

    monkeypatch.setattr(background, "store_log_starts", store_later)
    first = asyncio.ensure_future(background.run_retention())
    await storing.wait()
    second = asyncio.ensure_future(background.run_retention())
    # It has looked at all logs by then, and found nothing to begin with.
    for _ in range(20):
        await asyncio.sleep(0)
    assert not second.done()
    may_store.set()
    await second
    names = setup.files_of("t-0")
    await first
    assert [name for name in names if name.endswith(".log")] == [f"{8:020}.log"]


async def test_retention_wakes_readers_below_the_new_log_start(setup: Setup) -> None:
    await fill(setup, {"retention.ms": "5000"})
    parked = setup.broker.begin_fetch([("t", 0, 0)], max_wait_ms=MINUTE_MS, min_bytes=10**6)
    await setup.scheduler.advance(11_000)
    response = await parked.future
    assert response.partitions[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert response.partitions[0].log_start_offset == 8


async def test_fetch_in_flight_finishes_on_a_segment_that_is_deleted(setup: Setup) -> None:
    """READ-13"""
    await fill(setup, {"retention.ms": "5000", "file.delete.delay.ms": "0"})
    response = await setup.broker.fetch([("t", 0, 0)])
    await setup.scheduler.advance(12_000)
    assert setup.files_of("t-0") == [f"{8:020}.log"]
    assert setup.broker.values_of(response.partitions[0]) == [bytes(400)] * 2


async def test_records_are_synced_when_flush_ms_has_passed(setup: Setup) -> None:
    """FLUSH-1"""
    await setup.broker.create_topic("t", 1, {"flush.ms": "3000"})
    await setup.broker.produce([("t", 0, batch_of(b"x"))])
    await setup.scheduler.advance(2900)
    await setup.broker.quiet()
    assert setup.broker.log("t", 0).offsets.recovery_point == 0
    await setup.scheduler.advance(2000)
    await setup.broker.quiet()
    assert setup.broker.log("t", 0).offsets.recovery_point == 1


async def test_checkpoints_are_written_at_their_times(setup: Setup) -> None:
    """FLUSH-5, HW-8"""
    await fill(setup, {})
    name = TopicPartition("t", 0)
    await setup.scheduler.advance(6000)
    assert setup.checkpoint("replication-offset-checkpoint") == {name: 8}
    assert setup.checkpoint("recovery-point-offset-checkpoint") == {name: 6}
    setup.broker.partition("t", 0).delete_records_before(3)
    await setup.scheduler.advance(MINUTE_MS)
    assert setup.checkpoint("log-start-offset-checkpoint") == {name: 3}


async def test_acknowledged_deletion_is_in_the_checkpoint(setup: Setup) -> None:
    """Concurrent deletions, each durable when it is answered."""
    await fill(setup, {})
    for offset in (1, 3, 5):
        await setup.broker.delete_records("t", 0, offset)
        assert setup.checkpoint("log-start-offset-checkpoint") == {TopicPartition("t", 0): offset}


async def test_a_nearly_full_disk_looks_well_after_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C028: a large batch found no room, small ones would; it is full until there is more room."""
    disk, clock, free = FaultyFileSystem(), FakeClock(NOW_MS), {"bytes": 300_000}
    broker = await BrokerParts.start(tmp_path, file_system=disk, clock=clock)
    services = broker.services
    (log_dir,) = services.logs.log_dirs
    monkeypatch.setattr(services.logs.housekeeping, "_free_bytes_of", lambda _: free["bytes"])

    async def is_full_after(seconds: int) -> bool:
        clock.advance(seconds * 1000)
        await services.background.guard_disks()
        return services.partitions.trouble_of(log_dir) is not None

    await broker.create_topic("t")
    disk.calls.fail("write", error=errno.ENOSPC)
    await broker.produce([("t", 0, batch_of(bytes(400)))])
    assert [await is_full_after(1) for _ in range(3)] == [True] * 3
    free["bytes"] += 200_000
    assert await is_full_after(1)
    free["bytes"] += 200_000
    assert not await is_full_after(1)
    # Where quotas hold, the free space says nothing; and a disk without any stays full.
    for free_bytes, is_full in ((1 << 40, False), (1000, True)):
        free["bytes"] = free_bytes
        disk.calls.fail("write", error=errno.EDQUOT)
        await broker.produce([("t", 0, batch_of(bytes(400)))])
        assert await is_full_after(1)
        assert await is_full_after(59)
        assert await is_full_after(2) == is_full
    await broker.stop()


async def test_the_log_tells_once_of_a_full_disk_and_once_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    disk, clock = FaultyFileSystem(), FakeClock(NOW_MS)
    broker = await BrokerParts.start(tmp_path, file_system=disk, clock=clock)
    services = broker.services
    (log_dir,) = services.logs.log_dirs
    free_bytes = [0]
    monkeypatch.setattr(services.logs.housekeeping, "_free_bytes_of", lambda _: free_bytes[0])

    def told() -> list[str]:
        events = (record.getMessage() for record in caplog.records)
        return [event for event in events if event.startswith("event=log-dir-")]

    await broker.create_topic("t")
    disk.calls.fail("write", error=errno.ENOSPC)
    await broker.produce([("t", 0, batch_of(bytes(400)))])
    disk.calls.fail("write", error=errno.ENOSPC)
    await broker.produce([("t", 0, batch_of(bytes(400)))])
    full = f"event=log-dir-full directory={log_dir.path} action=refuse-records"
    assert told() == [full]
    await services.background.guard_disks()
    assert told() == [full]
    free_bytes[0] = 1 << 30
    await services.background.guard_disks()
    assert told() == [full, f"event=log-dir-has-room directory={log_dir.path}"]
    await broker.stop()


async def test_a_lack_of_descriptors_is_taken_for_a_full_disk(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    broker = await BrokerParts.start(tmp_path, file_system=disk)
    await broker.create_topic("t")
    disk.calls.fail("write", error=errno.ENOMEM)
    await broker.produce([("t", 0, batch_of(bytes(400)))])
    assert not broker.services.partitions.full_directories
    await broker.stop()


async def test_retention_heals_an_index_that_it_cannot_read_and_goes_on(
    setup: Setup,
) -> None:
    """Reading never writes: what retention may not mend on the loop, a worker does."""
    await fill(setup, {"retention.ms": "60000"})
    broker = await setup.broker.restart()
    log = broker.log("t", 0)
    first = log.segments.first
    assert first is not None
    os.truncate(first.time_index.path, 5)
    clock = broker.services.clock
    assert isinstance(clock, FakeClock)
    clock.advance(10 * MINUTE_MS)
    await broker.services.background.retention()
    assert os.stat(first.files.path_of(".timeindex")).st_size % 12 == 0
    assert first not in list(log.segments)


async def test_housekeeping_of_many_partitions_lets_others_run_in_between(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10: a pass over all of them was one turn, 71 ms for each 1,000."""
    await setup.broker.create_topic("many", 50, {"flush.ms": "1"})
    monkeypatch.setattr("seglog.broker.runtime.turns.time.monotonic", count().__next__)
    background = setup.broker.services.background
    for task in (background.retention, background.flush_due):
        turns = 0
        running = asyncio.ensure_future(task())
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 50


async def test_collecting_offsets_of_many_partitions_lets_others_run_in_between(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10: each checkpoint was collected in one turn, 8 to 40 ms for 10,000 partitions."""
    await setup.broker.create_topic("many", 320)
    monkeypatch.setattr("seglog.broker.runtime.turns.time.monotonic", count().__next__)
    monkeypatch.setattr(BackgroundWork, "_run_jobs", AsyncMock())
    background = setup.broker.services.background
    for task in (
        background.checkpoint_recovery_points,
        background.checkpoint_log_starts,
        background.checkpoint_high_watermarks,
    ):
        turns = 0
        running = asyncio.ensure_future(task())
        while not running.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 6


async def test_a_topic_costs_few_syncs_one_after_the_other(tmp_path: Path) -> None:
    """U16: with a sync of 2 s, to create one took 13 s and to delete one 26 s."""
    disk = FaultyFileSystem()
    broker = await BrokerParts.start(tmp_path, file_system=disk)
    counts = disk.calls.counts

    def syncs() -> int:
        return counts["sync"] + counts["sync_directory"]

    await broker.create_topic("warm")
    await broker.services.background.checkpoint_high_watermarks()
    await broker.quiet()
    counts.clear()
    await broker.create_topic("t", 50)
    assert syncs() <= 3
    await broker.quiet()
    await broker.services.background.checkpoint_high_watermarks()
    await broker.services.background.checkpoint_recovery_points()
    counts.clear()
    await broker.delete_topic("t")
    assert syncs() <= 3
    await broker.stop()


async def test_flush_that_found_no_room_is_tried_again_without_another_append(
    tmp_path: Path,
) -> None:
    """Records that are shown once they are on disk would stay hidden for as long as nobody writes.

    flush.ms is "never" by default; the next append may come tomorrow.
    """
    clock, disk = FakeClock(NOW_MS), FaultyFileSystem()
    broker = await BrokerParts.start(tmp_path, clock=clock, file_system=disk)
    scheduler = ManualScheduler(clock)
    broker.services.background.schedule(scheduler, broker.services.config)
    await broker.create_topic("t", 1, {"flush.messages": "1"})
    disk.calls.fail("write", error=errno.ENOSPC, path_part="leader-epoch-checkpoint")
    response = await broker.produce([("t", 0, batch_of(b"x"))])
    assert response[0].error == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.log("t", 0).offsets.high_watermark == 0
    await scheduler.advance(2000)
    await broker.quiet()
    assert broker.log("t", 0).offsets.high_watermark == 1
    await broker.stop()
