"""Each record once: idempotent producers against a real broker that forgets, dies and restarts."""

import random
import threading
import time

import pytest

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.testing import running_broker
from seglog.protocol.api import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    ProducePartition,
    ProduceRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.builder import build_batch
from support.broker_process import BlockingClient
from support.eventually import eventually

NOW_MS = time.time_ns() // 1_000_000
SHORT_MEMORY = {
    "producer.id.expiration.ms": 2000,
    "producer.id.expiration.check.interval.ms": 200,
    "log.initial.task.delay.ms": 100,
}


def values_of(broker, topic):
    with Consumer(broker.address, topic, start="earliest", stop_at_end=True) as consumer:
        return [record.value for record in consumer]


def known_producers(broker, topic):
    with BlockingClient(broker.port) as client:
        (partition,) = client.ask(DescribeProducersRequest([(topic, 0)])).partitions
    return [producer.producer_id for producer in partition.producers]


class RawProducer:
    """Sends batches with the numbers that a test chooses."""

    def __init__(self, broker):
        self._broker = broker
        with BlockingClient(broker.port) as client:
            self.identity = client.ask(InitProducerIdRequest())

    def batch(self, first, last, epoch=None):
        return build_batch(
            [(NOW_MS, None, b"%d" % number, ()) for number in range(first, last + 1)],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch if epoch is None else epoch,
            base_sequence=first,
        )

    def send(self, batch, *, is_answer_wanted=True):
        request = ProduceRequest(-1, 10_000, [ProducePartition("topic", 0, memoryview(batch))])
        with BlockingClient(self._broker.port) as client:
            client.send(request)
            if not is_answer_wanted:
                return None
            (result,) = client.receive().response.partitions
        return result.error, result.base_offset


@pytest.mark.slow
@pytest.mark.parametrize("must_restart", [False, True])
def test_a_pause_longer_than_the_brokers_memory_ends_without_a_trouble(must_restart):
    """C048: sequences 0-6, 5 s of silence, then 7-14; a real gap is refused with 45."""
    with (
        running_broker(configs=SHORT_MEMORY) as broker,
        Admin(broker.address) as admin,
        Producer(broker.address) as producer,
    ):
        admin.create_topic("topic")
        admin.create_topic("bundled")
        raw = RawProducer(broker)
        assert raw.send(raw.batch(0, 6)) == (ErrorCode.NONE, 0)
        producer.send_many("bundled", [(None, b"%d" % n) for n in range(7)]).result(10)
        paused_at = time.monotonic()
        if must_restart:
            assert broker.stop() == 0
            broker.start()
        eventually(lambda: known_producers(broker, "bundled"), until=lambda ids: ids == [])
        assert known_producers(broker, "topic") == []
        time.sleep(max(0.0, paused_at + 5 - time.monotonic()))
        assert raw.send(raw.batch(7, 14)) == (ErrorCode.NONE, 7)
        assert raw.send(raw.batch(20, 20))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        producer.send_many("bundled", [(None, b"%d" % n) for n in range(7, 15)]).result(10)
        assert values_of(broker, "bundled") == [b"%d" % n for n in range(15)]
        assert len(values_of(broker, "topic")) == 15


@pytest.mark.slow
def test_each_record_is_stored_once_though_the_broker_is_killed_ten_times():
    """C050: 1000 numbered records, five batches under way, kill -9 at random moments."""
    rng = random.Random(50)
    with running_broker() as broker, Admin(broker.address) as admin:
        admin.create_topic("topic")
        kills = 0
        is_over = threading.Event()

        def kill_and_restart():
            nonlocal kills
            for _ in range(10):
                time.sleep(0.02 + rng.random() / 5)
                broker.kill()
                broker.start()
                kills += 1
            is_over.set()

        killer = threading.Thread(target=kill_and_restart)
        with Producer(broker.address, batch_bytes=300, buffer_bytes=1500) as producer:
            killer.start()
            futures = []
            for number in range(1000):
                futures.append(producer.send("topic", b"%d" % number))
                if number % 100 == 99:
                    # So that every part of the run is met by a kill, not only its beginning.
                    before = kills
                    eventually(lambda before=before: kills > before or is_over.is_set(), 60)
            offsets = [future.result(60).offset for future in futures]
        killer.join()
        assert kills == 10
        assert values_of(broker, "topic") == [b"%d" % number for number in range(1000)]
        assert offsets == list(range(1000))


@pytest.mark.slow
def test_the_last_five_batches_are_recognized_after_a_kill_and_the_sixth_is_refused():
    """C050, raw: the answer is the first one's offset, also when its segment is gone."""
    with running_broker() as broker, Admin(broker.address) as admin:
        admin.create_topic("topic", configs={"segment.bytes": 1_048_576})
        raw = RawProducer(broker)
        first = raw.batch(0, 4)
        raw.send(first, is_answer_wanted=False)
        eventually(lambda: values_of(broker, "topic"), until=lambda values: len(values) == 5)
        broker.kill()
        broker.start()
        assert raw.send(first) == (ErrorCode.NONE, 0)
        batches = [first, *(raw.batch(5 * n, 5 * n + 4) for n in range(1, 6))]
        for number, batch in enumerate(batches):
            assert raw.send(batch) == (ErrorCode.NONE, 5 * number)

        def check_again():
            for number, batch in list(enumerate(batches))[1:]:
                assert raw.send(batch) == (ErrorCode.NONE, 5 * number)
            assert raw.send(first)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

        check_again()
        broker.kill()
        broker.start()
        check_again()
        admin.roll("topic")
        admin.delete_records({("topic", 0): -1})
        check_again()
        assert broker.stop() == 0
        broker.start()
        check_again()
        assert values_of(broker, "topic") == []
