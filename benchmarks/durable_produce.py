"""Produce with ``flush.messages=1``: sixteen producers share each sync.

Aim: half of the throughput without it, or more.
"""

import threading
import time

from benchmarks.broker_frames import batch_of, produce_frame
from benchmarks.raw import RawConnection
from benchmarks.report import Report

from seglog.clients import Admin
from seglog.clients.testing import running_broker

PRODUCERS = 16
REQUESTS = 1500
IN_FLIGHT = 5
ROUNDS = 3


def rate(address: str, topic: str) -> float:
    """Requests of one record of 1 KB a second, five at a time from each of sixteen producers."""
    connections = [RawConnection(address) for _ in range(PRODUCERS)]
    frame = produce_frame(connections[0], topic, batch_of(1, 1000))

    def send(connection: RawConnection) -> None:
        for _ in range(REQUESTS // IN_FLIGHT):
            connection.socket.sendall(frame * IN_FLIGHT)
            connection.skip_answers(IN_FLIGHT)

    threads = [threading.Thread(target=send, args=(each,)) for each in connections]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return PRODUCERS * REQUESTS / elapsed


def run(report: Report) -> None:
    with running_broker() as broker, Admin(broker.address) as admin:
        for number in range(ROUNDS):
            admin.create_topic(f"cached-{number}", partitions=1)
            admin.create_topic(f"durable-{number}", partitions=1, configs={"flush.messages": 1})
            limit = rate(broker.address, f"cached-{number}")
            durable = rate(broker.address, f"durable-{number}")
            report.ratio("16 producers, flush.messages=1", "/s", durable, limit, 0.5)
