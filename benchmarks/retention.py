"""What the retention pass costs when there is nothing to delete.

Aim: ten thousand idle partitions in less than a second.
"""

import time

from benchmarks.report import Report

from seglog.clients import Admin, Producer
from seglog.clients.testing import running_broker

TOPICS = 10
PARTITIONS = 1000


def run(report: Report) -> None:
    with (
        running_broker() as broker,
        Admin(broker.address, request_timeout_ms=120_000) as admin,
    ):
        for number in range(TOPICS):
            admin.create_topic(f"idle-{number}", partitions=PARTITIONS)
        with Producer(broker.address) as producer:
            for number in range(TOPICS):
                for partition in range(PARTITIONS):
                    producer.send(f"idle-{number}", b"value", partition=partition)
        for _ in range(3):
            started = time.perf_counter()
            findings = admin.run_retention(dry_run=False)
            elapsed = time.perf_counter() - started
            assert findings == []
            report.figure(
                "retention pass, 10,000 idle partitions",
                "ms",
                elapsed * 1000,
                1000,
                lower_is_better=True,
            )
