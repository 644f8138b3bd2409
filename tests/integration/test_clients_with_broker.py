"""The clients against a real broker process."""

import os
import random
import signal
import socket

import pytest

from seglog.clients import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    ClientTimeoutError,
    Consumer,
    InvalidRecordError,
    Last,
    OffsetOutOfRangeError,
    Producer,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from seglog.clients.errors import InvalidConfigError
from seglog.clients.testing import RunningBroker, running_broker
from support.eventually import eventually

KEEP = {"retention.ms": -1, "message.timestamp.after.max.ms": 9223372036854775807}


@pytest.fixture(scope="module")
def broker():
    with running_broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def admin(broker):
    with Admin(broker.address) as client:
        yield client


@pytest.fixture
def topic(request):
    """A name of its own for every test."""
    return request.node.name.replace("[", "-").rstrip("]")


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_comes_back_as_it_was_sent(broker, admin, topic, compression):
    admin.create_topic(topic, partitions=3, configs=KEEP | {"segment.bytes": 100_000})
    rng = random.Random(1)
    sent = [
        (
            rng.choice([None, b"key%d" % rng.randrange(50)]),
            rng.choice([None, rng.randbytes(rng.randrange(300)), b"z" * 2000]),
            1_700_000_000_000 + rng.randrange(10**9),
            tuple((f"h{n}", rng.choice([None, b"", b"x"])) for n in range(rng.randrange(3))),
        )
        for _ in range(3000)
    ]
    with Producer(broker.address, compression=compression, batch_bytes=20_000) as producer:
        assert producer.send_many(topic, sent).result(30) == 3000
    with Consumer(broker.address, topic, start="earliest", stop_at_end=True) as consumer:
        read = list(consumer)
    fields = [(r.key, r.value, r.timestamp_ms, r.headers) for r in read]
    assert sorted(map(repr, fields)) == sorted(map(repr, sent))
    for partition in range(3):
        mine = [record for record in read if record.partition == partition]
        assert [record.offset for record in mine] == list(range(len(mine)))
        keyed = [record for record in mine if record.key is not None]
        order = {key: [s[1:] for s in sent if s[0] == key] for key in {r.key for r in keyed}}
        for key, expected in order.items():
            assert [(r.value, r.timestamp_ms, r.headers) for r in keyed if r.key == key] == expected


def test_offsets_by_time_are_those_of_the_records(broker, admin, topic):
    """C005: exact to the record, and None where there is none."""
    admin.create_topic(topic, partitions=2, configs=KEEP)
    base_ms = 1_700_000_000_000
    with Producer(broker.address, batch_bytes=4000) as producer:
        for timestamp_ms in (2, 4, 6, 8):
            producer.send(topic, b"", timestamp_ms=timestamp_ms, partition=0)
        items = ((None, bytes(100), base_ms + 10 * index) for index in range(10_000))
        producer.send_many(topic, items, partition=1)
        producer.flush()
    small, large = (topic, 0), (topic, 1)
    with Consumer(broker.address, topic) as consumer:
        found = [consumer.offsets_for_times({small: time_ms})[small] for time_ms in range(10)]
        assert [answer and answer.offset for answer in found] == [0, 0, 0, 1, 1, 2, 2, 3, 3, None]
        for index in random.Random(5).sample(range(9_999), 50):
            for shift, expected in ((0, index), (-1, index), (1, index + 1)):
                answer = consumer.offsets_for_times({large: base_ms + 10 * index + shift})[large]
                assert answer.offset == expected
        assert consumer.offsets_for_times({large: base_ms + 99_991})[large] is None
    ends = admin.list_offsets({small: "earliest", large: "latest"})
    assert (ends[small].offset, ends[large].offset) == (0, 10_000)
    assert admin.list_offsets({small: "max_timestamp"})[small][:2] == (3, 8)


def test_a_record_without_key_on_a_compacted_topic_is_refused_with_its_index(broker, admin, topic):
    """C018: nothing of the batch is stored, and the connection goes on."""
    admin.create_topic(topic, configs={"cleanup.policy": "compact"})
    with Producer(broker.address, linger_ms=50) as producer:
        futures = [producer.send(topic, b"v", key=key) for key in (b"a", None, b"b")]
        errors = [future.exception(10) for future in futures]
        assert all(isinstance(error, InvalidRecordError) for error in errors)
        assert [index for index, _ in errors[1].record_errors] == [1]
        assert "record 1 of its batch" in str(errors[1])
        assert producer.send(topic, b"v", key=b"c").result(10).offset == 0


