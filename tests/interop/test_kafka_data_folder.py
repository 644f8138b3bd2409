"""A data folder that Apache Kafka 4 wrote is opened and served, with everything that is in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.types import TopicPartition
from support.eventually import eventually
from support.foreign.apache_kafka import running_kafka
from support.foreign.confluent import ConfluentClient
from support.foreign.dump_tool import dump_folder
from support.foreign.shape import CODECS, Read, Sent, UnavailableError
from support.foreign.transactions import open_producer
from support.kafka_groups import committed_offset
from support.real_broker import describe
from support.wires import KafkaWire, read_records

T = 1_700_000_000_000
KAFKA_CONFIGS = {
    "log.retention.ms": -1,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 4194304,
    "log.cleaner.io.buffer.size": 262144,
    "log.initial.task.delay.ms": 100,
}


STEP_MS = 10


def records(codec: str, start_ms: int = T) -> list[Sent]:
    return [
        Sent(
            b"k%d" % (n % 20),
            b"%s %d " % (codec.encode(), n) * 10,
            (("n", b"%d" % n),),
            start_ms + n * STEP_MS,
        )
        for n in range(300)
    ]


def produce_in_parts(client: ConfluentClient, topic: str, sent: list[Sent], codec: str) -> None:
    """In several batches whose times are far enough apart for a new segment each."""
    for start in range(0, len(sent), 100):
        client.produce(topic, sent[start : start + 100], codec=codec)


@pytest.fixture(scope="module")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Kafka leaves: every codec, segments, compaction, transactions, commits."""
    folder = tmp_path_factory.mktemp("kafka")
    try:
        with running_kafka(folder, KAFKA_CONFIGS) as kafka:
            fill(kafka.address)
            cleaned = kafka.data_directory / "compacted-0" / "00000000000000000000.log"
            eventually(lambda: cleaned.stat().st_size < 12_000, timeout=30)
    except UnavailableError as error:
        pytest.skip(str(error))
    return kafka.data_directory


