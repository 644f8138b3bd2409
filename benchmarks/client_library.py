"""The bundled client against a broker in another process: records per second, both ways.

Aims: 500,000 records of 100 bytes a second out of ``Producer.send_many``, and as many out of
iterating a ``Consumer``, with client and broker on the two cores of one machine.
"""

import time

from benchmarks.report import Report

from seglog.clients import Admin, Consumer, Producer
from seglog.clients.testing import running_broker

ROUNDS = 3
RECORDS = 2_000_000
VALUE = b"x" * 100


def run(report: Report) -> None:
    with running_broker(configs={"log.retention.ms": -1}) as broker:
        for number in range(ROUNDS):
            for kind, key in (("no key", None), ("keyed", b"key-%d")):
                topic = f"t-{number}-{kind.replace(' ', '-')}"
                with Admin(broker.address) as admin:
                    admin.create_topic(topic, partitions=3)
                pairs = [(key % (n % 1000) if key else None, VALUE) for n in range(RECORDS)]
                started = time.perf_counter()
                with Producer(broker.address, acks="all", linger_ms=5) as producer:
                    producer.send_many(topic, pairs)
                elapsed = time.perf_counter() - started
                report.figure(f"send_many, 100 bytes, {kind}", "/s", RECORDS / elapsed, 500_000)
                del pairs
                started = time.perf_counter()
                count = 0
                with Consumer(
                    broker.address, topic, start="earliest", stop_at_end=True
                ) as consumer:
                    for _record in consumer:
                        count += 1
                elapsed = time.perf_counter() - started
                assert count == RECORDS, count
                report.figure(f"iterate, 100 bytes, {kind}", "/s", RECORDS / elapsed, 500_000)
