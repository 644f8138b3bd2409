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
from seglog.clients.errors import (
    AuthorizationError,
    ClientError,
    OutOfOrderSequenceError,
    UnknownProducerIdError,
)
from seglog.protocol.api import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import RecordBatch
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


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_RECORD])
async def test_a_warning_names_the_partition_once(broker, code, caplog):
    """Whether it is tried again, given up at once, or given up because time is up."""
    broker.create("topic", 1)
    broker.script = lambda request: refuse(request, code, [1])
    options = {"delivery_timeout_ms": 40, "linger_ms": 0, **FAST, "retry_backoff_ms": 2}
    async with AsyncProducer(broker.address, **options) as producer:
        future = await producer.send("topic", b"value")
        with pytest.raises(ClientError) as failure:
            await future
    assert str(failure.value).count("topic-0") == 1
    assert caplog.messages
    assert {message.count("topic-0") for message in caplog.messages} == {1}


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


@pytest.mark.slow
@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_lost_or_out_of_order_whatever_goes_wrong(broker, seed, is_idempotent):
    """Random refusals, lost requests, lost answers, splits; every record once, in order.

    Without idempotence a request whose answer is lost is sent again, so records may be there
    twice; then the whole batch is, and the first copies are in order.
    """
    rng = random.Random(seed)
    broker.create("topic", 3)
    retriable = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
    seen = set()  # What a broker has stored it does not find too large when it comes again.

    def is_divisible(request):
        batches = [bytes(item.records) for item in request.partitions]
        return seen.isdisjoint(batches) and min(map(len, batches)) > 150

    async def trouble(request):
        await asyncio.sleep(rng.random() / 500)
        roll = rng.random()
        if roll < 0.02:
            return HANG_UP
        if roll < 0.04:
            seen.update(bytes(item.records) for item in request.partitions)
            broker._produce(request)
            return HANG_UP
        if roll < 0.2:
            return refuse(request, rng.choice(retriable), [1])
        if roll < 0.3 and is_divisible(request):
            return refuse(request, ErrorCode.MESSAGE_TOO_LARGE, [1])
        seen.update(bytes(item.records) for item in request.partitions)
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
        enable_idempotence=is_idempotent,
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
        copies = stored(broker, partition=partition)
        first_copies = copies if is_idempotent else list(dict.fromkeys(copies))
        assert first_copies == [b"%d" % number for number in range(partition, 300, 3)]


def headers_of(broker, partition=0):
    """The headers of the batches of a partition, in order."""
    return [RecordBatch(batch.view).header for batch in broker.topics["topic"][partition].batches]


async def test_batches_are_numbered_under_the_id_that_the_broker_gave(broker):
    broker.create("topic")
    async with AsyncProducer(broker.address, batch_bytes=200) as producer:
        await producer.send_many("topic", [(None, bytes(50))] * 6)
        await producer.flush()
    sequence = 0
    for header in headers_of(broker):
        assert (header.producer_id, header.producer_epoch) == (1, 0)
        assert header.base_sequence == sequence
        sequence += header.record_count
    assert sequence == 6


@pytest.mark.parametrize("options", [{"acks": 1}, {"acks": 0}, {"enable_idempotence": False}])
async def test_without_idempotence_nobody_asks_for_an_id(broker, options):
    broker.create("topic")
    async with AsyncProducer(broker.address, **options) as producer:
        await producer.send_and_wait("topic", b"value")
    assert broker.producer_count == 0
    assert headers_of(broker)[0].producer_id == -1


