"""Produce, against real logs. Statement ids are those of the behaviour reference."""

import asyncio
import os
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from seglog.broker.api.produce import INLINE_COMPRESSED_BYTES_MAX
from seglog.broker.requests.context import Pending
from seglog.protocol.api import ProducePartition, ProduceRequest
from seglog.protocol.checksum import crc32c
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from support.broker_parts import CONTEXT, NOW_MS, BrokerParts, batch_of
from support.replicas import LaggingReplicas

ATTRIBUTES, LAST_OFFSET_DELTA, PRODUCER_ID, RECORD_COUNT = 21, 23, 43, 57


def with_field(batch: memoryview, position: int, layout: str, value: int) -> memoryview:
    """A copy with one header field changed and the checksum made right again."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return memoryview(changed)


def bad_batches() -> dict[str, tuple[memoryview | None, set[ErrorCode]]]:
    """The kinds of C041 and the codes that fit each."""
    good = batch_of(b"1", b"2", b"3", b"4")
    wrong_checksum = bytearray(good)
    wrong_checksum[17] ^= 1
    corrupt, invalid = ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
    unsupported = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    kinds: dict[str, tuple[memoryview | None, set[ErrorCode]]] = {
        "checksum off by one": (memoryview(wrong_checksum), {corrupt}),
        "record count 5 with 4 records": (with_field(good, RECORD_COUNT, ">i", 5), {invalid}),
        "last offset delta too small": (with_field(good, LAST_OFFSET_DELTA, ">i", 2), {invalid}),
        "last offset delta too large": (with_field(good, LAST_OFFSET_DELTA, ">i", 9), {invalid}),
        "two batches": (memoryview(bytearray(bytes(good) * 2)), {invalid}),
        "length too long": (
            with_field(good, 8, ">i", len(good) - 12 + 1),
            {invalid, corrupt},
        ),
        "length too short": (with_field(good, 8, ">i", len(good) - 12 - 1), {corrupt, invalid}),
        "100001 bytes": (batch_of(bytes(100_001 - 61)), {ErrorCode.MESSAGE_TOO_LARGE}),
        "zero records": (
            with_field(with_field(good, RECORD_COUNT, ">i", 0)[:61], LAST_OFFSET_DELTA, ">i", -1),
            {invalid, corrupt},
        ),
        "no bytes": (memoryview(bytearray()), {invalid}),
        "null": (None, {invalid}),
        "transactional without producer id": (
            with_field(good, ATTRIBUTES, ">h", 0x10),
            {invalid},
        ),
        "control batch": (with_field(good, ATTRIBUTES, ">h", 0x20), {invalid}),
    }
    for magic in (0, 1, 3):
        kinds[f"magic {magic}"] = (
            with_field(good, 16, ">b", magic),
            {invalid, corrupt, unsupported},
        )
    return kinds


@pytest.mark.parametrize("kind", list(bad_batches()))
async def test_bad_batch_leaves_its_neighbours_alone(broker: BrokerParts, kind: str) -> None:
    """C041"""
    bad, codes = bad_batches()[kind]
    await broker.create_topic("t", 3, {"max.message.bytes": "100000"})
    good = [batch_of(b"a", b"b"), batch_of(b"c")]
    results = await broker.produce([("t", 0, good[0]), ("t", 1, bad), ("t", 2, good[1])], acks=-1)
    assert [result.error for result in (results[0], results[2])] == [ErrorCode.NONE] * 2
    assert results[1].error in codes, results[1]
    assert results[1].error_message
    assert results[1].base_offset == -1
    assert broker.log("t", 1).offsets.log_end == 0
    assert broker.log("t", 1).segment_bytes_total == 0
    again = await broker.produce([("t", 0, batch_of(b"d")), ("t", 1, batch_of(b"e"))])
    assert [(result.error, result.base_offset) for result in again] == [(0, 2), (0, 0)]
    assert broker.values("t", 0) == [b"a", b"b", b"d"]


async def test_stored_bytes_are_those_that_were_sent(broker: BrokerParts) -> None:
    """APP-18: only base offset and leader epoch are filled in."""
    await broker.create_topic("t")
    first, second = batch_of(b"one", b"two"), batch_of(b"three")
    sent = bytes(second)
    await broker.produce([("t", 0, first)])
    (result,) = await broker.produce([("t", 0, second)])
    assert (result.base_offset, result.log_append_time_ms, result.log_start_offset) == (2, -1, 0)
    stored = broker.read_bytes("t", 0, 2)
    assert stored[:8] == struct.pack(">q", 2)
    assert stored[8:12] == sent[8:12]
    assert stored[12:16] == struct.pack(">i", 0)
    assert stored[16:] == sent[16:]


async def test_unknown_partition_is_refused_and_creates_nothing(broker: BrokerParts) -> None:
    await broker.create_topic("t", 2)
    results = await broker.produce([("t", 2, batch_of(b"x")), ("ghost", 0, batch_of(b"x"))])
    assert [result.error for result in results] == [3, 3]
    assert broker.services.catalog.get("ghost") is None


@pytest.mark.parametrize("acks", [-2, 2, 5])
async def test_acks_that_do_not_exist_are_refused(broker: BrokerParts, acks: int) -> None:
    """APP-27"""
    await broker.create_topic("t")
    (result,) = await broker.produce([("t", 0, batch_of(b"x"))], acks=acks)
    assert result.error == ErrorCode.INVALID_REQUIRED_ACKS
    assert broker.log("t", 0).offsets.log_end == 0


async def test_acks_all_needs_enough_replicas_before_anything_is_written(
    broker: BrokerParts,
) -> None:
    """APP-27"""
    await broker.create_topic("t", 1, {"min.insync.replicas": "2"})
    broker.partition("t", 0).replicas = LaggingReplicas(in_sync_count=1)
    (result,) = await broker.produce([("t", 0, batch_of(b"x"))], acks=-1)
    assert result.error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.log("t", 0).offsets.log_end == 0
    (result,) = await broker.produce([("t", 0, batch_of(b"x"))], acks=1)
    assert result.error == ErrorCode.NONE


async def test_acks_all_needs_no_more_replicas_than_there_are(broker: BrokerParts) -> None:
    """APP-27: the smaller of min.insync.replicas and the number of replicas counts."""
    await broker.create_topic("t", 1, {"min.insync.replicas": "2"})
    (result,) = await broker.produce([("t", 0, batch_of(b"x"))], acks=-1)
    assert result.error == ErrorCode.NONE
    assert broker.values("t", 0) == [b"x"]


async def test_clients_cannot_write_to_internal_topics(broker: BrokerParts) -> None:
    """APP-26"""
    await broker.create_internal_topic("__consumer_offsets")
    (result,) = await broker.produce([("__consumer_offsets", 0, batch_of(b"x"))])
    assert result.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    admin = CONTEXT._replace(client_id="__admin_client")
    (result,) = await broker.produce([("__consumer_offsets", 0, batch_of(b"x"))], context=admin)
    assert result.error == ErrorCode.NONE


async def test_topic_may_be_named_by_its_id(broker: BrokerParts) -> None:
    topic_id = await broker.create_topic("t")
    for identifier, code in ((topic_id, 0), (bytes(15) + b"\x09", ErrorCode.UNKNOWN_TOPIC_ID)):
        entry = ProducePartition("", 0, batch_of(b"x"), identifier)
        response = await broker.ask(ProduceRequest(1, 1000, [entry]))
        assert response.partitions[0].error == code
        assert response.partitions[0].topic_id == identifier


async def test_batch_for_a_deleted_topic_lands_in_its_successor(
    broker: BrokerParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C045: made again while a worker validated a batch that names the old topic by its id."""
    topic_id = await broker.create_topic("t")
    run = broker.services.workers.validation.run

    async def run_and_replace_the_topic(job: Any) -> Any:
        prepared = await run(job)
        await broker.delete_topic("t")
        await broker.create_topic("t")
        return prepared

    between = SimpleNamespace(run=run_and_replace_the_topic)
    monkeypatch.setattr(broker.services.workers, "validation", between)
    batch = batch_of(os.urandom(INLINE_COMPRESSED_BYTES_MAX * 2), codec=Codec.GZIP)
    response = await broker.ask(ProduceRequest(1, 1000, [ProducePartition("", 0, batch, topic_id)]))
    assert response.partitions[0].error == ErrorCode.UNKNOWN_TOPIC_ID
    assert broker.partition("t", 0).log.offsets.log_end == 0


