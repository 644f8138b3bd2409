"""What happens to clients when their broker dies or hangs (case C061), and when it comes back."""

import asyncio
import gc
import logging
import time

import pytest

from seglog.clients import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    BrokerUnreachableError,
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    DeliveryTimeoutError,
    RequestTimeoutError,
)
from seglog.protocol.api import FetchRequest, MetadataRequest, ProduceRequest
from support.fake_broker import HANG_UP, SILENCE, FakeBroker
from support.processor_time import in_time

TIMES = {"request_timeout_ms": 200, "connect_timeout_ms": 100}


@pytest.fixture(autouse=True)
async def nothing_left_behind():
    """Fail a test that leaves a task, or an exception that nobody fetched."""
    loop = asyncio.get_running_loop()
    complaints = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    before = asyncio.all_tasks()
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()
    assert complaints == []


async def queued_sends(producer, count=100):
    return [await producer.send("topic", b"%d" % index) for index in range(count)]


@pytest.mark.parametrize("way", ["killed", "stopped"])
async def test_sends_to_a_lost_broker_fail_within_the_delivery_timeout(way):
    """C061: each send fails with a timeout error, and close says how many were dropped."""
    async with FakeBroker() as broker:
        broker.create("topic")
        producer = AsyncProducer(broker.address, delivery_timeout_ms=500, **TIMES)
        await producer.start()
        await (await producer.send("topic", b"first"))
        if way == "killed":
            await broker.stop()
        else:
            broker.script = lambda _: SILENCE
        begun = time.monotonic()
        futures = await queued_sends(producer)
        errors = [await asyncio.wait_for(_error_of(future), 2) for future in futures]
        assert all(isinstance(error, DeliveryTimeoutError) for error in errors)
        assert f"127.0.0.1:{broker.port}" in str(errors[0])
        assert in_time(time.monotonic() - begun, 1.5)
        assert await producer.close(1) == 0


async def _until(condition):
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what another task does is waited for
            await asyncio.sleep(0.01)


async def _error_of(future):
    try:
        await future
    except ClientError as error:
        return error
    return None


async def test_close_in_time_reports_what_it_drops():
    """C061: stop(timeout) returns in time although nothing can be sent."""
    async with FakeBroker() as broker:
        broker.create("topic")
        producer = await AsyncProducer(broker.address, **TIMES).start()
        await (await producer.send("topic", b"first"))
        broker.script = lambda request: SILENCE if isinstance(request, ProduceRequest) else None
        futures = await queued_sends(producer)
        begun = time.monotonic()
        assert await producer.close(0.1) == 100
        assert in_time(time.monotonic() - begun, 1)
        for future in futures:
            with pytest.raises(ClientClosedError, match="dropped"):
                await future
        assert await producer.close(0.1) == 0


async def test_cancelling_a_send_that_waits_is_honoured_at_once():
    """C061: for a full buffer, for metadata and for an acknowledgement."""
    async with FakeBroker() as broker:
        broker.create("topic")
        producer = await AsyncProducer(broker.address, buffer_bytes=100).start()
        await (await producer.send("topic", b"first"))
        broker.script = lambda _: SILENCE
        acknowledgement = await producer.send("topic", bytes(200))
        waiting = [
            asyncio.create_task(producer.send("topic", b"no room")),
            asyncio.create_task(producer.send("unheard of", b"no metadata")),
            asyncio.create_task(_error_of(acknowledgement)),
        ]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        begun = time.monotonic()
        await asyncio.wait(waiting, timeout=1)
        assert all(task.cancelled() for task in waiting)
        assert in_time(time.monotonic() - begun, 0.5)
        assert await producer.close(0) == 1


async def test_cancelling_a_close_is_honoured_at_once_and_leaves_nothing_behind():
    """C061: neither tasks nor futures that nobody decides any more."""
    async with FakeBroker() as broker:
        broker.create("topic")
        producer = await AsyncProducer(broker.address).start()
        consumer = await AsyncConsumer(broker.address, {("topic", 0): 0}, group="group").start()
        await (await producer.send("topic", b"first"))
        broker.script = lambda _: SILENCE
        unsent = await producer.send("topic", b"unsent")
        others = asyncio.all_tasks()
        for closing in (producer.close(), consumer.close()):
            task = asyncio.create_task(closing)
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task], timeout=5)
            assert task.done()
        with pytest.raises(ClientClosedError, match="dropped"):
            await unsent
        ours = [task for task in others if task.get_name().startswith("seglog")]
        assert ours
        assert all(task.done() for task in ours)
        assert await producer.close() == 0
        await consumer.close()


async def test_clients_whose_tasks_somebody_cancels_say_so_instead_of_waiting():
    """As the end of ``asyncio.run`` does, and some frameworks after each test."""
    async with FakeBroker() as broker:
        broker.create("topic")
        producer = await AsyncProducer(broker.address, linger_ms=60_000).start()
        consumer = await AsyncConsumer(broker.address, "topic").start()
        unsent = await producer.send("topic", b"unsent")
        reading = asyncio.create_task(consumer.read(timeout=None))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks():
            if task.get_name().startswith("seglog"):
                task.cancel()
        for work in (unsent, reading):
            with pytest.raises(ClientClosedError, match="was cancelled, as asyncio"):
                await asyncio.wait_for(work, 5)
        with pytest.raises(ClientClosedError, match="was cancelled"):
            await producer.send("topic", b"more")
        with pytest.raises(ClientClosedError, match="was cancelled"):
            await consumer.read()
        assert await producer.close() == 0
        await consumer.close()


