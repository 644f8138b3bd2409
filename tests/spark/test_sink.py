"""The sink on a real session: what is written, what is refused, and what is not written again."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seglog.clients import Admin, ConfigurationError
from seglog.clients.config import parse_addresses
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.connection_options import ConnectionOptions
from seglog.clients.spark.finished_batches import FinishedBatch, Tally
from seglog.clients.spark.sink_commits import (
    COMMITS_TOPIC,
    CommitsReader,
    create_commits_topic,
    write_commit,
)
from seglog.clients.spark.sink_encoding import Destination, encode_rows
from seglog.clients.spark.sink_options import SinkColumns, find_columns, read_sink_options
from seglog.clients.spark.writers import RowWriter
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.api import DescribeProducersRequest
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.partitioning import partition_for_key
from support.cutting_proxy import CuttingProxy
from support.processor_time import in_time
from support.spark_log import SparkLog
from support.spark_queries import (
    fill,
    read_batch,
    read_stream,
    records_of,
    undo_last_commit,
)


def write(rows: Any, address: str, **options: Any) -> None:
    writer = rows.write.format("seglog").option("bootstrap.servers", address)
    writer.options(**options).mode("append").save()


def copy_stream(
    spark: Any, address: str, source: str, target: str, folder: Path, **options: Any
) -> Any:
    stream = read_stream(
        spark, address, source, startingOffsets="earliest", maxOffsetsPerTrigger=100
    )
    writer = stream.drop("topic").writeStream.format("seglog")
    writer = writer.option("bootstrap.servers", address).option("topic", target).options(**options)
    query = (
        writer.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    return query.recentProgress


def values_of(address: str, topic: str) -> list[int]:
    return sorted(int(record.value or b"-1") for record in records_of(address, topic))


def test_rows_go_to_other_partitions_than_those_of_a_producer(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(4)
    rows = spark.range(3000).selectExpr("string(id) AS key", "binary(string(id)) AS value")
    write(rows, broker.address, topic=topic, compression="lz4", batchBytes=2000)
    found = list(records_of(broker.address, topic))
    assert sorted(int(record.value or b"") for record in found) == list(range(3000))
    assert all(partition_for_key(record.key or b"", 4) == record.partition for record in found)
    for partition in range(4):
        values = [int(each.value or b"") for each in found if each.partition == partition]
        assert len(values) == len(set(values))


def test_columns_are_not_taken_as_they_are(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    first, second = new_topic(3), new_topic(3)
    rows = spark.sql(
        f"""
        SELECT 'k' AS key, v AS value, t AS topic, p AS partition, s AS timestamp, h AS headers,
               'ignored' AS other
        FROM VALUES
          ('a', '{first}', 2, timestamp_millis(5), array(named_struct('key', 'x', 'value', X'00'))),
          (NULL, '{second}', 0, timestamp_millis(-1), NULL),
          ('', '{first}', 1, timestamp_micros(7999), array()),
          ('b', '{first}', 0, timestamp_micros(-1001), NULL)
          AS t(v, t, p, s, h)
        """
    )
    write(rows, broker.address)
    found = [*records_of(broker.address, first), *records_of(broker.address, second)]
    assert sorted(
        (each.partition, each.timestamp_ms, each.value, each.headers) for each in found
    ) == [(0, -2, b"b", ()), (0, -1, None, ()), (1, 7, b"", ()), (2, 5, b"a", (("x", b"\0"),))]


@pytest.mark.parametrize(
    ("query", "options", "match"),
    [
        ("SELECT 'v' AS value", {}, "option 'topic'"),
        ("SELECT 'k' AS key", {"topic": "t"}, "no column 'value'"),
        ("SELECT 1 AS value", {"topic": "t"}, "value is int"),
        ("SELECT 'v' AS value, CAST(NULL AS STRING) AS topic", {}, "null topic"),
        ("SELECT 'v' AS value, '' AS topic", {}, "empty topic"),
        ("SELECT 'v' AS value, CAST(X'ff41' AS STRING) AS topic", {}, "no UTF-8"),
        ("SELECT 'v' AS value, 9 AS partition", {"topic": "TOPIC"}, "partition 9, there are 1"),
        ("SELECT 'v' AS value", {"topic": "missing-topic"}, "missing-topic"),
        ("SELECT 'v' AS value", {"topic": "TOPIC", "compresion": "zstd"}, "did you mean"),
        (
            "SELECT 'v' AS value, array(struct(string(NULL) AS key, X'00' AS value)) AS headers",
            {"topic": "TOPIC"},
            "row 0 of 1 has a header without a key: give it one",
        ),
        ("SELECT repeat('v', 3000000) AS value", {"topic": "TOPIC"}, "(?i)too.large|exceed|bytes"),
    ],
)
def test_rows_that_cannot_be_records_are_written(
    spark: Any,
    broker: RunningBroker,
    new_topic: Callable[..., str],
    query: str,
    options: dict[str, str],
    match: str,
) -> None:
    topic = new_topic()
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    with pytest.raises(Exception, match=match):
        write(spark.sql(query), broker.address, **given)
    assert not list(records_of(broker.address, topic))


def test_a_topic_is_overwritten(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    rows = spark.range(1).selectExpr("string(id) AS value").write.format("seglog")
    rows = rows.option("bootstrap.servers", broker.address).option("topic", new_topic())
    with pytest.raises(Exception, match="mode append"):
        rows.mode("overwrite").save()


def test_a_committed_batch_is_written_again(
    spark: Any,
    broker: RunningBroker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    spark_log: SparkLog,
) -> None:
    """Killed between the commit of the sink and that of Spark: the batch is replayed."""
    source, target = new_topic(2), new_topic(3)
    fill(broker.address, source, range(150))
    fill(broker.address, source, range(150, 300), partition=1)
    copy_stream(spark, broker.address, source, target, tmp_path)
    assert values_of(broker.address, target) == list(range(300))
    undo_last_commit(tmp_path)
    spark_log.begin()
    progress = copy_stream(spark, broker.address, source, target, tmp_path)
    assert progress[0]["numInputRows"] == 100
    assert values_of(broker.address, target) == list(range(300))
    assert spark_log.lines("is not written again")
    fill(broker.address, source, range(300, 310))
    copy_stream(spark, broker.address, source, target, tmp_path)
    assert values_of(broker.address, target) == list(range(310))


def forget_batches(folder: Path, first: int) -> None:
    """As if a checkpoint had lost its end: what is noted of micro-batches from one on is gone."""
    for part in ("offsets", "commits"):
        for path in (folder / "checkpoint" / part).iterdir():
            if int(path.name.strip(".").removesuffix(".crc")) >= first:
                path.unlink()


def test_a_checkpoint_that_was_set_back_is_an_error_until_another_name_is_given(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """P4: neither are its new rows left out without a word, nor those of the last micro-batch."""
    source, target = new_topic(), new_topic()
    fill(broker.address, source, range(300))
    copy_stream(spark, broker.address, source, target, tmp_path)
    forget_batches(tmp_path, 2)
    fill(broker.address, source, range(300, 350))

    def go_on(limit: int, **options: Any) -> None:
        stream = read_stream(spark, broker.address, source, maxOffsetsPerTrigger=limit)
        writer = stream.drop("topic").writeStream.format("seglog").options(**options)
        writer = writer.option("bootstrap.servers", broker.address).option("topic", target)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(100)

    with pytest.raises(Exception, match=r"(?s)came again with 150 rows.*finished it with 100"):
        go_on(1000)
    forget_batches(tmp_path, 1)
    with pytest.raises(Exception, match=r"(?s)set back.*applicationId"):
        go_on(1000)
    assert values_of(broker.address, target) == list(range(300))
    go_on(1000, applicationId="again")
    assert values_of(broker.address, target) == sorted([*range(350), *range(100, 300)])


def test_a_copied_checkpoint_writes_its_own_topic_or_is_an_error(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """P4: the original went on; what it finished is not in the topic of the copy."""
    source, target, other = new_topic(), new_topic(), new_topic()
    fill(broker.address, source, range(100))
    copy_stream(spark, broker.address, source, target, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    fill(broker.address, source, range(100, 200))
    copy_stream(spark, broker.address, source, target, tmp_path / "one")
    with pytest.raises(Exception, match=r"(?s)is a copy.*applicationId"):
        copy_stream(spark, broker.address, source, other, tmp_path / "two")
    assert values_of(broker.address, other) == []
    copy_stream(spark, broker.address, source, other, tmp_path / "two", applicationId="copy")
    assert values_of(broker.address, other) == list(range(100, 200))


def test_a_replayed_micro_batch_is_written_to_a_topic_that_was_made_anew(
    spark: Any,
    broker: RunningBroker,
    admin: Admin,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """P4: what was finished went with the topic of before."""
    source, target = new_topic(), new_topic()
    fill(broker.address, source, range(50))
    copy_stream(spark, broker.address, source, target, tmp_path)
    admin.delete_topic(target)
    admin.create_topic(target, partitions=1)
    undo_last_commit(tmp_path)
    for _ in range(2):
        copy_stream(spark, broker.address, source, target, tmp_path)
        assert values_of(broker.address, target) == list(range(50))
        undo_last_commit(tmp_path)


def test_a_new_checkpoint_is_taken_for_the_old_one(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its micro-batches count from 0 again: they are others, also under the same name."""
    source, target = new_topic(), new_topic()
    fill(broker.address, source, range(50))
    for run in ("one", "two"):
        copy_stream(spark, broker.address, source, target, tmp_path / run, applicationId="the-same")
    assert values_of(broker.address, target) == sorted([*range(50), *range(50)])