def fill(address: str) -> None:
    small = {"index.interval.bytes": "512", "segment.ms": "500"}
    compacting = {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    topics = [NewTopic(f"from-{codec}", 2, 1, config=small) for codec in CODECS]
    topics += [NewTopic("compacted", 1, 1, config=compacting), NewTopic("transactional", 1, 1)]
    topics.append(NewTopic("left-open", 1, 1))
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics(topics).values():
        future.result(30)
    client = ConfluentClient(address)
    for codec in CODECS:
        produce_in_parts(client, f"from-{codec}", records(codec), codec)
    for turn in range(3):
        produce_in_parts(client, "compacted", records("none", T + turn * 60_000), "none")
    producer = client.producer(transactional_id="writer")
    producer.init_transactions(20)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce("transactional", b"%d" % number)
        producer.flush(20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
    left_open = open_producer(client, "left open")
    left_open.begin()
    left_open.send("left-open", [b"undecided"])
    client.produce("left-open", [Sent(None, b"behind it")])
    left_open.close()
    member = client.member("readers", "from-none")
    eventually(lambda: len(member.seen()) == 300, timeout=20)
    member.commit()
    member.close()


@pytest.fixture(scope="module")
def broker(
    kafka_folder: Path, tmp_path_factory: pytest.TempPathFactory, data_folders: list[Path]
) -> Iterator[RunningBroker]:
    """Our broker on a copy of that folder."""
    folder = tmp_path_factory.mktemp("ours")
    shutil.copytree(kafka_folder, folder / "data")
    configs = {"log.retention.ms": -1, "group.initial.rebalance.delay.ms": 0}
    with running_broker(configs=configs, folder=folder) as running:
        yield running


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_served(broker: RunningBroker, codec: str) -> None:
    """All that was produced, by offset and by time, to a foreign client."""
    expected = [
        Read(0, offset, each.timestamp_ms, each.key, each.value, each.headers)
        for offset, each in enumerate(records(codec))
    ]
    client = ConfluentClient(broker.address)
    assert client.consume(f"from-{codec}", 300) == expected
    assert client.offset_at(f"from-{codec}", T + 1221) == 123
    assert client.offset_at(f"from-{codec}", T + 3000) is None


def test_a_compacted_topic_keeps_its_last_values(broker: RunningBroker) -> None:
    """Holes and all; the last value of each key is there."""
    with KafkaWire(broker.port) as wire:
        found = read_records(wire, "compacted")
    assert found[-1].offset == 899
    assert len(found) < 900
    last = {each.key: each.value for each in found}
    assert last == {each.key: each.value for each in records("none")}


def test_aborted_transactions_stay_hidden(broker: RunningBroker) -> None:
    """The transaction index and the markers are understood."""
    client = ConfluentClient(broker.address)
    read = client.consume("transactional", 2, isolation="read_committed")
    assert [each.value for each in read] == [b"0", b"2"]


def test_a_transaction_that_kafka_left_open_stays_open(broker: RunningBroker) -> None:
    """``__transaction_state`` is read as Kafka wrote it: who goes on with the id ends it."""
    client = ConfluentClient(broker.address)
    with Admin(broker.address) as admin:
        owners = {each.transactional_id: each for each in admin.list_transactions()}
        states = {name: each.state for name, each in owners.items()}
        assert states == {"left open": "Ongoing", "writer": "CompleteCommit"}
        (found,) = admin.open_transactions()
        assert (found.partition, found.transactional_id) == (("left-open", 0), "left open")
        following = open_producer(client, "left open")
        assert admin.open_transactions() == []
    following.begin()
    following.send("left-open", [b"next"])
    following.commit()
    following.close()
    read = client.consume("left-open", 2, isolation="read_committed")
    assert [each.value for each in read] == [b"behind it", b"next"]


def test_committed_offsets_are_known(broker: RunningBroker) -> None:
    """Groups are read from ``__consumer_offsets`` as Kafka wrote it."""
    with KafkaWire(broker.port) as wire:
        assert committed_offset(wire, "readers", "from-none") == 300


def test_topics_are_written_on(broker: RunningBroker) -> None:
    """New records follow the old ones; nothing about the topic was lost."""
    with Admin(broker.address) as admin:
        assert describe(admin, "from-gzip").segment_count > 1
        with Producer(broker.address) as producer:
            assert producer.send("from-gzip", b"new", partition=0).result(10).offset == 300
        with Consumer(broker.address) as consumer:
            ends = consumer.end_offsets([TopicPartition("from-gzip", 0)])
    assert list(ends.values()) == [301]


def test_kafka_reads_the_folder_after_seglog(kafka_folder: Path, tmp_path: Path) -> None:
    """A start and a clean stop later the dump tool has nothing to complain about."""
    shutil.copytree(kafka_folder, tmp_path / "data")
    with running_broker(configs={"log.retention.ms": -1}, folder=tmp_path) as broker:
        with Producer(broker.address) as producer:
            producer.send("from-zstd", b"new", partition=0).result(10)
        broker.stop()
    found = dump_folder(tmp_path / "data", may_have_holes=True)
    assert found.complaints == []


def test_kafka_serves_a_log_of_seglog(tmp_path: Path, kafka_folder: Path) -> None:
    """The other way round: a log of ours, put into Kafka's folder, is loaded and served by it."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    try:
        with running_kafka(theirs, KAFKA_CONFIGS) as kafka:
            client = AdminClient({"bootstrap.servers": kafka.address})
            client.create_topics([NewTopic("moved", 1, 1)])["moved"].result(30)
            kafka.stop()
            with running_broker(configs={"log.retention.ms": -1}, folder=tmp_path) as broker:
                with Admin(broker.address) as admin:
                    admin.create_topic("moved", partitions=1)
                for codec in CODECS:
                    ConfluentClient(broker.address).produce("moved", records(codec), codec=codec)
                broker.stop()
            target = kafka.data_directory / "moved-0"
            for path in target.glob("0*"):
                path.unlink()
            for path in (broker.data_directory / "moved-0").glob("0*"):
                shutil.copy(path, target / path.name)
            shutil.copy(
                broker.data_directory / "moved-0" / "leader-epoch-checkpoint",
                target / "leader-epoch-checkpoint",
            )
            kafka.start()
            found = ConfluentClient(kafka.address).consume("moved", 300 * len(CODECS))
    except UnavailableError as error:
        pytest.skip(str(error))
    sent = [each for codec in CODECS for each in records(codec)]
    assert [(each.key, each.value, each.timestamp_ms) for each in found] == [
        (each.key, each.value, each.timestamp_ms) for each in sent
    ]
