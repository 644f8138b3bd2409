"""With ``flush.messages=1`` nobody is shown, and nobody is answered, what is on no disk."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from seglog.broker.requests.context import Pending
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.protocol.api import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import LATEST_TIMESTAMP, IsolationLevel
from support.broker_parts import CONTEXT, NOW_MS, BrokerParts, batch_of
from support.faulty_file_system import FaultyFileSystem

_SETTINGS = {"log.flush.interval.messages": "1"}
_BOTH = [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED]


class SlowDisk(SystemCalls):
    """Syncs of data files wait while the gate is closed."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    def sync(self, path: str, descriptor: int) -> None:
        if path.endswith(".log"):
            assert self.gate.wait(10)
        super().sync(path, descriptor)


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
async def broker(tmp_path: Path, disk: SlowDisk) -> AsyncIterator[BrokerParts]:
    """A broker with one topic, of which one record is on disk."""
    parts = await BrokerParts.start(tmp_path, _SETTINGS, file_system=OsFileSystem(disk))
    await parts.create_topic("t")
    await parts.produce([("t", 0, batch_of(b"first"))])
    yield parts
    disk.gate.set()
    await parts.stop()


def produce(broker: BrokerParts, acks: int = 1, **options: Any) -> Pending[Any]:
    request = ProduceRequest(acks, 60_000, [ProducePartition("t", 0, batch_of(b"x", **options))])
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    return pending


async def latest(broker: BrokerParts, isolation: IsolationLevel) -> int:
    asked = ListOffsetsPartition("t", 0, LATEST_TIMESTAMP)
    response = await broker.ask(ListOffsetsRequest([asked], isolation))
    offset: int = response.partitions[0].offset
    return offset


@pytest.mark.parametrize("isolation", _BOTH)
@pytest.mark.parametrize("acks", [1, -1])
async def test_record_is_shown_once_it_is_on_disk(
    broker: BrokerParts, disk: SlowDisk, isolation: IsolationLevel, acks: int
) -> None:
    """S4, HW-2: a power cut would give its offset to another record."""
    disk.gate.clear()
    pending = produce(broker, acks)
    parked = broker.begin_fetch([("t", 0, 1)], max_wait_ms=60_000, isolation=isolation)
    await asyncio.sleep(0)
    (result,) = (await broker.fetch([("t", 0, 0)], isolation=isolation)).partitions
    assert broker.values_of(result) == [b"first"]
    assert (result.high_watermark, result.last_stable_offset) == (1, 1)
    assert await latest(broker, isolation) == 1
    assert not pending.future.done()
    assert not parked.future.done()
    disk.gate.set()
    (shown,) = (await parked.future).partitions
    assert broker.values_of(shown) == [b"x"]
    await pending.future
    assert await latest(broker, isolation) == 2


async def test_end_of_a_transaction_counts_once_its_marker_is_on_disk(
    broker: BrokerParts, disk: SlowDisk
) -> None:
    """S4, HW-2: the last stable offset does not pass the high watermark."""
    await produce(
        broker, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    ).future
    disk.gate.clear()
    marker = build_marker(
        ControlType.COMMIT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=NOW_MS,
    )
    partition = broker.partition("t", 0)
    info = partition.append_marker(memoryview(marker), NOW_MS, 1)
    acknowledged = partition.acknowledgement(info, -1)
    assert acknowledged is not None
    await asyncio.sleep(0)
    offsets = partition.log.offsets
    assert (offsets.last_stable, offsets.high_watermark, offsets.log_end) == (1, 2, 3)
    disk.gate.set()
    await acknowledged
    assert (offsets.last_stable, offsets.high_watermark, offsets.log_end) == (3, 3, 3)


async def test_what_a_kill_left_in_memory_is_shown_once_it_is_on_disk(
    broker: BrokerParts, disk: SlowDisk
) -> None:
    """The recovered end of the log may be on no disk: a power cut can still take it away."""
    disk.gate.clear()
    pending = produce(broker)
    await asyncio.sleep(0)
    end = broker.offsets("t", 0)[1]
    disk.gate.set()
    await pending.future
    await broker.stop(clean=False)
    disk.gate.clear()
    again = await BrokerParts.start(
        broker.log_dir.parent, _SETTINGS, file_system=OsFileSystem(disk)
    )
    offsets = again.log("t", 0).offsets
    assert (offsets.high_watermark, offsets.log_end) == (0, end)
    disk.gate.set()
    await again.quiet()
    assert offsets.high_watermark == end
    await again.stop()


async def test_setting_that_changes_while_the_broker_runs_counts_at_once(
    broker: BrokerParts, disk: SlowDisk
) -> None:
    """HW-2: to another value, and back to 1."""
    services = broker.services
    offsets = broker.log("t", 0).offsets
    disk.gate.clear()
    pending = produce(broker, acks=-1)
    await asyncio.sleep(0)
    assert offsets.high_watermark == 1
    many = services.config.log_config({"flush.messages": "1000"})
    configured = asyncio.ensure_future(
        services.topics.configure("t", {"flush.messages": "1000"}, many)
    )
    await configured
    assert offsets.high_watermark == 2
    request = ProduceRequest(-1, 60_000, [ProducePartition("t", 0, batch_of(b"y"))])
    assert not isinstance(broker.handlers.handle(request, CONTEXT), Pending)
    assert offsets.high_watermark == 3
    await services.topics.configure("t", {}, services.config.log_config({}))
    assert (offsets.high_watermark, offsets.recovery_point) == (3, 1)
    last = produce(broker, acks=-1)
    assert offsets.high_watermark == 3
    disk.gate.set()
    await asyncio.gather(pending.future, last.future)
    assert (offsets.high_watermark, offsets.recovery_point) == (4, 4)


async def test_records_wait_while_a_full_disk_has_no_room_for_a_side_file(tmp_path: Path) -> None:
    """Their sync has succeeded, but the recovery point stays, and the disk is not to blame."""
    faulty = FaultyFileSystem()
    broker = await BrokerParts.start(tmp_path, _SETTINGS, file_system=faulty)
    await broker.create_topic("t")
    faulty.calls.fail("write", path_part="leader-epoch", error=28)
    (result,) = (await produce(broker, acks=-1).future).partitions
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    offsets = broker.log("t", 0).offsets
    assert (offsets.high_watermark, offsets.log_end) == (0, 1)
    (result,) = (await produce(broker, acks=-1).future).partitions
    assert result.error == ErrorCode.NONE
    assert offsets.high_watermark == offsets.recovery_point == 2
    assert broker.services.counters.flush_failures == 0
    await broker.stop()
