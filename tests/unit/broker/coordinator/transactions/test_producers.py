"""Producer ids, and what partitions remember of producers: C029, C048, C050."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from seglog.broker.coordinator.coordination import PRODUCER_EXPIRY_TASK
from seglog.broker.coordinator.transactions.producer_ids import BLOCK_SIZE
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.protocol.api import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT64_MAX
from support.broker_parts import NOW_MS, batch_of
from support.failing_disk import FailingDisk
from support.group_broker import GroupBroker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    broker = await GroupBroker.start(tmp_path)
    await broker.parts.create_topic("t", 1)
    yield broker
    await broker.stop()


async def new_id(broker: GroupBroker) -> int:
    response = await broker.ask(InitProducerIdRequest())
    assert (response.error, response.producer_epoch) == (ErrorCode.NONE, 0)
    producer_id: int = response.producer_id
    return producer_id


async def test_two_producers_get_the_same_id(broker: GroupBroker) -> None:
    """Also when many ask at once, and when a block is used up."""
    asked = [broker.begin(InitProducerIdRequest()) for _ in range(BLOCK_SIZE + 5)]
    ids = [(await future).producer_id for future in asked]
    assert sorted(ids) == list(range(BLOCK_SIZE + 5))
    assert await new_id(broker) == BLOCK_SIZE + 5


@pytest.mark.parametrize("clean", [True, False])
async def test_an_id_is_given_again_after_a_restart(broker: GroupBroker, clean: bool) -> None:
    first = await new_id(broker)
    broker = await broker.restarted(clean=clean)
    assert await new_id(broker) == first + BLOCK_SIZE
    await broker.stop()


async def test_ids_begin_anew_where_the_catalog_was_lost(broker: GroupBroker) -> None:
    """C029: the logs remember producers, which nobody may be mistaken for."""
    for _ in range(3):
        last = await new_id(broker)
    batch = batch_of(b"x", producer_id=last + 5000, producer_epoch=0, base_sequence=0)
    await broker.parts.produce([("t", 0, batch)])
    await broker.stop()
    for path in broker.parts.log_dir.glob("seglog-catalog*"):
        path.unlink()
    successor = await broker.restarted()
    assert await new_id(successor) == last + 5001
    await successor.stop()


async def test_a_made_up_id_leaves_none_to_give_out(broker: GroupBroker) -> None:
    """C048: records are taken from any producer id, as by Kafka; the last possible one, too."""
    first = await new_id(broker)
    batch = batch_of(b"x", producer_id=INT64_MAX, producer_epoch=0, base_sequence=0)
    (result,) = await broker.parts.produce([("t", 0, batch)])
    assert result.error is ErrorCode.NONE
    successor = await broker.restarted()
    assert await new_id(successor) == first + BLOCK_SIZE
    await successor.stop()


@pytest.mark.parametrize("damage", [b"", b"\0" * 300, b"seglog-catalog 99 00000000\n{}"])
async def test_ids_of_a_damaged_catalog_are_given_again(broker: GroupBroker, damage: bytes) -> None:
    """C029: the copy may not know the last block, so a number is taken that no counter reached."""
    for _ in range(3):
        await new_id(broker)
    await broker.stop()
    (broker.parts.log_dir / "seglog-catalog").write_bytes(damage)
    successor = await broker.restarted()
    assert await new_id(successor) == NOW_MS
    again = await successor.restarted()
    assert await new_id(again) == NOW_MS + BLOCK_SIZE
    await again.stop()


async def test_an_id_is_given_out_that_could_not_be_noted(tmp_path: Path) -> None:
    disk = FailingDisk()
    broker = await GroupBroker.start(tmp_path, file_system=OsFileSystem(disk))
    await broker.parts.create_topic("t", 1)
    disk.full.add("seglog-catalog")
    responses = await asyncio.gather(*(broker.begin(InitProducerIdRequest()) for _ in range(3)))
    assert {each.error for each in responses} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    disk.full.clear()
    assert await new_id(broker) == 0
    await broker.stop()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, 0, 5, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, 0, -1, 5), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_request_that_makes_no_sense_gets_an_id(
    broker: GroupBroker, request_: InitProducerIdRequest, code: ErrorCode
) -> None:
    """An id comes with its epoch or not at all."""
    response: InitProducerIdResponse = await broker.ask(request_)
    assert (response.error, response.producer_id) == (code, -1)


async def test_an_idempotent_producer_cannot_begin_anew(broker: GroupBroker) -> None:
    """With its old id and epoch it gets another id, as from Kafka."""
    first = await new_id(broker)
    response = await broker.ask(InitProducerIdRequest(None, 0, first, 0))
    assert (response.error, response.producer_id) == (ErrorCode.NONE, first + 1)


async def test_producers_of_a_partition_are_a_secret(broker: GroupBroker) -> None:
    batch = batch_of(b"x", b"y", producer_id=7, producer_epoch=2, base_sequence=0)
    await broker.parts.produce([("t", 0, batch)])
    request = DescribeProducersRequest([("t", 0), ("t", 9)])
    known, unknown = (await broker.ask(request)).partitions
    assert unknown.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (producer,) = known.producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp_ms, producer.transaction_start_offset) == (NOW_MS, -1)


async def test_a_paused_producer_is_refused_for_ever(tmp_path: Path) -> None:
    """C048: after expiry any sequence begins anew; a real gap is still refused."""
    settings = {
        "producer.id.expiration.ms": "2000",
        "producer.id.expiration.check.interval.ms": "500",
    }
    broker = await GroupBroker.start(tmp_path, settings)
    await broker.parts.create_topic("t", 1)

    async def send(first: int, count: int) -> int:
        values = [b"x"] * count
        batch = batch_of(
            *values,
            timestamp_ms=broker.clock.time_ms(),
            producer_id=7,
            producer_epoch=0,
            base_sequence=first,
        )
        (result,) = await broker.parts.produce([("t", 0, batch)])
        return int(result.error)

    assert await send(0, 7) == 0
    await broker.advance(1500)
    assert broker.coordination.remembered_producers == 1
    await broker.advance(3500)
    assert broker.coordination.remembered_producers == 0
    assert broker.coordination.expired_producers == 1
    assert await send(7, 8) == 0
    assert await send(20, 1) == 45
    await broker.advance(5000)
    broker = await broker.restarted(settings, clean=False)
    assert await send(15, 1) == 0
    await broker.stop()


async def test_a_new_expiry_time_needs_a_restart(broker: GroupBroker) -> None:
    services = broker.parts.services
    batch = batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    await broker.parts.produce([("t", 0, batch)])
    (task,) = broker.scheduler.tasks(PRODUCER_EXPIRY_TASK)
    services.change_config(services.config.with_dynamic({"producer.id.expiration.ms": "1000"}))
    broker.clock.advance(1000)
    await task.function()
    assert broker.coordination.remembered_producers == 0
