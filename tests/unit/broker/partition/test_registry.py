"""What clients see when a disk fails or fills, and who hears of it."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from seglog.protocol.errors import ErrorCode
from support.broker_parts import BrokerParts, batch_of
from support.faulty_file_system import FaultyCalls, FaultyFileSystem

FOREVER_MS = 60_000


class Setup(NamedTuple):
    broker: BrokerParts
    calls: FaultyCalls
    first: str
    second: str


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    """A broker over two data directories; topic ``t`` has a partition in each."""
    file_system = FaultyFileSystem()
    first, second = str(tmp_path / "one"), str(tmp_path / "two")
    broker = await BrokerParts.start(
        tmp_path, {"log.dirs": f"{first},{second}"}, file_system=file_system
    )
    await broker.create_topic("t", 2, {"segment.bytes": "2000", "file.delete.delay.ms": "60000"})
    yield Setup(broker, file_system.calls, first, second)
    file_system.calls.heal()
    await broker.stop()


def directory_of(setup: Setup, partition: int) -> str:
    return setup.broker.partition("t", partition).log_dir.path


async def test_failing_disk_takes_only_its_partitions_offline(setup: Setup) -> None:
    """APP-24, MGR-6"""
    broker, failing = setup.broker, directory_of(setup, 0)
    parked = broker.begin_fetch([("t", 0, 0), ("t", 1, 0)], max_wait_ms=FOREVER_MS)
    setup.calls.fail("write", path_part=failing, times=None)
    results = await broker.produce([("t", 0, batch_of(b"x")), ("t", 1, batch_of(b"y"))])
    assert [result.error for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    setup.calls.heal()
    results = await broker.produce([("t", 0, batch_of(b"x")), ("t", 1, batch_of(b"y"))])
    assert [result.error for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert failing in (results[0].error_message or "")
    answer = await parked.future
    assert [part.error for part in answer.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert broker.fatal_errors == []


async def test_last_directory_that_fails_is_reported(setup: Setup) -> None:
    """MGR-6"""
    setup.calls.fail("write", path_part="/t-", times=None)
    await setup.broker.produce([("t", 0, batch_of(b"x")), ("t", 1, batch_of(b"y"))])
    assert len(setup.broker.fatal_errors) == 1
    assert setup.first in str(setup.broker.fatal_errors[0])


async def test_full_disk_refuses_the_batch_and_nothing_else(setup: Setup) -> None:
    """C028: retriable, no half batch, and no restart needed."""
    broker = setup.broker
    await broker.produce([("t", 0, batch_of(b"before"))])
    setup.calls.fail("write", error=errno.ENOSPC, times=None)
    (result,) = await broker.produce([("t", 0, batch_of(b"x"))])
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert result.error.retriable
    assert broker.values("t", 0) == [b"before"]
    setup.calls.heal()
    (result,) = await broker.produce([("t", 0, batch_of(b"after"))])
    assert (result.error, result.base_offset) == (0, 1)
    assert broker.values("t", 0) == [b"before", b"after"]


async def test_deleting_records_on_a_full_disk_gives_the_room_back_at_once(setup: Setup) -> None:
    """C028: the file.delete.delay.ms of a minute is not waited for."""
    broker = setup.broker
    for _ in range(20):
        await broker.produce([("t", 0, batch_of(bytes(900)))])
    setup.calls.free_bytes = 0
    (result,) = await broker.produce([("t", 0, batch_of(bytes(900)))])
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    cut = await broker.delete_records("t", 0, 15)
    assert (cut.error, cut.low_watermark) == (0, 15)
    (result,) = await broker.produce([("t", 0, batch_of(bytes(900)))])
    assert (result.error, result.base_offset) == (0, 20)


async def test_failed_sync_is_never_acknowledged_and_takes_the_directory_offline(
    setup: Setup,
) -> None:
    broker = setup.broker
    await broker.create_topic("durable", 2, {"flush.messages": "1"})
    failing = broker.partition("durable", 0).log_dir.path
    setup.calls.fail("sync", path_part=f"{failing}/durable-0", times=None)
    results = await broker.produce(
        [("durable", 0, batch_of(b"x")), ("durable", 1, batch_of(b"y"))], acks=-1
    )
    assert [result.error for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert results[0].base_offset == -1
    assert broker.services.partitions.find("durable", 0) is None
    assert broker.services.counters.flush_failures == 1


async def test_topic_that_cannot_be_made_leaves_nothing(setup: Setup) -> None:
    setup.calls.fail("make_directory", error=errno.ENOSPC, times=None, path_part="/new-")
    with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
        await setup.broker.create_topic("new", 4)
    assert setup.broker.services.catalog.get("new") is None
    setup.calls.heal()
    await setup.broker.create_topic("new", 4)
    await setup.broker.produce([("new", 3, batch_of(b"x"))])


async def test_growth_that_fails_leaves_the_topic_as_it_was(setup: Setup) -> None:
    lifecycle, catalog = setup.broker.services.topics, setup.broker.services.catalog
    setup.calls.fail("make_directory", error=errno.ENOSPC, times=None, path_part="/t-3")
    config = setup.broker.log("t", 0).config
    with pytest.raises(Exception, match="No space"):
        await lifecycle.grow("t", 5, config)
    topic = catalog.get("t")
    assert topic is not None
    assert topic.partition_count == 2
    assert setup.broker.services.partitions.find("t", 2) is None
    setup.calls.heal()
    await lifecycle.grow("t", 5, config)
    await setup.broker.produce([("t", 4, batch_of(b"x"))])


async def test_guarded_directory_refuses_with_a_reason(setup: Setup) -> None:
    """issue 3: the disk guard."""
    setup.broker.partition("t", 0).log_dir.refuses_writes = "log.dir.bytes.max is reached"
    (result,) = await setup.broker.produce([("t", 0, batch_of(b"x"))])
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert result.error_message == "log.dir.bytes.max is reached"


async def test_sync_of_a_topic_that_is_deleted_meanwhile_blames_no_disk(setup: Setup) -> None:
    broker = setup.broker
    for _ in range(10):
        await broker.produce([("t", 0, batch_of(bytes(900)))])
    await broker.delete_topic("t")
    await broker.quiet()
    assert all(log_dir.is_online for log_dir in broker.services.logs.log_dirs)


async def test_everyone_who_waits_is_let_go_when_the_broker_stops(setup: Setup) -> None:
    parked = setup.broker.begin_fetch([("t", 0, 0)], max_wait_ms=FOREVER_MS)
    setup.broker.services.partitions.close()
    response = await asyncio.wait_for(parked.future, 5)
    assert response.partitions[0].records is None


async def test_a_directory_without_write_access_is_read_on(setup: Setup) -> None:
    """U28: records are refused with the reason, and the last directory does not end the broker."""
    broker = setup.broker
    await broker.produce([("t", 0, batch_of(b"kept")), ("t", 1, batch_of(b"kept"))])
    changes = ("create", "write", "rename", "unlink", "make_directory")
    setup.calls.fail(*changes, error=errno.EROFS, times=None)
    entries = [("t", number, batch_of(bytes(900))) for number in (0, 1)]
    await broker.produce(entries)
    results = await broker.produce(entries)
    assert [result.error for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert "cannot be written to" in (results[0].error_message or "")
    assert broker.fatal_errors == []
    assert broker.values("t", 0)[0] == b"kept"
    await broker.services.background.checkpoint_high_watermarks()
    await broker.services.background.retention()
    log_dirs = broker.services.logs.log_dirs
    assert all(log_dir.is_online for log_dir in log_dirs)
    troubles = [broker.services.partitions.trouble_of(log_dir) or "" for log_dir in log_dirs]
    assert all("cannot be written to" in trouble for trouble in troubles)
    cut = await broker.delete_records("t", 0, 1)
    assert (cut.error, cut.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    with pytest.raises(AssertionError, match="no data directory takes"):
        await broker.create_topic("new")
