"""AsyncProducer as an application uses it."""

import asyncio

import pytest

from seglog.clients import (
    AsyncProducer,
    BufferFullError,
    ClientClosedError,
    ClientError,
    ConfigurationError,
    FlushTimeoutError,
    InvalidRecordError,
    MetadataTimeoutError,
    RecordsDroppedError,
)
from seglog.protocol.api import (
    MetadataRequest,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode
from support.fake_broker import SILENCE


def silence_produce(request):
    return SILENCE if isinstance(request, ProduceRequest) else None


def refuse_produce(request):
    if not isinstance(request, ProduceRequest):
        return None
    return ProduceResponse(
        [
            ProducePartitionResult(item.topic, item.partition, ErrorCode.INVALID_RECORD)
            for item in request.partitions
        ]
    )


async def test_a_record_comes_back_with_its_place(broker):
    broker.create("topic", 3)
    async with AsyncProducer(broker.address) as producer:
        future = await producer.send(
            "topic", b"value", key=b"key", timestamp_ms=5, headers=[("h", b"v")], partition=2
        )
        assert await future == ("topic", 2, 0, 5)
        assert future.done()
        assert future.result() == await future
        assert future.exception() is None
    (batch,) = broker.topics["topic"][2].batches
    (record,) = batch.records()
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"v"),))


async def test_a_send_that_finds_no_room_waits_then_fails(broker):
    broker.create("topic")
    async with AsyncProducer(broker.address, buffer_bytes=50, max_block_ms=50) as producer:
        await producer.send_and_wait("topic", b"known")
        broker.script = silence_produce
        await producer.send("topic", bytes(100))
        with pytest.raises(BufferFullError, match="max_block_ms=50, buffer_bytes=50"):
            await producer.send("topic", b"more")
        with pytest.raises(BufferFullError):
            await producer.send_many("topic", [(None, b"more")])
        assert producer.accumulator._room_waiters == [], "memory for each send that failed"
        assert await producer.close(0) == 1


async def test_many_records_pass_through_a_small_buffer(broker):
    """Bounded memory: what is sent may be far larger than the buffer."""
    broker.create("topic", 2)
    largest = 0

    async def items():
        nonlocal largest
        for index in range(500):
            largest = max(largest, producer.accumulator.buffered_bytes)
            yield None, b"%d" % index

    async with AsyncProducer(broker.address, buffer_bytes=500, batch_bytes=200) as producer:
        delivery = await producer.send_many("topic", items())
        assert await delivery == 500
        assert await (await producer.send_many("topic", ((None, b"") for _ in range(100)))) == 100
    assert largest <= 500 + 100
    assert sum(log.next_offset for log in broker.topics["topic"]) == 600


async def test_an_iterable_that_breaks_does_not_take_back_what_it_gave(broker):
    broker.create("topic")

    def items():
        yield None, b"first"
        raise LookupError("no more")

    async with AsyncProducer(broker.address) as producer:
        with pytest.raises(LookupError):
            await producer.send_many("topic", items())
        with pytest.raises(ConfigurationError):
            await producer.send_many("topic", [(None, b"second"), (None, "text")])
        await producer.flush()
    assert broker.topics["topic"][0].next_offset == 2


async def test_flush_waits_for_what_was_sent_and_no_longer_than_told(broker):
    broker.create("topic")
    async with AsyncProducer(broker.address, linger_ms=60_000) as producer:
        future = await producer.send("topic", b"value")
        await asyncio.wait_for(producer.flush(), 2)
        assert future.done()
        broker.script = silence_produce
        await producer.send("topic", b"value")
        with pytest.raises(FlushTimeoutError, match="1 record not"):
            await producer.flush(0.05)
        assert await producer.close(0) == 1


async def test_an_error_that_nobody_saw_comes_out_of_flush(broker):
    """Sending without looking at the futures must not lose records in silence."""
    broker.create("topic")
    broker.script = refuse_produce
    async with AsyncProducer(broker.address) as producer:
        await producer.send("topic", b"value")
        with pytest.raises(InvalidRecordError):
            await producer.flush()
        await producer.flush()
        future = await producer.send("topic", b"value")
        with pytest.raises(InvalidRecordError):
            await future
        await producer.flush()


async def test_leaving_a_with_block_tells_of_lost_records(broker):
    broker.create("topic")
    broker.script = refuse_produce

    async def send_and_leave(failure=None):
        async with AsyncProducer(broker.address) as producer:
            await producer.send("topic", b"value")
            if failure is not None:
                raise failure

    with pytest.raises(InvalidRecordError):
        await send_and_leave()
    with pytest.raises(LookupError):
        await send_and_leave(LookupError())


async def test_records_that_time_out_while_closing_count_as_dropped(broker):
    broker.create("topic")
    producer = await AsyncProducer(broker.address, delivery_timeout_ms=100).start()
    await producer.send_and_wait("topic", b"known")
    broker.script = silence_produce
    for _ in range(5):
        await producer.send("topic", b"value")
    assert await asyncio.wait_for(producer.close(), 2) == 5
    with pytest.raises(ClientClosedError):
        await producer.send("topic", b"value")
    assert RecordsDroppedError(5).dropped == 5


