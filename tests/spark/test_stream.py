"""Streaming queries on a real session: restarts, replays, limits, data loss."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin
from seglog.clients.spark import offsets_behind_latest
from seglog.clients.testing import RunningBroker
from support.processor_time import in_time
from support.spark_log import SparkLog
from support.spark_queries import (
    fill,
    read_stream,
    rows_read,
    run_available,
    undo_last_commit,
)


def test_data_loss_doubles_rows_skips_ranges_or_hangs(
    spark: Any,
    broker: RunningBroker,
    admin: Admin,
    new_topic: Callable[..., str],
    tmp_path: Path,
    spark_log: SparkLog,
) -> None:
    """C064: 1000 records, checkpoint after 100; deleted to 500; 1000 to 1099 added."""
    topic = new_topic()
    fill(broker.address, topic, range(1000))
    first = read_stream(
        spark, broker.address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=100
    )
    run_available(first, tmp_path, batches=1)
    seen = len(rows_read(spark, tmp_path))
    admin.delete_records({(topic, 0): 500})
    fill(broker.address, topic, range(1000, 1100))
    started_s = time.monotonic()
    with pytest.raises(Exception, match=f"{topic}-0: offsets {seen} to 499 .* 500 and above"):
        run_available(read_stream(spark, broker.address, topic), tmp_path)
    assert in_time(time.monotonic() - started_s, 30)
    spark_log.begin()
    options = {"failOnDataLoss": "false", "retryTimeout": "2s"}
    lenient = read_stream(spark, broker.address, topic, **options)
    run_available(lenient, tmp_path)
    assert rows_read(spark, tmp_path) == [*range(seen), *range(500, 1100)]
    assert len(spark_log.lines("are deleted")) == 1
    # The third: the checkpoint says 1100, the topic is made anew with 20 records.
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=1)
    fill(broker.address, topic, range(5000, 5020))
    run_available(lenient, tmp_path)
    run_available(lenient, tmp_path)
    assert rows_read(spark, tmp_path) == [*range(seen), *range(500, 1100), *range(5000, 5020)]


@pytest.mark.parametrize(("limit", "runs"), [(1, 3), (5, 3), (100, 99)])
def test_a_limit_is_forgotten_by_a_restart(
    spark: Any,
    broker: RunningBroker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    limit: int,
    runs: int,
) -> None:
    """C068: ten partitions, one with 1000 records and nine with 10; stopped after three batches."""
    topic = new_topic(10)
    for partition in range(10):
        count = 1000 if partition == 0 else 10
        fill(broker.address, topic, range(partition * 1000, partition * 1000 + count), partition)
    stream = read_stream(
        spark, broker.address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=limit
    )
    reports: list[dict[str, Any]] = []
    for run in range(runs):
        # The second one has enough for three batches; without an end it would wait for more.
        options: dict[str, Any] = {"processingTime": "0 seconds"} if run == 1 else {}
        more = run_available(stream, tmp_path, batches=3, **options)
        reports += more
        if sum(each["numInputRows"] for each in more) == 0:
            break
    counts = {each["batchId"]: each["numInputRows"] for each in reports}
    assert max(counts.values()) <= max(limit, 10)
    found = rows_read(spark, tmp_path)
    assert len(found) == len(set(found))
    if limit == 100:
        assert len(found) == 1090
    else:
        read_of = dict.fromkeys(range(10), 0)
        for value in found:
            read_of[value // 1000] += 1
        assert all(count >= min(10, 3) for count in read_of.values())


def test_a_killed_first_batch_is_replayed_as_another(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """With startingOffsets=latest; the first batch is found written but not committed."""
    topic = new_topic()
    fill(broker.address, topic, range(10))
    stream = read_stream(spark, broker.address, topic)
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        while query.lastProgress is None:
            query.awaitTermination(0.02)
        fill(broker.address, topic, range(10, 25))
        query.processAllAvailable()
    finally:
        query.stop()
    offsets = tmp_path / "checkpoint" / "offsets"
    written = sorted(int(path.name) for path in offsets.iterdir() if path.name.isdigit())
    # Spark prepares the first batch with the head of that time: nothing is in it.
    for number in written:
        for folder in ("commits", "offsets"):
            if folder == "offsets" and number == written[0]:
                continue
            (tmp_path / "checkpoint" / folder / str(number)).unlink(missing_ok=True)
            (tmp_path / "checkpoint" / folder / f".{number}.crc").unlink(missing_ok=True)
    fill(broker.address, topic, range(25, 40))
    run_available(stream, tmp_path)
    assert rows_read(spark, tmp_path) == list(range(10, 40))


def test_a_replayed_batch_reads_other_rows(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(broker.address, topic, range(30))
    stream = read_stream(
        spark, broker.address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10
    )
    run_available(stream, tmp_path, form="noop")
    undo_last_commit(tmp_path)
    fill(broker.address, topic, range(30, 60), partition=1)
    reports = run_available(stream, tmp_path, form="noop")
    assert [each["numInputRows"] for each in reports] == [10, 10, 10, 10]


def test_a_restart_begins_where_its_options_say(
    spark: Any,
    broker: RunningBroker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    spark_log: SparkLog,
) -> None:
    """C069: the checkpoint wins, and a line in the log says so."""
    topic = new_topic()
    fill(broker.address, topic, range(10))
    run_available(read_stream(spark, broker.address, topic, startingOffsets="earliest"), tmp_path)
    fill(broker.address, topic, range(10, 20))
    spark_log.begin()
    other = json.dumps({topic: {"0": 15}})
    run_available(read_stream(spark, broker.address, topic, startingOffsets=other), tmp_path)
    assert rows_read(spark, tmp_path) == list(range(20))
    assert len(spark_log.lines("startingOffsets is ignored")) == 1


def test_a_start_that_finds_nothing_begins_elsewhere(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    fill(broker.address, topic, range(10))
    stream = read_stream(spark, broker.address, topic, startingTimestamp=2_000_000_000_000)
    with pytest.raises(Exception, match=f"no record at or after .* {topic}-0"):
        run_available(stream, tmp_path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets has no meaning in a streaming query"),
        ({"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 6}, "minOffsetsPerTrigger=6 is above"),
    ],
)
def test_a_wrong_option_is_told_as_a_variable_without_a_value(
    spark: Any,
    broker: RunningBroker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    options: dict[str, Any],
    match: str,
) -> None:
    """PySpark adds such an error to what ``streamReader`` raises."""
    topic = new_topic()
    with pytest.raises(Exception, match=match) as caught:
        run_available(read_stream(spark, broker.address, topic, **options), tmp_path)
    assert "UnboundLocalError" not in str(caught.value)


def test_reports_do_not_show_how_far_behind_a_query_is(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(broker.address, topic, range(30))
    fill(broker.address, topic, range(30, 40), partition=1)
    stream = read_stream(
        spark, broker.address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=20
    )
    reports = run_available(stream, tmp_path)
    assert [offsets_behind_latest(each).total for each in reports] == [20, 0]
    assert json.loads(json.dumps(reports[-1]["sources"][0]["endOffset"])) == {
        topic: {"0": 30, "1": 10}
    }


def test_new_partitions_wait_for_a_restart(
    spark: Any, broker: RunningBroker, admin: Admin, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    stream = (
        spark.readStream.format("seglog")
        .option("bootstrap.servers", broker.address)
        .option("subscribePattern", f"{topic}.*")
        .option("startingOffsets", "earliest")
        .load()
    )
    writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        fill(broker.address, topic, range(5))
        query.processAllAvailable()
        admin.create_partitions(topic, 2)
        fill(broker.address, topic, range(5, 8), partition=1)
        admin.create_topic(f"{topic}b", partitions=1)
        fill(broker.address, f"{topic}b", range(8, 10))
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows_read(spark, tmp_path) == list(range(10))


def test_commit_that_comes_late_and_a_kill_of_the_driver_lose_rows(
    spark: Any, broker: RunningBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """``commit`` and ``stop`` of the reader carry nothing: three runs, each cut off by a stop."""
    topic = new_topic()
    fill(broker.address, topic, range(300))
    stream = read_stream(
        spark, broker.address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=40
    )
    for _ in range(3):
        run_available(stream, tmp_path, batches=2, processingTime="0 seconds")
    run_available(stream, tmp_path)
    assert rows_read(spark, tmp_path) == list(range(300))
