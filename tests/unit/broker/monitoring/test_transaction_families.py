"""Metrics of transactions: what an operator sees of one that does not end (C052, TXN-12)."""

from pathlib import Path

from seglog.broker.monitoring.transaction_families import transaction_source
from support.broker_parts import batch_of
from support.group_broker import GroupBroker
from support.transactions import TransactionalProducer, transaction_broker


def read(broker: GroupBroker) -> dict[str, dict[tuple[str, ...], object]]:
    source = transaction_source(broker.coordination.transactions, broker.parts.services)
    return {family.name: dict(family.samples) for family in source()}


async def test_nobody_sees_that_a_transaction_hangs(tmp_path: Path) -> None:
    """Neither one that the coordinator knows nor one that nobody coordinates."""
    settings = {"transaction.partition.verification.enable": "false"}
    broker = await transaction_broker(tmp_path, settings)
    await broker.parts.create_topic("t", 1)
    oldest, late = (
        "seglog_oldest_open_transaction_seconds",
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
    )
    producer = TransactionalProducer(broker, timeout_ms=900_000)
    await producer.init()
    await producer.send("t", 0, b"x")
    broker.clock.advance(5000)
    found = read(broker)
    assert found["seglog_transactions"]["Ongoing",] == 1
    assert (found[oldest], found[late]) == ({(): 5.0}, {(): 0})
    await producer.end(commit=True)
    assert read(broker)[oldest] == {(): 0}
    hanging = batch_of(
        b"h", producer_id=77, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    await broker.parts.produce([("t", 0, hanging)], transactional_id="hangs")
    broker.clock.advance(1_200_000)
    assert (read(broker)[oldest], read(broker)[late]) == ({(): 1200.0}, {(): 0})
    broker.clock.advance(1)
    assert read(broker)[late] == {(): 1}
    assert found["seglog_unfinished_transactions"] == {(): 0}
    assert read(broker)["seglog_transaction_commits"] == {(): 1}
    await broker.stop()