@pytest.mark.parametrize("kind", [AsyncProducer, AsyncConsumer, AsyncAdmin])
async def test_starting_where_nothing_listens_names_host_and_port(kind):
    """C061: the connect error names host and port."""
    async with FakeBroker() as broker:
        address = broker.address
    client = kind(address)
    with pytest.raises(BrokerUnreachableError, match=f"127.0.0.1:{broker.port}") as caught:
        await client.start()
    assert (caught.value.host, caught.value.port) == ("127.0.0.1", broker.port)
    assert caught.value.retriable
    assert isinstance(caught.value, ConnectionError)
    await client.close()


async def test_starting_where_nobody_shakes_hands_ends_in_time():
    """A stopped process: the system accepts for it, but nothing answers."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = AsyncAdmin(f"127.0.0.1:{port}", **TIMES)
    with pytest.raises(BrokerUnreachableError, match="handshake not finished"):
        await client.start()
    await client.close()
    server.close()


async def test_an_admin_request_without_an_answer_times_out():
    async with FakeBroker() as broker, AsyncAdmin(broker.address, **TIMES) as admin:
        broker.script = lambda _: SILENCE
        with pytest.raises(RequestTimeoutError, match="CreateTopicsRequest"):
            await admin.create_topic("topic")
        with pytest.raises((ClientTimeoutError, BrokerUnreachableError)):
            await admin.list_topics()


async def test_closing_ends_a_reader_that_waits():
    async with FakeBroker() as broker:
        broker.create("topic")
        consumer = await AsyncConsumer(broker.address, "topic").start()
        reading = asyncio.create_task(consumer.read(timeout=None))
        await asyncio.sleep(0.01)
        await consumer.close()
        with pytest.raises(ClientClosedError):
            await asyncio.wait_for(reading, 1)


@pytest.mark.slow
async def test_reconnects_at_most_twice_a_second_and_logs_little(caplog):
    """C061, C063: attempts back off, log lines are few."""
    caplog.set_level(logging.DEBUG, "seglog.clients")
    async with FakeBroker() as broker:
        broker.create("topic")
        async with (
            AsyncProducer(broker.address, delivery_timeout_ms=1700, **TIMES) as producer,
            AsyncConsumer(broker.address, "topic") as consumer,
        ):
            await producer.send_and_wait("topic", b"first")
            before = broker.connection_count
            # It accepts and closes at once: the worst that can be called in a circle.
            broker.script = lambda _: HANG_UP
            broker.cut_connections()
            futures = await queued_sends(producer, 10)
            for future in futures:
                assert isinstance(await _error_of(future), DeliveryTimeoutError)
            # Two clients, 1.7 seconds.
            assert broker.connection_count - before <= 2 * 5
            assert len(caplog.records) <= 4
            broker.script = lambda _: None
            await asyncio.wait_for(producer.send_and_wait("topic", b"last"), 5)
            records = await consumer.read(1, 5) + await consumer.read(1, 5)
    assert [record.value for record in records] == [b"first", b"last"]


async def test_everybody_goes_on_by_itself_after_a_restart():
    """C063: no call of the application is needed, nothing is lost, nothing comes twice."""
    async with FakeBroker() as broker:
        broker.create("topic", 6)
        async with (
            AsyncProducer(broker.address, **TIMES) as producer,
            AsyncConsumer(broker.address, "topic", start="earliest") as consumer,
        ):
            sent, read = [], []
            for round_number in range(3):
                for index in range(50):
                    value = b"%d-%d" % (round_number, index)
                    await producer.send("topic", value, partition=index % 6)
                    sent.append(value)
                await broker.stop()
                await asyncio.sleep(0.05)
                await broker.listen()
                await asyncio.wait_for(producer.flush(), 5)
                while len(read) < len(sent):
                    batch = await consumer.read(1000, 5)
                    assert batch
                    read += [record.value for record in batch]
    assert sorted(read) == sorted(sent)


async def test_metadata_refresh_does_not_bring_a_deleted_topic_back():
    """C045: only a send to an unknown topic carries the create flag."""
    async with FakeBroker() as broker:
        broker.auto_create_partitions = 1
        broker.create("kept")
        async with (
            AsyncProducer(broker.address, metadata_max_age_ms=10) as producer,
            AsyncConsumer(broker.address, "kept", metadata_max_age_ms=10),
            AsyncAdmin(broker.address) as admin,
        ):
            await producer.send_and_wait("made", b"by the send")
            await admin.describe_topics(["made"])
            creating = [
                request.topics
                for request in broker.requests_of(MetadataRequest)
                if request.allow_auto_topic_creation
            ]
            assert creating == [["made"]]
            del broker.topics["made"], broker.topics["kept"]
            seen = len(broker.requests_of(MetadataRequest))
            await _until(lambda: len(broker.requests_of(MetadataRequest)) >= seen + 6)
            assert broker.topics == {}
            await producer.send_and_wait("made", b"again")
            assert list(broker.topics) == ["made"]


async def test_a_fetch_that_hangs_is_given_up_and_repeated():
    """A broker that stops and goes on: the reader must not wait for a lost answer for ever."""
    async with FakeBroker() as broker:
        (log,) = broker.create("topic")
        async with AsyncConsumer(
            broker.address, "topic", start="earliest", fetch_max_wait_ms=50, **TIMES
        ) as consumer:
            broker.script = lambda request: SILENCE if isinstance(request, FetchRequest) else None
            await asyncio.sleep(0.1)
            broker.script = lambda _: None
            async with AsyncProducer(broker.address) as producer:
                await producer.send_and_wait("topic", b"value")
            assert [record.value for record in await consumer.read(1, 5)] == [b"value"]
            assert log.next_offset == 1
