"""Delays for each airport and hour, from a topic of flights to a topic and to Parquet.

The same function makes the rows of the stream and of the batch that it is compared with. As a
program, ``python -m examples.spark_delays --address HOST:PORT --folder PATH`` takes what is in the
topic now and ends; killed at any point, and started again, it goes on from its checkpoint.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from examples.spark_tables import Tables, load_tables, session

FLIGHTS_TOPIC = "flights"
DELAYS_TOPIC = "delays"
FLIGHT_FIELDS = "origin string, dest string, tailnum string, dep_delay int"
WATERMARK = "3 days"
END_OF_DATA = "2014-01-15T00:00:00Z"
"""Later than any flight; what is stamped later only moves the watermark."""


def delays(flights: Any, tables: Tables) -> Any:
    """Rows of a read of the flights topic, counted for each airport and hour.

    Delays are summed up in whole minutes, so that their order makes no difference.
    """
    from pyspark.sql import functions as sql

    flight = sql.from_json(sql.col("value").cast("string"), FLIGHT_FIELDS).alias("flight")
    timed = (
        flights.select(flight, "timestamp")
        .withWatermark("timestamp", WATERMARK)
        .where(sql.col("timestamp") < sql.lit(END_OF_DATA).cast("timestamp"))
        .select("flight.*", "timestamp")
    )
    joined = (
        timed.join(sql.broadcast(tables.airports), timed.origin == tables.airports.faa, "left")
        .join(sql.broadcast(tables.planes), timed.tailnum == tables.planes.plane, "left")
        .join(
            sql.broadcast(tables.weather),
            (timed.origin == tables.weather.station)
            & (sql.date_trunc("hour", timed.timestamp) == tables.weather.hour),
            "left",
        )
    )
    return (
        joined.groupBy(sql.window("timestamp", "1 hour"), "origin", "airport")
        .agg(
            sql.count("*").alias("flights"),
            sql.count("dep_delay").alias("departed"),
            sql.sum("dep_delay").alias("delay_minutes"),
            sql.max("dep_delay").alias("largest_delay"),
            sql.sum("seats").alias("seats"),
            sql.max("temp").alias("temp"),
            sql.max("wind_speed").alias("wind_speed"),
            sql.max("precip").alias("precip"),
        )
        .select(sql.col("window.start").alias("hour"), "*")
        .drop("window")
    )


def read_flights(reader: Any, address: str, **options: Any) -> Any:
    """The flights topic, of ``spark.read`` or ``spark.readStream``."""
    source = reader.format("seglog").option("bootstrap.servers", address)
    source = source.option("subscribe", FLIGHTS_TOPIC).option("startingOffsets", "earliest")
    return source.option("columns", "value,timestamp").options(**options).load()


def start_query(spark: Any, address: str, folder: Path, limit: int, **trigger: Any) -> Any:
    """Start the stream; its rows go to ``folder/rows`` and to the delays topic."""
    flights = read_flights(spark.readStream, address, maxOffsetsPerTrigger=limit)
    writer = delays(flights, load_tables(spark)).writeStream.outputMode("append")
    writer = writer.foreachBatch(partial(write_batch, address=address, folder=folder))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.queryName("delays").trigger(**trigger).start()


def write_batch(rows: Any, number: int, *, address: str, folder: Path) -> None:
    """Write a micro-batch so that doing it again changes nothing.

    Parquet goes to a folder that is named after the micro-batch. The topic would not even take it
    twice: with an application id the broker remembers the last one that was committed.
    """
    from pyspark.sql import functions as sql

    rows.persist()
    try:
        rows.write.mode("overwrite").parquet(str(folder / "rows" / f"batch={number}"))
        key = sql.concat_ws(" ", "origin", sql.date_format("hour", "yyyy-MM-dd'T'HH'Z'"))
        records = rows.select(
            key.alias("key"),
            sql.to_json(sql.struct("*")).alias("value"),
            sql.col("hour").alias("timestamp"),
        )
        sink = records.write.format("seglog").option("bootstrap.servers", address)
        sink = sink.option("topic", DELAYS_TOPIC).option("applicationId", "delays")
        sink.option("compression", "zstd").mode("append").save()
    finally:
        rows.unpersist()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--limit", type=int, default=20_000, help="flights in a micro-batch")
    given = parser.parse_args(arguments)
    spark = session()
    start_query(
        spark, given.address, given.folder, given.limit, availableNow=True
    ).awaitTermination()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
