"""The broker alone, fed with ready-made frames, beside what bare system calls do on this machine.

Aims: 1 MiB batches received, validated and written at 0.4 of a plain recv-and-write loop or more;
1 MiB fetches at 0.85 of a plain sendfile loop or more; 40,000 pipelined produce requests a second.
"""

import threading
import time

from benchmarks.raw import (
    MEBIBYTE,
    RawConnection,
    limit_of_receive_and_write,
    limit_of_sendfile,
    scratch_folder,
)
from benchmarks.report import Report

from seglog.clients import Admin
from seglog.clients.testing import running_broker
from seglog.protocol.api import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from seglog.protocol.records.builder import build_batch

ROUNDS = 3
PRODUCE_BYTES = 1 << 30
FETCH_BYTES = 2 << 30
SMALL_REQUESTS = 200_000
WINDOW = 500
CONFIGS = {"segment.bytes": 1 << 30, "max.message.bytes": 2 * MEBIBYTE}


def batch_of(size_bytes: int, value_bytes: int) -> bytes:
    """A batch of about that size."""
    count = max(1, size_bytes // (value_bytes + 12))
    now_ms = int(time.time() * 1000)
    return bytes(build_batch([(now_ms, None, bytes(value_bytes), ())] * count))


def produce_frame(connection: RawConnection, topic: str, batch: bytes) -> bytes:
    request = ProduceRequest(1, 30_000, [ProducePartition(topic, 0, memoryview(batch))])
    return connection.frame(request)


def produce_large(address: str, topic: str) -> float:
    """Bytes per second of batches of 1 MiB, a few in flight."""
    connection = RawConnection(address)
    frame = produce_frame(connection, topic, batch_of(MEBIBYTE, 1000))
    count = PRODUCE_BYTES // len(frame)
    reader = threading.Thread(target=connection.skip_answers, args=(count,))
    reader.start()
    started = time.perf_counter()
    for _ in range(count):
        connection.socket.sendall(frame)
    reader.join()
    elapsed = time.perf_counter() - started
    connection.close()
    return count * len(frame) / elapsed


def produce_small(address: str, topic: str) -> float:
    """Requests per second with one record of 1 KiB each, pipelined."""
    connection = RawConnection(address)
    frame = produce_frame(connection, topic, batch_of(1, 1024))
    chunk = frame * WINDOW
    sent = SMALL_REQUESTS // WINDOW * WINDOW
    reader = threading.Thread(target=connection.skip_answers, args=(sent,))
    reader.start()
    started = time.perf_counter()
    for _ in range(sent // WINDOW):
        connection.socket.sendall(chunk)
    reader.join()
    elapsed = time.perf_counter() - started
    connection.close()
    return sent / elapsed


def fetch_large(address: str, topic: str) -> float:
    """Bytes per second of fetches of 1 MiB, one after the other."""
    connection = RawConnection(address)
    offset = received = 0
    started = time.perf_counter()
    while received < FETCH_BYTES:
        request = FetchRequest(
            0, 1, 2 * MEBIBYTE, [FetchPartition(topic, 0, offset, MEBIBYTE + 4096)]
        )
        connection.socket.sendall(connection.frame(request))
        (result,) = connection.answer().response.partitions
        records = result.records
        if not records:
            offset = 0
            continue
        received += len(records)
        # The last offset delta of the last batch is not needed: each answer is one batch of 1 MiB.
        offset = int.from_bytes(records[0:8], "big") + int.from_bytes(records[23:27], "big") + 1
    elapsed = time.perf_counter() - started
    connection.close()
    return received / elapsed


def run(report: Report) -> None:
    with (
        scratch_folder() as folder,
        running_broker(
            folder=folder,
            configs={"socket.request.max.bytes": 8 * MEBIBYTE, "log.retention.ms": -1},
        ) as broker,
    ):
        for number in range(ROUNDS):
            topic = f"large-{number}"
            with Admin(broker.address) as admin:
                admin.create_topic(topic, partitions=1, configs=CONFIGS)
                admin.create_topic(f"small-{number}", partitions=1, configs=CONFIGS)
            limit = limit_of_receive_and_write(PRODUCE_BYTES, folder)
            rate = produce_large(broker.address, topic)
            report.ratio("produce, 1 MiB batches", "MB/s", rate / 1e6, limit / 1e6, 0.4)
            limit = limit_of_sendfile(FETCH_BYTES, folder, MEBIBYTE)
            rate = fetch_large(broker.address, topic)
            report.ratio("fetch, 1 MiB", "MB/s", rate / 1e6, limit / 1e6, 0.85)
            rate = produce_small(broker.address, f"small-{number}")
            report.figure("produce requests of 1 KiB, pipelined", "/s", rate, 40_000)
            with Admin(broker.address) as admin:
                admin.delete_topics([topic, f"small-{number}"])
