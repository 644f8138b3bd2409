"""Kafka's own dump tool reads every kind of file that a broker leaves, and means what it says."""

from pathlib import Path

import pytest

from seglog.clients import Admin, Producer
from seglog.clients.testing import running_broker
from support.eventually import eventually
from support.foreign.confluent import ConfluentClient
from support.foreign.dump_tool import SUFFIXES, dump_folder
from support.foreign.shape import UnavailableError
from support.real_broker import describe

CONFIGS = {
    "log.segment.bytes": 65536,
    "log.index.interval.bytes": 512,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 4194304,
    "log.cleaner.io.buffer.size": 262144,
    "log.segment.delete.delay.ms": 100,
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left: many segments, compaction, deletion, commits, and a kill."""
    folder = tmp_path_factory.mktemp("dumped")
    with running_broker(configs=CONFIGS, folder=folder) as broker:
        with Admin(broker.address) as admin, Producer(broker.address) as producer:
            admin.create_topic("plain", partitions=2)
            compacting = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
            admin.create_topic("compacted", partitions=1, configs=compacting)
            admin.create_topic(
                "late", partitions=1, configs={"message.timestamp.type": "LogAppendTime"}
            )
            for number in range(3000):
                key = b"%d" % (number % 50)
                for topic in ("plain", "compacted", "late"):
                    producer.send(topic, b"value " * 20, key=key, partition=0)
                if number % 300 == 0:
                    producer.flush()
            producer.flush()
            member = ConfluentClient(broker.address).member("dumped", "plain")
            eventually(member.seen)
            member.commit()
            member.close()
            eventually(lambda: describe(admin, "compacted").first_dirty_offset > 0)
        broker.kill()
        broker.start()
        with Producer(broker.address) as producer:
            producer.send("plain", b"after the kill", partition=0).result(10)
    return broker.data_directory


def read_all(folder: Path, **options: bool):
    try:
        return dump_folder(folder, **options)
    except UnavailableError as error:
        pytest.skip(str(error))


def test_every_file_is_read_without_a_complaint(data: Path) -> None:
    """Logs, both indexes, producer snapshots; the compacted log may have holes."""
    found = read_all(data, may_have_holes=True)
    assert found.complaints == []
    assert {path.suffix for path in found.files} >= {*SUFFIXES} - {".txnindex"}
    assert found.batches > 20


def test_the_tool_would_have_noticed(data: Path, tmp_path: Path) -> None:
    """A flipped byte in a copy of one log: the check above is a check."""
    source = max(data.glob("plain-0/*.log"), key=lambda path: path.stat().st_size)
    damaged = bytearray(source.read_bytes())
    damaged[200] ^= 1
    (tmp_path / source.name).write_bytes(damaged)
    assert read_all(tmp_path).complaints
