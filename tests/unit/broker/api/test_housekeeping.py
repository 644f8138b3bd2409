"""Looking into logs and running housekeeping on demand, against real logs."""

from seglog.protocol.api import (
    DescribePartitionsRequest,
    RollSegmentsRequest,
    RunRetentionRequest,
)
from seglog.protocol.errors import ErrorCode
from support.broker_parts import BrokerParts, batch_of


async def filled(broker: BrokerParts) -> None:
    await broker.create_topic("t", 2, {"segment.bytes": "1000", "retention.bytes": "900"})
    for _ in range(6):
        await broker.produce([("t", 0, batch_of(bytes(400)))])


async def test_partitions_and_segments_are_described(broker: BrokerParts) -> None:
    await filled(broker)
    response = await broker.ask(DescribePartitionsRequest(["t", "ghost"], include_segments=True))
    assert response.unknown_topics == ["ghost"]
    first, second = response.partitions
    assert (first.log_start_offset, first.high_watermark, first.log_end_offset) == (0, 6, 6)
    assert first.log_dir == str(broker.log_dir)
    assert [segment.base_offset for segment in first.segments] == [0, 2, 4]
    assert [segment.next_offset for segment in first.segments] == [2, 4, 6]
    assert first.size_bytes == sum(segment.size_bytes for segment in first.segments) > 2400
    assert (second.log_end_offset, second.segment_count) == (0, 1)
    everything = await broker.ask(DescribePartitionsRequest())
    assert [(part.topic, part.partition) for part in everything.partitions] == [("t", 0), ("t", 1)]
    assert everything.partitions[0].segments == []


async def test_dry_run_of_retention_says_what_the_real_one_then_does(broker: BrokerParts) -> None:
    """RET-6, RET-15"""
    await filled(broker)
    planned = await broker.ask(RunRetentionRequest(["t"], dry_run=True))
    assert [finding.base_offset for finding in planned.findings] == [0, 2]
    assert all(finding.reason for finding in planned.findings)
    assert broker.offsets("t", 0)[0] == 0
    done = await broker.ask(RunRetentionRequest())
    assert done.findings == planned.findings
    assert broker.offsets("t", 0)[0] == 4
    assert (await broker.ask(RunRetentionRequest())).findings == []


async def test_retention_on_demand_knows_only_existing_topics(broker: BrokerParts) -> None:
    response = await broker.ask(RunRetentionRequest(["ghost"]))
    assert response.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "ghost" in (response.error_message or "")


async def test_segments_are_rolled_on_demand_once(broker: BrokerParts) -> None:
    """ROLL-12: an empty active segment stays."""
    await filled(broker)
    for _ in range(2):
        response = await broker.ask(RollSegmentsRequest("t"))
        assert [part.active_base_offset for part in response.partitions] == [6, 0]
    await broker.quiet()
    assert broker.log("t", 0).offsets.recovery_point == 6
    response = await broker.ask(RollSegmentsRequest("ghost"))
    assert [part.error for part in response.partitions] == [3]
