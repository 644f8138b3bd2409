"""Batches on their way: retries, order, splits."""

import asyncio
import random

import pytest

from seglog.clients import (
    AsyncProducer,
    ConfigurationError,
    InvalidRecordError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from seglog.clients.producer.batch import ProducerBatch
from seglog.clients.producer.sender import ProducerIdentity
from seglog.protocol.api import ProducePartitionResult, ProduceRequest, ProduceResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.types import TopicPartition
from support.fake_broker import HANG_UP

FAST = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5}


def stored(broker, topic="topic", partition=0):
    """The values of a partition, in order."""
    return [record.value for batch in broker.topics[topic][partition].batches for record in batch]


def refuse(request, code, times, message=None, record_errors=()):
    """An answer that refuses every partition of a produce request."""
    if not isinstance(request, ProduceRequest) or not times:
        return None
    times.pop()
    return ProduceResponse(
        [
            ProducePartitionResult(
                item.topic,
                item.partition,
                code,
                error_message=message,
                record_errors=list(record_errors),
            )
            for item in request.partitions
        ]
    )


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CORRUPT_MESSAGE,
    ],
)
async def test_order_is_kept_when_batches_are_tried_again(broker, code):
    """A later batch must not be stored while an earlier one waits for its next attempt."""
    broker.create("topic", 2)
    times = [1] * 7
    broker.script = lambda request: refuse(request, code, times)
    values = [b"%03d" % index for index in range(60)]
    async with AsyncProducer(broker.address, batch_bytes=200, **FAST) as producer:
        futures = [await producer.send("topic", value, partition=1) for value in values]
        offsets = [(await future).offset for future in futures]
    assert times == []
    assert stored(broker, partition=1) == values
    assert offsets == list(range(60))


async def test_order_is_kept_when_the_connection_breaks_under_a_request(broker):
    broker.create("topic")
    produced = 0

    def hang_up_once(request):
        nonlocal produced
        produced += isinstance(request, ProduceRequest)
        return HANG_UP if produced == 2 and isinstance(request, ProduceRequest) else None

    broker.script = hang_up_once
    values = [b"%03d" % index for index in range(60)]
    async with AsyncProducer(broker.address, batch_bytes=200, **FAST) as producer:
        await producer.send_many("topic", [(None, value) for value in values])
        await asyncio.wait_for(producer.flush(), 5)
    assert stored(broker) == values


async def test_partitions_are_asked_together_and_requests_overlap(broker):
    """Several partitions share a request; several requests are under way."""
    broker.create("topic", 8)
    gate = asyncio.Event()
    under_way = most = 0

    async def slow():
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await gate.wait()
        under_way -= 1

    broker.script = lambda request: slow() if isinstance(request, ProduceRequest) else None
    async with AsyncProducer(
        broker.address, batch_bytes=10_000, max_request_bytes=21_000, max_in_flight_requests=3
    ) as producer:
        for partition in range(8):
            await producer.send_many("topic", [(None, bytes(900))] * 10, partition=partition)
        async with asyncio.timeout(5):
            while under_way < 3:  # noqa: ASYNC110 - what another task does is waited for
                await asyncio.sleep(0)
        gate.set()
    assert most == 3
    requests = broker.requests_of(ProduceRequest)
    assert max(len(request.partitions) for request in requests) == 2
    for request in requests:
        assert len({item.partition for item in request.partitions}) == len(request.partitions)


async def test_a_batch_over_the_brokers_limit_is_divided(broker):
    """The client's batch size and the topic's max.message.bytes need not fit."""
    broker.create("topic")

    def limit(request):
        if not isinstance(request, ProduceRequest):
            return None
        size = sum(item.records.nbytes for item in request.partitions)
        return refuse(request, ErrorCode.MESSAGE_TOO_LARGE, [1]) if size > 500 else None

    broker.script = limit
    values = [b"%03d" % index + bytes(60) for index in range(40)]
    async with AsyncProducer(broker.address, batch_bytes=4000, **FAST) as producer:
        futures = [await producer.send("topic", value) for value in values]
        giant = await producer.send("topic", bytes(600))
        last = await producer.send("topic", b"last")
        assert [(await future).offset for future in futures] == list(range(40))
        with pytest.raises(RecordTooLargeError):
            await giant
        assert (await last).offset == 40
    assert stored(broker) == [*values, b"last"]


async def test_a_refusal_that_does_not_pass_is_not_tried_again(broker):
    """C018: the application gets a specific exception with the broker's words, at once."""
    broker.create("topic")
    broker.script = lambda request: refuse(
        request, ErrorCode.INVALID_RECORD, [1], "compacted topic", [(1, "record has no key")]
    )
    async with AsyncProducer(broker.address, linger_ms=5) as producer:
        delivery = await producer.send_many("topic", [(b"a", b""), (None, b""), (b"b", b"")])
        with pytest.raises(InvalidRecordError, match="compacted topic") as caught:
            await delivery
        assert caught.value.code is ErrorCode.INVALID_RECORD
        broker.script = lambda _: None
        await producer.send_and_wait("topic", b"", key=b"c")
    assert len(broker.requests_of(ProduceRequest)) == 2
    assert stored(broker) == [b""]


