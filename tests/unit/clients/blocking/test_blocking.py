"""The blocking clients: threads, ends, and that they do what their twins do."""

import asyncio
import gc
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest

from seglog.clients import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    BrokerUnreachableError,
    BufferFullError,
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    ConfigurationError,
    Consumer,
    InvalidRecordError,
    Producer,
)
from seglog.protocol.api import ProducePartitionResult, ProduceRequest, ProduceResponse
from seglog.protocol.errors import ErrorCode
from support.fake_broker import SILENCE
from support.fake_logs import fill, numbered
from support.new_threads import new_threads, threads_now
from support.processor_time import in_time


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """C061: no thread is left when a client is closed."""
    before = threads_now()
    yield
    assert [name for name in new_threads(before) if name.startswith("seglog")] == []


def silence_produce(request):
    return SILENCE if isinstance(request, ProduceRequest) else None


def test_there_and_back(threaded_broker):
    """The example of the documentation, as written there."""
    address = threaded_broker.address
    with Admin(address) as admin:
        admin.create_topic("flights", partitions=3, configs={"segment.bytes": 1048576})
        with Producer(
            address, acks="all", linger_ms=5, batch_bytes=131072, compression="zstd"
        ) as p:
            future = p.send(
                "flights",
                b"value",
                key=b"k",
                timestamp_ms=1700000000000,
                headers=[("h", b"v")],
                partition=None,
            )
            metadata = future.result(10)
            assert metadata[0] == "flights"
            assert metadata[2:] == (0, 1700000000000)
            p.send_many("flights", ((b"k", b"%d" % index) for index in range(1000)))
            p.flush()
        with Consumer(address, "flights", start="earliest", stop_at_end=True) as c:
            records = list(c)
            place = (metadata.topic, metadata.partition)
            assert [record.offset for record in records] == list(range(1001))
            assert c.position(place) == 1001
            c.seek(place, 500)
            assert c.read(max_records=500, timeout=1.0) == records[500:1000]
            assert c.offsets_for_times({place: 1700000000001})[place].offset == 1
        assert admin.delete_records({place: 1000}) == {place: 1000}
        assert admin.list_offsets({place: "earliest"})[place].offset == 1000
        assert list(admin.describe_topics()) == admin.list_topics() == ["flights"]


def test_breaking_out_of_a_loop_keeps_the_place(threaded_broker):
    (log,) = threaded_broker.create("topic")
    fill(log, numbered(100), batch_records=30)
    with Consumer(threaded_broker.address, "topic", start="earliest", stop_at_end=True) as consumer:
        for record in consumer:
            assert consumer.position(("topic", 0)) == record.offset + 1
            if record.offset == 41:
                break
        assert [record.offset for record in consumer.read(3)] == [42, 43, 44]
        assert [record.offset for record in consumer] == list(range(45, 100))


def test_seeking_inside_a_loop(threaded_broker):
    (log,) = threaded_broker.create("topic")
    fill(log, numbered(20), batch_records=20)
    seen = []
    with Consumer(threaded_broker.address, "topic", start="earliest", stop_at_end=True) as consumer:
        for record in consumer:
            seen.append(record.offset)
            if seen == [0, 1, 2]:
                consumer.seek(("topic", 0), 18)
    assert seen == [0, 1, 2, 18, 19]


def test_until_end_then_on(threaded_broker):
    (log,) = threaded_broker.create("topic", 1)
    fill(log, numbered(10), batch_records=3)
    with Consumer(threaded_broker.address, "topic", start="earliest") as consumer:
        assert len(list(consumer.until_end())) == 10
        assert list(consumer.until_end()) == []
        fill(log, numbered(5, 10), batch_records=5)
        assert [record.offset for record in consumer.until_end()] == list(range(10, 15))


def test_ctrl_c_meets_records_on_their_way_to_the_reader(threaded_broker):
    (log,) = threaded_broker.create("topic")
    fill(log, numbered(10))
    with Consumer(threaded_broker.address, "topic", start="earliest", stop_at_end=True) as consumer:
        call, interrupts = consumer._call, [KeyboardInterrupt()]

        def interrupted(work):
            result = call(work)
            if interrupts:
                raise interrupts.pop()
            return result

        assert len(consumer.read(4)) == 4
        consumer._call = interrupted
        with pytest.raises(KeyboardInterrupt):
            consumer.read(3)
        assert [record.offset for record in consumer.read(3)] == [4, 5, 6]
        assert [record.offset for record in consumer] == [7, 8, 9]


