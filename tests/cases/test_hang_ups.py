"""What clients leave behind that hang up while their requests wait."""

from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.protocol.api import (
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from seglog.protocol.records import build_batch
from seglog.protocol.types import INT32_MAX, LATEST_TIMESTAMP
from support.broker_process import BlockingClient, broker_process
from support.eventually import eventually

MIB = 1 << 20
CLIENTS = 40


@pytest.mark.slow
def test_memory_of_requests_goes_with_their_connections(tmp_path: Path) -> None:
    """A1: a timer that would answer the client kept the receive buffer for as long as it asked."""
    batch = build_batch([(1_700_000_000_000, b"k", bytes(4 * MIB), ())])
    overrides = ("message.max.bytes=8000000", "log.flush.interval.messages=1")
    with broker_process(tmp_path, *overrides) as broker, BlockingClient(broker.port) as watcher:
        with Admin(f"127.0.0.1:{broker.port}") as admin:
            admin.create_topic("t", partitions=1)

        def log_end() -> int:
            request = ListOffsetsRequest([ListOffsetsPartition("t", 0, LATEST_TIMESTAMP)])
            return watcher.ask(request).partitions[0].offset

        def produce_and_hang_up() -> None:
            before = log_end()
            with BlockingClient(broker.port) as client:
                entry = ProducePartition("t", 0, memoryview(batch))
                client.send(ProduceRequest(-1, INT32_MAX, [entry]))
            eventually(lambda: log_end() == before + 1)

        produce_and_hang_up()
        before = broker.resident_bytes()
        for _ in range(CLIENTS):
            produce_and_hang_up()
        # Before, each left its 4 MiB.
        assert broker.resident_bytes() - before < CLIENTS * MIB


@pytest.mark.slow
def test_parked_fetches_go_with_their_connections(tmp_path: Path) -> None:
    partitions = 2_000
    with broker_process(tmp_path) as broker:
        with Admin(f"127.0.0.1:{broker.port}") as admin:
            admin.create_topic("t", partitions=partitions)
        wanted = [FetchPartition("t", number, 0, MIB) for number in range(partitions)]

        def fetch_and_hang_up() -> None:
            with BlockingClient(broker.port) as client:
                client.send(FetchRequest(INT32_MAX, 1, INT32_MAX, wanted))
            with BlockingClient(broker.port) as client:
                # It is served after the other one, whose end has been seen by then.
                client.ask(ListOffsetsRequest([ListOffsetsPartition("t", 0, LATEST_TIMESTAMP)]))

        for _ in range(5):
            fetch_and_hang_up()
        before = broker.resident_bytes()
        for _ in range(CLIENTS):
            fetch_and_hang_up()
        assert broker.resident_bytes() - before < CLIENTS * MIB // 4
