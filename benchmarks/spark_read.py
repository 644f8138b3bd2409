"""Spark reading and writing topics, beside Spark's own Kafka connector on the same broker and port.

``make bench-spark``. The connector's JARs come from Maven Central through ``mvn``; where that, or
one of them, cannot be had, its figures are left out. Both read the same records: 100-byte values,
keys of 8 bytes, 4 partitions.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import Report

from examples.spark_tables import session
from seglog.clients import Admin, Producer
from seglog.clients.testing import running_broker

RECORDS = 5_000_000
PARTITIONS = 4
RUNS = 3
AIM = 1.5
TRIGGERS = 25
ROWS_PER_TRIGGER = 200
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:{spark}",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def connector_jars(spark_version: str) -> list[str]:
    """The JARs of Spark's Kafka connector, or none; the first patch release will do, too."""
    minor = ".".join(spark_version.split(".")[:2])
    for version in dict.fromkeys([spark_version, f"{minor}.0"]):
        found = [_fetch(name.format(spark=version)) for name in CONNECTOR]
        if all(found):
            return [jar for jar in found if jar]
    return []


def _fetch(artifact: str) -> str | None:
    group, name, version = artifact.split(":")
    command = ["mvn", "-B", "-q", "dependency:get", "-Dtransitive=false", f"-Dartifact={artifact}"]
    if shutil.which("mvn") is None:
        return None
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return None
    folder = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version
    return str(folder / f"{name}-{version}.jar")