def test_many_threads_share_a_producer(threaded_broker):
    threaded_broker.create("topic", 2)

    def send(number):
        for index in range(500):
            producer.send("topic", b"%d-%d" % (number, index), partition=number % 2)
        producer.send_many(
            "topic",
            [(None, b"%d-%d" % (number, index)) for index in range(500, 1000)],
            partition=number % 2,
        )

    with Producer(threaded_broker.address, batch_bytes=2000, buffer_bytes=20_000) as producer:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Consumer(threaded_broker.address, "topic", start="earliest", stop_at_end=True) as consumer:
        seen = {number: [] for number in range(4)}
        for record in consumer:
            number, index = map(int, record.value.split(b"-"))
            seen[number].append(index)
    assert seen == {number: list(range(1000)) for number in range(4)}


def test_a_full_buffer_blocks_a_thread_no_longer_than_told(threaded_broker):
    threaded_broker.create("topic")
    with Producer(threaded_broker.address, buffer_bytes=50, max_block_ms=50) as producer:
        producer.send("topic", b"known").result(5)
        threaded_broker.script = silence_produce
        future = producer.send("topic", bytes(100))
        with pytest.raises(BufferFullError):
            producer.send("topic", b"more")
        with pytest.raises(ClientTimeoutError):
            future.result(0.01)
        begun = time.monotonic()
        assert producer.close(0.1) == 1
        assert producer.close() == 0
        assert in_time(time.monotonic() - begun, 2)
        with pytest.raises(ClientClosedError):
            future.result(0)
        with pytest.raises(ClientClosedError):
            producer.send("topic", b"late")


def test_closing_releases_a_thread_that_waits_for_room(threaded_broker):
    threaded_broker.create("topic")
    producer = Producer(threaded_broker.address, buffer_bytes=50)
    producer.send("topic", b"known").result(5)
    threaded_broker.script = silence_produce
    producer.send("topic", bytes(100))
    outcome = []

    def send():
        try:
            producer.send("topic", b"more")
        except ClientError as error:
            outcome.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    while not producer._twin.accumulator._room_waiters:
        time.sleep(0.001)
    producer.close(0)
    thread.join(2)
    assert [type(error) for error in outcome] == [ClientClosedError]


def test_lost_records_come_out_of_a_with_block(threaded_broker):
    threaded_broker.create("topic")
    threaded_broker.script = lambda request: (
        ProduceResponse([ProducePartitionResult("topic", 0, ErrorCode.INVALID_RECORD)])
        if isinstance(request, ProduceRequest)
        else None
    )

    def send_and_leave():
        with Producer(threaded_broker.address) as producer:
            producer.send("topic", b"value")

    with pytest.raises(InvalidRecordError):
        send_and_leave()


def test_a_callback_that_waits_for_its_own_client_is_told_instead_of_hanging(threaded_broker):
    """And the client goes on as if nothing had been asked: it is neither closed nor blocked."""
    threaded_broker.create("topic")
    outcome = []
    called = threading.Event()

    def wait_for_the_client(_):
        later = producer.send("topic", b"later")
        for call in (
            producer.flush,
            producer.close,
            later.result,
            lambda: producer.send_many("topic", [(None, bytes(90)), (None, b"no room")]),
            lambda: producer.send("unheard of", b""),
        ):
            try:
                call()
            except ClientError as error:
                outcome.append(str(error))
        called.set()

    with Producer(threaded_broker.address, buffer_bytes=100) as producer:
        producer.send("topic", b"value").add_done_callback(wait_for_the_client)
        assert called.wait(5)
        assert producer.send("topic", b"last").result(5).offset == 3
        assert producer.close() == 0
    assert outcome == ["a callback of the client must not wait for the client"] * 5


def test_a_callback_that_calls_exit_ends_the_clients_thread(threaded_broker):
    threaded_broker.create("topic")
    complaints = []
    with Producer(threaded_broker.address) as producer:
        producer._twin._loop.set_exception_handler(lambda _, context: complaints.append(context))
        producer.send("topic", b"value").add_done_callback(lambda _: sys.exit(3))
        producer.flush(5)
        assert producer.send("topic", b"more").result(5).offset == 1
    (complaint,) = complaints
    assert isinstance(complaint["exception"], SystemExit)


def test_an_async_client_waits_for_ever_on_another_loop(threaded_broker):
    (log,) = threaded_broker.create("topic")
    fill(log, numbered(2))
    address = threaded_broker.address
    clients = (AsyncProducer(address), AsyncConsumer(address, "topic"), AsyncAdmin(address))
    producer, consumer, admin = clients
    with asyncio.Runner() as first:
        for client in clients:
            first.run(client.start())
        for work in (
            producer.send("topic", b"value"),
            producer.send_many("topic", [(None, b"value")]),
            producer.send("unheard of", b"value"),
            producer.flush(),
            producer.close(),
            consumer.read(),
            anext(aiter(consumer)),
            consumer.end_offsets(),
            consumer.close(),
            admin.list_topics(),
            admin.start(),
        ):
            with asyncio.Runner() as second, pytest.raises(ClientError, match="another one"):
                second.run(_awaited(work))
        for client in clients:
            first.run(client.close())