def test_large_batches_and_small_limits(broker, admin, topic):
    """C036: everything is read whatever the limits, and a broker's limit on batches is met."""
    admin.create_topic(topic, partitions=2, configs={"max.message.bytes": 1048576})
    with Producer(broker.address, batch_bytes=1_000_000) as producer:
        producer.send(topic, bytes(900_000), partition=0).result(10)
        producer.send_many(topic, [(None, b"%d" % index) for index in range(100)], partition=0)
        producer.send_many(topic, [(None, bytes(1000))] * 1000, partition=1)
        producer.flush()
    limits = {"fetch_max_bytes": 1024, "partition_fetch_bytes": 1}
    with Consumer(broker.address, topic, start="earliest", stop_at_end=True, **limits) as consumer:
        assert sum(1 for _ in consumer) == 1101
    admin.alter_configs("topic", topic, {"max.message.bytes": 10_000})
    with Producer(broker.address, batch_bytes=200_000) as producer:
        assert producer.send_many(topic, [(None, bytes(1000))] * 500).result(20) == 500


@pytest.mark.slow
def test_only_a_send_creates_a_topic(topic):
    """C045: and a deleted topic stays deleted while readers and admins ask for it."""
    with (
        running_broker(configs={"auto.create.topics.enable": True}) as broker,
        Admin(broker.address) as admin,
    ):
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.describe_topics(["ghost"])
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.list_offsets({("ghost", 0): "latest"})
        with pytest.raises(UnknownTopicOrPartitionError):
            Consumer(broker.address, "ghost")
        assert admin.list_topics() == []
        with Producer(broker.address, metadata_max_age_ms=50) as producer:
            producer.send(topic, b"value").result(10)
            with Consumer(
                broker.address, topic, start="earliest", metadata_max_age_ms=50
            ) as consumer:
                assert len(consumer.read(1, 5)) == 1
                admin.delete_topic(topic)
                assert consumer.read(timeout=0.5) == []
                assert admin.list_topics() == []
            producer.send(topic, b"again").result(10)
            assert admin.list_topics() == [topic]


def test_topics_live_and_die(broker, admin, topic):
    created = admin.create_topic(topic, partitions=2, configs={"retention.ms": 1000})
    assert (created.name, created.partitions) == (topic, 2)
    with pytest.raises(TopicAlreadyExistsError, match=topic):
        admin.create_topic(topic)
    with pytest.raises(InvalidConfigError, match=r"no\.such\.key"):
        admin.create_topic(topic + "-2", configs={"no.such.key": 1})
    admin.create_partitions(topic, 4)
    assert len(admin.describe_topics([topic])[topic].partitions) == 4
    assert topic in admin.list_topics()
    entry = admin.describe_configs("topic", topic, ["retention.ms"])["retention.ms"]
    assert entry.value == "1000"
    admin.alter_configs("topic", topic, {"retention.ms": 2000})
    assert admin.describe_configs("topic", topic)["retention.ms"].value == "2000"
    admin.alter_configs("topic", topic, {"retention.ms": None})
    assert admin.describe_configs("topic", topic)["retention.ms"].value == "604800000"
    admin.delete_topic(topic)
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_topics([topic])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topic(topic)
    (node,) = admin.describe_cluster().brokers
    assert f"{node.host}:{node.port}" == broker.address


def test_records_are_deleted_and_readers_follow(broker, admin, topic):
    admin.create_topic(topic)
    partition = (topic, 0)
    with Producer(broker.address) as producer:
        producer.send_many(topic, ((None, b"%d" % index) for index in range(100))).result(10)
    assert admin.delete_records({partition: 40}) == {partition: 40}
    with Consumer(broker.address, {partition: 0}, stop_at_end=True) as consumer:
        assert [record.offset for record in consumer] == list(range(40, 100))
    with Consumer(broker.address, topic, start=Last(5), stop_at_end=True) as consumer:
        assert [record.offset for record in consumer] == list(range(95, 100))
    with (
        Consumer(broker.address, {partition: 0}, offset_reset="error") as consumer,
        pytest.raises(OffsetOutOfRangeError) as caught,
    ):
        consumer.read(timeout=5)
    assert (caught.value.log_start_offset, caught.value.end_offset) == (40, 100)
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({partition: 101})
    assert admin.delete_records({partition: -1}) == {partition: 100}


