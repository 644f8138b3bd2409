"""A broker on a real ext4: full, read-only under its hands, and asked what is on disk."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import Acks
from support.broker_parts import BrokerParts, batch_of
from support.cached_pages import unwritten_pages
from support.fake_clock import FakeClock
from support.loop_disk import LoopDisk, loop_disk

pytestmark = pytest.mark.slow

SIZE_BYTES = 32 << 20
SETTINGS = {"segment.bytes": "4000000", "segment.index.bytes": "4096", "file.delete.delay.ms": "0"}
SYNCED = {**SETTINGS, "flush.messages": "1"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with loop_disk(tmp_path / "disk", SIZE_BYTES) as mounted:
        yield mounted


async def start(disk: LoopDisk, clock: FakeClock | None = None) -> BrokerParts:
    log_dir = disk.folder / "data"
    settings = {"background.threads": "2"}
    return await BrokerParts.start(disk.folder, settings, log_dir=log_dir, clock=clock)


async def produce(broker: BrokerParts, topic: str, value: bytes) -> ErrorCode:
    (result,) = await broker.produce([(topic, 0, batch_of(value))], Acks.ALL)
    return ErrorCode(result.error)


async def test_disk_that_fills_up_costs_nothing_and_goes_on_when_it_is_freed(
    disk: LoopDisk,
) -> None:
    """U2: ext4 has delayed allocation: a write may find its space, and the sync may not."""
    clock = FakeClock()
    broker = await start(disk, clock)
    await broker.create_topic("t", 1, SYNCED)
    ballast = disk.folder / "ballast"
    ballast.write_bytes(bytes(16 << 20))
    taken: list[bytes | None] = []
    for number in range(1000):
        value = b"%d " % number + os.urandom(60_000)
        if error := await produce(broker, "t", value):
            assert error is ErrorCode.KAFKA_STORAGE_ERROR
            break
        taken.append(value)
    assert 50 < len(taken) < 1000
    assert broker.values("t", 0) == taken
    (log_dir,) = broker.services.logs.log_dirs
    assert log_dir.is_online
    ballast.unlink()
    for _ in range(3):
        clock.advance(61_000)
        await broker.services.background.guard_disks()
        await broker.quiet()
    assert await produce(broker, "t", b"after") is ErrorCode.NONE
    taken.append(b"after")
    assert broker.values("t", 0) == taken
    broker = await broker.restart(clean=False)
    await broker.quiet()
    assert broker.values("t", 0) == taken
    await broker.stop()


async def test_disk_that_becomes_read_only_is_read_on(disk: LoopDisk) -> None:
    """Writes are refused, reads answered; mounted again and started, everything goes on."""
    broker = await start(disk)
    for topic, configs in {"t": SYNCED, "u": SETTINGS}.items():
        await broker.create_topic(topic, 1, configs)
    taken: list[bytes | None] = [b"%d" % number for number in range(20)]
    for value in taken:
        for topic in ("t", "u"):
            assert await produce(broker, topic, value or b"") is ErrorCode.NONE
    await broker.partition("u", 0).flush()
    disk.become_read_only()
    for _ in range(3):
        for topic in ("t", "u"):
            assert await produce(broker, topic, b"refused") is ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.values(topic, 0) == taken
        background = broker.services.background
        await background.checkpoint_recovery_points()
        await background.checkpoint_high_watermarks()
        await background.guard_disks()
        await background.retention()
        await broker.quiet()
    (log_dir,) = broker.services.logs.log_dirs
    assert log_dir.read_only_reason is not None
    assert log_dir.is_online
    assert not broker.fatal_errors
    cut = await broker.delete_records("u", 0, 5)
    assert cut.error != ErrorCode.NONE
    # In good order nothing is closed where nothing may be written; a process that ends does it.
    await broker.stop(clean=False)
    disk.mount_again()
    broker = await start(disk)
    await broker.quiet()
    for topic in ("t", "u"):
        assert broker.values(topic, 0) == taken
        assert await produce(broker, topic, b"again") is ErrorCode.NONE
        assert broker.values(topic, 0) == [*taken, b"again"]
    await broker.stop()


async def test_acknowledged_with_flush_messages_is_clean_in_the_page_cache(disk: LoopDisk) -> None:
    """S2: no acknowledgement before a sync begun after the write, says the kernel."""
    broker = await start(disk)
    await broker.create_topic("t", 1, {**SYNCED, "segment.bytes": "100000000"})
    path = broker.log_dir / "t-0" / f"{0:020}.log"
    descriptor = os.open(path, os.O_RDONLY)
    acknowledged = unwritten = 0
    log = broker.log("t", 0)

    async def producer() -> None:
        nonlocal acknowledged, unwritten
        for _ in range(20):
            begin = log.segments.active.size_bytes
            asking = asyncio.ensure_future(produce(broker, "t", os.urandom(20_000)))
            await asyncio.sleep(0)
            assert await asking is ErrorCode.NONE
            acknowledged += 1
            unwritten += unwritten_pages(descriptor, begin, begin + 20_000)

    try:
        await asyncio.gather(*(producer() for _ in range(8)))
    finally:
        os.close(descriptor)
    assert (acknowledged, unwritten) == (160, 0)
    await broker.stop()
