"""What a partition promises with an acknowledgement, with replicas that lag behind."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from seglog.broker.partition.partition import Partition
from seglog.broker.requests.context import Pending
from seglog.broker.storage.errors import FileError
from seglog.broker.storage.log.flush_ticket import FlushTicket
from seglog.protocol.api import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import IsolationLevel
from support.broker_parts import CONTEXT, NOW_MS, BrokerParts, batch_of
from support.replicas import LaggingReplicas


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerParts]:
    """A broker with one topic."""
    parts = await BrokerParts.start(tmp_path)
    await parts.create_topic("t", 1, {"min.insync.replicas": "2"})
    yield parts
    await parts.stop()


@pytest.fixture
def lagging(broker: BrokerParts) -> LaggingReplicas:
    """The replicas of the topic's partition from now on."""
    replicas = LaggingReplicas()
    broker.partition("t", 0).replicas = replicas
    return replicas


def catch_up(partition: Partition, replicas: LaggingReplicas, offset: int) -> None:
    replicas.follower_end = offset
    partition.move_high_watermark()


def produce(broker: BrokerParts, acks: int, timeout_ms: int = 60_000) -> object:
    request = ProduceRequest(acks, timeout_ms, [ProducePartition("t", 0, batch_of(b"x", b"y"))])
    return broker.handlers.handle(request, CONTEXT)


async def test_acks_all_waits_for_the_replicas_and_acks_1_does_not(
    broker: BrokerParts, lagging: LaggingReplicas
) -> None:
    """Nothing may assume that high watermark = log end."""
    assert not isinstance(produce(broker, 1), Pending)
    pending = produce(broker, -1)
    assert isinstance(pending, Pending)
    catch_up(broker.partition("t", 0), lagging, 3)
    await broker.quiet()
    assert not pending.future.done()
    catch_up(broker.partition("t", 0), lagging, 4)
    response = await pending.future
    assert (response.partitions[0].error, response.partitions[0].base_offset) == (0, 2)


