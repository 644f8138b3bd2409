"""Batch, stream and files reads beside confluent-kafka, on random topics with random options.

Each seed makes a topic (codecs, transactions, compaction, LogAppendTime, nulls, times before 1970)
and reads it in every way: all must give the same records, and a filter that is pushed down those
that Spark itself would keep. ``SEED=7 pytest tests/spark/test_same_rows.py`` replays one.
"""

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from seglog.protocol.records.record import RecordFields
from support.spark_queries import fill_raw, read_batch, read_stream, run_available

confluent_kafka = pytest.importorskip("confluent_kafka")

SEEDS = [int(os.environ["SEED"])] if "SEED" in os.environ else [2, 4, 6]
STAMP = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """A record as every reader must give it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def random_bytes(chance: random.Random, most: int) -> bytes | None:
    kind = chance.randrange(5)
    if kind == 0:
        return None
    return b"" if kind == 1 else chance.randbytes(chance.randrange(1, most))


def random_stamp(chance: random.Random) -> int:
    early = [-1, 0, 1, -5_000, -86_400_000 * 365 * 30]
    return chance.choice([*early, STAMP, STAMP + chance.randrange(100_000)])


def random_configs(chance: random.Random) -> dict[str, Any]:
    configs: dict[str, Any] = {"segment_bytes": chance.choice([100_000, 10**6])}
    if chance.random() < 0.4:
        configs["message_timestamp_type"] = "LogAppendTime"
    if chance.random() < 0.5:
        configs |= {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}
    return configs


def produce(chance: random.Random, address: str, topic: str, partitions: int) -> None:
    """Batches of one library and another, in and out of transactions."""
    codec = chance.choice(["none", "gzip", "snappy", "lz4", "zstd"])
    for turn in range(chance.randrange(4, 9)):
        partition, count = chance.randrange(partitions), chance.randrange(1, 120)
        kind = chance.choice(["raw", "plain", "committed", "aborted"])
        if kind == "raw":
            fill_raw(address, topic, [random_record(chance) for _ in range(count)])
            continue
        settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 1}
        if kind != "plain":
            settings["transactional.id"] = f"{topic}-{turn}"
        producer = confluent_kafka.Producer(settings)
        if kind != "plain":
            producer.init_transactions(30)
            producer.begin_transaction()
        for _ in range(count):
            _, key, value, headers = random_record(chance)
            producer.produce(
                topic, value, key or b"k", partition, headers=list(headers),
                timestamp=STAMP + chance.randrange(100_000),
            )  # fmt: skip
        producer.flush(30)
        if kind == "committed":
            producer.commit_transaction(30)
        elif kind == "aborted":
            producer.abort_transaction(30)


def random_record(chance: random.Random) -> RecordFields:
    key = b"%d" % chance.randrange(20)
    names = [chance.choice(["a", "b", "é"]) for _ in range(chance.choice([0, 0, 1, 3]))]
    headers = tuple((name, random_bytes(chance, 9)) for name in names)
    return random_stamp(chance), key, random_bytes(chance, 400), headers


def by_confluent(address: str, topic: str, isolation: str) -> list[Row]:
    """Everything in a topic, read by another library."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "independent",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        found = consumer.list_topics(topic, 30).topics[topic].partitions
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, each, start) for each in found])
        rows, left = [], len(found)
        while left:
            message = consumer.poll(30)
            assert message is not None, "no answer in 30 s"
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                left -= 1
                continue
            kind, stamp = message.timestamp()
            rows.append(
                Row(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    stamp,
                    int(kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME),
                    tuple(message.headers() or ()),
                )
            )
        return sorted(rows)
    finally:
        consumer.close()


def rows_of(frame: Any) -> list[Row]:
    """The rows of a frame with headers, whatever the zone of the session is."""
    picked = frame.selectExpr(
        "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType", "headers"
    )
    return sorted(
        Row(*row[:6], tuple((pair.key, _bytes(pair.value)) for pair in row[6] or ()))._replace(
            key=_bytes(row[2]), value=_bytes(row[3])
        )
        for row in picked.collect()
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def random_options(chance: random.Random) -> dict[str, Any]:
    every = {
        "fetchBytes": chance.choice([1, 500, 5000, 2**20]),
        "batchRows": chance.choice([7, 1000]),
        "batchBytes": chance.choice([100, 2**20]),
        "coalesceRecords": chance.choice([0, 50, 20_000]),
        "maxRecordsPerPartition": chance.choice([13, 200]),
        "minPartitions": chance.choice([2, 5]),
    }
    return {name: every[name] for name in chance.sample(sorted(every), 2)}


def random_filter(chance: random.Random, rows: list[Row]) -> str:
    stamp = chance.choice([*(row.timestamp_ms for row in rows[:50]), 0, -10_000, STAMP + 500])
    moment = (EPOCH + timedelta(milliseconds=stamp)).strftime("%Y-%m-%d %H:%M:%S.%f")
    offset = chance.randrange(0, max((row.offset for row in rows), default=0) + 2)
    comparison = chance.choice(["=", "<", "<=", ">", ">=", "<>"])
    simple = [
        f"timestamp {comparison} TIMESTAMP'{moment}'",
        f"offset {comparison} {offset}",
        f"partition IN ({chance.randrange(3)}, {chance.randrange(3)})",
        f"timestamp BETWEEN TIMESTAMP'1960-01-01' AND TIMESTAMP'{moment}'",
        "key IS NOT NULL",
    ]
    return chance.choice([" AND ", " OR "]).join(chance.sample(simple, chance.randrange(1, 4)))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
def test_all_ways_to_read_a_topic_give_what_another_library_reads(
    spark: Any,
    broker: RunningBroker,
    admin: Admin,
    new_topic: Callable[..., str],
    tmp_path: Path,
    seed: int,
) -> None:
    chance = random.Random(seed)
    configs, partitions = random_configs(chance), chance.randrange(1, 4)
    topic = new_topic(partitions, **configs)
    produce(chance, broker.address, topic, partitions)
    if "cleanup_policy" in configs:
        admin.roll(topic)
        admin.clean(topic, wait=True)
    isolation = chance.choice(["read_uncommitted", "read_committed"])
    expected = by_confluent(broker.address, topic, isolation)
    given = {"includeHeaders": "true", "isolation": isolation}
    batch = read_batch(spark, broker.address, topic, **given, **random_options(chance))
    assert rows_of(batch) == expected
    pushed = read_batch(spark, broker.address, topic, **given, filterPushdown="true")
    for _ in range(2):
        condition = random_filter(chance, expected)
        kept = rows_of(batch.where(condition))
        assert rows_of(pushed.where(condition)) == kept, condition
    options = random_options(chance)
    options["maxOffsetsPerTrigger"] = chance.choice([100, 10_000])
    options["driverRecords"] = chance.choice([0, 1000])
    stream = read_stream(
        spark, broker.address, topic, startingOffsets="earliest", **given, **options
    )
    run_available(stream, tmp_path)
    assert rows_of(spark.read.parquet(str(tmp_path / "rows"))) == expected
    files = spark.read.format("seglog.files").option("subscribe", topic)
    files = files.option("includeHeaders", "true").load(str(broker.data_directory))
    assert rows_of(files) == by_confluent(broker.address, topic, "read_uncommitted")