async def test_an_id_is_asked_for_until_there_is_one(broker):
    """A coordinator that is loading is waited out; a refusal that does not pass is told."""
    broker.create("topic")
    answers = [
        InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        HANG_UP,
        InitProducerIdResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    broker.script = lambda request: (
        answers.pop(0) if isinstance(request, InitProducerIdRequest) and answers else None
    )
    async with AsyncProducer(broker.address, **FAST) as producer:
        assert (await producer.send_and_wait("topic", b"value")).offset == 0
        assert answers == []
    refusal = InitProducerIdResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    broker.script = lambda request: refusal if isinstance(request, InitProducerIdRequest) else None
    async with AsyncProducer(broker.address, linger_ms=20) as producer:
        with pytest.raises(AuthorizationError):
            await producer.send_and_wait("topic", b"value")
        broker.script = lambda _: None
        assert (await producer.send_and_wait("topic", b"value")).offset == 1


async def test_a_full_pipeline_is_stored_once_though_no_answer_comes_back(broker):
    """C050: five batches are stored and the connection breaks before a single answer."""
    broker.create("topic")
    waiting = []

    async def cut():
        waiting.append(None)
        if len(waiting) == 5:
            broker.cut_connections()
        await asyncio.Event().wait()

    def lose_answers(request):
        if not isinstance(request, ProduceRequest) or len(waiting) >= 5:
            return None
        broker._produce(request)
        return cut()

    async with AsyncProducer(broker.address, batch_bytes=200, **FAST) as producer:
        await producer.send_and_wait("topic", b"first")
        broker.script = lose_answers
        delivery = await producer.send_many("topic", [(None, b"%d" % n) for n in range(60)])
        assert await asyncio.wait_for(delivery, 5) == 60
    assert len(waiting) == 5
    assert stored(broker) == [b"first", *(b"%d" % n for n in range(60))]


async def test_records_behind_one_that_was_refused_are_stored(broker):
    """The numbers of the refused batch are missing; those in flight behind it get new ones."""
    broker.create("topic")
    refused = []

    def refuse_one(request):
        if isinstance(request, ProduceRequest) and not refused:
            refused.append(request)
            return refuse(request, ErrorCode.INVALID_RECORD, [1])
        return None

    async with AsyncProducer(broker.address, batch_bytes=200, **FAST) as producer:
        await producer.send_and_wait("topic", b"first")
        broker.script = refuse_one
        futures = [await producer.send("topic", b"%02d" % n) for n in range(40)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
    lost = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Exception)]
    assert all(isinstance(outcomes[n], InvalidRecordError) for n in lost)
    assert lost == list(range(len(lost)))
    assert stored(broker)[1:] == [b"%02d" % n for n in range(len(lost), 40)]
    assert [header.producer_epoch for header in headers_of(broker)][-1] == 1


async def test_a_broker_that_lost_what_it_acknowledged_is_told_once(broker):
    """A typed error, and no endless loop; the next records are stored."""
    broker.create("topic")
    async with AsyncProducer(broker.address, **FAST) as producer:
        for number in range(3):
            await producer.send_and_wait("topic", b"%d" % number)
        entry = broker.topics["topic"][0].producers.get(1)
        entry.batches.pop()
        with pytest.raises(OutOfOrderSequenceError, match="up to offset 2"):
            await producer.send_and_wait("topic", b"refused")
        assert (await producer.send_and_wait("topic", b"taken")).offset == 3


async def test_a_producer_that_was_forgotten_introduces_itself_again(broker):
    """C048: UNKNOWN_PRODUCER_ID once, and the batch is stored under the next epoch."""
    broker.create("topic")
    async with AsyncProducer(broker.address, **FAST) as producer:
        await producer.send_and_wait("topic", b"before")
        times = [1]
        broker.script = lambda request: refuse(request, ErrorCode.UNKNOWN_PRODUCER_ID, times)
        await producer.send_and_wait("topic", b"after")
        times = [1] * 9
        with pytest.raises(UnknownProducerIdError):
            await producer.send_and_wait("topic", b"never")
        assert len(times) == 7
    assert stored(broker) == [b"before", b"after"]
    assert [header.producer_epoch for header in headers_of(broker)] == [0, 1]


async def test_a_fenced_producer_goes_on_under_another_id(broker):
    broker.create("topic")
    times = [1]
    broker.script = lambda request: refuse(request, ErrorCode.INVALID_PRODUCER_EPOCH, times)
    async with AsyncProducer(broker.address, **FAST) as producer:
        assert (await producer.send_and_wait("topic", b"value")).offset == 0
    assert [header.producer_id for header in headers_of(broker)] == [2]
