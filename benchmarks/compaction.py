"""Compaction: how many keys fit, how fast a log is cleaned, and what others notice of it.

Aims: five million keys of 20 bytes in one pass with the default map; 150 MB/s per thread over a log
of 2 GB of 1 KB records; the p99 of produce requests on another topic at most doubled meanwhile.
"""

import os
import time

from benchmarks.raw import MEBIBYTE
from benchmarks.report import Report
from benchmarks.steady_producer import steady_producer

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
QUIET_SECONDS = 4
BROKER_CONFIGS = {"log.cleaner.backoff.ms": 3_600_000, "log.segment.delete.delay.ms": 3_600_000}
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


def clean(broker: RunningBroker, topic: str) -> float:
    """Clean a log that ``fill_log`` has made; megabytes per second."""
    with Admin(broker.address, request_timeout_ms=600_000) as admin:
        started = time.perf_counter()
        (outcome,) = admin.clean(topic, wait=True)
        elapsed = time.perf_counter() - started
    assert outcome.state == "done", outcome
    assert outcome.size_after < outcome.size_before / 5, outcome
    return outcome.size_before / elapsed / 1e6


def clean_beside_requests(report: Report, broker: RunningBroker, topic: str) -> None:
    """Clean the log with traffic beside it, which is watched before and after the pass too.

    Of the 1,000 requests a second that nothing is beside, those that a machine keeps waiting are
    few and differ from second to second: both times together give a steadier p99.
    """
    rates: list[float] = []
    with steady_producer(broker.address, "other") as producer:
        quiet = producer.during(lambda: time.sleep(QUIET_SECONDS))
        busy = producer.during(lambda: rates.append(clean(broker, topic)))
        quiet += producer.during(lambda: time.sleep(QUIET_SECONDS))
    report.figure("2 GB log cleaned beside requests, per thread", "MB/s", rates[0], 150)
    report.figure("p99 of produce beside nothing", "ms", p99(quiet))
    report.figure("p99 of produce beside a cleaning", "ms", p99(busy))
    times = p99(busy) / p99(quiet)
    report.figure("p99 beside a cleaning, times", "x", times, 2, lower_is_better=True)


def p99(values: list[float]) -> float:
    """The 99th percentile."""
    return sorted(values)[int(len(values) * 0.99)]


def run(report: Report) -> None:
    fill_map(report)
    for _ in range(RUNS):
        # A broker for each: what one pass leaves to be removed is not removed beside another.
        with running_broker(configs=BROKER_CONFIGS) as broker:
            with Admin(broker.address) as admin:
                admin.create_topic("other", partitions=1)
            fill_log(broker, "big-beside")
            clean_beside_requests(report, broker, "big-beside")
            fill_log(broker, "big-alone")
            rate = clean(broker, "big-alone")
            report.figure("2 GB log cleaned with nothing beside it", "MB/s", rate)
