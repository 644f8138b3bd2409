"""Compaction: how many keys fit, how fast a log is cleaned, and what others notice of it.

Aims: five million keys of 20 bytes in one pass with the default map; 150 MB/s per thread over a log
of 2 GB of 1 KB records; the p99 of produce requests on another topic at most doubled meanwhile.
"""

import os
import threading
import time

from benchmarks.broker_frames import batch_of, produce_frame
from benchmarks.raw import MEBIBYTE, RawConnection
from benchmarks.report import Report

from seglog.clients import Admin, Producer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.compaction import SkimpyOffsetMap, WalkStop, map_batches

KEYS = 5_000_000
KEYS_PER_BATCH = 1000
MAP_BYTES = 128 * MEBIBYTE
LOG_BYTES = 2 << 30
LIVE_KEYS = 200_000
RECORD_BYTES = 1000
REQUESTS_PER_SECOND = 1000
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 1,  # only when asked
    "segment.bytes": 256 * MEBIBYTE,
}
RUNS = 3


def fill_map(report: Report) -> None:
    """Pass one over five million distinct keys."""
    keys = SkimpyOffsetMap(MAP_BYTES, 0.9)
    elapsed = 0.0
    for first in range(0, KEYS, KEYS_PER_BATCH):
        batch = build_batch(
            [(0, b"%020d" % key, b"v", ()) for key in range(first, first + KEYS_PER_BATCH)],
            base_offset=first,
        )
        started = time.perf_counter()
        _, why = map_batches(keys, batch, 0, 0)
        elapsed += time.perf_counter() - started
        assert why == WalkStop.END, f"the map is full after {keys.size} keys"
    assert keys.size == KEYS
    report.figure("keys in the default map, one pass", "keys", keys.size, KEYS)
    report.figure("pass one over small records", "keys/s", KEYS / elapsed)


def fill_log(broker: RunningBroker, topic: str) -> None:
    """2 GB of 1 KB records over 200,000 keys."""
    with Admin(broker.address) as admin:
        admin.create_topic(topic, partitions=1, configs=CONFIGS)
        value = bytes(RECORD_BYTES - 40)
        with Producer(broker.address, acks=1, batch_bytes=256 * 1024) as producer:
            count = LOG_BYTES // RECORD_BYTES
            producer.send_many(topic, ((b"%016d" % (n % LIVE_KEYS), value) for n in range(count)))
        admin.roll(topic)
    # What filling left to the disk would be written beside the measurements, and is not what they
    # are about.
    os.sync()


class Latencies(threading.Thread):
    """Produce requests at a fixed rate; latency counts from the intended time of each."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._connection = RawConnection(address)
        self._frame = produce_frame(self._connection, "other", batch_of(1, 100))
        self._is_over = threading.Event()
        self.milliseconds: list[float] = []

    def run(self) -> None:
        frame_time = 1 / REQUESTS_PER_SECOND
        due = time.perf_counter()
        while not self._is_over.is_set():
            due += frame_time
            delay = due - time.perf_counter()
            if delay > 0:
                time.sleep(delay)
            self._connection.socket.sendall(self._frame)
            self._connection.skip_answers(1)
            self.milliseconds.append((time.perf_counter() - due) * 1000)
        self._connection.close()

    def p99(self) -> float:
        """Stop, and the 99th percentile."""
        self._is_over.set()
        self.join()
        ordered = sorted(self.milliseconds)
        return ordered[int(len(ordered) * 0.99)]


def latency_over(address: str, seconds: float) -> float:
    """p99 while nothing else happens."""
    latencies = Latencies(address)
    latencies.start()
    time.sleep(seconds)
    return latencies.p99()


def clean(report: Report, broker: RunningBroker, topic: str) -> None:
    """Clean the log, with and without traffic beside it."""
    quiet = latency_over(broker.address, 5)
    latencies = Latencies(broker.address)
    latencies.start()
    with Admin(broker.address, request_timeout_ms=600_000) as admin:
        started = time.perf_counter()
        (outcome,) = admin.clean(topic, wait=True)
        elapsed = time.perf_counter() - started
    busy = latencies.p99()
    assert outcome.state == "done", outcome
    assert outcome.size_after < outcome.size_before / 5, outcome
    report.figure("2 GB log cleaned, per thread", "MB/s", outcome.size_before / elapsed / 1e6, 150)
    report.figure("p99 of produce beside nothing", "ms", quiet)
    report.figure("p99 of produce beside a cleaning", "ms", busy)
    report.figure("p99 beside a cleaning, times", "x", busy / quiet, 2, lower_is_better=True)


def run(report: Report) -> None:
    fill_map(report)
    with running_broker(configs={"log.cleaner.backoff.ms": 3_600_000}) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("other", partitions=1)
        for number in range(RUNS):
            topic = f"big-{number}"
            fill_log(broker, topic)
            clean(report, broker, topic)
            with Admin(broker.address) as admin:
                admin.delete_topic(topic)
