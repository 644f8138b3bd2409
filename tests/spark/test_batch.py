"""Batch queries on a real session: rows, headers, times, filters, and what they refuse."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from seglog.clients import Admin, Producer
from seglog.clients.spark.schemas import COLUMNS, arrow_schema, row_schema
from seglog.clients.testing import RunningBroker
from seglog.protocol.records.record import RecordFields
from support.spark_queries import fill, fill_raw, read_batch, records_of

STAMP = 1_700_000_000_000
HEADER_RECORDS: list[RecordFields] = [
    (STAMP, b"k", b"none", ()),
    (STAMP + 7, b"k", b"one", (("a", b"1"),)),
    (STAMP + 14, b"k", b"twice", (("a", b"1"), ("b", b"x"), ("a", b"2"))),
    (STAMP + 21, b"k", b"null", (("a", None),)),
    (STAMP + 28, b"k", b"empty", (("a", b""),)),
    (STAMP + 35, b"k", b"bytes", (("\N{GREEK SMALL LETTER ALPHA}", b"\xff\xfe"),)),
    (-1, None, None, ()),
    (STAMP, b"", b"", ()),
    (STAMP + 1, b"k", b"1", ()),
    (STAMP + 999, b"k", b"999", ()),
]


def test_the_arrow_schema_is_not_the_one_that_spark_insists_on() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    for columns in (COLUMNS, COLUMNS[:-1], ("value", "offset")):
        wanted = to_arrow_schema(row_schema(columns), timezone="UTC")
        assert wanted.equals(arrow_schema(columns))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_headers_or_times_differ_from_what_was_written(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], zone: str
) -> None:
    """C070: ten records, two zones; the round trip through the sink is byte-identical."""
    topic, copy = new_topic(), new_topic()
    if zone == "UTC":
        appended = new_topic(message_timestamp_type="LogAppendTime")
    fill_raw(broker.address, topic, HEADER_RECORDS)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = read_batch(spark, broker.address, topic, includeHeaders="true")
        found = rows.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
        rows.drop("partition").write.format("seglog").option(
            "bootstrap.servers", broker.address
        ).option("topic", copy).mode("append").save()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert len(found) == len(HEADER_RECORDS)
    for row, (stamp, key, value, headers) in zip(found, HEADER_RECORDS, strict=True):
        assert (row.ms, row.key, row.value, row.timestampType) == (stamp, key, value, 0)
        if not headers:
            assert row.headers is None
        else:
            assert tuple(tuple(pair) for pair in row.headers) == headers
    written, copied = (
        [
            (each.key, each.value, each.timestamp_ms, each.headers)
            for each in records_of(broker.address, name)
        ]
        for name in (topic, copy)
    )
    assert copied == written
    if zone == "UTC":
        fill(broker.address, appended, range(3))
        types = read_batch(spark, broker.address, appended).select("timestampType").collect()
        assert [row[0] for row in types] == [1, 1, 1]


def test_a_header_name_that_is_no_text_fails_the_query(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """A foreign client may have written any bytes; Java reads them with replacements."""
    topic = new_topic()
    fill_raw(broker.address, topic, [(STAMP, None, b"v", (("abc", b"1"),))], b"abc", b"a\xffc")
    (row,) = read_batch(spark, broker.address, topic, columns="headers").collect()
    assert row.headers[0].key == "a\ufffdc"


def test_an_empty_topic_has_another_schema_or_fails(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    rows = read_batch(spark, broker.address, topic, includeHeaders="true")
    assert rows.columns == list(COLUMNS)
    assert rows.collect() == []


def test_a_column_is_read_that_nobody_wants(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(5))
    rows = read_batch(spark, broker.address, topic, columns="Offset,value")
    assert rows.columns == ["offset", "value"]
    assert sorted(rows.collect()) == [(number, b"%d" % number) for number in range(5)]


def test_another_schema_is_taken(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    reader = spark.read.format("seglog").option("bootstrap.servers", broker.address)
    with pytest.raises(Exception, match="schema of this source is fixed"):
        reader.option("subscribe", new_topic()).schema("value string").load().count()


def test_every_codec_is_read(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(broker.address, compression=codec) as producer:  # type: ignore[arg-type]
            producer.send_many(topic, ((None, b"%d" % number) for number in range(500)))
    rows = read_batch(spark, broker.address, topic).selectExpr("int(string(value)) AS n")
    assert rows.agg({"n": "sum", "*": "count"}).first().asDict() == {
        "count(1)": 2500,
        "sum(n)": 5 * sum(range(500)),
    }


def test_bounds_of_a_batch_are_not_kept(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """C069 for batches: offsets -1 and -2, times, and maps that are not exact."""
    topic = new_topic(2)
    with Producer(broker.address) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=STAMP + number)

    def count(**options: Any) -> int:
        return int(read_batch(spark, broker.address, topic, **options).count())

    starting, ending = (
        json.dumps({topic: {"0": 10, "1": -2}}),
        json.dumps({topic: {"0": 60, "1": -1}}),
    )
    assert count(startingOffsets=starting, endingOffsets=ending) == 50
    assert count(startingTimestamp=STAMP + 50, startingOffsetsByTimestampStrategy="latest") == 50
    assert count(endingTimestamp=STAMP + 20) == 20
    assert count(endingTimestamp=STAMP + 2000) == 100
    by_time = json.dumps({topic: {"0": STAMP + 30, "1": STAMP}})
    assert count(endingOffsetsByTimestamp=by_time) == 30
    for options in (
        {"startingTimestamp": STAMP + 50},
        {"startingOffsets": json.dumps({topic: {"0": 0}})},
        {"endingOffsets": json.dumps({topic: {"0": 5, "1": 0, "9": 5}})},
        {"endingOffsets": json.dumps({topic: {"0": 5000, "1": 0}})},
        {"startingOffsets": ending, "endingOffsets": json.dumps({topic: {"0": 59, "1": -1}})},
        {"startingOffsets": json.dumps({topic: {"0": 0, "1": 0}, "unknown": {"0": 0}})},
    ):
        with pytest.raises(Exception, match=f"{topic}|there is no unknown-0"):
            count(**options)
    with pytest.raises(Exception, match="before startingTimestamp"):
        count(startingTimestamp=STAMP + 50, endingTimestamp=STAMP + 49)
    beyond = json.dumps({topic: {"0": 5000, "1": 0}})
    assert count(endingOffsets=beyond, failOnDataLoss="false") == 100


def test_subscriptions_by_pattern_and_assignment_read_other_topics(
    spark: Any, broker: RunningBroker, admin: Admin, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    admin.create_topic(f"{topic}x", partitions=1)
    fill(broker.address, topic, range(5))
    fill(broker.address, topic, range(7), partition=1)
    fill(broker.address, f"{topic}x", range(3))
    reader = spark.read.format("seglog").option("bootstrap.servers", broker.address)
    assert reader.option("subscribePattern", f"{topic}.?").load().count() == 15
    reader = spark.read.format("seglog").option("bootstrap.servers", broker.address)
    assert reader.option("assign", json.dumps({topic: [1]})).load().count() == 7


FILTERS = {
    "partition = 1": {1},
    "partition IN (0, 2) AND offset >= 90": {0, 2},
    "offset BETWEEN 10 AND 19": {0, 1, 2},
    "topic = 'other'": set(),
    f"timestamp >= timestamp_millis({STAMP + 95})": {0, 1, 2},
    f"timestamp > timestamp_micros({STAMP + 95}500)": {0, 1, 2},
    f"timestamp <= timestamp_micros({STAMP + 5}999)": {0, 1, 2},
    f"timestamp = timestamp_micros({STAMP + 5}001)": {0, 1, 2},
    f"timestamp < timestamp_millis({STAMP + 5}) AND offset <> 2": {0, 1, 2},
    "partition = 0 OR offset < 3": {0, 1, 2},
}


@pytest.mark.parametrize("condition", list(FILTERS))
def test_a_filter_that_is_pushed_down_changes_the_result(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], condition: str
) -> None:
    topic = new_topic(3)
    with Producer(broker.address) as producer:
        for number in range(100):
            for partition in range(3):
                producer.send(
                    topic, b"%d" % number, partition=partition, timestamp_ms=STAMP + number
                )
    plain = read_batch(spark, broker.address, topic, coalesceRecords=0).where(condition)
    pushed = read_batch(
        spark, broker.address, topic, coalesceRecords=0, filterPushdown="true"
    ).where(condition)
    assert sorted(pushed.collect()) == sorted(plain.collect())
    assert pushed.rdd.getNumPartitions() == max(1, len(FILTERS[condition]))


def test_sentinel_dates_are_filters_as_others_are(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """P12: PySpark fails to turn them into Python's times."""
    topic = new_topic()
    fill(broker.address, topic, range(5))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = read_batch(spark, broker.address, topic, filterPushdown="true")
        assert rows.where("timestamp < TIMESTAMP'9999-12-31 23:59:59'").count() == 5
        assert rows.where("timestamp > TIMESTAMP'9999-12-31 23:59:59'").count() == 0
        assert rows.where("timestamp > TIMESTAMP'-0100-01-01 00:00:00'").count() == 5
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_query_fails_where_pushdown_is_off(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """Spark refuses a reader that has ``pushFilters`` then: only who asks for it has one."""
    topic = new_topic()
    fill(broker.address, topic, range(5))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert read_batch(spark, broker.address, topic).where("offset > 2").count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_limit_leaves_threads_or_connections_behind(
    broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """``LIMIT`` ends a task in the middle of a range, perhaps with a fetch under way."""
    from seglog.clients.spark.range_reader import read_splits
    from seglog.clients.spark.source_options import read_source_options
    from seglog.clients.spark.splits import OffsetRange, RangeSplit
    from seglog.protocol.api import ZERO_TOPIC_ID
    from seglog.protocol.types import TopicPartition

    topic = new_topic()
    fill(broker.address, topic, range(20_000))
    given = {"bootstrap.servers": broker.address, "subscribe": topic, "fetchBytes": "10000"}
    options = read_source_options(given, streaming=False)
    whole = OffsetRange(TopicPartition(topic, 0), 0, 20_000, ZERO_TOPIC_ID)
    batches = read_splits(options, RangeSplit((whole,)))
    assert isinstance(next(batches), pa.RecordBatch)
    batches.close()  # type: ignore[attr-defined]
    assert not [each for each in threading.enumerate() if each.name == "seglog-prefetch"]


def test_load_resolves_the_end_again_for_each_action(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """Spark plans once for each ``load()``; documented, and the same rows twice are worth it."""
    topic = new_topic()
    fill(broker.address, topic, range(5))
    rows = read_batch(spark, broker.address, topic)
    assert rows.count() == 5
    fill(broker.address, topic, range(5))
    assert rows.count() == 5
    assert read_batch(spark, broker.address, topic).count() == 10


def test_a_broker_that_is_away_is_not_waited_for(spark: Any, tmp_path: Any) -> None:
    """Killed and started again while a task reads."""
    from seglog.clients.testing import running_broker

    with running_broker(folder=tmp_path) as own:
        with Admin(own.address) as client:
            client.create_topic("t", partitions=1)
        fill(own.address, "t", range(1000))
        rows = read_batch(spark, own.address, "t", coalesceRecords=0)
        assert rows.count() == 1000
        own.kill()
        starter = threading.Timer(0.7, own.start)
        starter.start()
        try:
            assert rows.count() == 1000
        finally:
            starter.join()
