"""Clients whose broker dies, hangs, or is restarted; real processes, real numbers."""

import asyncio
import gc
import logging
import threading
import time

import pytest

from seglog.clients import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    ClientTimeoutError,
    Consumer,
    Producer,
)
from seglog.clients.testing import running_broker
from support.new_threads import new_threads, threads_now
from support.processor_time import in_time

pytestmark = pytest.mark.slow

TIMES = {"request_timeout_ms": 2000, "connect_timeout_ms": 2000}


async def timed_error(future, begun):
    """The error of a delivery, and how many seconds after ``begun`` it came."""
    try:
        await future
    except ClientError as error:
        return error, time.monotonic() - begun
    return None, time.monotonic() - begun


@pytest.mark.parametrize("way", ["kill", "pause"])
async def test_a_lost_broker_does_not_hold_an_application(way, caplog):
    """C061: sends fail within 5 s, every close within 6 s, nothing is left, little is logged."""
    loop = asyncio.get_running_loop()
    complaints = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    tasks_before, threads_before = asyncio.all_tasks(), threads_now()
    with running_broker() as broker:
        producer = AsyncProducer(broker.address, delivery_timeout_ms=4000, **TIMES)
        consumer = AsyncConsumer(broker.address, "topic", **TIMES)
        admin = await AsyncAdmin(broker.address, **TIMES).start()
        await admin.create_topic("topic", 3)
        await producer.start()
        await consumer.start()
        await producer.send_and_wait("topic", b"first")
        assert len(await consumer.read(1, 5)) == 1
        getattr(broker, way)()
        begun = time.monotonic()
        reading = asyncio.create_task(consumer.read(timeout=None))
        futures = [await producer.send("topic", b"%d" % index) for index in range(100)]
        answers = await asyncio.gather(*(timed_error(future, begun) for future in futures))
        assert all(isinstance(error, ClientTimeoutError) for error, _ in answers)
        assert in_time(max(seconds for _, seconds in answers), 5)
        for _ in range(100):
            await producer.send("topic", b"unsent")
        closing = time.monotonic()
        assert await producer.close(1) == 100
        await consumer.close()
        await admin.close()
        assert in_time(time.monotonic() - closing, 6)
        with pytest.raises(ClientError):
            await reading
        if way == "pause":
            broker.resume()
    gc.collect()
    assert asyncio.all_tasks() - tasks_before == set()
    # Threads that look up the addresses of hosts belong to the loop, which keeps them.
    await loop.shutdown_default_executor()
    assert new_threads(threads_before) == []
    assert complaints == []
    ours = [record for record in caplog.records if record.name.startswith("seglog.clients")]
    assert len(ours) <= 1 + (time.monotonic() - begun)


class Reader(threading.Thread):
    """Reads with a blocking consumer until it has been told to stop."""

    def __init__(self, address):
        super().__init__(name="reader", daemon=True)
        self.consumer = Consumer(address, "topic", start="earliest")
        self.values = []
        self.is_wanted = True

    def run(self):
        while self.is_wanted:
            self.values += [record.value for record in self.consumer.read(timeout=0.2)]
        self.consumer.close()


def test_clients_go_on_by_themselves_after_restarts(caplog, tmp_path):
    """C063: within 10 s, nothing lost, without a call of the application, without much noise."""
    caplog.set_level(logging.INFO, "seglog.clients")
    begun = time.monotonic()
    with running_broker(folder=tmp_path) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("topic", 6)
        reader = Reader(broker.address)
        reader.start()
        sent = []
        with Producer(broker.address) as producer:
            for number, (way, pause_s) in enumerate(
                [("stop", 0.3), ("kill", 1.0), ("stop", 4.0), ("kill", 0.3)]
            ):
                for index in range(50):
                    value = b"%d-%d" % (number, index)
                    producer.send("topic", value, key=value)
                    sent.append(value)
                if number % 2:
                    producer.flush()
                getattr(broker, way)()
                for index in range(50, 60):
                    value = b"%d-%d" % (number, index)
                    producer.send("topic", value, key=value)
                    sent.append(value)
                time.sleep(pause_s)
                broker.start()
                up_at = time.monotonic()
                producer.flush(10)
                while len(set(reader.values)) < len(sent) and time.monotonic() - up_at < 10:
                    time.sleep(0.01)
                assert set(reader.values) == set(sent)
        reader.is_wanted = False
        reader.join(10)
    ours = [record for record in caplog.records if record.name.startswith("seglog.clients")]
    # Two clients, at most one line in five seconds each.
    assert len(ours) <= 2 * (1 + (time.monotonic() - begun) / 5)