async def test_callbacks_are_called_and_may_fail(broker):
    broker.create("topic")
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    called = []
    async with AsyncProducer(broker.address) as producer:
        future = await producer.send("topic", b"value")
        future.add_done_callback(lambda _: 1 / 0)
        future.add_done_callback(called.append)
        await future
        await asyncio.sleep(0)
        bulk = await producer.send_many("topic", [(None, b"")])
        bulk.add_done_callback(called.append)
        await bulk
        await asyncio.sleep(0)
        assert called == [future, bulk]
        await producer.send_and_wait("topic", b"still works")
    assert len(complaints) == 1


async def test_a_partition_that_was_just_added_can_be_sent_to(broker):
    (log,) = broker.create("topic")
    async with AsyncProducer(broker.address) as producer:
        await producer.send_and_wait("topic", b"value")
        with pytest.raises(ConfigurationError, match="has 1 partition, no 1"):
            await producer.send("topic", b"value", partition=1)
        broker.topics["topic"].append(type(log)())
        assert (await producer.send_and_wait("topic", b"value", partition=1)).partition == 1


async def test_a_partition_that_is_gone_is_not_waited_for(broker):
    """A topic was made anew with fewer: at once an error, not after the delivery timeout."""
    broker.create("topic", 2)
    async with AsyncProducer(broker.address, metadata_max_age_ms=10) as producer:
        await producer.send_and_wait("topic", b"", partition=1)
        broker.create("topic", 1)
        async with asyncio.timeout(5):
            while producer.cluster.topics["topic"].partition_count == 2:  # noqa: ASYNC110 - metadata
                await asyncio.sleep(0.005)
        with pytest.raises(ConfigurationError, match="has 1 partition, no 1"):
            await producer.send("topic", b"", partition=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topic": b"topic"}, "topic b'topic': expected a string"),
        ({"partition": "0"}, "partition '0': expected an integer"),
        ({"headers": {"name": b"value"}}, "header 'name': expected a pair"),
        ({"headers": [("name",)]}, "expected a pair"),
        ({"value": "text"}, "value is a str: expected bytes"),
        ({"topic": "t\udcff"}, "no text that can be sent"),
        ({"headers": [("\udcff", b"")]}, "no text that can be sent"),
    ],
)
async def test_what_no_record_can_be_is_refused_by_name(broker, arguments, words):
    broker.create("topic")
    async with AsyncProducer(broker.address) as producer:
        with pytest.raises(ConfigurationError, match=words):
            await producer.send(**{"topic": "topic", **arguments})


async def test_a_future_that_is_not_decided_cannot_be_waited_for_on_the_loop(broker):
    """It would hold the loop that has to bring it about."""
    broker.create("topic")
    async with AsyncProducer(broker.address, linger_ms=50) as producer:
        one = await producer.send("topic", b"")
        many = await producer.send_many("topic", [(None, b"")])
        for future in (one, many):
            with pytest.raises(ClientError, match="await the future"):
                future.result(10)
        await producer.flush()
        assert (one.result().offset, many.result()) == (0, 1)


async def test_a_codec_that_cannot_be_imported_fails_records_instead_of_hanging(
    broker, monkeypatch, caplog
):
    """Whatever ends the sender: it is the one who would time its records out."""

    def import_codec(*_):
        raise ModuleNotFoundError("No module named 'zstandard'")

    broker.create("topic")
    async with AsyncProducer(broker.address, compression="zstd") as producer:
        await producer.send_and_wait("topic", b"")
        monkeypatch.setattr("seglog.clients.producer.dispatcher.encode", import_codec)
        with pytest.raises(ClientClosedError, match="No module named 'zstandard'"):
            await asyncio.wait_for(producer.send_and_wait("topic", b"value"), 5)
        with pytest.raises(ClientClosedError, match="No module named 'zstandard'"):
            await producer.send("topic", b"more")
    assert "seglog-sender failed" in caplog.text


async def test_the_number_of_dropped_records_is_told_whatever_was_told_before(broker, caplog):
    broker.create("topic")
    producer = await AsyncProducer(broker.address).start()
    producer.cluster.warn("some trouble")
    broker.script = silence_produce
    await producer.send_many("topic", [(None, b"")] * 3)
    assert await producer.close(0) == 3
    assert "closed with 3 records dropped" in caplog.text


async def test_a_topic_is_asked_for_once_however_many_send_to_it(broker):
    broker.auto_create_partitions = 1
    async with AsyncProducer(broker.address) as producer:
        await asyncio.gather(*(producer.send_and_wait("new", b"") for _ in range(50)))
    asked = [request for request in broker.requests_of(MetadataRequest) if request.topics]
    assert len(asked) == 1


async def test_metadata_that_does_not_come_is_waited_for_as_long_as_told(broker):
    async with AsyncProducer(broker.address, max_block_ms=50) as producer:
        broker.script = lambda _: SILENCE
        with pytest.raises(MetadataTimeoutError, match="topic unheard"):
            await producer.send("unheard", b"")


async def test_a_client_that_was_not_started_says_so(broker):
    producer = AsyncProducer(broker.address)
    with pytest.raises(ClientClosedError, match="not started"):
        await producer.send("topic", b"")
    assert await producer.close() == 0
    with pytest.raises(ClientError):
        await producer.start()
