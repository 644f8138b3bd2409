"""What is added to a transaction twice, before the disk has it once."""

import asyncio
from pathlib import Path

import pytest

from seglog.protocol.errors import ErrorCode
from support.transactions import TransactionalProducer, transaction_broker

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 2])
async def test_a_repetition_is_answered_before_the_disk_has_it(
    tmp_path: Path, version: int
) -> None:
    """Who asks again on another connection is promised the same as the first time."""
    broker = await transaction_broker(tmp_path, {"log.flush.interval.messages": "1"})
    await broker.parts.create_topic("t", 1)
    producer = TransactionalProducer(broker, version=version)
    assert await producer.init() is NONE
    additions = broker.coordination.transactions.additions
    claim = (producer.transactional_id, producer.producer_id, producer.epoch, [("t", 0)])
    first = additions.admit(*claim, may_add=True)
    assert first is not None
    again = asyncio.ensure_future(producer.add(("t", 0)))
    await asyncio.sleep(0)
    assert not first.done()
    assert not again.done()
    assert additions.admit(*claim, may_add=True) is first
    assert await again == [NONE]
    assert first.done()
    assert additions.admit(*claim, may_add=True) is None
    await broker.stop()