async def test_acks_0_does_not_wait_for_an_answer(broker):
    broker.create("topic")
    async with AsyncProducer(broker.address, acks=0) as producer:
        metadata = await producer.send_and_wait("topic", b"value")
        assert metadata.offset == -1
        for _ in range(100):
            if broker.topics["topic"][0].batches:
                break
            await asyncio.sleep(0.01)
    assert stored(broker) == [b"value"]
    assert broker.requests_of(ProduceRequest)[0].acks == 0


async def test_a_level_that_the_codec_does_not_have_fails_the_send_and_nothing_else(broker):
    broker.create("topic")
    async with AsyncProducer(broker.address, compression="gzip", compression_level=99) as producer:
        with pytest.raises(ConfigurationError):
            await producer.send_and_wait("topic", b"value")
        with pytest.raises(ConfigurationError):
            await producer.send_and_wait("topic", b"value")


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches_are_sent_as_such(broker, compression):
    broker.create("topic")
    async with AsyncProducer(broker.address, compression=compression) as producer:
        await producer.send_many("topic", [(b"k", b"v" * 500)] * 20)
        await producer.flush()
    header = broker.topics["topic"][0].batches[-1].header
    assert header.codec.name.lower() == compression
    assert stored(broker) == [b"v" * 500] * 20


async def test_a_topic_that_is_deleted_under_way_is_not_created_again(broker):
    """C045: only a send asks for creation, a batch that waits does not."""
    broker.create("topic")
    broker.auto_create_partitions = 1
    async with AsyncProducer(broker.address, delivery_timeout_ms=300, **FAST) as producer:
        await producer.send_and_wait("topic", b"first")
        del broker.topics["topic"]
        future = await producer.send("topic", b"second")
        error = None
        try:
            await future
        except Exception as caught:  # noqa: BLE001 - its kind is what the test is about
            error = caught
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)
        assert broker.topics == {}


async def test_an_unknown_topic_is_told_soon(broker):
    """Not after max_block_ms: the broker has said so, and only creation takes a moment."""
    async with AsyncProducer(broker.address, **FAST) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await asyncio.wait_for(producer.send("nowhere", b""), 3)


def test_sequence_numbers_belong_to_batches_and_survive_retries():
    """The seam for idempotent producers: a retry must carry the numbers of the first attempt."""
    partition = TopicPartition("t", 0)

    def batch(count):
        made = ProducerBatch(partition, 0, 0)
        made.record_count = count
        return made

    anonymous = batch(3)
    ProducerIdentity().number(anonymous)
    assert anonymous.base_sequence == -1
    identity = ProducerIdentity(7, 1)
    batches = [batch(3), batch(2), batch(1)]
    for each in batches:
        identity.number(each)
        identity.number(each)
    assert [each.base_sequence for each in batches] == [0, 3, 5]
    identity.next_sequences[partition] = 2**31 - 1
    wrapping = [batch(1), batch(1)]
    for each in wrapping:
        identity.number(each)
    assert [each.base_sequence for each in wrapping] == [2**31 - 1, 0]


async def test_batches_of_an_idempotent_producer_carry_its_identity(broker):
    broker.create("topic")
    producer = AsyncProducer(broker.address, batch_bytes=200)
    producer._identity.producer_id = 42
    producer._identity.producer_epoch = 3
    async with producer:
        await producer.send_many("topic", [(None, bytes(50))] * 6)
        await producer.flush()
    headers = [RecordBatch(batch.view).header for batch in broker.topics["topic"][0].batches]
    sequence = 0
    for header in headers:
        assert (header.producer_id, header.producer_epoch) == (42, 3)
        assert header.base_sequence == sequence
        sequence += header.record_count
    assert sequence == 6


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_lost_or_out_of_order_whatever_goes_wrong(broker, seed):
    """Random refusals, lost requests, lost answers, splits; every record at least once, in order.

    A request whose answer is lost is sent again, so records may be there twice; then the whole
    batch is, and the first copies are in order.
    """
    rng = random.Random(seed)
    broker.create("topic", 3)
    retriable = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]

    async def trouble(request):
        await asyncio.sleep(rng.random() / 500)
        roll = rng.random()
        if roll < 0.02:
            return HANG_UP
        if roll < 0.04:
            broker._produce(request)
            return HANG_UP
        if roll < 0.2:
            return refuse(request, rng.choice(retriable), [1])
        if roll < 0.3 and any(item.records.nbytes > 150 for item in request.partitions):
            return refuse(request, ErrorCode.MESSAGE_TOO_LARGE, [1])
        return None

    broker.script = lambda request: (
        trouble(request) if isinstance(request, ProduceRequest) else None
    )
    async with AsyncProducer(
        broker.address,
        batch_bytes=300,
        buffer_bytes=2000,
        max_request_bytes=700,
        linger_ms=rng.choice([0, 1]),
        **FAST,
    ) as producer:
        futures = [
            await producer.send("topic", b"%d" % number, partition=number % 3)
            for number in range(300)
        ]
        for number, future in enumerate(futures):
            place = await asyncio.wait_for(future, 20)
            log = broker.topics["topic"][place.partition]
            (record,) = [
                record for batch in log.batches for record in batch if record.offset == place.offset
            ]
            assert record.value == b"%d" % number
    for partition in range(3):
        first_copies = list(dict.fromkeys(stored(broker, partition=partition)))
        assert first_copies == [b"%d" % number for number in range(partition, 300, 3)]