async def _awaited(work):
    return await work


def test_a_client_that_travels_to_another_process_fails_with_words_about_its_insides(
    threaded_broker,
):
    with (
        Admin(threaded_broker.address) as admin,
        Producer(threaded_broker.address) as producer,
        Consumer(threaded_broker.address) as consumer,
    ):
        for client in (admin, producer, consumer):
            with pytest.raises(TypeError, match="cannot be pickled: it holds connections"):
                pickle.dumps(client)


def test_connecting_in_vain_leaves_nothing_behind(threaded_broker):
    threaded_broker.run(threaded_broker.stop())
    for kind in (Admin, Producer, Consumer):
        with pytest.raises(BrokerUnreachableError, match=threaded_broker.address):
            kind(threaded_broker.address)
    with pytest.raises(ConfigurationError):
        Producer(threaded_broker.address, nonsense=1)


def test_a_client_that_nobody_holds_ends_by_itself(threaded_broker):
    with warnings.catch_warnings(action="ignore"):
        gc.collect()  # What earlier tests have left is not warned of below.
    threaded_broker.create("topic")
    producer = Producer(threaded_broker.address)
    thread = producer._thread._thread
    producer.send("topic", b"value")
    held = [producer]
    del producer

    def lose():
        held.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match="unclosed Producer"):
        lose()
    thread.join(5)
    assert not thread.is_alive()
    assert threaded_broker.topics["topic"][0].next_offset == 1


FORKING_PROGRAM = """
    import os, sys
    from seglog.clients import Admin, ClientClosedError, Consumer, Producer
    address = sys.argv[1]
    with Producer(address, linger_ms=100) as producer, Admin(address) as admin:
        consumer = Consumer(address, "topic", start="earliest")
        records = iter(consumer)
        assert next(records).value == b"0"
        future = producer.send("topic", b"of the parent")
        if not os.fork():
            for call in (
                lambda: producer.send("topic", b"of the child"),
                lambda: producer.send_many("topic", [(None, b"of the child")]),
                lambda: next(iter(consumer)),
                consumer.read,
                admin.list_topics,
            ):
                try:
                    call()
                except ClientClosedError as error:
                    print(error)
            with Producer(address) as mine:
                mine.send("topic", b"of the child").result(5)
            sys.exit(7)  # through the blocks and what is done at the exit: nothing of it is ours
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        assert future.result(5).offset >= 0
        assert next(records).value == b"1"
        consumer.close()
"""


def test_a_forked_child_is_told_that_the_clients_are_not_its_own(threaded_broker):
    """What it sent would stay in a buffer for ever; and the parent goes on undisturbed."""
    (log,) = threaded_broker.create("topic")
    fill(log, numbered(2))
    program = textwrap.dedent(FORKING_PROGRAM)
    result = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, threaded_broker.address],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert result.stderr == ""
    assert result.stdout == "the client was made before this process was forked\n" * 5
    assert (result.returncode, log.next_offset) == (0, 4)


PROGRAM = """
    import logging, sys
    logging.basicConfig(level=logging.WARNING)
    from seglog.clients import Admin, Consumer, Producer
    address = sys.argv[1]
    admin = Admin(address)
    consumer = Consumer(address, "topic", start="earliest")
    iterator = iter(consumer)
    producer = Producer(address, linger_ms=10_000)
    if sys.argv[2] == "hangs":
        producer.send("topic", b"known")
        producer.flush(5)
    producer.send("topic", b"value")
    print(next(iterator).value)
    {ending}
"""


def run_program(address, way, ending="", timeout=15):
    program = textwrap.dedent(PROGRAM.replace("{ending}", ending))
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c", program, address, way],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)"])
def test_the_interpreter_ends_although_nothing_was_closed(threaded_broker, ending):
    """C061: and what was sent without a flush still gets its chance."""
    (log,) = threaded_broker.create("topic")
    fill(log, [b"old"])
    result = run_program(threaded_broker.address, "works", ending)
    assert (result.returncode, result.stdout, result.stderr) == (0, "b'old'\n", "")
    assert log.next_offset == 2


@pytest.mark.slow
def test_the_interpreter_ends_although_the_broker_hangs(threaded_broker):
    """C061: it takes a moment, says what was lost, and leaves no exception unretrieved."""
    threaded_broker.create("topic")
    produced = []

    def silence_later(request):
        if isinstance(request, ProduceRequest):
            produced.append(request)
        return SILENCE if len(produced) > 1 else None

    threaded_broker.script = silence_later
    begun = time.monotonic()
    result = run_program(threaded_broker.address, "hangs")
    assert in_time(time.monotonic() - begun, 12)
    assert (result.returncode, result.stdout) == (0, "b'known'\n")
    assert "closed with 1 record dropped" in result.stderr
    assert "never retrieved" not in result.stderr
    assert "Traceback" not in result.stderr