async def test_seconds_instead_of_milliseconds_are_counted_or_refused(broker: BrokerParts) -> None:
    """C002"""
    stamp = NOW_MS // 1000
    await broker.create_topic("a", 1, {"retention.ms": "604800000"})
    await broker.create_topic("b", 1, {"message.timestamp.before.max.ms": "86400000"})
    await broker.create_topic("c", 1, {"message.timestamp.type": "LogAppendTime"})
    for _ in range(20):
        batch = [bytes(1000)] * 10
        results = await broker.produce(
            [(topic, 0, batch_of(*batch, timestamp_ms=stamp)) for topic in "abc"]
        )
        assert [result.error for result in results] == [0, ErrorCode.INVALID_TIMESTAMP, 0]
        assert [index for index, _ in results[1].record_errors] == list(range(10))
        assert results[2].log_append_time_ms == NOW_MS
    assert broker.services.counters.topic("a").expired_records == 200
    assert broker.services.counters.topic("c").expired_records == 0
    assert broker.log("b", 0).offsets.log_end == 0


async def test_records_from_the_future_are_counted(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    await broker.produce([("t", 0, batch_of(b"x", b"y", timestamp_ms=NOW_MS + 60_000))])
    assert broker.services.counters.topic("t").future_records == 2


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
async def test_large_compressed_batch_is_validated_in_a_worker(
    broker: BrokerParts, codec: Codec
) -> None:
    await broker.create_topic("t", 2)
    noise = [crc32c(str(number).encode()).to_bytes(4, "big") * 25 for number in range(20_000)]
    large = batch_of(*noise, codec=codec)
    assert len(large) > 64 * 1024
    request = ProduceRequest(
        1,
        1000,
        [
            ProducePartition("t", 0, large),
            ProducePartition("t", 1, batch_of(b"small")),
            ProducePartition("t", 7, batch_of(b"nowhere")),
        ],
    )
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    assert pending.holds_input
    response = await pending.future
    assert [result.error for result in response.partitions] == [0, 0, 3]
    assert broker.log("t", 0).offsets.log_end == 20_000
    damaged = bytearray(large)
    damaged[-1] ^= 1
    (result,) = await broker.produce([("t", 0, memoryview(damaged))])
    assert result.error == ErrorCode.CORRUPT_MESSAGE
    assert broker.log("t", 0).offsets.log_end == 20_000


async def test_acknowledged_with_flush_messages_1_means_on_disk(broker: BrokerParts) -> None:
    """Durability has a name; appends that arrive together share a sync."""
    await broker.create_topic("t", 1, {"flush.messages": "1"})
    pending = [
        broker.handlers.handle(
            ProduceRequest(acks, 1000, [ProducePartition("t", 0, batch_of(b"x"))]), CONTEXT
        )
        for acks in (1, -1) * 50
    ]
    assert all(isinstance(each, Pending) and not each.holds_input for each in pending)
    assert broker.log("t", 0).offsets.recovery_point == 0
    responses = await asyncio.gather(*(each.future for each in pending))
    assert [response.partitions[0].base_offset for response in responses] == list(range(100))
    assert broker.log("t", 0).offsets.recovery_point == 100
    counters = broker.services.counters
    assert (counters.flushes, counters.group_commits, counters.grouped_appends) == (1, 1, 100)


async def test_flush_messages_n_syncs_after_n_records(broker: BrokerParts) -> None:
    """FLUSH-1"""
    await broker.create_topic("t", 1, {"flush.messages": "10"})
    for _ in range(9):
        await broker.produce([("t", 0, batch_of(b"x"))])
    assert broker.log("t", 0).offsets.recovery_point == 0
    await broker.produce([("t", 0, batch_of(b"x"))])
    assert broker.log("t", 0).offsets.recovery_point == 10


async def test_failed_append_without_acknowledgement_is_counted(broker: BrokerParts) -> None:
    """C041: never ignored silently."""
    await broker.create_topic("t")
    response = broker.handlers.handle(
        ProduceRequest(0, 1000, [ProducePartition("t", 0, None)]), CONTEXT
    )
    assert response.partitions[0].error == ErrorCode.INVALID_RECORD
    assert broker.services.counters.unacknowledged_failures == 1


async def test_rolled_segments_are_synced_in_the_background(broker: BrokerParts) -> None:
    """ROLL-10"""
    await broker.create_topic("t", 1, {"segment.bytes": "1000"})
    for _ in range(4):
        (result,) = await broker.produce([("t", 0, batch_of(bytes(400)))])
        assert result.error == ErrorCode.NONE
    await broker.quiet()
    log = broker.log("t", 0)
    assert log.offsets.recovery_point == log.segments.active.base_offset == 2
    assert broker.services.counters.segment_rolls == 1


async def test_duplicate_of_an_idempotent_producer_is_answered_with_its_first_offset(
    broker: BrokerParts,
) -> None:
    """IDEM-2"""
    await broker.create_topic("t")
    for _ in range(2):
        (result,) = await broker.produce(
            [("t", 0, batch_of(b"x", producer_id=7, producer_epoch=0, base_sequence=0))]
        )
        assert (result.error, result.base_offset) == (0, 0)
    assert broker.log("t", 0).offsets.log_end == 1
    assert broker.services.counters.topic("t").messages_in == 1
