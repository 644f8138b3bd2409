"""Small batches that inflate to much stop nobody, and take no more memory than is theirs (U17)."""

import asyncio
import threading
import tracemalloc

import pytest

from seglog.broker.api import produce_apart
from seglog.broker.api.produce import INLINE_INFLATED_BYTES_MAX
from seglog.broker.api.validation_memory import ValidationMemory
from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.requests.context import Pending
from seglog.broker.storage.log.append import prepare_append
from seglog.protocol.api import ProducePartition, ProduceRequest
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, RecordBatch, write_checksum
from support.broker_parts import CONTEXT, BrokerParts, batch_of
from support.inflating import large_value_batch, repeated_record_batch

MIB = 1024 * 1024
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.fixture
def preparing_threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which batches were prepared apart, in order."""
    threads: list[str] = []

    def noted(*args: object) -> object:
        threads.append(threading.current_thread().name)
        return prepare_append(*args)  # type: ignore[arg-type]  # handed on as they are

    monkeypatch.setattr(produce_apart, "prepare_append", noted)
    return threads


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_what_inflates_to_much_is_validated_in_a_worker(
    broker: BrokerParts, codec: Codec, preparing_threads: list[str]
) -> None:
    await broker.create_topic("t", 3)
    large = large_value_batch(2 * INLINE_INFLATED_BYTES_MAX, codec)
    assert len(large) < 32 * 1024
    request = ProduceRequest(
        1,
        1000,
        [
            ProducePartition("t", 0, batch_of(b"before", codec=codec)),
            ProducePartition("t", 1, large),
            ProducePartition("t", 2, batch_of(b"behind")),
            ProducePartition("t", 9, batch_of(b"nowhere")),
        ],
    )
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    assert pending.holds_input
    response = await pending.future
    assert [result.error for result in response.partitions] == [0, 0, 0, 3]
    assert [result.partition for result in response.partitions] == [0, 1, 2, 9]
    assert [broker.log("t", number).offsets.log_end for number in range(3)] == [1, 1, 1]
    assert preparing_threads
    assert all(name.startswith("validation") for name in preparing_threads)
    assert broker.services.counters.validation_bytes == 0


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_what_inflates_to_little_is_appended_at_once(
    broker: BrokerParts, codec: Codec, preparing_threads: list[str]
) -> None:
    await broker.create_topic("t")
    request = ProduceRequest(
        1,
        1000,
        [ProducePartition("t", 0, large_value_batch(INLINE_INFLATED_BYTES_MAX // 2, codec))],
    )
    assert not isinstance(broker.handlers.handle(request, CONTEXT), Pending)
    assert broker.log("t", 0).offsets.log_end == 1
    assert preparing_threads == []


async def test_many_batches_of_a_request_share_what_is_inflated_on_the_loop(
    broker: BrokerParts, preparing_threads: list[str]
) -> None:
    await broker.create_topic("t", 8)
    value_bytes = INLINE_INFLATED_BYTES_MAX // 4
    request = ProduceRequest(
        1,
        1000,
        [ProducePartition("t", number, large_value_batch(value_bytes)) for number in range(8)],
    )
    pending = broker.handlers.handle(request, CONTEXT)
    assert isinstance(pending, Pending)
    assert [broker.log("t", number).offsets.log_end for number in range(8)] == [1] * 3 + [0] * 5
    response = await pending.future
    assert [result.error for result in response.partitions] == [0] * 8
    assert len(preparing_threads) == 5


@pytest.mark.parametrize("kind", ["lz4", "gzip"])
async def test_more_than_a_little_is_compressed_anew_in_a_worker(
    broker: BrokerParts, kind: str, preparing_threads: list[str]
) -> None:
    await broker.create_topic("t", 1, {"compression.type": kind})
    response = await broker.ask(
        ProduceRequest(1, 1000, [ProducePartition("t", 0, large_value_batch(100_000))])
    )
    assert response.partitions[0].error == ErrorCode.NONE
    assert len(preparing_threads) == 1


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_a_batch_beyond_the_bound_is_refused_with_its_name(
    broker: BrokerParts, codec: Codec
) -> None:
    """K12."""
    await broker.create_topic("t", 2, {"max.decompressed.message.bytes": str(MIB)})
    results = await broker.produce(
        [
            ("t", 0, large_value_batch(2 * MIB, codec)),
            ("t", 1, large_value_batch(MIB - 100, codec)),
        ]
    )
    assert [result.error for result in results] == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE]
    message = results[0].error_message
    assert message is not None
    assert "1048576 bytes, which is max.decompressed.message.bytes" in message


async def test_a_batch_is_bounded_where_nobody_says_otherwise(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    bomb = large_value_batch(65 * MIB)
    assert len(bomb) < 10_000
    tracemalloc.start()
    try:
        (result,) = await broker.produce([("t", 0, bomb)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.error == ErrorCode.MESSAGE_TOO_LARGE
    assert peak < 150 * MIB


async def test_a_million_records_in_a_kilobyte_are_stored_without_an_object_for_each(
    broker: BrokerParts,
) -> None:
    """845 bytes of zstd, all offset deltas 0, took 258 MB and everybody's 0.95 s."""
    count = 1024 * 1024
    batch = repeated_record_batch(count)
    assert len(batch) < 1500
    await broker.create_topic("t")
    tracemalloc.start()
    try:
        (result,) = await broker.produce([("t", 0, batch)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.error == ErrorCode.NONE
    assert broker.log("t", 0).offsets.log_end == count
    assert peak < 48 * MIB
    stored = RecordBatch(broker.log("t", 0).segments.active.log.read(0, 10 * MIB))
    stored.check()
    assert stored.header.codec is Codec.ZSTD
    offsets = [record.offset for record in stored.records(from_offset=count - 3)]
    assert offsets == [count - 3, count - 2, count - 1]


async def test_a_count_that_the_bytes_cannot_hold_is_refused_before_they_are_walked(
    broker: BrokerParts,
) -> None:
    await broker.create_topic("t")
    header = RecordBatch(repeated_record_batch(10)).header
    lying = bytearray(repeated_record_batch(10))
    lying[57:61] = (2**31 - 1).to_bytes(4, "big")
    lying[23:27] = (2**31 - 2).to_bytes(4, "big")

    write_checksum(memoryview(lying))
    assert header.record_count == 10
    (result,) = await broker.produce([("t", 0, memoryview(lying))])
    assert result.error == ErrorCode.INVALID_RECORD
    assert "announces 2147483647 records" in (result.error_message or "")


@pytest.mark.parametrize(
    ("codec", "damage", "code"),
    [
        (Codec.GZIP, "garbage", ErrorCode.UNKNOWN_SERVER_ERROR),
        (Codec.SNAPPY, "garbage", ErrorCode.UNKNOWN_SERVER_ERROR),
        (Codec.LZ4, "garbage", ErrorCode.UNKNOWN_SERVER_ERROR),
        (Codec.ZSTD, "garbage", ErrorCode.UNKNOWN_SERVER_ERROR),
        (Codec.GZIP, "cut", ErrorCode.INVALID_RECORD),
        (Codec.LZ4, "cut", ErrorCode.UNKNOWN_SERVER_ERROR),
        (Codec.ZSTD, "cut", ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_cannot_be_unpacked_is_refused_for_good(
    broker: BrokerParts, codec: Codec, damage: str, code: ErrorCode
) -> None:
    """K11: CORRUPT_MESSAGE is sent again until the client's time is up."""

    await broker.create_topic("t")
    broken = bytearray(batch_of(b"x" * 500, b"y" * 500, codec=codec))
    if damage == "garbage":
        broken[HEADER_BYTES:] = b"\xff" * (len(broken) - HEADER_BYTES)
    else:
        del broken[-6:]
        broken[8:12] = (len(broken) - LOG_OVERHEAD).to_bytes(4, "big")
    write_checksum(memoryview(broken))
    (result,) = await broker.produce([("t", 0, memoryview(broken))])
    assert result.error == code
    assert not ErrorCode(result.error).retriable
    assert codec.name_of() in (result.error_message or "")


async def test_what_is_validated_at_once_has_a_bound() -> None:
    counters = BrokerCounters()
    memory = ValidationMemory(counters, 100)
    assert list(memory.windows([30, 80, 250, 0, 10, 90], lambda size: size)) == [
        ([30], 30),
        ([80], 80),
        ([250, 0], 100),
        ([10, 90], 100),
    ]
    order: list[str] = []
    may_end = asyncio.Event()

    async def work(name: str, size: int) -> None:
        async with memory.reserved(size):
            order.append(f"{name} {counters.validation_bytes}")
            await may_end.wait()

    tasks = [asyncio.create_task(work(*each)) for each in [("a", 60), ("b", 60), ("c", 40)]]
    await asyncio.sleep(0)
    assert order == ["a 60"], "c would fit beside a, but b was first"
    given_up = asyncio.create_task(work("d", 100))
    await asyncio.sleep(0)
    given_up.cancel()
    may_end.set()
    await asyncio.gather(*tasks)
    assert order == ["a 60", "b 100", "c 40"], "room for two was there at once"
    assert counters.validation_bytes == 0
