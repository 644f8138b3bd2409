"""The same clients against Apache Kafka and against seglog, in turns, on one machine in one run.

librdkafka (confluent-kafka) sends and reads as much as it can, then at a fixed rate, where latency
counts from the moment at which a record was to be sent; and Kafka's own performance tools do the
same with the Java client. Where Kafka is not to be had (Java, Maven and Maven Central), seglog is
measured alone.

Aims: ahead of Kafka on every figure.
"""

import multiprocessing
import re
import struct
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
SIZES: Final = {100: 1_000_000, 1000: 300_000}
"""Bytes of a value, and how many are sent."""
RATES: Final = (1_000, 10_000)
RATE_SECONDS: Final = 10
WARM_UP_SECONDS: Final = 3
TOOL_RECORDS: Final = 1_000_000
PRODUCER: Final = {"linger.ms": 5, "batch.size": 131072, "acks": "all", "compression.type": "none"}
_STAMP: Final = struct.Struct(">d")


class Server(Protocol):
    """A broker of either make."""

    address: str

    @property
    def process_id(self) -> int: ...


def run(report: Report) -> None:
    """Measure both, one after the other, several times."""
    for number in range(ROUNDS):
        for name in ("seglog", f"Kafka {KAFKA_VERSION}"):
            try:
                with _server(name) as server:
                    print(f" {name}, round {number + 1}", flush=True)
                    _measure(report, name, server)
            except UnavailableError as error:
                print(f" {name} is not to be had: {error}", flush=True)
    _compare(report)


@contextmanager
def _server(name: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        if name == "seglog":
            with running_broker(configs=CONFIGS, folder=folder) as broker:
                yield broker
        else:
            with running_kafka(Path(folder), CONFIGS) as kafka:
                yield kafka


def _measure(report: Report, name: str, server: Server) -> None:
    address = server.address
    _produce(address, "warm-up", 200_000, 100)
    _consume(address, "warm-up", 200_000)
    for size, count in SIZES.items():
        topic = f"size-{size}"
        seconds = _produce(address, topic, count, size)
        report.figure(f"produce, {size} B, {name}", "records/s", count / seconds)
        seconds = _consume(address, topic, count)
        report.figure(f"fetch, {size} B, {name}", "records/s", count / seconds)
    _java_tools(report, name, address)
    for rate in RATES:
        latencies = _latencies(address, f"rate-{rate}", rate)
        for share in (0.5, 0.99):
            value = latencies[int(len(latencies) * share)] * 1000
            report.figure(
                f"latency p{share * 100:g} at {rate:,}/s, {name}", "ms", value, lower_is_better=True
            )
    cpu_seconds, resident_bytes = _usage(server.process_id)
    report.figure(f"CPU of the server, {name}", "s", cpu_seconds, lower_is_better=True)
    report.figure(f"memory, {name}", "MiB", resident_bytes / 2**20, lower_is_better=True)


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
            "max.partition.fetch.bytes": 10_485_760,
            # By itself it rests for a second when it has 100,000 records in hand.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = len(consumer.consume(1, timeout=30))
    started = time.perf_counter()
    while found < count:
        found += len(consumer.consume(10_000, timeout=1))
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


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
