"""The same clients against Apache Kafka and against seglog, in turns, on one machine in one run.

librdkafka sends and reads as much as it can, in Python (confluent-kafka) and, where reading is
less work for the client, in kcat; then at a fixed rate, where latency counts from the moment at
which a record was to be sent. Kafka's own performance tools do the same with the Java client. Where
the client is what is slow, the processor time that the server took tells the two apart. Where Kafka
is not to be had (Java, Maven and Maven Central), seglog is measured alone.

Both have the same settings, a fresh folder on the same disk and a warm-up; which of them comes
first changes from round to round. Kafka is started with the options of its own script.

Aims: ahead of Kafka on every figure.
"""

import multiprocessing
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.report import Report

from seglog.clients.testing import running_broker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.foreign.apache_kafka import running_kafka
from support.foreign.programs import KAFKA_VERSION, run_java
from support.foreign.shape import UnavailableError

ROUNDS: Final = 3
CONFIGS: Final = {"log.retention.ms": -1, "group.initial.rebalance.delay.ms": 0}
KAFKA_JAVA: Final = (
    "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip
"""What ``kafka-server-start.sh`` gives to Java."""
SIZES: Final = {100: 2_000_000, 1000: 600_000}
"""Bytes of a value, and how many are sent."""
WARM_UP_RECORDS: Final = 1_000_000
READS: Final = 3
RATES: Final = (1_000, 10_000)
RATE_SECONDS: Final = 10
WARM_UP_SECONDS: Final = 3
TOOL_RECORDS: Final = 1_000_000
TRANSACTIONS: Final = 1000
TRANSACTION_RECORDS: Final = 10
PRODUCER: Final = {"linger.ms": 5, "batch.size": 131072, "acks": "all", "compression.type": "none"}
CONSUMER: Final = {
    "max.partition.fetch.bytes": 10_485_760,
    # By itself it rests for a second when it has 100,000 records in hand.
    "queued.min.messages": 1_000_000,
}
_STAMP: Final = struct.Struct(">d")


class Server(Protocol):
    """A broker of either make."""

    address: str

    @property
    def process_id(self) -> int: ...


def run(report: Report) -> None:
    """Measure both, one after the other, several times."""
    names = ["seglog", f"Kafka {KAFKA_VERSION}"]
    for number in range(ROUNDS):
        for name in names:
            os.sync()
            try:
                with _server(name) as server:
                    print(f" {name}, round {number + 1}", flush=True)
                    _measure(report, name, server)
            except UnavailableError as error:
                print(f" {name} is not to be had: {error}", flush=True)
        names.reverse()
    _compare(report)


@contextmanager
def _server(name: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        if name == "seglog":
            with running_broker(configs=CONFIGS, folder=folder) as broker:
                yield broker
        else:
            with running_kafka(Path(folder), CONFIGS, java_options=KAFKA_JAVA) as kafka:
                yield kafka


def _measure(report: Report, name: str, server: Server) -> None:
    address = server.address
    _produce(address, "warm-up", WARM_UP_RECORDS, 100)
    for _ in range(READS):
        _consume(address, "warm-up", WARM_UP_RECORDS)
    began, _resident_bytes = _usage(server.process_id)
    for size, count in SIZES.items():
        _measure_size(report, f"{size} B, {name}", server, size, count)
    _java_tools(report, name, address)
    a_second = TRANSACTIONS / _transactions(address, "transactions")
    report.figure(f"transactions of {TRANSACTION_RECORDS} records, {name}", "a second", a_second)
    for rate in RATES:
        latencies = _latencies(address, f"rate-{rate}", rate)
        for share in (0.5, 0.99):
            value = latencies[int(len(latencies) * share)] * 1000
            report.figure(
                f"latency p{share * 100:g} at {rate:,}/s, {name}", "ms", value, lower_is_better=True
            )
    cpu_seconds, resident_bytes = _usage(server.process_id)
    report.figure(
        f"CPU of the server after warm-up, {name}", "s", cpu_seconds - began, lower_is_better=True
    )
    report.figure(f"memory, {name}", "MiB", resident_bytes / 2**20, lower_is_better=True)


def _measure_size(report: Report, title: str, server: Server, size: int, count: int) -> None:
    """Write a topic, read it several times; what the server spends on a million records."""
    address, topic = server.address, f"size-{size}"
    began, _resident_bytes = _usage(server.process_id)
    report.figure(f"produce, {title}", "records/s", count / _produce(address, topic, count, size))
    written, _resident_bytes = _usage(server.process_id)
    for _ in range(READS):
        report.figure(f"fetch, {title}", "records/s", count / _consume(address, topic, count))
    for _ in range(READS if shutil.which("kcat") else 0):
        report.figure(f"fetch by kcat, {title}", "records/s", count / _kcat(address, topic, count))
    read, _resident_bytes = _usage(server.process_id)
    reads = READS * (2 if shutil.which("kcat") else 1)
    for what, seconds in (("produce", written - began), ("fetch", (read - written) / reads)):
        report.figure(
            f"CPU of the server to {what} a million, {title}", "s", seconds / count * 1e6,
            lower_is_better=True,
        )  # fmt: skip


def _create(address: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def _produce(address: str, topic: str, count: int, size: int) -> float:
    """Seconds until all is acknowledged."""
    from confluent_kafka import Producer

    _create(address, topic)
    value = b"x" * size
    producer = Producer(
        {
            "bootstrap.servers": address,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_048_576,
            **PRODUCER,
        }
    )
    started = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0
    return time.perf_counter() - started


def _consume(address: str, topic: str, count: int) -> float:
    """Seconds from the first record to the last."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "readers",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            **CONSUMER,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = len(consumer.consume(1, timeout=30))
    started = time.perf_counter()
    while found < count:
        # Never more than there is: it would wait for them until its time is up.
        found += len(consumer.consume(min(10_000, count - found), timeout=1))
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def _kcat(address: str, topic: str, count: int) -> float:
    """Seconds that kcat takes, less what it takes for one record."""
    return _run_kcat(address, topic, count) - _run_kcat(address, topic, 1)


def _run_kcat(address: str, topic: str, count: int) -> float:
    """Seconds from its start to its end."""
    settings = [word for key, value in CONSUMER.items() for word in ("-X", f"{key}={value}")]
    command = [
        "kcat", "-C", "-q", "-b", address, "-t", topic, "-p", "0", "-o", "beginning",
        "-c", str(count), "-f", "", *settings,
    ]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(command, check=True, timeout=60)
    return time.perf_counter() - started


def _transactions(address: str, topic: str) -> float:
    """Seconds for transactions of a few records each, one after the other, after half as many."""
    from confluent_kafka import Producer

    _create(address, topic)
    settings = {"bootstrap.servers": address, "transactional.id": topic, "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    started = 0.0
    for number in range(-TRANSACTIONS // 2, TRANSACTIONS):
        if number == 0:
            started = time.perf_counter()
        producer.begin_transaction()
        for _ in range(TRANSACTION_RECORDS):
            producer.produce(topic, b"x" * 100, partition=0)
        producer.commit_transaction(30)
    return time.perf_counter() - started


def _latencies(address: str, topic: str, rate: int) -> list[float]:
    """Seconds from the intended moment of sending to delivery, ascending."""
    from confluent_kafka import Producer

    _create(address, topic)
    total = rate * (WARM_UP_SECONDS + RATE_SECONDS)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(target=_read_latencies, args=(address, topic, total, theirs))
    reader.start()
    assert ours.recv() == "ready"
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    padding = bytes(100 - _STAMP.size)
    began = time.monotonic()
    for number in range(total):
        due = began + number / rate
        while (left := due - time.monotonic()) > 0:
            producer.poll(min(left, 0.001))
        producer.produce(topic, _STAMP.pack(due) + padding, partition=0)
    assert producer.flush(60) == 0
    latencies: list[float] = ours.recv()
    reader.join()
    return sorted(latencies[rate * WARM_UP_SECONDS :])


def _read_latencies(address: str, topic: str, total: int, pipe: Any) -> None:
    """In a process of its own, so that reading and sending do not wait for each other."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "latency"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(1.0)
    pipe.send("ready")
    latencies: list[float] = []
    while len(latencies) < total:
        # One by one: ``consume`` would wait until it has as many as it may return.
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            latencies.append(time.monotonic() - _STAMP.unpack_from(message.value())[0])
    consumer.close()
    pipe.send(latencies)


def _java_tools(report: Report, name: str, address: str) -> None:
    """ProducerPerformance and ConsumerPerformance of Kafka."""
    topic = "tools"
    try:
        _create(address, topic)
        sent = run_java(
            "org.apache.kafka.tools.ProducerPerformance", "--topic", topic,
            "--num-records", str(TOOL_RECORDS), "--record-size", "100", "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={address}",
            *(f"{key}={value}" for key, value in PRODUCER.items()),
        )  # fmt: skip
    except UnavailableError:
        return
    rates = re.findall(rf"{TOOL_RECORDS} records sent, ([\d.]+) records/sec", sent.stdout)
    report.figure(f"Java perf tool, produce 100 B, {name}", "records/s", float(rates[-1]))
    read = run_java(
        "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", address,
        "--topic", topic, "--num-records", str(TOOL_RECORDS),
    )  # fmt: skip
    fields = [line.split(", ") for line in read.stdout.splitlines() if line.startswith("20")]
    report.figure(f"Java perf tool, fetch 100 B, {name}", "records/s", float(fields[-1][9]))


def _usage(process_id: int) -> tuple[float, int]:
    fields = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()
    status = Path(f"/proc/{process_id}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return (int(fields[11]) + int(fields[12])) / 100, int(found[1]) * 1024


def _compare(report: Report) -> None:
    """One line for each pair of figures: by how much seglog is ahead."""
    rival = f"Kafka {KAFKA_VERSION}"
    print("\n| figure | seglog | Kafka | seglog is |\n| --- | ---: | ---: | --- |")
    for name, row in report.rows.items():
        other = report.rows.get(name.replace("seglog", rival))
        if "seglog" not in name or other is None:
            continue
        ours, theirs = _middle(row.values), _middle(other.values)
        ahead = theirs / ours if row.lower_is_better else ours / theirs
        word = f"ahead, x {ahead:.2f}" if ahead >= 1 else f"behind, x {ahead:.2f}"
        title = name.replace(", seglog", "")
        print(f"| {title} | {ours:,.1f} {row.unit} | {theirs:,.1f} {row.unit} | {word} |")


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