def test_housekeeping_can_be_looked_at_and_asked_for(broker, admin, topic):
    admin.create_topic(topic, configs={"segment.bytes": 10_000, "retention.bytes": 20_000})
    with Producer(broker.address, batch_bytes=4000) as producer:
        producer.send_many(topic, [(None, bytes(1000))] * 100).result(10)
    (description,) = admin.describe_partitions([topic], include_segments=True).values()
    assert description.log_end_offset == 100
    assert len(description.segments) == description.segment_count > 5
    sizes = {
        (each.topic, each.partition): each.size_bytes
        for directory in admin.describe_log_dirs([(topic, 0)])
        for each in directory.partitions
    }
    assert sizes == {(topic, 0): description.size_bytes}
    planned = admin.run_retention([topic], dry_run=True)
    assert planned
    assert all(finding.topic == topic and finding.reason for finding in planned)
    done = admin.run_retention([topic])
    assert [each.base_offset for each in done] == [each.base_offset for each in planned]
    start = admin.list_offsets({(topic, 0): "earliest"})[topic, 0].offset
    assert start > 0
    (rolled,) = admin.roll(topic)
    assert rolled.active_base_offset == 100
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_partitions(["nowhere"])


async def test_the_async_clients_do_the_same(broker, admin, topic):
    admin.create_topic(topic, partitions=3)
    async with (
        AsyncProducer(broker.address) as producer,
        AsyncConsumer(broker.address, topic, start="earliest") as consumer,
    ):
        assert (await producer.send_and_wait(topic, b"first", partition=1)).offset == 0
        delivery = await producer.send_many(topic, ((None, b"") for _ in range(1000)))
        assert await delivery == 1000
        records = await consumer.read(2000, 5)
        assert len(records) == 1001


@pytest.mark.slow
def test_a_broker_for_tests_can_be_stopped_killed_and_started_again(tmp_path):
    with running_broker(folder=tmp_path) as broker:
        with Producer(broker.address) as producer, Admin(broker.address) as admin:
            admin.create_topic("topic")
            producer.send("topic", b"kept").result(10)
        assert broker.stop() == 0
        broker.start()
        with Producer(broker.address) as producer:
            producer.send("topic", b"also kept").result(10)
        broker.kill()
        broker.start()
        assert broker.process_id > 0
        with Consumer(broker.address, "topic", start="earliest", stop_at_end=True) as consumer:
            assert [record.value for record in consumer] == [b"kept", b"also kept"]
        with pytest.raises(ClientError, match="runs already"):
            broker.start()
    assert not broker.is_running
    with pytest.raises(ClientError, match="does not run"):
        broker.pause()
    assert (tmp_path / "data").is_dir()


@pytest.mark.slow
def test_a_broker_for_tests_that_died_or_was_paused_cannot_be_ended_or_started(tmp_path):
    with running_broker() as broker:
        os.kill(broker.process_id, signal.SIGKILL)
        eventually(lambda: not broker.is_running)
        port = broker.port
        broker.start()
        assert broker.port == port
        broker.pause()
        assert broker.is_running
        assert broker.stop(10) == 0


@pytest.mark.slow
def test_the_port_of_a_broker_for_tests_belongs_to_somebody_else(tmp_path):
    """What listens there was taken for the broker, which had ended."""
    with running_broker(folder=tmp_path) as broker:
        broker.stop()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", broker.port))
            other.listen()
            with pytest.raises(ClientTimeoutError, match="not ready in time"):
                broker.start(0.5)
            assert not broker.is_running
        broker.start()


def test_a_broker_that_does_not_start_shows_why(tmp_path):
    broker = RunningBroker(tmp_path, {"num.partitions": 0})
    with pytest.raises(ClientError, match=r"num\.partitions"):
        broker.start()
