"""Kafka's own dump tool reads every kind of file that a broker leaves, and means what it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin, Producer
from seglog.clients.testing import running_broker
from support.eventually import eventually
from support.foreign.confluent import ConfluentClient
from support.foreign.dump_tool import DUMP_TOOL, SUFFIXES, dump_folder
from support.foreign.programs import run_java
from support.foreign.shape import UnavailableError
from support.foreign.transactions import open_producer
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
    "transaction.state.log.num.partitions": 2,
}
OPEN_ID, ENDED_ID, GROUP = "left open", "ended", "in a transaction"
COUNT = 3000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left: many segments, compaction, commits, transactions, and a kill."""
    folder = tmp_path_factory.mktemp("dumped")
    with running_broker(configs=CONFIGS, folder=folder) as broker:
        with Admin(broker.address) as admin, Producer(broker.address) as producer:
            admin.create_topic("plain", partitions=2)
            compacting = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
            admin.create_topic("compacted", partitions=1, configs=compacting)
            admin.create_topic(
                "late", partitions=1, configs={"message.timestamp.type": "LogAppendTime"}
            )
            for number in range(COUNT):
                key = b"%d" % (number % 50)
                for topic in ("plain", "compacted", "late"):
                    producer.send(topic, b"value " * 20, key=key, partition=0)
                if number % 300 == 0:
                    producer.flush()
            producer.flush()
            member = ConfluentClient(broker.address).member("dumped", "plain")
            # Its first poll may bring fewer, and a commit is of what was read.
            eventually(lambda: len(member.seen()) == COUNT)
            member.commit()
            member.close()
            eventually(lambda: describe(admin, "compacted").first_dirty_offset > 0)
            make_transactions(broker.address)
        broker.kill()
        broker.start()
        with Producer(broker.address) as producer:
            producer.send("plain", b"after the kill", partition=0).result(10)
    return broker.data_directory


def make_transactions(address: str) -> None:
    """One is aborted, one is committed with an offset, one stays open."""
    with Producer(address, transactional_id=ENDED_ID) as ended:
        ended.begin_transaction()
        ended.send("plain", b"aborted", partition=1).result(10)
        ended.abort_transaction()
        with ended.transaction():
            ended.send("plain", b"committed", partition=1)
            ended.send_offsets_to_transaction({("plain", 1): 7}, GROUP)
    left_open = open_producer(ConfluentClient(address), OPEN_ID)
    left_open.begin()
    left_open.send("plain", [b"open"])
    left_open.close()


def read_all(folder: Path, **options: bool):
    try:
        return dump_folder(folder, **options)
    except UnavailableError as error:
        pytest.skip(str(error))


def test_the_dump_tool_reads_every_file(data: Path) -> None:
    """Logs, both indexes, producer snapshots; the compacted log may have holes."""
    found = read_all(data, may_have_holes=True)
    assert found.complaints == []
    assert {path.suffix for path in found.files} >= {*SUFFIXES}
    assert found.batches > 20


def test_the_tool_notices_a_flipped_byte(data: Path, tmp_path: Path) -> None:
    """A flipped byte in a copy of one log: the check above is a check."""
    source = max(data.glob("plain-0/*.log"), key=lambda path: path.stat().st_size)
    damaged = bytearray(source.read_bytes())
    damaged[200] ^= 1
    (tmp_path / source.name).write_bytes(damaged)
    assert read_all(tmp_path).complaints


def decode(data: Path, topic: str, decoder: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Keys and values of an internal topic, as Kafka's own decoders show them."""
    files = ",".join(str(each) for each in sorted(data.glob(f"{topic}-*/*.log")))
    try:
        found = run_java(DUMP_TOOL, decoder, "--files", files).stdout
    except UnavailableError as error:
        pytest.skip(str(error))
    pairs = re.findall(r" key: (\{.*\}) payload: (\{.*\})$", found, re.MULTILINE)
    return [(json.loads(key)["data"], json.loads(value)["data"]) for key, value in pairs]


def test_kafka_reads_the_records_of_groups(data: Path) -> None:
    """``__consumer_offsets``: members, and offsets, those of a transaction among them."""
    found = decode(data, "__consumer_offsets", "--offsets-decoder")
    offsets = {key["group"]: value["offset"] for key, value in found if "topic" in key}
    assert offsets == {"dumped": COUNT, GROUP: 7}
    members = [len(value["members"]) for key, value in found if "topic" not in key]
    assert members == [1, 0]


def test_kafka_reads_the_records_of_transactions(data: Path) -> None:
    """``__transaction_state``: every step of each transactional id, and its partitions."""
    steps: dict[str, list[str]] = {}
    for key, value in decode(data, "__transaction_state", "--transaction-log-decoder"):
        steps.setdefault(key["transactionalId"], []).append(value["transactionStatus"])
        if value["transactionStatus"] == "PrepareCommit":
            topics = {each["topic"] for each in value["transactionPartitions"]}
            assert topics == {"plain", "__consumer_offsets"}
    first, last = ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"], ["Prepare", "Complete"]
    assert steps[ENDED_ID][:4] == first
    assert steps[ENDED_ID][-2:] == [f"{each}Commit" for each in last]
    assert steps[OPEN_ID] == ["Empty", "Ongoing"]
