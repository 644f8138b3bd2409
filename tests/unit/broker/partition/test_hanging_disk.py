"""S8: a disk that hangs in a sync stops nobody whose data is on another one."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from seglog.broker.daemon import app
from seglog.broker.daemon.app import Broker
from seglog.broker.storage.files.checkpoint import OffsetCheckpointFile
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.config import load_broker_config
from seglog.protocol.types import TopicPartition
from support.broker_parts import BrokerParts, batch_of
from support.hanging_disk import HangingDisk

PARTITIONS = 12
SOON_SECONDS = 30.0


class Setup(NamedTuple):
    broker: BrokerParts
    disk: HangingDisk
    hanging: str
    healthy: str

    def partitions_in(self, path: str) -> list[int]:
        """The partitions of ``t`` in one data directory."""
        return [
            number
            for number in range(PARTITIONS)
            if self.broker.partition("t", number).log_dir.path == path
        ]

    async def healthy_is_idle(self) -> None:
        """Wait until the healthy disk has done what it was asked for."""
        changes = self.broker.services.workers.directories.changes(self.healthy)
        async with asyncio.timeout(SOON_SECONDS):
            await changes.idle()
        await asyncio.sleep(0)

    async def hang(self) -> "asyncio.Future[Any]":
        """Let more appends wait for the hanging disk than there are threads for syncs."""
        self.disk.hanging = f"{self.hanging}/"
        entries = [("t", number, batch_of(b"x")) for number in self.partitions_in(self.hanging)]
        waiting = asyncio.ensure_future(self.broker.produce(entries))
        await asyncio.to_thread(self.disk.waiting.wait, SOON_SECONDS)
        return waiting


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    """A broker over two data directories; topic ``t`` syncs each record."""
    disk = HangingDisk()
    hanging, healthy = str(tmp_path / "a"), str(tmp_path / "b")
    broker = await BrokerParts.start(
        tmp_path, {"log.dirs": f"{hanging},{healthy}"}, file_system=OsFileSystem(disk)
    )
    await broker.create_topic("t", PARTITIONS, {"flush.messages": "1"})
    broker.services.workers.directories.patience_seconds = 0.02
    yield Setup(broker, disk, hanging, healthy)
    disk.release()
    await broker.stop()


async def test_appends_to_another_disk_are_acknowledged(setup: Setup) -> None:
    waiting = await setup.hang()
    entries = [("t", number, batch_of(b"y")) for number in setup.partitions_in(setup.healthy)]
    results = await asyncio.wait_for(setup.broker.produce(entries), SOON_SECONDS)
    assert [result.error for result in results] == [0] * len(entries)
    assert not waiting.done()
    setup.disk.release()
    await asyncio.wait_for(waiting, SOON_SECONDS)


async def test_topics_are_made_and_deleted_on_another_disk(setup: Setup) -> None:
    await setup.hang()
    for name in ("u", "v", "w"):
        async with asyncio.timeout(SOON_SECONDS):
            await setup.broker.create_topic(name, 2)
        await setup.broker.produce([(name, 1, batch_of(b"z"))])
        assert setup.broker.partition(name, 0).log_dir.path == setup.healthy
    for name in ("u", "t"):
        async with asyncio.timeout(SOON_SECONDS):
            await setup.broker.delete_topic(name)
    assert setup.broker.services.catalog.get("t") is None
    await setup.healthy_is_idle()
    kept = {name for name in os.listdir(setup.healthy) if len(name) == len("t-0")}
    assert kept == {"v-0", "v-1", "w-0", "w-1"}


async def test_the_catalog_is_written_everywhere_once_the_disk_is_back(setup: Setup) -> None:
    await setup.hang()
    for number in range(5):
        await setup.broker.create_topic(f"new{number}")
    setup.disk.release()
    await setup.broker.quiet()
    first, second = (
        (Path(path) / "seglog-catalog").read_bytes() for path in (setup.hanging, setup.healthy)
    )
    assert first == second


async def test_checkpoints_of_another_disk_are_written(setup: Setup) -> None:
    await setup.hang()
    number = setup.partitions_in(setup.healthy)[0]
    background = setup.broker.services.background
    for count in (1, 2, 3):
        await setup.broker.produce([("t", number, batch_of(b"y"))])
        async with asyncio.timeout(SOON_SECONDS):
            await background.checkpoint_high_watermarks()
            await setup.healthy_is_idle()
            await background.checkpoint_recovery_points()
            await setup.healthy_is_idle()
        name = f"{setup.healthy}/replication-offset-checkpoint"
        offsets = OffsetCheckpointFile(OsFileSystem(), name).read()
        assert offsets[TopicPartition("t", number)] == count


async def test_records_on_another_disk_are_deleted(setup: Setup) -> None:
    await setup.hang()
    number = setup.partitions_in(setup.healthy)[0]
    await setup.broker.produce([("t", number, batch_of(b"y"))])
    cut = await asyncio.wait_for(setup.broker.delete_records("t", number, 1), SOON_SECONDS)
    assert (cut.error, cut.low_watermark) == (0, 1)


async def test_a_stop_marks_every_other_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "FLUSH_SECONDS", 0.5)
    disk = HangingDisk()
    hanging, healthy = tmp_path / "a", tmp_path / "b"
    given = [
        f"log.dirs={hanging},{healthy}",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "shutdown.timeout.ms=200",
    ]
    broker = Broker(load_broker_config(None, {}, given), file_system=OsFileSystem(disk))
    await broker.start()
    services = broker.services
    async with services.changing:
        await services.topics.create("t", bytes(range(16)), 8, {}, services.config.log_config({}))
    for number in range(8):
        partition = services.partitions.get("t", number)
        partition.append(batch_of(b"x"), 1, services.clock.time_ms())
    disk.hanging = f"{hanging}/"
    with caplog.at_level(logging.ERROR):
        await broker.stop()
    assert (healthy / ".kafka_cleanshutdown").exists()
    assert not (hanging / ".kafka_cleanshutdown").exists()
    assert f"directory={hanging}" in caplog.text
    disk.release()
