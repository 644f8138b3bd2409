"""Field cases about idempotent producers, over the Kafka dialect; the bundled client's are in
``tests/integration/test_client_idempotence.py``."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.eventually import eventually
from support.foreign.confluent import ConfluentClient
from support.foreign.streams import NumberStream
from support.foreign.with_aiokafka import AiokafkaClient
from support.wires import KafkaWire, Produced, read_records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SHORT_MEMORY = {
    "producer.id.expiration.ms": 2000,
    "producer.id.expiration.check.interval.ms": 200,
    "log.initial.task.delay.ms": 100,
}
PAUSE_SECONDS = 5.0


class RawProducer(NamedTuple):
    """Sends batches with chosen sequences over the Kafka dialect."""

    wire: KafkaWire
    producer_id: int
    epoch: int

    def batch(self, first: int, last: int, **changes: int) -> bytes:
        """Records numbered from first to last, which are their sequences as well."""
        now_ms = time.time_ns() // 1_000_000
        options = {"producer_id": self.producer_id, "producer_epoch": self.epoch, **changes}
        return bytes(
            build_batch(
                [(now_ms, None, b"%d" % number, ()) for number in range(first, last + 1)],
                base_sequence=first,
                **options,
            )
        )

    def send(self, batch: bytes, topic: str = "topic") -> Produced:
        """Append; the answer."""
        return self.wire.produce(topic, batch)


def init_producer(wire: KafkaWire, version: int = 4, *, transactional_id: str | None = None) -> Any:
    request = api.InitProducerIdRequest(transactional_id, 60_000)
    return wire.ask(request, version, api.InitProducerIdResponse)


@contextmanager
def raw_producer(broker: RunningBroker, known: RawProducer | None = None) -> Iterator[RawProducer]:
    """A connection with a producer id of its own, or one that goes on for an older one."""
    with KafkaWire(broker.port) as wire:
        if known is not None:
            yield known._replace(wire=wire)
        else:
            answer = init_producer(wire)
            assert answer.error == 0
            yield RawProducer(wire, answer.producer_id, answer.producer_epoch)


def known_producers(broker: RunningBroker, topic: str) -> list[int]:
    request = api.DescribeProducersRequest([(topic, 0)])
    with KafkaWire(broker.port) as wire:
        (result,) = wire.ask(request, 0, api.DescribeProducersResponse).partitions
    return [each.producer_id for each in result.producers]


def numbers_in(broker: RunningBroker, topic: str) -> list[int]:
    with KafkaWire(broker.port) as wire:
        return [int(each.value or b"-1") for each in read_records(wire, topic)]


# ---- C048


@pytest.mark.parametrize("must_restart", [False, True])
def test_foreign_producers_go_on_after_a_long_pause(must_restart: bool) -> None:
    """C048: raw, librdkafka and aiokafka; 5 s of silence, memory of 2 s, perhaps a restart."""
    with running_broker(configs=SHORT_MEMORY) as broker, Admin(broker.address) as admin:
        for topic in ("topic", "confluent", "aio"):
            admin.create_topic(topic, partitions=1)
        confluent = ConfluentClient(broker.address).producer(
            enable_idempotence=True, linger_ms=0, reconnect_backoff_max_ms=500
        )
        aio = AiokafkaClient(broker.address)
        aio_producer = aio.run(start_aio_producer(broker.address))

        def send_everywhere(first: int, last: int) -> None:
            for number in range(first, last + 1):
                confluent.produce("confluent", b"%d" % number, on_delivery=check_delivered)
            assert confluent.flush(20) == 0
            aio.run(send_all(aio_producer, range(first, last + 1)))

        try:
            with raw_producer(broker) as raw:
                assert raw.send(raw.batch(0, 6)).base_offset == 0
                send_everywhere(0, 6)
            paused_at = time.monotonic()
            if must_restart:
                assert broker.stop() == 0
                broker.start()
            for topic in ("topic", "confluent", "aio"):
                eventually(lambda topic=topic: known_producers(broker, topic) == [])
            time.sleep(max(0.0, paused_at + PAUSE_SECONDS - time.monotonic()))
            send_everywhere(7, 14)
            with raw_producer(broker, raw) as again:
                assert again.send(again.batch(7, 14)).base_offset == 7
                gap = again.send(again.batch(20, 20))
                assert gap.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER == 45
                assert again.send(again.batch(15, 15)).base_offset == 15
        finally:
            aio.run(aio_producer.stop())
            aio.close()
        assert numbers_in(broker, "confluent") == [*range(15)]
        assert numbers_in(broker, "aio") == [*range(15)]
        assert numbers_in(broker, "topic") == [*range(16)]


def check_delivered(error: Any, _: Any) -> None:
    assert error is None, error


async def start_aio_producer(address: str) -> Any:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)
    await producer.start()
    return producer


async def send_all(producer: Any, numbers: range) -> None:
    for number in numbers:
        await producer.send_and_wait("aio", b"%d" % number)


# ---- C050


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_a_foreign_producer_stores_each_number_once_over_ten_kills(name: str) -> None:
    """C050: 1000 numbered records, kill -9 ten times at random, each number once and in order."""
    rng = random.Random(name)
    with running_broker() as broker, Admin(broker.address) as admin:
        admin.create_topic("numbers", partitions=1)
        stream = NumberStream(name, broker.address, "numbers", 1000)
        stream.start()
        for turn in range(10):
            wanted = turn * 100 + rng.randrange(1, 100)
            eventually(
                lambda wanted=wanted: stream.sent >= wanted or not stream.is_sending(), timeout=30
            )
            broker.kill()
            broker.start()
        stream.finish()
        assert numbers_in(broker, "numbers") == [*range(1000)]


def test_the_last_five_are_known_and_the_sixth_is_refused() -> None:
    """C050, raw over Kafka: answer dropped, kill, resend; the same after restart and deletion."""
    with running_broker() as broker, Admin(broker.address) as admin:
        admin.create_topic("topic", partitions=1)
        with raw_producer(broker) as raw:
            first = raw.batch(0, 4)
            # The answer is never read.
            raw.wire.send(request_of(first), raw.wire.PRODUCE)
            eventually(lambda: len(numbers_in(broker, "topic")) == 5)
        broker.kill()
        broker.start()
        with raw_producer(broker, raw) as raw:
            assert raw.send(first)[:2] == (ErrorCode.NONE, 0)
            batches = [first, *(raw.batch(5 * n, 5 * n + 4) for n in range(1, 6))]
            for number, batch in enumerate(batches):
                assert raw.send(batch)[:2] == (ErrorCode.NONE, 5 * number)

        def check_again() -> None:
            with raw_producer(broker, raw) as again:
                for number, batch in list(enumerate(batches))[1:]:
                    assert again.send(batch)[:2] == (ErrorCode.NONE, 5 * number)
                assert again.send(first).error in (45, 46)

        check_again()
        broker.kill()
        broker.start()
        check_again()
        admin.roll("topic")
        admin.delete_records({("topic", 0): 30})
        check_again()
        assert broker.stop() == 0
        broker.start()
        check_again()
        broker.kill()
        broker.start()
        check_again()
        assert numbers_in(broker, "topic") == []


def request_of(batch: bytes) -> Any:
    entry = api.ProducePartition("topic", 0, memoryview(batch))
    return api.ProduceRequest(-1, 10_000, [entry])


# ---- around them


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker() as running:
        yield running


def test_parts_of_remembered_batches_are_not_duplicates(broker: RunningBroker) -> None:
    """Next to C050: overlaps, subsets and supersets of what was sent are out of order."""
    with Admin(broker.address) as admin:
        admin.create_topic("parts", partitions=1)
    with raw_producer(broker) as raw:
        assert raw.send(raw.batch(0, 4), "parts").base_offset == 0
        assert raw.send(raw.batch(5, 9), "parts").base_offset == 5
        for first, last in ((0, 9), (0, 3), (1, 4), (3, 7), (5, 8), (5, 12), (11, 12), (4, 9)):
            answer = raw.send(raw.batch(first, last), "parts")
            assert answer.error in (45, 46), (first, last)
            assert answer.base_offset == -1
        assert raw.send(raw.batch(0, 4), "parts")[:2] == (0, 0)
        assert raw.send(raw.batch(10, 10), "parts")[:2] == (0, 10)
    assert numbers_in(broker, "parts") == [*range(11)]


def test_epochs_fence_older_ones(broker: RunningBroker) -> None:
    """A higher epoch begins at sequence 0; the older one is INVALID_PRODUCER_EPOCH from then on."""
    with Admin(broker.address) as admin:
        admin.create_topic("epochs", partitions=1)
    with raw_producer(broker) as raw:
        assert raw.send(raw.batch(0, 4), "epochs").error == 0
        wrong = raw.send(raw.batch(5, 6, producer_epoch=raw.epoch + 1), "epochs")
        assert wrong.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert raw.send(raw.batch(0, 1, producer_epoch=raw.epoch + 1), "epochs").base_offset == 5
        fenced = raw.send(raw.batch(5, 6), "epochs")
        assert fenced.error == ErrorCode.INVALID_PRODUCER_EPOCH == 47
        assert raw.send(raw.batch(0, 4), "epochs").error == 47


def test_sequences_wrap_at_the_end_of_their_range(broker: RunningBroker) -> None:
    """2^31-1 is followed by 0, within a batch and between two (IDEM)."""
    with Admin(broker.address) as admin:
        admin.create_topic("wrapping", partitions=1)
    end = 2**31 - 1
    now_ms = time.time_ns() // 1_000_000

    def batch(raw: RawProducer, first: int, count: int) -> bytes:
        return bytes(
            build_batch(
                [(now_ms, None, b"1", ())] * count,
                producer_id=raw.producer_id,
                producer_epoch=raw.epoch,
                base_sequence=first,
            )
        )

    with raw_producer(broker) as raw:
        # A producer that nobody remembers may begin anywhere, as after its expiry.
        assert raw.send(batch(raw, end - 2, 2), "wrapping").base_offset == 0
        assert raw.send(batch(raw, end, 3), "wrapping").base_offset == 2
        assert raw.send(batch(raw, end, 3), "wrapping").base_offset == 2
        assert raw.send(batch(raw, 3, 1), "wrapping").error == 45
        assert raw.send(batch(raw, 2, 1), "wrapping").base_offset == 5


def test_producer_ids_are_never_handed_out_twice() -> None:
    """In every version of InitProducerId, over a clean stop and a kill."""
    seen: list[int] = []
    with running_broker() as broker:
        for turn in range(3):
            with KafkaWire(broker.port) as wire:
                for version in range(6):
                    answer = init_producer(wire, version)
                    assert (answer.error, answer.producer_epoch) == (0, 0)
                    seen.append(answer.producer_id)
            if turn == 0:
                assert broker.stop() == 0
            else:
                broker.kill()
            broker.start()
    assert len(set(seen)) == len(seen)


def test_an_empty_transactional_id_is_refused(broker: RunningBroker) -> None:
    """It is INVALID_REQUEST; none at all is an idempotent producer."""
    with KafkaWire(broker.port) as wire:
        assert init_producer(wire, transactional_id="").error == ErrorCode.INVALID_REQUEST
