"""The flights of a year through Spark, while they are being produced: ``make demo-spark``.

It starts a broker, produces flights in the order of their scheduled hour, and runs the query of
``spark_delays`` on them; prints a table and rates, and exits non-zero if the rows of the stream are
not those of the same computation as a batch.
"""

import json
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from examples.spark_delays import (
    DELAYS_TOPIC,
    END_OF_DATA,
    FLIGHTS_TOPIC,
    delays,
    read_flights,
    start_query,
)
from examples.spark_tables import flights_in_order, load_tables, session
from seglog.clients import Admin, Consumer, Producer
from seglog.clients.testing import running_broker

PARTITIONS = 3
LIMIT = 60_000
KEEP_FOR_EVER = {"retention.ms": -1}
COMPACTED = {"cleanup.policy": "compact"}
AFTER_THE_DATA_MS = int(datetime.fromisoformat(END_OF_DATA).timestamp() * 1000) + 1000


def create_topics(address: str) -> None:
    with Admin(address) as admin:
        admin.create_topic(FLIGHTS_TOPIC, partitions=PARTITIONS, configs=KEEP_FOR_EVER)
        admin.create_topic(DELAYS_TOPIC, partitions=PARTITIONS, configs=COMPACTED)


def produce(address: str, flights: list[Any]) -> float:
    """Send flights; returns the seconds that it took."""
    started = time.perf_counter()
    with Producer(address, acks="all", compression="zstd") as producer:
        producer.send_many(
            FLIGHTS_TOPIC, ((each.key, each.value, each.timestamp_ms) for each in flights)
        )
    return time.perf_counter() - started


def close_windows(address: str) -> None:
    """A record from after the data: the watermark moves behind all windows, which are then over."""
    with Producer(address, acks="all") as producer:
        producer.send(FLIGHTS_TOPIC, b"{}", timestamp_ms=AFTER_THE_DATA_MS).result(30)


def run_stream(spark: Any, address: str, folder: Path, produced: threading.Thread) -> list[Any]:
    """The query while flights come, then once more for the last windows; its progress reports."""
    query = start_query(spark, address, folder, LIMIT, processingTime="0 seconds")
    while produced.is_alive():
        produced.join(0.2)
        if not query.isActive:
            raise SystemExit(f"the query has ended: {query.exception()}")
    query.processAllAvailable()
    query.stop()
    reports = list(query.recentProgress)
    close_windows(address)
    last = start_query(spark, address, folder, LIMIT, availableNow=True)
    last.awaitTermination()
    return [*reports, *last.recentProgress]


def compare(spark: Any, address: str, folder: Path) -> int:
    """The number of rows; raises ``SystemExit`` if stream, topic and batch are not the same."""
    expected = delays(read_flights(spark.read, address), load_tables(spark))
    wanted = {(row.hour, row.origin): tuple(row) for row in expected.collect()}
    found = spark.read.parquet(str(folder / "rows")).select(*expected.columns).collect()
    if sorted(map(repr, map(tuple, found))) != sorted(map(repr, wanted.values())):
        raise SystemExit(f"DIFFERENCE: {len(found)} rows in Parquet, {len(wanted)} in the batch")
    with Consumer(address, DELAYS_TOPIC, start="earliest", stop_at_end=True) as consumer:
        latest = {record.key: json.loads(record.value or b"{}") for record in consumer}
    if sorted((each["origin"], each["flights"]) for each in latest.values()) != sorted(
        (row.origin, row.flights) for row in found
    ):
        raise SystemExit(f"DIFFERENCE: {len(latest)} keys in the topic, {len(wanted)} expected")
    return len(found)


def print_table(spark: Any, folder: Path) -> None:
    from pyspark.sql import functions as sql

    spark.read.parquet(str(folder / "rows")).groupBy("airport").agg(
        sql.sum("flights").alias("flights"),
        sql.round(sql.sum("delay_minutes") / sql.sum("departed"), 2).alias("mean_delay_min"),
        sql.max("largest_delay").alias("largest_delay_min"),
        sql.sum("seats").alias("seats"),
        sql.round(
            sql.corr(sql.col("wind_speed"), sql.col("delay_minutes") / sql.col("departed")), 3
        ).alias("wind_and_delay"),
    ).orderBy("airport").show(truncate=False)


def main() -> int:
    flights = flights_in_order()
    with running_broker() as broker, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        create_topics(broker.address)
        started = time.perf_counter()
        spark = session()
        print(f"session started in {time.perf_counter() - started:.1f} s", flush=True)
        seconds: list[float] = []
        producing = threading.Thread(
            target=lambda: seconds.append(produce(broker.address, flights))
        )
        started = time.perf_counter()
        producing.start()
        reports = run_stream(spark, broker.address, folder, producing)
        took = time.perf_counter() - started
        rows = compare(spark, broker.address, folder)
        print_table(spark, folder)
        batches = [each for each in reports if each["numInputRows"]]
        busy = sum(each["durationMs"]["triggerExecution"] for each in batches) / 1000
        print(f"produced   {len(flights):>9,} flights {len(flights) / seconds[0]:>12,.0f} /s")
        print(f"streamed   {len(flights):>9,} flights {len(flights) / busy:>12,.0f} /s in batches")
        print(f"           {len(batches):>9,} micro-batches, {took:.1f} s with start and end")
        print(f"delays     {rows:>9,} rows, in Parquet and in a compacted topic")
        spark.stop()
    print("\nThe rows of the stream are those of the batch.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
