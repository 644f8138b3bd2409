"""DeleteRecords, against real logs."""

import shutil
from pathlib import Path

import pytest

from seglog.protocol.api import DeleteRecordsPartition, DeleteRecordsRequest
from seglog.protocol.errors import ErrorCode
from support.broker_parts import BrokerParts, batch_of


async def filled(broker: BrokerParts, configs: dict[str, str] | None = None) -> None:
    await broker.create_topic("t", 1, configs or {})
    for _ in range(10):
        await broker.produce([("t", 0, batch_of(*[b"x"] * 10))])


async def test_log_start_moves_and_reads_below_it_fail_at_once(broker: BrokerParts) -> None:
    """DEL-1, DEL-10"""
    await filled(broker)
    result = await broker.delete_records("t", 0, 37)
    assert (result.error, result.low_watermark) == (0, 37)
    part = (await broker.fetch([("t", 0, 36)])).partitions[0]
    assert (part.error, part.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 37)
    assert broker.offsets("t", 0)[0] == 37
    again = await broker.delete_records("t", 0, 5)
    assert (again.error, again.low_watermark) == (0, 37)


async def test_minus_one_means_the_high_watermark(broker: BrokerParts) -> None:
    """DEL-2"""
    await filled(broker)
    assert (await broker.delete_records("t", 0, -1)).low_watermark == 100


@pytest.mark.parametrize("offset", [101, -2, 2**63 - 1])
async def test_offset_beyond_the_log_is_refused(broker: BrokerParts, offset: int) -> None:
    """DEL-3"""
    await filled(broker)
    result = await broker.delete_records("t", 0, offset)
    assert (result.error, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert broker.offsets("t", 0)[0] == 0


async def test_compacted_topic_may_be_cut(broker: BrokerParts) -> None:
    """C013: unlike Kafka (DEL-4)."""
    await filled(broker, {"cleanup.policy": "compact"})
    assert (await broker.delete_records("t", 0, 50)).error == ErrorCode.NONE


async def test_internal_and_unknown_topics_are_refused_one_by_one(broker: BrokerParts) -> None:
    """DEL-5"""
    await filled(broker)
    await broker.create_internal_topic("__consumer_offsets")
    entries = [
        DeleteRecordsPartition("__consumer_offsets", 0, -1),
        DeleteRecordsPartition("t", 0, 20),
        DeleteRecordsPartition("t", 1, 0),
        DeleteRecordsPartition("ghost", 0, 0),
    ]
    response = await broker.ask(DeleteRecordsRequest(entries))
    assert [result.error for result in response.partitions] == [17, 0, 3, 3]


async def test_acknowledged_deletion_survives_a_kill(broker: BrokerParts, tmp_path: Path) -> None:
    """Unlike Kafka, where records come back that were deleted since the last checkpoint (DEL-8)."""
    await filled(broker)
    await broker.delete_records("t", 0, 42)
    copy = tmp_path / "killed"
    shutil.copytree(broker.log_dir, copy)
    survivor = await BrokerParts.start(copy.parent, log_dir=copy)
    try:
        assert survivor.offsets("t", 0) == (42, 100)
        part = (await survivor.fetch([("t", 0, 41)])).partitions[0]
        assert part.error == ErrorCode.OFFSET_OUT_OF_RANGE
    finally:
        await survivor.stop()