def test_writes_of_one_micro_batch_are_mixed_up(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Two writes in ``foreachBatch``: each has a name, and is skipped by itself when replayed."""
    source, first, second = new_topic(), new_topic(), new_topic()
    fill(broker.address, source, range(50))

    def both(rows: Any, _: int) -> None:
        write(rows.select("key", "value"), broker.address, topic=first, applicationId="first")
        write(rows.select("key", "value"), broker.address, topic=second, applicationId="second")

    for _ in range(2):
        stream = read_stream(spark, broker.address, source, startingOffsets="earliest")
        writer = stream.writeStream.foreachBatch(both).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(100)
        undo_last_commit(tmp_path)
    assert values_of(broker.address, first) == list(range(50))
    assert values_of(broker.address, second) == list(range(50))


def finished(number: int) -> FinishedBatch:
    return FinishedBatch(number, Tally(number, 2 * number), {"t": "id"})


def test_what_is_committed_is_forgotten_by_a_restart_or_a_compaction(tmp_path: Path) -> None:
    with running_broker(folder=tmp_path) as own, Admin(own.address) as admin:
        cluster = Cluster(parse_addresses(own.address), ConnectionOptions(retry_timeout_ms=10_000))
        reader = CommitsReader(cluster)
        assert reader.last_finished("a") is None
        create_commits_topic(cluster)
        create_commits_topic(cluster)
        for number in range(30):
            write_commit(cluster, "a", finished(number))
            write_commit(cluster, "b", finished(2 * number))
        assert reader.last_finished("a") == finished(29)
        assert reader.last_finished("b") == finished(58)
        configs = admin.describe_configs("topic", COMMITS_TOPIC)
        assert configs["flush.messages"].value == "1"
        assert configs["cleanup.policy"].value == "compact"
        own.kill()
        own.start()
        write_commit(cluster, "b", finished(60))
        admin.roll(COMMITS_TOPIC)
        admin.clean(COMMITS_TOPIC, wait=True)
        for each in (reader, CommitsReader(cluster)):
            assert each.last_finished("a") == finished(29)
            assert each.last_finished("b") == finished(60)
            assert each.last_finished("c") is None


def test_the_topic_of_commits_is_read_by_a_pattern(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    cluster = Cluster(parse_addresses(broker.address), ConnectionOptions())
    create_commits_topic(cluster)
    write_commit(cluster, "somebody", finished(1))
    topic = new_topic()
    fill(broker.address, topic, range(3))
    reader = spark.read.format("seglog").option("bootstrap.servers", broker.address)
    rows = reader.option("subscribePattern", f"{topic}|__.*").load()
    assert rows.count() == 3


def test_null_headers_make_a_write_slow(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    """Spark measures each row of an Arrow batch unless told not to; with null lists, all before."""
    source, target = new_topic(), new_topic()
    fill(broker.address, source, range(60_000))
    rows = read_batch(spark, broker.address, source, includeHeaders="true").drop("topic")
    started_s = time.monotonic()
    write(rows, broker.address, topic=target)
    assert in_time(time.monotonic() - started_s, 10)
    assert read_batch(spark, broker.address, target).count() == 60_000


def test_a_broker_that_restarts_fails_a_write(
    spark: Any, tmp_path: Path, spark_log: SparkLog
) -> None:
    import threading

    with running_broker(folder=tmp_path) as own:
        with Admin(own.address) as client:
            client.create_topic("t", partitions=2)
        rows = spark.range(20).selectExpr("string(id) AS value")
        write(rows, own.address, topic="t")
        own.kill()
        starter = threading.Timer(1.0, own.start)
        starter.start()
        try:
            write(spark.range(20, 40).selectExpr("string(id) AS value"), own.address, topic="t")
        finally:
            starter.join()
        assert set(values_of(own.address, "t")) == set(range(40))


def test_rows_come_twice_or_in_another_order_when_answers_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C050 for the sink: what was stored is not answered, and sent again; two tasks of a worker."""
    pause_until, pause = Waiter.pause_until, Waiter.pause
    pauses = 0
    with CuttingProxy() as proxy, running_broker(configs=advertised(proxy)) as own:
        proxy.target = int(own.address.rsplit(":", 1)[1])
        with Admin(own.address) as admin:
            admin.create_topic("t")

        def answer_again() -> None:
            nonlocal pauses
            pauses += 1
            proxy.swallows_answers = False

        def pause_until_answered(waiter: Waiter, at_s: float) -> bool:
            answer_again()
            return pause_until(waiter, at_s)

        def pause_answered(waiter: Waiter) -> bool:
            answer_again()
            return pause(waiter)

        def batches(first: int) -> Iterator[pa.RecordBatch]:
            for start in range(first, first + 1500, 100):
                if start % 500 == 300:
                    # Until the sink has noticed: an answer may come late on a busy machine.
                    proxy.swallows_answers = True
                values = [b"%d" % number for number in range(start, start + 100)]
                yield pa.record_batch({"value": pa.array(values, pa.binary())})

        monkeypatch.setattr(Waiter, "pause_until", pause_until_answered)
        monkeypatch.setattr(Waiter, "pause", pause_answered)
        given = {"bootstrap.servers": f"127.0.0.1:{proxy.port}", "topic": "t"}
        given |= {"batchBytes": "300", "retryBackoff": "20ms", "requestTimeout": "300ms"}
        writer = RowWriter(read_sink_options(given), SinkColumns(0, *[None] * 5))
        for first in (0, 1500):
            assert writer.write(batches(first), None).rows == 1500
        assert pauses >= 2
        assert proxy.swallowed_bytes
        found = [int(each.value or b"") for each in records_of(own.address, "t")]
        assert found == list(range(3000))
        # One id for both tasks: a broker remembers workers, not all that they ever did.
        cluster = Cluster(parse_addresses(own.address), ConnectionOptions())
        (described,) = cluster.ask_any(DescribeProducersRequest([("t", 0)])).partitions
        assert len(described.producers) == 1


def advertised(proxy: CuttingProxy) -> dict[str, Any]:
    return {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}


def test_more_requests_are_under_way_than_a_broker_recognizes() -> None:
    given = {"bootstrap.servers": "localhost:1", "topic": "t", "maxRequestsInFlight": "6"}
    with pytest.raises(ConfigurationError, match="maxRequestsInFlight=6"):
        read_sink_options(given)
    assert read_sink_options(given | {"acks": "1"}).max_requests_in_flight == 6


def encoded(rows: pa.RecordBatch, **options: str) -> list[tuple[int, list[Any]]]:
    """(partition, records) of the batches that rows become."""
    from pyspark.sql.pandas.types import from_arrow_schema

    given = {"bootstrap.servers": "localhost:1", "topic": "t"} | options
    parsed = read_sink_options(given)
    columns = find_columns(from_arrow_schema(rows.schema), parsed)
    found = []
    for wave in encode_rows(rows, columns, parsed, Destination("t", 3, 1, 77)):
        assert len({each.partition for each in wave}) == len(wave)
        for each in wave:
            batch = RecordBatch(each.records)
            batch.check()
            records = batch.records()
            assert len(records) == each.rows
            found.append(
                (
                    each.partition.partition,
                    [(r.timestamp_ms, r.key, r.value, r.headers) for r in records],
                )
            )
    return found


def test_slices_and_large_types_are_read_from_their_start() -> None:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.record_batch(
        {
            "key": pa.array([b"x", None, b"k", b"k"], pa.binary()),
            "value": pa.array(["x", "one", None, "three"], pa.string()),
            "headers": pa.array(
                [[("x", b"")], [("a", b"1"), ("a", None)], None, [("b", b"")]], pairs
            ),
            "timestamp": pa.array([0, 5_000, None, -1_000], pa.timestamp("us", tz="UTC")),
        }
    ).slice(1)
    where = partition_for_key(b"k", 3)
    expected = sorted(
        [
            (1, [(5, None, b"one", (("a", b"1"), ("a", None)))]),
            (where, [(77, b"k", None, ()), (-1, b"k", b"three", (("b", b""),))]),
        ]
    )
    if where == 1:
        expected = [(1, expected[0][1] + expected[1][1])]
    assert sorted(encoded(rows)) == expected
    large = rows.set_column(0, "key", rows.column("key").cast(pa.large_binary()))
    large = large.set_column(1, "value", large.column("value").cast(pa.large_string()))
    assert sorted(encoded(large)) == expected