async def test_acks_all_times_out_while_a_replica_lags(
    broker: BrokerParts, lagging: LaggingReplicas
) -> None:
    pending = produce(broker, -1, timeout_ms=2)
    assert isinstance(pending, Pending)
    (result,) = (await pending.future).partitions
    assert (result.error, result.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    catch_up(broker.partition("t", 0), lagging, 2)


async def test_readers_see_only_what_all_replicas_have(
    broker: BrokerParts, lagging: LaggingReplicas
) -> None:
    """READ-2, HW-7"""
    parked = broker.begin_fetch([("t", 0, 0)], max_wait_ms=60_000)
    produce(broker, 1)
    await broker.quiet()
    assert not parked.future.done()
    catch_up(broker.partition("t", 0), lagging, 2)
    response = await parked.future
    assert response.partitions[0].high_watermark == 2
    assert broker.values_of(response.partitions[0]) == [b"x", b"y"]


async def test_durable_and_replicated_are_both_waited_for(
    broker: BrokerParts, lagging: LaggingReplicas
) -> None:
    await broker.create_topic("d", 1, {"flush.messages": "1"})
    broker.partition("d", 0).replicas = lagging
    request = ProduceRequest(-1, 60_000, [ProducePartition("d", 0, batch_of(b"x"))])
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    await broker.quiet()
    assert broker.log("d", 0).offsets.recovery_point == 1
    assert not pending.future.done()
    catch_up(broker.partition("d", 0), lagging, 1)
    assert (await pending.future).partitions[0].error == ErrorCode.NONE


async def test_waiting_for_replicas_ends_when_the_partition_is_closed(
    broker: BrokerParts, lagging: LaggingReplicas
) -> None:
    pending = produce(broker, -1)
    assert isinstance(pending, Pending)
    await broker.delete_topic("t")
    (result,) = (await asyncio.wait_for(pending.future, 5)).partitions
    assert result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_topic_deleted_under_a_sync_looks_like_a_failing_disk(
    broker: BrokerParts, caplog: pytest.LogCaptureFixture
) -> None:
    """The sync of an append begins when the worker of the deletion has closed the files."""
    topic_id = await broker.create_topic("d", 1, {"flush.messages": "1"})
    request = ProduceRequest(1, 60_000, [ProducePartition("d", 0, batch_of(b"x"))])
    log = broker.log("d", 0)
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    broker.services.partitions.remove_topic("d", topic_id, 1)
    log.abandon()
    (result,) = (await asyncio.wait_for(pending.future, 5)).partitions
    assert result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.services.counters.flush_failures == 0
    assert "flush-failed" not in caplog.text


async def test_sync_that_was_given_up_acknowledges_nothing(
    broker: BrokerParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory goes offline while a sync waits for a thread: it syncs nothing any more."""
    await broker.create_topic("d", 1, {"flush.messages": "1"})
    partition, log = broker.partition("d", 0), broker.log("d", 0)
    tickets: list[FlushTicket] = []
    begin_flush = log.begin_flush

    def begin_and_lose(upto: int | None = None) -> FlushTicket:
        tickets.append(begin_flush(upto))
        error = FileError("sync", "0.log", "Input/output error")
        broker.services.logs.failures.report(partition.log_dir, error)
        return tickets[-1]

    monkeypatch.setattr(log, "begin_flush", begin_and_lose)
    request = ProduceRequest(1, 60_000, [ProducePartition("d", 0, batch_of(b"x"))])
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    (result,) = (await asyncio.wait_for(pending.future, 5)).partitions
    assert not tickets[0].is_done
    assert result.error == ErrorCode.KAFKA_STORAGE_ERROR


async def test_odd_timestamps_are_warned_of_once_in_a_while(
    broker: BrokerParts, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        await broker.produce([("t", 0, batch_of(b"x", timestamp_ms=NOW_MS + 1000))])
    assert caplog.text.count("event=odd-timestamps finding=future") == 1
    assert broker.services.counters.topic("t").future_records == 50


async def test_open_partition_makes_everything_written_visible(broker: BrokerParts) -> None:
    """HW-5: the checkpoint may be older than the log; one replica has it all."""
    produce(broker, 1)
    again = await broker.restart(clean=False)
    assert again.log("t", 0).offsets.high_watermark == 2


async def test_reader_of_an_epoch_that_was_lost_is_told_where_the_log_ends(
    broker: BrokerParts,
) -> None:
    """KIP-320: told of an unknown epoch, it would begin at the start of the log, or at its end."""
    produce(broker, 1)
    again = await (await broker.restart(clean=False)).restart(clean=False)
    partition = again.partition("t", 0)
    assert (partition.leader_epoch, again.log("t", 0).leader_epochs.latest_epoch) == (2, 0)
    assert partition.end_offset_for_epoch(1) == (0, 2)
    assert partition.end_offset_for_epoch(3) == (-1, -1)
    entry = FetchPartition("t", 0, 5, 1000, last_fetched_epoch=1)
    request = FetchRequest(0, 1, 1000, [entry], IsolationLevel.READ_UNCOMMITTED)
    (result,) = (await again.ask(request)).partitions
    assert (result.error, result.diverging_epoch) == (ErrorCode.NONE, (0, 2))


async def test_reader_of_a_log_that_is_empty_after_a_kill_has_missed_nothing(
    broker: BrokerParts,
) -> None:
    """No epoch is noted in it; those below the leader's are no news."""
    again = await (await broker.restart(clean=False)).restart(clean=False)
    assert again.partition("t", 0).end_offset_for_epoch(1) == (1, 0)


async def test_closed_partition_takes_neither_records_nor_other_changes(
    broker: BrokerParts,
) -> None:
    """A worker closes its log meanwhile; what the close wakes would go on with the next append."""
    partition = broker.partition("t", 0)
    log_end = partition.log.offsets.log_end
    gone = FileError("use", "x", "the partition is gone")
    partition.close(gone)
    for change in (
        lambda: partition.append(batch_of(b"x"), 1, NOW_MS),
        lambda: partition.roll(NOW_MS),
    ):
        with pytest.raises(FileError, match="is gone"):
            change()
    assert partition.log.offsets.log_end == log_end