def fill(address: str, topic: str, count: int) -> None:
    """Write the records, from a few batches that are made once."""
    value = bytes(range(32, 132))
    with Producer(address, acks="all", batch_bytes=262_144) as producer:
        for partition in range(PARTITIONS):
            items = ((b"%08d" % number, value) for number in range(count // PARTITIONS))
            producer.send_many(topic, items, partition=partition)


def reader(spark: Any, form: str, address: str, topic: str) -> Any:
    """A batch read of the whole topic with the columns that both have."""
    prefix = "kafka." if form == "kafka" else ""
    source = spark.read.format(form).option(f"{prefix}bootstrap.servers", address)
    return source.option("subscribe", topic).option("startingOffsets", "earliest").load()


class Cost(NamedTuple):
    """What some rows took: million a second, and microseconds of processor time for each."""

    rate: float
    processor_us: float


def cost(count: int, action: Callable[[], Any]) -> Cost:
    """Run an action on so many rows.

    The time of the processors, over all processes, is the steadier figure where others use the
    machine.
    """
    started, busy = time.perf_counter(), processor_seconds()
    action()
    seconds = time.perf_counter() - started
    return Cost(count / seconds / 1e6, (processor_seconds() - busy) / count * 1e6)


def processor_seconds() -> float:
    """Of this process and all below it: the JVM, its Python workers, the broker."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # It has ended meanwhile.
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    for _ in range(8):
        ours |= {process for process, parent in parents.items() if parent in ours}
    return sum(ticks.get(process, 0) for process in ours) / os.sysconf("SC_CLK_TCK")


def measure_reads(
    report: Report, spark: Any, address: str, count: int, forms: list[str], folder: Path
) -> None:
    """Count, sum of lengths, and Parquet, the forms in turn."""

    def counted(form: str) -> None:
        found = reader(spark, form, address, "read").count()
        assert found == count, found

    def summed(form: str) -> None:
        reader(spark, form, address, "read").selectExpr("sum(length(value))").collect()

    def to_parquet(form: str) -> None:
        reader(spark, form, address, "read").write.mode("overwrite").parquet(str(folder / form))

    for what, action in (("count", counted), ("sum", summed), ("Parquet", to_parquet)):
        for form in forms:
            action(form)  # once unmeasured: classes load and workers start
        compare(
            report, f"read, {what}", forms, lambda form, do=action: cost(count, lambda: do(form))
        )


def compare(report: Report, name: str, forms: list[str], measure: Callable[[str], Cost]) -> None:
    """Some runs of each form in turn, and how many times faster the first one is."""
    for _ in range(RUNS):
        found = {form: measure(form) for form in forms}
        for form, value in found.items():
            report.figure(f"{name}: {form}", "million rows/s", value.rate)
            report.figure(
                f"{name}: {form}, processors", "us/row", value.processor_us, lower_is_better=True
            )
        if len(forms) > 1:
            ours, theirs = found["seglog"], found["kafka"]
            report.figure(f"{name}: times the connector", "", ours.rate / theirs.rate, AIM)
            report.figure(
                f"{name}: of its processor time",
                "",
                ours.processor_us / theirs.processor_us,
                lower_is_better=True,
            )


def measure_sink(report: Report, spark: Any, address: str, count: int, forms: list[str]) -> None:
    """Rows that Spark makes up, into a topic."""
    rows = spark.range(0, count, 1, 2).selectExpr(
        "binary(lpad(string(id), 8, '0')) AS key", "binary(lpad(string(id), 100, 'x')) AS value"
    )

    def write(form: str) -> None:
        prefix = "kafka." if form == "kafka" else ""
        writer = rows.write.format(form).option(f"{prefix}bootstrap.servers", address)
        writer.option("topic", "written").mode("append").save()

    rows.write.format("noop").mode("append").save()
    for form in forms:
        write(form)
    compare(report, "write", forms, lambda form: cost(count, lambda: write(form)))


def measure_triggers(
    report: Report, spark: Any, address: str, forms: list[str], folder: Path
) -> None:
    """Milliseconds of work in a micro-batch of few rows, with a trigger each 100 ms."""
    # The forms in turn, and once unmeasured: whoever came second would find the JVM warm.
    for number in range(RUNS):
        for form in forms:
            checkpoint = folder / f"trigger-{form}-{number}"
            milliseconds = _trigger_times(spark, address, form, checkpoint)
            for each in milliseconds if number else ():
                report.figure(f"trigger: {form}", "ms", each, lower_is_better=True)


def _trigger_times(spark: Any, address: str, form: str, checkpoint: Path) -> list[float]:
    prefix = "kafka." if form == "kafka" else ""
    source = spark.readStream.format(form).option(f"{prefix}bootstrap.servers", address)
    source = source.option("subscribe", "read").option("startingOffsets", "earliest")
    stream = source.option("maxOffsetsPerTrigger", ROWS_PER_TRIGGER).load()
    writer = stream.writeStream.format("noop").trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    while len(query.recentProgress) < TRIGGERS:
        query.awaitTermination(0.1)
    query.stop()
    reports = [json.loads(each.json) for each in query.recentProgress][5:]
    return [float(each["durationMs"]["triggerExecution"]) for each in reports]


def run(report: Report, count: int = RECORDS) -> None:
    """All figures."""
    import pyspark

    jars = connector_jars(pyspark.__version__)
    forms = ["seglog", "kafka"] if jars else ["seglog"]
    if not jars:
        print("  Spark's Kafka connector cannot be had: only our own figures")
    # Without the settings of the demo that would slow down a JVM which runs for long.
    settings = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC", "spark.driver.memory": "4g"}
    spark = session(**settings, **({"spark.jars": ",".join(jars)} if jars else {}))
    try:
        with running_broker() as broker, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            with Admin(broker.address) as admin:
                for topic in ("read", "written"):
                    admin.create_topic(topic, partitions=PARTITIONS)
            fill(broker.address, "read", count)
            measure_reads(report, spark, broker.address, count, forms, folder)
            measure_sink(report, spark, broker.address, count // 2, forms)
            measure_triggers(report, spark, broker.address, forms, folder)
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    report = Report()
    run(report, parser.parse_args().records)
    report.print()


if __name__ == "__main__":
    main()
