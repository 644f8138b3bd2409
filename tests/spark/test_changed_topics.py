"""Topics that are not as a query left them, and small batches that no task reads; real sessions."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition

from seglog.clients import Admin
from seglog.clients.spark import SeglogDataSource
from seglog.clients.spark.driver_reads import DriverReadingReader
from seglog.clients.spark.source_options import read_source_options
from seglog.clients.testing import RunningBroker
from seglog.protocol.records.record import RecordFields
from support.spark_log import SparkLog
from support.spark_queries import fill, fill_raw, read_stream, rows_read, run_available

STAMP = 1_700_000_000_000


class NoTask(DriverReadingReader):
    """Reads nothing in tasks."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise AssertionError(f"a task reads {partition}")


class NoTaskSource(SeglogDataSource):
    """The source, for queries that must not have to read in tasks."""

    @classmethod
    def name(cls) -> str:
        return "seglog-no-task"

    def streamReader(self, schema: Any) -> NoTask:  # noqa: N802 - Spark's
        return NoTask(read_source_options(self.options, streaming=True))


def start(stream: Any, folder: Path) -> Any:
    writer = stream.writeStream.format("parquet").option("path", str(folder / "rows"))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def test_a_small_batch_is_left_to_tasks(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The way around them is an internal one of PySpark: here it fails if a version has lost it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        spark.dataSource.register(NoTaskSource)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    topic = new_topic(3)
    stream = spark.readStream.format("seglog-no-task").option("bootstrap.servers", broker.address)
    stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
    for first in (0, 300):
        for partition in range(3):
            values = range(first + partition * 100, first + partition * 100 + 100)
            fill(broker.address, topic, values, partition)
        reports = run_available(stream.option("maxOffsetsPerTrigger", 250).load(), tmp_path)
        assert [each["numInputRows"] for each in reports if each["numInputRows"]] == [250, 50]
    assert rows_read(spark, tmp_path) == list(range(600))
    with pytest.raises(Exception, match="a task reads"):
        run_available(stream.option("driverRecords", 10).load(), tmp_path / "other")


HEADER_RECORDS: list[RecordFields] = [
    (STAMP, b"k", b"none", ()),
    (STAMP + 1, None, b"twice", (("a", b"1"), ("b", b"x"), ("a", b"2"))),
    (STAMP + 2, b"k", None, (("a", None), ("a", b""))),
    (-1, None, None, ()),
]


@pytest.mark.parametrize("driver_records", [0, 1000])
def test_headers_or_times_of_a_stream_differ_from_what_was_written(
    spark: Any,
    broker: RunningBroker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    driver_records: int,
) -> None:
    """C070 for streams, read by a task and by the driver, in a zone with summer time."""
    topic = new_topic()
    fill_raw(broker.address, topic, HEADER_RECORDS)
    stream = read_stream(
        spark,
        broker.address,
        topic,
        startingOffsets="earliest",
        includeHeaders="true",
        driverRecords=driver_records,
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        run_available(stream.selectExpr("*", "unix_micros(timestamp) AS micros"), tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    found = [
        (
            row.micros,
            row.key,
            row.value,
            None if row.headers is None else tuple(tuple(pair) for pair in row.headers),
        )
        for row in rows
    ]
    assert found == [
        (stamp * 1000, key, value, headers or None) for stamp, key, value, headers in HEADER_RECORDS
    ]


def test_a_topic_that_goes_and_comes_ends_a_query_or_is_read_in_part(
    spark: Any,
    broker: RunningBroker,
    admin: Admin,
    new_topic: Callable[..., str],
    tmp_path: Path,
    spark_log: SparkLog,
) -> None:
    """C064, while the query runs, with failOnDataLoss=false: two topics, one is deleted."""
    kept, deleted = new_topic(), new_topic()
    fill(broker.address, kept, range(10))
    fill(broker.address, deleted, range(100, 110))
    spark_log.begin()
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", "retryTimeout": "2s"}
    query = start(read_stream(spark, broker.address, f"{kept},{deleted}", **options), tmp_path)
    try:
        query.processAllAvailable()
        admin.delete_topic(deleted)
        fill(broker.address, kept, range(10, 20))
        query.processAllAvailable()
        assert rows_read(spark, tmp_path) == [*range(20), *range(100, 110)]
        admin.create_topic(deleted, partitions=2)
        fill(broker.address, deleted, range(200, 205))
        fill(broker.address, deleted, range(205, 230), partition=1)
        query.processAllAvailable()
        assert rows_read(spark, tmp_path) == [*range(20), *range(100, 110), *range(200, 230)]
    finally:
        query.stop()
    assert len(spark_log.lines(f"topic {deleted} does not exist; going on without it")) == 1


def test_a_topic_that_is_made_anew_is_not_noticed_while_a_query_runs(
    spark: Any, broker: RunningBroker, admin: Admin, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    options = {"startingOffsets": "earliest", "retryTimeout": "2s"}
    query = start(read_stream(spark, broker.address, topic, **options), tmp_path)
    try:
        query.processAllAvailable()
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
        fill(broker.address, topic, range(20))
        with pytest.raises(Exception, match=f"{topic} (was deleted and created|does not exist)"):
            query.awaitTermination(30)
    finally:
        query.stop()
    assert rows_read(spark, tmp_path) == list(range(10))


def test_a_checkpoint_of_other_topics_is_taken_for_ours(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    first, second = new_topic(), new_topic()
    fill(broker.address, first, range(10))
    fill(broker.address, second, range(100, 120))
    options = {"startingOffsets": "earliest"}
    run_available(read_stream(spark, broker.address, first, **options), tmp_path)
    with pytest.raises(Exception, match=f"{first}-0 was being read .* not subscribed to"):
        run_available(read_stream(spark, broker.address, second, **options), tmp_path)
    options["failOnDataLoss"] = "false"
    run_available(read_stream(spark, broker.address, second, **options), tmp_path)
    assert rows_read(spark, tmp_path) == [*range(10), *range(100, 120)]


@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_a_limit_of_one_stops_a_query_of_many_partitions(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path, limit: str
) -> None:
    """C068: forty partitions; one of them is empty, one has three records, the others have one."""
    topic = new_topic(40)
    fill(broker.address, topic, range(3))
    for partition in range(1, 39):
        fill(broker.address, topic, [partition * 10], partition)
    stream = read_stream(spark, broker.address, topic, startingOffsets="earliest", **{limit: 1})
    reports = run_available(stream, tmp_path)
    assert [each["numInputRows"] for each in reports if each["numInputRows"]] == [39, 1, 1]
    assert rows_read(spark, tmp_path) == sorted([*range(3), *range(10, 390, 10)])


def test_a_report_given_as_start_is_refused(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The end of one query is where another begins, also with the marks that are in it."""
    topic = new_topic(2)
    fill(broker.address, topic, range(10))
    options = {"startingTimestamp": 0, "startingOffsetsByTimestampStrategy": "latest"}
    stream = read_stream(spark, broker.address, topic, failOnDataLoss="false", **options)
    reports = run_available(stream, tmp_path / "one")
    end = reports[-1]["sources"][0]["endOffset"]
    written = json.dumps(end) if not isinstance(end, str) else end
    fill(broker.address, topic, range(10, 15), partition=1)
    run_available(read_stream(spark, broker.address, topic, startingOffsets=written), tmp_path)
    assert rows_read(spark, tmp_path) == list(range(10, 15))
